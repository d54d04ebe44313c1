"""Outputs of tools in the real sessions beside the project, where they are at hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ctxalgebra.codecs import load
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Reply
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import log

SESSIONS = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"


class Output(NamedTuple):
    """A text of a tool's result, and the call that it answers."""

    file: str
    tool: str
    arguments: dict
    text: str
    error: bool


def _arguments(text):
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@cache
def real_outputs():
    """Give all, in the order of the files."""
    found = []
    for path in sorted(SESSIONS.glob("*/*")):
        try:
            session = load(path).session
        except DecodeError:
            continue
        calls = {}
        for node in log(session):
            said = node.entry.message if isinstance(node.entry, Reply) else node.entry
            if not isinstance(said, Message):
                continue
            calls |= {call.id: call for call in said.calls}
            if said.role == "tool":
                call = calls.get(said.call)
                tool, given = (call.name, call.arguments) if call else (said.name, "")
                for part in said.parts:
                    if isinstance(part, Text):
                        arguments = _arguments(given)
                        found.append(Output(path.name, tool, arguments, part.text, said.error))
    return tuple(found)
