"""What the README claims and can't run by itself: its commands and the sentence that they print."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from ctxalgebra.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)


def test_the_first_command_prints_the_sentence(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    replay = COMMANDS[0].split("&&")[-1]
    program, *arguments = shlex.split(replay)
    assert program == ".venv/bin/ctxalgebra"
    assert main(arguments) == 0
    sentence = re.search(r"```text\n(.*)\n```", README)[1]
    assert capsys.readouterr().out.splitlines()[-1] == sentence


def test_two_commands_do_all_the_set_up():
    assert len(COMMANDS) == 2
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for command in COMMANDS:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
        assert re.search(r"\[(\w+)\]", command)[1] in extras["optional-dependencies"]
    assert COMMANDS[1].endswith(".venv/bin/coverage run -m pytest && .venv/bin/coverage report")


@pytest.mark.parametrize("link", re.findall(r"\]\((docs/[^)]*)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).is_file()
