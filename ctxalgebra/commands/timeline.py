"""The command `timeline`: the path of a recorded session, its checkpoints, its tree, any text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args

import click
from attrs import asdict, frozen

from ctxalgebra.checkpoints.refusals import Refusal
from ctxalgebra.checkpoints.targets import resolve_target
from ctxalgebra.codecs import load
from ctxalgebra.codecs.command import format_option
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.events import labelled
from ctxalgebra.model.session import Session
from ctxalgebra.terminal import repaired, say
from ctxalgebra.timeline.render import render
from ctxalgebra.timeline.search import MOST, Scope, search
from ctxalgebra.timeline.texts import Kind
from ctxalgebra.timeline.tree import tree
from ctxalgebra.timeline.values import ROWS, View
from ctxalgebra.timeline.views import active, checkpoints, node

__all__ = ["timeline"]

_ROOM = 10_000_000
"""As long as a page of an entry, and what stands beside it."""


def target_number(session: Session, text: str) -> int:
    """Find the entry that is meant: a label, `root`, or a number with or without its `#`.

    Raises:
        InvalidArgument: `unknown-entry`.

    >>> from ctxalgebra import Session, label, record, user
    >>> session = label(record(Session(), user("a"), user("b")), 1, "start")
    >>> [target_number(session, text) for text in ("start", "root", "2", "#2")]
    [1, 0, 2, 2]
    """
    if text.isascii() and text.isdigit() and text not in labelled(session).targets:
        text = f"#{text}"
    found = resolve_target(session, text)
    if isinstance(found, Refusal):
        raise InvalidArgument("unknown-entry", found.text, entry=text)
    return found.number


@frozen
class _Asked:
    """What the options say."""

    limit: int
    query: str
    target: str | None
    scope: Scope | None
    kind: Kind | None
    before: int | None
    offset: int
    verbose: bool

    def number(self, session: Session) -> int | None:
        """Give the entry that is meant, if any."""
        return None if self.target is None else target_number(session, self.target)


def _active(session: Session, asked: _Asked) -> View:
    return active(session, limit=asked.limit, verbose=asked.verbose, before=asked.before)


def _checkpoints(session: Session, asked: _Asked) -> View:
    return checkpoints(session, part=asked.query, limit=asked.limit)


def _search(session: Session, asked: _Asked) -> View:
    return search(
        session,
        asked.query,
        scope=asked.scope,
        kind=asked.kind,
        limit=asked.limit,
        before=asked.before,
        scan=max(1, len(session)),
        characters=MOST,
    )


def _node(session: Session, asked: _Asked) -> View:
    number = asked.number(session)
    if number is None:
        raise InvalidArgument("invalid-argument", "which --target?", field="target")
    return node(session, number, offset=asked.offset, limit=asked.limit)


def _tree(session: Session, asked: _Asked) -> View:
    below = asked.number(session)
    return tree(session, depth=asked.limit, verbose=asked.verbose, below=below)


_VIEWS: Mapping[str, Callable[[Session, _Asked], View]] = MappingProxyType(
    {
        "active": _active,
        "checkpoints": _checkpoints,
        "search": _search,
        "node": _node,
        "tree": _tree,
    }
)


@click.command()
@click.argument("file")
@click.option(
    "--view",
    default="active",
    show_default=True,
    type=click.Choice(tuple(_VIEWS)),
    help="What to look at.",
)
@click.option(
    "--query", default="", help="Text that is searched; of checkpoints, a part of the label."
)
@click.option("--target", help="node, tree: a number, a label, or root.")
@click.option("--scope", type=click.Choice(get_args(Scope)), help="search: on the path, or off it.")
@click.option("--kind", type=click.Choice(get_args(Kind)), help="search: entries of this kind.")
@click.option(
    "--limit", default=ROWS, show_default=True, help="Most rows, or levels of the tree; 1 to 50."
)
@click.option("--before", type=int, help="active, search: go on in front of this entry.")
@click.option("--offset", default=0, help="node: begin at this character.")
@click.option("--verbose", is_flag=True, help="active, tree: show every entry.")
@format_option("--format", "FILE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def timeline(
    *,
    file: str,
    view: str,
    form: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Look at a session: its path, its checkpoints, its tree, one entry, any text."""
    decoded = load(file, format=form)
    found = _VIEWS[view](decoded.session, _Asked(**options))
    if as_json:
        told = {
            "file": file,
            "format": decoded.format,
            "repairs": [asdict(repair) for repair in decoded.repairs],
            "view": view,
            **asdict(found),
        }
        click.echo(json.dumps(told))
        return
    say(f"{file}: {decoded.format}{repaired(repair.code for repair in decoded.repairs)}")
    for line in render(found, characters=_ROOM).split("\n"):
        say(line.expandtabs(4).rstrip("\r"))
