"""Skills in files: `SKILL.md` with YAML front matter, one file or a folder of them.

Theory of operation
-------------------
A file is a stranger's. So it is read only as long as `MOST_FILE` bytes, and only if it is a plain
file; of front matter the part of YAML is read that says what JSON can say, as `codecs.cassette`
does it: no aliases, no tags that make objects, nothing deep, no key twice. A name stays the text
that it was written as, also where YAML takes it for a date or a number. What is wrong is an error
with a code, the file and the line; in a folder it is listed, and the others are read.

Needs pyyaml (the extra `yaml`). What is known of skills then is that of `skills.records`; the text
behind the front matter is read when it is loaded (`skill_text`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from attrs import frozen

from ctxalgebra.codecs.cassette import read_yaml
from ctxalgebra.codecs.lines import Json, Number
from ctxalgebra.errors import CtxError, DecodeError
from ctxalgebra.model.checks import check_text, check_type, mistyped
from ctxalgebra.skills.groups import NAME
from ctxalgebra.skills.loading import frontmatter
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.texts import CONTROLS, description
from ctxalgebra.utf16 import trim, units

__all__ = [
    "FILE",
    "MOST_FILE",
    "MOST_FOLDERS",
    "MOST_FRONT",
    "SkillFiles",
    "read_skill",
    "read_skills",
    "skill_text",
]

FILE: Final = "SKILL.md"
"""What the file of a skill is called."""

MOST_FILE: Final = 1_048_576
"""The longest file, in bytes."""

MOST_FRONT: Final = 65_536
"""The longest front matter, in characters."""

MOST_FOLDERS: Final = 10_000
"""How many folders are looked into."""

_DEEP: Final = 8
_SKIPPED: Final = frozenset({"node_modules"})
_YES, _NO = frozenset({"true", "yes", "on"}), frozenset({"", "false", "no", "off"})
_MANUAL = "disable-model-invocation"


@frozen
class SkillFiles:
    """Hold what was found in a folder.

    Args:
        skills: in order of their names.
        problems: what could not be read, in order of the files.
    """

    skills: tuple[Skill, ...]
    problems: tuple[CtxError, ...]


def _scalar(value: Json) -> str | None:
    """Give the text that a scalar was written as; None for a list or an object."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return trim(value) if isinstance(value, str) else None


def _fields(front: str, file: str | None) -> dict[str, Json]:
    """Read front matter: what stands between its fences."""
    if len(front) > MOST_FRONT:
        text = f"front matter is longer than {MOST_FRONT} characters"
        raise DecodeError("unreadable", text, file=file, line=1)
    # The first fence is no part of it, and its line is left empty, so that lines are counted right.
    lines = front.replace("\r\n", "\n").replace("\r", "\n").rstrip().split("\n")
    try:
        value = read_yaml("\n".join(["", *lines[1:-1]]), file=file, unique=True)
    except DecodeError as error:
        line = 1 if error.line is None else error.line
        raise DecodeError(error.code, error.message, file=file, line=line) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError("wrong-type", "front matter is no mapping", file=file, line=1)
    return value


def _line(front: str, name: str) -> int:
    """Give the line in which a field begins, as far as a search tells; the first one otherwise."""
    lines = front.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return next((at for at, line in enumerate(lines, 1) if line.startswith(f"{name}:")), 1)


def read_skill(text: str, path: str = "", *, name: str = "") -> Skill:
    r"""Read what is known of a skill from the text of its file.

    Args:
        text: the file.
        path: where it lies; stands in the record, and in errors.
        name: what it is called where it says nothing itself, as its folder.

    Raises:
        DecodeError: with `path` and the line: `missing-field`, there is no name, no description, or
            nothing behind the front matter (`body`);
            `wrong-type`, one is a list or a mapping; `invalid-argument`, a name with controls or of
            more than `groups.NAME` units, or `disable-model-invocation` is neither yes nor no;
            `unreadable`, the front matter is too long; and as `cassette.read_yaml`.
        InvalidArgument: `wrong-type`, `lone-surrogate`.

    >>> read_skill("---\nname: 2024-01-05\ndescription: Test\n  first\n---\nDo it.", "/s/a")
    Skill(name='2024-01-05', description='Test first', path='/s/a', source='', for_model=True)
    """
    check_text(text, "text")
    check_text(path, "path")
    check_text(name, "name")
    file = path or None
    front, body = frontmatter(text)
    fields = _fields(front, file) if front else {}

    def scalar(field: str) -> str:
        found = _scalar(fields.get(field))
        if found is None:
            line = _line(front, field)
            raise DecodeError("wrong-type", "expected a text", file=file, line=line, field=field)
        return found

    called = scalar("name") or trim(name)
    about = description(scalar("description"))
    for field, value in (("name", called), ("description", about), ("body", trim(body))):
        if not value:
            raise DecodeError("missing-field", file=file, line=1, field=field)
    if len(units(called)) > NAME or CONTROLS.search(called):
        why = f"names are 1 to {NAME} characters without controls"
        line = _line(front, "name")
        raise DecodeError("invalid-argument", why, file=file, line=line, field="name")
    manual = scalar(_MANUAL).lower()
    if manual not in _YES | _NO:
        line = _line(front, _MANUAL)
        raise DecodeError("invalid-argument", "true or false", file=file, line=line, field=_MANUAL)
    return Skill(called, about, path, "", manual not in _YES)


def _bytes(path: Path) -> bytes:
    """Read a plain file, so much of it."""
    shown = str(path)
    try:
        if not S_ISREG(path.stat().st_mode):
            raise DecodeError("unreadable", "not a plain file", file=shown)
        with path.open("rb") as file:
            data = file.read(MOST_FILE + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, DecodeError):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DecodeError("unreadable", why, file=shown) from None
    if len(data) > MOST_FILE:
        raise DecodeError("unreadable", f"longer than {MOST_FILE} bytes", file=shown)
    return data


def _text(path: Path) -> str:
    data = _bytes(path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DecodeError("invalid-utf8", file=str(path), line=line) from None


def skill_text(skill: Skill) -> str:
    """Read the text of a skill's file: what `loading.load` and `respond_skills` take as `read`.

    Raises:
        DecodeError: `unreadable`, also what is no plain file or longer than `MOST_FILE`;
            `invalid-utf8`, with the line.
        InvalidArgument: `wrong-type`.

    >>> skill_text(Skill("a", path="/nowhere/SKILL.md"))
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.DecodeError: unreadable: No such file or directory (file /nowhere/SKILL.md)
    """
    check_type(skill, Skill, "skill")
    return _text(Path(skill.path))


def _inside(folder: Path, *, follow: bool) -> tuple[Path | None, list[Path], list[CtxError]]:
    """List the file of a skill, the folders to look into, and the links that are passed over."""
    below: list[Path] = []
    links: list[CtxError] = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        file = path.name == FILE
        if not file and not path.is_dir():
            continue
        if path.is_symlink() and not follow:
            links.append(DecodeError("unreadable", "links are not followed", file=str(path)))
        elif file:
            return path, [], links
        else:
            below.append(path)
    return None, below, links


def _found(root: Path, *, follow: bool) -> Iterator[Path | CtxError]:
    """Walk folders in order; one that holds a skill is not looked into any further."""
    stack = [(root, 0)]
    seen: set[Path] = set()
    while stack:
        folder, depth = stack.pop()
        try:
            real = folder.resolve()
            if real in seen:
                continue
            file, below, links = _inside(folder, follow=follow)
        except (OSError, RuntimeError) as error:
            yield DecodeError("unreadable", getattr(error, "strerror", "") or "", file=str(folder))
            continue
        seen.add(real)
        yield from links
        if file is not None:
            yield file
        elif below and (depth == _DEEP or len(seen) + len(stack) > MOST_FOLDERS):
            text = f"folders more than {_DEEP} deep, or than {MOST_FOLDERS}, are not looked into"
            yield DecodeError("unreadable", text, file=str(folder))
        else:
            stack += [(path, depth + 1) for path in reversed(below)]


def read_skills(folder: str | Path, *, follow: bool = False) -> SkillFiles:
    """Read the skills below a folder: each `SKILL.md`, wherever it stands.

    A folder that holds one is not looked into any further, and neither are hidden folders and
    `node_modules`. Of several skills with one name the first counts.

    Args:
        folder: where to look, at most eight folders deep.
        follow: whether links are followed below it; else each is a problem, since a folder that
            somebody made may link to any file of who reads it.

    Returns:
        What was found. Problems are those of `read_skill` and `skill_text`; `duplicate-id` for a
        name that another skill has.

    Raises:
        InvalidArgument: `wrong-type`.
        DecodeError: `unreadable`, there is no such folder; `missing-extra`, pyyaml is not
            installed.

    >>> read_skills("/nowhere")
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.DecodeError: unreadable: not a folder (file /nowhere)
    """
    given: Any = folder
    if not isinstance(given, str | Path):
        raise mistyped(folder, "a path", "folder")
    check_type(follow, bool, "follow")
    root = Path(folder)
    there = False
    with suppress(OSError, ValueError):  # some paths can't be asked for, as longer ones than any
        there = root.is_dir()
    if not there:
        raise DecodeError("unreadable", "not a folder", file=str(folder))
    known: dict[str, Skill] = {}
    problems: list[CtxError] = []
    for path in _found(root, follow=follow):
        if isinstance(path, CtxError):
            problems.append(path)
            continue
        try:
            skill = read_skill(_text(path), str(path), name=path.parent.name)
            if (other := known.get(skill.name)) is not None:
                text = f"{other.path} is called {skill.name}, too"
                raise DecodeError("duplicate-id", text, file=str(path), field="name")
        except CtxError as error:
            if error.code == "missing-extra":
                raise
            where, line = str(path), error.line
            problems.append(
                DecodeError(error.code, error.message, file=where, line=line, field=error.field)
            )
            continue
        known[skill.name] = skill
    skills = sorted(known.values(), key=lambda skill: name_order(skill.name))
    return SkillFiles(tuple(skills), tuple(problems))
