"""What must stay exact, and which filter an output is for by its tool, arguments and first signs.

`detect_strategy` is the original's rule with its errors about commands and prose mended (W16): a
word counts where a command stands, not inside a message, a package to install or a document's name.
`kinds.classify` looks closer. Source: skills and saver, section 13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from attrs import frozen

from ctxalgebra.compaction.jsontext import parse
from ctxalgebra.compaction.shell import READ, Command, pipelines, word_set
from ctxalgebra.compaction.signals import BLANK, WHITE, strip_ansi

__all__ = [
    "CODE",
    "CONFIG",
    "HOST_READS",
    "READS",
    "Reads",
    "command_of",
    "detect_strategy",
    "goes_on",
    "is_instructions",
    "is_json",
    "is_json_lines",
    "is_table_row",
    "path_of",
    "protects_read",
    "requests_exact_output",
    "suffix_of",
]

_W = f"[{WHITE}]"
_N = f"[^{WHITE}]"

CODE: Final = word_set(
    "c cc cpp cxx h hh hpp cs go java js jsx mjs cjs kt kts php py rb rs swift ts tsx vue "
    "svelte sh bash zsh"
)
"""Endings of files with code."""

CONFIG: Final = frozenset({"yml", "yaml", "toml", "ini", "cfg", "conf", "properties"})
"""Endings of files with settings."""


def command_of(arguments: Mapping[str, object]) -> str:
    """Give the command line of a call; empty where there is none.

    >>> command_of({"command": ["bash", "-lc", "ls -l"]})
    'ls -l'
    """
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list):
        words = [str(word) for word in cast("list[object]", command)]
        given = len(words) > 2 and words[1].startswith("-") and words[1].endswith("c")
        return words[2] if given else " ".join(words)
    return command if isinstance(command, str) else ""


def path_of(arguments: Mapping[str, object]) -> str:
    """Give the path that a call names; empty where there is none.

    >>> path_of({"file_path": "a.py"})
    'a.py'
    """
    for name in ("path", "file_path"):
        if isinstance(path := arguments.get(name), str):
            return path
    return ""


_SUFFIX = re.compile(r"\.([a-z0-9_]+)\Z", re.ASCII)


def suffix_of(path: str) -> str:
    """Give what stands behind the last full stop of a path, lower-cased.

    >>> suffix_of("src/A.TSX"), suffix_of("Makefile")
    ('tsx', '')
    """
    found = _SUFFIX.search(path[-16:].lower())
    return found[1] if found else ""


# What must stay exact

_FORMATS: Final = frozenset({"json", "jsonl", "ndjson", "xml", "yaml", "yml"})
_FORMAT = r"(?:json[a-z-]*|jsonl|ndjson|xml|ya?ml)"
_STOP = rf"(?=[{WHITE};&|)<>'\"]|\Z)"
_EXACT = re.compile(
    rf"(?:\A|{_W})(?:--json(?:=|{_STOP})"
    rf"|--(?:format|output|output-format|out)(?:=|{_W}+)['\"]?{_FORMAT}(?:=|{_STOP})"
    rf"|-o(?:=|{_W}+|)['\"]?{_FORMAT}(?:=|{_STOP}))"
)


_HOST_EXACT = re.compile(
    rf"(?:\A|{_W})(?:--json(?=[{WHITE}=;]|\Z)"
    rf"|--(?:format|output|output-format)(?:=|{_W}+)json(?={_W}|\Z)"
    rf"|-o(?:=|{_W}+|)(?:json|yaml)(?={_W}|\Z))"
)


def requests_exact_output(
    arguments: Mapping[str, object], *, asks: re.Pattern[str] = _EXACT
) -> bool:
    """Say whether a call asks for output that a program is to read (W17).

    Args:
        arguments: its arguments; `format` and `command` are looked at.
        asks: how a command asks for it, lower-cased.

    >>> requests_exact_output({"command": "kubectl get pods -ojson; date"})
    True
    >>> requests_exact_output({"command": "ls -o jsonfiles.txt"})
    False
    """
    form = arguments.get("format")
    if isinstance(form, str) and form.lower() in _FORMATS:
        return True
    return bool(asks.search(command_of(arguments).lower()))


_EDITS = re.compile(
    r"\b(?:edit(?:s|ed|ing)?|modif(?:y|ies|ied|ying)|chang(?:e|es|ed|ing)|fix(?:es|ed|ing)?"
    r"|patch(?:es|ed|ing)?|implement(?:s|ed|ing)?|refactor(?:s|ed|ing)?"
    r"|re(?:write|writes|wrote|written|writing)|replac(?:e|es|ed|ing)|updat(?:e|es|ed|ing)"
    r"|repair(?:s|ed|ing)?)\b",
    re.ASCII | re.IGNORECASE,
)
_HOST_EDITS = re.compile(
    r"\b(?:edit|modify|change|fix|patch|implement|refactor|rewrite|replace|update|repair)\b",
    re.ASCII | re.IGNORECASE,
)
_TOKEN = re.compile(rf'"([^"]*+)"?|\'([^\']*+)\'?|({_N}+)')
_HOST_TOKEN = re.compile(rf'"([^"]*+)"|\'([^\']*+)\'|({_N}+)')
_LOOKED_BACK = 8


@frozen
class Reads:
    """Say which outputs stay exact: reads while files are edited, and what programs read.

    Args:
        tools: names of tools that read a file, lower-cased.
        suffixes: endings of files that are edited.
        edits: how a request says that it edits.
        back: how many requests are looked at while they only say to go on.
        token: a word of a command, its text in one of the groups.
        ends: what is taken off both ends of a word.
        asks: how a command asks for output that a program reads, lower-cased.
    """

    tools: frozenset[str]
    suffixes: frozenset[str]
    edits: re.Pattern[str] = _EDITS
    back: int = _LOOKED_BACK
    token: re.Pattern[str] = _TOKEN
    ends: str = "\"';"
    asks: re.Pattern[str] = _EXACT


HOST_READS: Final = Reads(
    frozenset({"read"}), CODE, _HOST_EDITS, 1, _HOST_TOKEN, "\"'", _HOST_EXACT
)
"""The original's rule: the host's own tool, code, and the last request alone.

Of what a program reads, `-ojson`, `-o yaml`, `--output-format json` and `--json;` count too (W17).
"""

READS: Final = Reads(
    frozenset({"read", "read_file", "readfile", "view", "open_file", "cat", "notebookread"}),
    CODE
    | CONFIG
    | word_set(
        "astro css scss less html htm json jsonc md mdx rst txt sql lua pl r scala dart ex exs "
        "erl hs ml clj fs vb ps1 bat cmake gradle mk proto graphql tf xml env"
    ),
)
"""Tools of other hosts, and all that is commonly edited."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_GOES_ON: Final = word_set(
    "again ahead alright and carry continue do done fine go good great it keep last next now "
    "ok okay on please proceed resume right same start step sure task thanks that the then "
    "this try up with yeah yes you"
)


def goes_on(query: str) -> bool:
    """Say whether a request only says to go on with what was asked for before.

    >>> goes_on("Yes, please continue!"), goes_on("look")
    (True, False)
    """
    return all(word.lower() in _GOES_ON for word in _WORD.findall(query))


def _intends_edit(queries: Sequence[str], reads: Reads) -> bool:
    """Look at the last request, and further back while requests only say to go on."""
    for query in reversed(queries[-reads.back :]):
        if reads.edits.search(query):
            return True
        if not goes_on(query):
            return False
    return False


_SHOWS: Final = frozenset({"cat", "head", "tail", "sed", "nl", "bat"})
_FIRST_WORD = re.compile(rf"{_W}*([a-z]+)\b", re.ASCII)


def protects_read(
    tool: str, arguments: Mapping[str, object], *queries: str, reads: Reads = READS
) -> bool:
    """Say whether a text is read in order to be edited (W18).

    Args:
        tool: its name.
        arguments: its arguments.
        queries: what was asked for, the last request last. A request that only says to go on
            stands for the one before it.
        reads: which tools and files.

    >>> protects_read("read", {"path": "src/a.ts"}, "we are fixing the parser", "continue")
    True
    >>> protects_read("read", {"path": "src/a.ts"}, "explain the parser")
    False
    """
    if not _intends_edit(queries, reads):
        return False
    if tool.lower() in reads.tools:
        return suffix_of(path_of(arguments).lower()) in reads.suffixes
    command = command_of(arguments)[:READ]
    first = _FIRST_WORD.match(command)
    if tool.lower() != "bash" or not first or first[1] not in _SHOWS:
        return False
    tokens = (found[found.lastindex or 0] for found in reads.token.finditer(command))
    return any(suffix_of(token.strip(reads.ends)) in reads.suffixes for token in tokens)


_INSTRUCTIONS: Final = re.compile(
    r"(?:\A|[\\/])(?:skill|agents|claude|gemini|copilot-instructions)\.md\Z"
    r"|(?:\A|[\\/])\.(?:cursorrules|windsurfrules)\Z|\.mdc\Z",
    re.IGNORECASE,
)
_FRONTMATTER = re.compile(r"---[ \t]*\n(?:[^\n]*\n){0,40}?---[ \t]*(?:\n|\Z)")


def is_instructions(tool: str, arguments: Mapping[str, object], text: str) -> bool:
    r"""Say whether a text tells the model what to do, as a skill does: it is never compacted (W19).

    Args:
        tool: its name.
        arguments: its arguments: the path that it reads, or the files that its command shows.
        text: a front matter with name and description counts, too.

    >>> is_instructions("read", {"path": "/skills/x/SKILL.md"}, "Do it.")
    True
    >>> is_instructions("web", {}, "---\nname: x\ndescription: y\n---\nDo it.")
    True
    """
    if tool.lower() in READS.tools and _INSTRUCTIONS.search(path_of(arguments)):
        return True
    for pipeline in pipelines(command_of(arguments)):
        if pipeline[0].program in _SHOWS and any(map(_INSTRUCTIONS.search, pipeline[0].words)):
            return True
    front = _FRONTMATTER.match(text)
    lines = front[0].split("\n") if front else []
    return {"name", "description"} <= {line.partition(":")[0] for line in lines if ":" in line}


# Which filter

_TESTS: Final = frozenset({"pytest", "jest", "vitest", "playwright", "rspec"})
_TEST_OF: Final = {
    "cargo": {"test"},
    "go": {"test"},
    "bun": {"test"},
    "rake": {"test"},
    "npm": {"test", "run test"},
    "pnpm": {"test", "run test"},
}
_SEARCHES: Final = frozenset({"rg", "grep", "find", "ast-grep", "sg"})
_SAYS_ONLY: Final = frozenset({"echo", "printf", "which", "type", "man", "cd", "export"})
_INSTALLS: Final = frozenset({"install", "add", "uninstall", "remove", "i", "info", "show", "view"})
_INSTALLERS: Final = word_set(
    "pip pip3 pipx uv conda mamba poetry npm pnpm yarn bun cargo gem go apt apt-get brew dnf "
    "yum apk pacman choco"
)
_LOG_WORD = re.compile(r"\blogs?\b", re.ASCII)
_DOCUMENT: Final = CODE | CONFIG | frozenset({"md", "mdx", "rst", "adoc"})


def _said(command: Command) -> tuple[str, ...]:
    """Give the words of a command that may name what runs: none of a message or a package."""
    if command.program == "git":
        return (command.program, command.action)
    if command.program in _SAYS_ONLY:
        return (command.program,)
    if command.program in _INSTALLERS and command.action in _INSTALLS:
        return (command.program,)
    return (command.program, *(w.lower() for w in command.words if not re.search(r"\s", w)))


def _names(words: Sequence[str], known: frozenset[str]) -> bool:
    return any(word.rpartition("/")[2] in known for word in words)


def _tests(words: Sequence[str]) -> bool:
    if _names(words, _TESTS):
        return True
    for at, word in enumerate(words):
        for ending in _TEST_OF.get(word, ()):
            if re.match(rf"{ending}\b", " ".join(words[at + 1 : at + 3])):
                return True
    return False


def _logs(words: Sequence[str]) -> bool:
    if words[0] == "git":
        return False
    if "journalctl" in words or (words[0] == "tail" and "-f" in words):
        return True
    return any(_LOG_WORD.search(word) and suffix_of(word) not in _DOCUMENT for word in words)


_GAP = f"[{WHITE.replace(chr(10), '').replace(chr(13), '')}]"
_DIFF = re.compile(
    rf"(?:^|(?<=[\r\u2028\u2029]))(?:diff --git|---{_GAP}+{_N}+\n\+\+\+{_GAP}+{_N}|@@{_W})",
    re.MULTILINE,
)
_LEVEL = re.compile(
    rf"(?:^|(?<=[{WHITE}]))(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL|CRITICAL)[{WHITE}:\]]", re.M
)
_CODE_WORD = re.compile(r"\b(?:function|class|interface|struct|def|fn|import|export)\b", re.ASCII)
_MARKS = re.compile(r"[(){}\[\];=<>\"'`@#$\\/|&*_]|:\Z|\.\w")
_LOOKED_AT = 2000
_PROSE_WORDS = 5


def is_json(text: str) -> bool:
    """Say whether a text is one JSON object or array.

    >>> is_json(' {"a": 1}'), is_json("1")
    (True, False)
    """
    trimmed = text.strip(WHITE)
    if not trimmed.startswith(("{", "[")):
        return False
    try:
        parse(trimmed)
    except ValueError:
        return False
    return True


def is_table_row(line: str) -> bool:
    """Say whether a line is a row of a table: two bars, and nothing behind the last.

    >>> is_table_row("| a | b |"), is_table_row("a | b")
    (True, False)
    """
    return line.count("|") > 1 and line.rstrip(WHITE).endswith("|")


def is_json_lines(text: str) -> bool:
    r"""Say whether a text is JSON Lines: two or more, each an object or array.

    >>> is_json_lines('{"a": 1}\n\n{"a": 2}'), is_json_lines("[INFO] a\n[INFO] b")
    (True, False)
    """
    lines = [line for line in text.split("\n") if not BLANK.match(line)]
    return len(lines) > 1 and all(map(is_json, lines))


def _holds_code(text: str) -> bool:
    """Say whether a word of code stands in a line that is no sentence."""
    if is_json_lines(text):
        return False
    for line in text[:_LOOKED_AT].split("\n"):
        if _CODE_WORD.search(line) and not _is_prose(line.strip(WHITE)):
            return True
    return False


def _is_prose(line: str) -> bool:
    if line.startswith("from ") and " import " in line:
        return False
    return len(line.split()) >= _PROSE_WORDS and not _MARKS.search(line)


def _commands(command: str) -> Iterator[tuple[str, ...]]:
    for pipeline in pipelines(command):
        yield from map(_said, pipeline)


def detect_strategy(tool: str, arguments: Mapping[str, object], text: str) -> str:
    r"""Give the filter for an output: the first class whose sign is there.

    Args:
        tool: its name.
        arguments: its arguments; `command`, `path` and `file_path` are looked at.
        text: the output.

    Returns:
        json, diff, test, search, tree, log, code, config, table or text.

    >>> detect_strategy("bash", {"command": "npm run test"}, "")
    'test'
    >>> detect_strategy("bash", {"command": "git commit -m 'find the bug'"}, "")
    'text'
    """
    seen, name = strip_ansi(text), tool.lower()
    if is_json(seen):
        return "json"
    said = list(_commands(command_of(arguments)))
    if _DIFF.search(seen) or any(words[:2] == ("git", "diff") for words in said):
        return "diff"
    if any(map(_tests, said)):
        return "test"
    if name in {"grep", "find"} or any(
        _names(words, _SEARCHES) or words[:2] == ("git", "grep") for words in said
    ):
        return "search"
    if name == "ls" or (said and said[0][0] in {"ls", "tree"}):
        return "tree"
    if any(map(_logs, said)) or _LEVEL.search(seen):
        return "log"
    suffix = suffix_of(path_of(arguments))
    if name == "read" and suffix in CODE | CONFIG:
        return "code" if suffix in CODE else "config"
    lines = seen.split("\n")
    if is_table_row(lines[0]) and sum(map(is_table_row, lines)) >= _PROSE_WORDS:
        return "table"
    return "code" if suffix in CODE or _holds_code(seen) else "text"
