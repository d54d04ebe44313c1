"""Which filter an output is for, by all that can be seen: what made it, and what it looks like.

What produced an output is known from the tool and its command; a command line of several says
little, and then the lines decide. The classes:

| class | is |
| --- | --- |
| json, ndjson | one JSON value; JSON Lines |
| diff | hunks, and the excerpt that an editing tool gives back |
| test | the report of a test run |
| search | what a search found, with its context, also at the end of a pipe |
| tree | a listing of files |
| log | what a service or a build said on its way; `error` where a build failed |
| code, config | a file of that kind, or a part of one |
| table | rows of columns, with bars, commas or at even distances |
| text | everything else |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ctxalgebra.compaction.classes import (
    CODE,
    CONFIG,
    READS,
    command_of,
    is_json,
    is_json_lines,
    is_table_row,
    path_of,
    suffix_of,
)
from ctxalgebra.compaction.shell import Command, pipelines, word_set
from ctxalgebra.compaction.signals import BLANK, code_signature, normalize_newlines, strip_ansi

__all__ = ["classify"]

_SUFFIXES: Final[Mapping[str, str]] = {
    **dict.fromkeys(CODE, "code"),
    **dict.fromkeys(
        word_set(
            "astro css scss less html htm sql lua pl r scala dart ex exs erl hs ml clj fs vb ps1 "
            "bat cmake gradle mk proto graphql tf ipynb zig nim jl"
        ),
        "code",
    ),
    **dict.fromkeys((*CONFIG, "env"), "config"),
    **dict.fromkeys(("csv", "tsv"), "table"),
    **dict.fromkeys(word_set("md mdx rst txt adoc"), "text"),
    **dict.fromkeys(("patch", "diff"), "diff"),
    "log": "log",
}
_EDITORS: Final = word_set(
    "edit multiedit multi_edit write write_file apply_patch patch str_replace str_replace_editor "
    "str_replace_based_edit_tool edit_file search_replace"
)
_SEARCHERS: Final = word_set(
    "grep find search glob ripgrep search_files grep_search find_files file_search find_path"
)
_LISTERS: Final = word_set("ls list_dir list_directory list_files tree listdir")
_ENVIRONMENT = re.compile(r"(?:\A|[\\/])\.env(?:\.[\w-]+)*\Z")
_PLACE = re.compile(r":(?:raw|[0-9]+(?:[-+,][0-9]*)*)\Z")

_NEUTRAL: Final = word_set(
    "cd echo printf sleep export true false set mkdir kill pkill wait source . test [ exit return "
    "touch chmod pushd popd read done fi esac for case"
)
_FILTERS: Final = word_set(
    "head tail sort uniq wc cut tr sed awk tee less more cat nl bat column xxd"
)
_SEARCHES: Final = word_set("rg grep egrep fgrep zgrep find fd ag ack ast-grep sg")
_TESTERS: Final = word_set("pytest jest vitest playwright rspec mocha tox nox ctest phpunit ava")
_BUILDERS: Final = word_set(
    "npm pnpm yarn bun make cmake cargo tsc tsgo mvn gradle gradlew go pip pip3 uv poetry docker "
    "webpack vite eslint biome ruff mypy bazel dotnet apt apt-get brew conda rustc gcc g++ clang"
)
_TABULAR: Final = word_set(
    "ps df free lsblk netstat ss lsof psql mysql mariadb sqlite3 duckdb systemctl w who last"
)
_LISTED_BY: Final = word_set("ps images stats volume network container image")
_SERVICES: Final = word_set("docker kubectl heroku pm2 podman docker-compose oc nomad")


def _by_name(path: str) -> str | None:
    """Give the class of a file by its name: by what ends it, or `.env` with anything behind."""
    return "config" if _ENVIRONMENT.search(path[-80:]) else _SUFFIXES.get(suffix_of(path))


def _of_file(words: Sequence[str]) -> str | None:
    """Give the class of the first file that a command shows."""
    for word in words:
        if not word.startswith("-") and (found := _by_name(word)):
            return found
    return None


def _made_by(command: Command) -> str | None:
    """Say what a command puts out; None where it puts out nothing, or passes on what it got."""
    program, words = command.program, command.words
    if program in _NEUTRAL:
        return None
    if program in _FILTERS:
        return "log" if program == "tail" and "-f" in words else _of_file(words)
    if program in _SEARCHES or (program == "git" and command.action == "grep"):
        return "search"
    if program in {"ls", "tree"}:
        return "tree"
    if program in _TABULAR or (program in _SERVICES and command.action in _LISTED_BY):
        return "table"
    if program == "journalctl" or (program in _SERVICES and "logs" in words):
        return "log"
    if program == "git":
        return "diff" if command.action in {"diff", "show"} else "text"
    tests = {word for word in words[:2] if word == "test" or word.startswith(("test:", "test-"))}
    if program in _TESTERS or (program in _BUILDERS and tests):
        return "test"
    return "build" if program in _BUILDERS else "text"


def _made_by_all(line: str) -> str | None:
    """Say what a command line puts out; None where that is several things, or nothing."""
    kinds: set[str] = set()
    for pipeline in pipelines(line):
        stages = [kind for kind in map(_made_by, pipeline) if kind]
        kinds.update(stages[-1:])
    return kinds.pop() if len(kinds) == 1 else None


_HUNK = re.compile(
    r"^(?:diff --git |@@ -[0-9]+(?:,[0-9]+)? \+[0-9]|--- \S[^\n]*\n\+\+\+ \S"
    r"|[ +-]?\*\*\* Update File: )",
    re.MULTILINE,
)
_CHANGED = re.compile(r"[+-][0-9]*[a-z-]*(?:\||:|\s|$)")
_TESTED = re.compile(
    r"^(?:=+ .*\b[0-9]+ (?:passed|failed|error)|Tests?:? +[0-9]+ (?:passed|failed)"
    r"|Test (?:Suites|Files):? +[0-9]|test result: |(?:not )?ok [0-9]+ |--- (?:FAIL|PASS): "
    r"|[#ℹ] (?:tests|pass|fail) [0-9]| +[0-9]+ (?:passing|failing)\b|Ran [0-9]+ tests? in )",
    re.MULTILINE,
)
_LOGGED = re.compile(
    r"\s*\[?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]|[0-9]{2}:[0-9]{2}:[0-9]{2}\b"
    r"|[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:|(?i:trace|debug|info|warn|warning|error|fatal|critical)"
    r"[\]:] |(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL|CRITICAL) )"
)
_BANNER = re.compile(r"^> \S+@\S+ \S+$", re.MULTILINE)
_FAILED = re.compile(
    r"\berror (?:TS[0-9]+|CS[0-9]+|C[0-9]{4})\b|^npm (?:error|ERR!)|^error\[E[0-9]+\]|BUILD FAILED"
    r"|^make: \*\*\*|^Traceback \(most recent call last\)|^thread '.*' panicked",
    re.MULTILINE,
)
_TRACE = re.compile(r"^\s*Traceback \(most recent call last\):", re.MULTILINE)
_LISTED = re.compile(
    r"[-dlbcps][rwxsStT-]{9}[.@+]?\s|[\s│|]*[├└][─-]|\s*[-*] \S+/?\s+(?:\S+\s+)?\S+ ago$"
)
_HIT = re.compile(r"[^\s:|]+:[0-9]+[:\-]")
_GAPS = re.compile(r"\s{2,}|\t")
_ENDS_CODE = re.compile(r"[{};]\s*$|[)\]]:\s*$|=>\s*$|[,(]\s*$")

_SEEN = 600
_ROWS = 5


def _share(lines: Sequence[str], pattern: re.Pattern[str]) -> int:
    """Say how many lines of a hundred begin with a pattern."""
    return 100 * sum(1 for line in lines if pattern.match(line)) // max(1, len(lines))


def _is_ruler(line: str) -> bool:
    """Say whether a line parts the head of a table from its rows, as `---+---` does."""
    return "--" in line and ("+" in line or "|" in line) and not line.strip().strip("-+|")


def _is_table(lines: Sequence[str]) -> bool:
    rows = sum(map(is_table_row, lines))
    if rows >= _ROWS and rows * 10 >= len(lines) * 6:
        return True
    if any(map(_is_ruler, lines[:_ROWS])):
        return True
    commas = [line.count(",") - line.count(", ") for line in lines]
    if len(lines) >= _ROWS and commas[0] > 1 and commas.count(commas[0]) * 10 >= len(lines) * 9:
        return True
    widths = [len(_GAPS.split(line.strip())) for line in lines]
    usual = max(set(widths), key=widths.count, default=0)
    even = widths.count(usual)
    return usual > 2 and even >= _ROWS and even * 10 >= len(lines) * 7


def _is_code(lines: Sequence[str]) -> bool:
    signed = sum(1 for line in lines if code_signature(line) and not line.lstrip().startswith("#"))
    ended = sum(1 for line in lines if _ENDS_CODE.search(line[-80:]))
    return signed > 1 and ended * 10 >= len(lines) * 3


def _looks_like(text: str, lines: Sequence[str]) -> str:
    """Say what lines look like, whatever made them."""
    if _HUNK.search(text):
        return "diff"
    if _TRACE.search(text):
        return "error"
    if _TESTED.search(text):
        return "test"
    if _share(lines, _LOGGED) >= 40 or _BANNER.search(text):
        return "log"
    if _share(lines, _LISTED) >= 50:
        return "tree"
    if len(lines) >= _ROWS and _share(lines, _HIT) >= 60:
        return "search"
    if _is_table(lines):
        return "table"
    return "code" if _is_code(lines) else "text"


def _of_tool(tool: str, arguments: Mapping[str, object], lines: Sequence[str]) -> str | None:
    """Say what a tool that is no shell gives."""
    if tool in READS.tools:
        found = _by_name(_PLACE.sub("", path_of(arguments)))
        return "tree" if not found and lines[:1] == ["."] else found
    if tool in _EDITORS:
        return "diff" if any(map(_CHANGED.match, lines)) else "text"
    if tool in _SEARCHERS:
        return "search" if tool != "search" or arguments.keys() & _PATTERNS else None
    return "tree" if tool in _LISTERS else None


_PATTERNS: Final = word_set("pattern regex glob path paths")


def classify(tool: str, arguments: Mapping[str, object], text: str) -> str:
    r"""Give the class of an output.

    Args:
        tool: its name, in any case.
        arguments: `command` (a line or a list), `path` or `file_path`, `pattern` are looked at.
        text: the output. Of a long one the first 600 lines count.

    Returns:
        A class of the table above.

    >>> classify("bash", {"command": "npm run build 2>&1 | tail -3"}, "vite v5\nbuilt in 2 s")
    'log'
    >>> classify("bash", {"command": "cat a.py | grep def"}, "def f():")
    'search'
    >>> classify("edit", {"path": "a.py"}, " 1|a = 1\n-2|b = 2\n+2|b = 3")
    'diff'
    """
    seen = strip_ansi(normalize_newlines(text))
    if is_json(seen):
        return "json"
    if is_json_lines(seen):
        return "ndjson"
    lines = [line for line in seen.split("\n", _SEEN)[:_SEEN] if not BLANK.match(line)]
    front = "\n".join(lines)
    command = command_of(arguments)
    made = _made_by_all(command) if command else _of_tool(tool.lower(), arguments, lines)
    if made == "build":
        return "error" if _FAILED.search(front) else "log"
    if made == "diff" and not command:
        return made
    if made == "diff":
        return made if _HUNK.search(front) else "text"
    if made and made != "text":
        return made
    if made == "text" and not command:
        return made
    return _looks_like(front, lines)
