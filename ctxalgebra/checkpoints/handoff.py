r"""Handoffs: what a branch leaves to the one that goes on, in seven slots.

`build_handoff` makes one out of what a model wrote, or says everything that is wrong with it;
`handoff_text` writes the one text that it has, a line for each slot:

    Goal: find the bug
    State: the parser drops comments
      seen in two tests
    Evidence: none
    ...
    NEXT: fix `parse_comment`

Further lines of a slot are indented, so that no value can pass for another slot, and `read_handoff`
gives back the same handoff; a text that `handoff_text` would not have written is none. The first
line may be a marker, which is how a host finds its handoffs among other summaries.

A plain summary holds the slots as lines among others; `check_handoff_lines` checks it. Source:
travel, sections 10, 11 and 18.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

from attrs import frozen

from ctxalgebra.checkpoints.names import is_name
from ctxalgebra.compaction.jsontext import parse
from ctxalgebra.utf16 import trim

__all__ = [
    "LABELS",
    "MARKER",
    "NONE",
    "REQUIRED",
    "Handoff",
    "HandoffDefect",
    "LineCheck",
    "build_handoff",
    "check_handoff_lines",
    "format_defect",
    "handoff_text",
    "read_handoff",
    "read_slot",
    "ticket_name",
    "type_of",
    "wire_defects",
]

MARKER = "<!-- ctxalgebra:handoff:v1 -->"
"""The first line of a handoff's text, unless the caller has another."""

LABELS: Mapping[str, str] = MappingProxyType(
    {
        "goal": "Goal",
        "state": "State",
        "evidence": "Evidence",
        "external": "External",
        "exclusions": "Exclusions",
        "recover": "Recover",
        "next": "NEXT",
    }
)
"""What stands in front of each slot, in the order of the slots."""

REQUIRED = frozenset({"goal", "state", "next"})
"""Slots that must say something; the others may be `NONE`."""

NONE = "none"
"""What a slot says that has nothing to say."""

Reason: TypeAlias = Literal[
    "empty",
    "invalid_archive_alias",
    "invalid_json",
    "invalid_type",
    "none_not_allowed",
    "unexpected_field",
]

_BREAK = re.compile("\r\n|[\r\u2028\u2029]")
_LINE_END = re.compile("\r?\n")
_WORD = re.compile(r"[a-z0-9._-]+")
_LETTER = re.compile("[a-z0-9]")
_WORDS, _LENGTH = 4, 48


@frozen
class Handoff:
    """Hold what a branch leaves behind; each slot has text, without blanks at its ends.

    Args:
        goal: what the user wants.
        state: what is known and done.
        evidence: what shows it.
        external: what was changed outside of the conversation.
        exclusions: what was ruled out.
        recover: where the rest can be found.
        next: what to do first.
    """

    goal: str
    state: str
    evidence: str
    external: str
    exclusions: str
    recover: str
    next: str

    def slots(self) -> tuple[tuple[str, str], ...]:
        """List label and value of each slot, in their order."""
        return tuple((label, getattr(self, field)) for field, label in LABELS.items())


@frozen
class HandoffDefect:
    """Say what is wrong with one field of a handoff.

    Args:
        field: a slot, `handoff` for the whole, `rawArchiveAlias` for the name of the archive.
        reason: stable.
        expected: with `invalid_type`, what was wanted.
        got: with `invalid_type`, the type that was found, as `type_of` names it.
        name: with `unexpected_field`, its name.
    """

    field: str
    reason: Reason
    expected: str = ""
    got: str = ""
    name: str = ""


def type_of(value: object) -> str:
    """Name the type of a JSON value.

    >>> [type_of(value) for value in (None, True, 1.5, "a", [], {})]
    ['null', 'boolean', 'number', 'string', 'array', 'object']
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list | tuple):
        return "array"
    return "object" if isinstance(value, Mapping) else "number"


def format_defect(defect: HandoffDefect) -> str:
    """Say in one line for the model what is wrong.

    >>> format_defect(HandoffDefect("goal", "invalid_type", "string", "number"))
    'goal:invalid_type (expected string, got number)'
    >>> format_defect(HandoffDefect("handoff", "unexpected_field", name="foo"))
    "handoff:unexpected_field ('foo' is not a handoff field)"
    """
    about = ""
    if defect.reason == "invalid_type":
        about = f" (expected {defect.expected}, got {defect.got})"
    elif defect.reason == "unexpected_field":
        about = f" ('{defect.name}' is not a handoff field)"
    return f"{defect.field}:{defect.reason}{about}"


def _mistyped(field: str, value: object, *, missing: bool = False) -> HandoffDefect:
    wanted = "string" if field in REQUIRED else "string | null"
    return HandoffDefect(field, "invalid_type", wanted, "missing" if missing else type_of(value))


def _unknown(members: Mapping[str, Any]) -> Iterator[HandoffDefect]:
    for name in members:
        if name not in LABELS:
            yield HandoffDefect("handoff", "unexpected_field", name=str(name))


def wire_defects(value: object) -> tuple[dict[str, Any], tuple[HandoffDefect, ...]]:
    """Read a handoff as a model sent it, and list what is wrong with its types.

    Args:
        value: an object, or its JSON text. Empty texts pass here; `build_handoff` refuses them.

    Returns:
        Its members (none if it is no object), and all defects.

    >>> wire_defects("{bad")[1]
    (HandoffDefect(field='handoff', reason='invalid_json', expected='', got='', name=''),)
    """
    if isinstance(value, str):
        try:
            value = parse(value)
        except ValueError:
            return {}, (HandoffDefect("handoff", "invalid_json"),)
    if not isinstance(value, Mapping):
        return {}, (HandoffDefect("handoff", "invalid_type", "object", type_of(value)),)
    members = dict(cast("Mapping[str, Any]", value))
    found: list[HandoffDefect] = []
    for field in LABELS:
        text = members.get(field)
        if text is None:
            if field in REQUIRED:
                found.append(_mistyped(field, None, missing=field not in members))
        elif not isinstance(text, str):
            found.append(_mistyped(field, text))
    return members, (*found, *_unknown(members))


def _normal(text: str) -> str:
    return trim(_BREAK.sub("\n", text))


def _slot(field: str, members: Mapping[str, Any]) -> str | HandoffDefect:
    value = members.get(field)
    required = field in REQUIRED
    if value is None:
        return _mistyped(field, None, missing=field not in members) if required else NONE
    if not isinstance(value, str):
        return _mistyped(field, value)
    text = _normal(value)
    if not text:
        return HandoffDefect(field, "empty") if required else NONE
    if text.lower() == NONE:
        return HandoffDefect(field, "none_not_allowed") if required else NONE
    return text


def _with_archive(recover: str, name: str) -> str:
    line = f"Raw archive: {name}"
    if recover == NONE:
        return line
    known = any(trim(old) in (line, name) for old in recover.split("\n"))
    return recover if known else f"{recover}\n{line}"


def build_handoff(
    value: object, *, raw_archive: str | None = None
) -> Handoff | tuple[HandoffDefect, ...]:
    r"""Build a handoff from what a model wrote, or say everything that is wrong with it.

    Line ends become LF and blanks at the ends of a slot go. An optional slot that is absent, null,
    empty or `none` in any case is `none`; a required one must not be.

    Args:
        value: an object with texts, or its JSON text; anything else has no slots.
        raw_archive: name under which the branch that is left can be found; it becomes a line of
            `recover`, unless a line there names it already.

    >>> build_handoff({"goal": " g ", "state": "a\r\nb", "next": "n"}, raw_archive="g-raw")
    ... # doctest: +NORMALIZE_WHITESPACE
    Handoff(goal='g', state='a\nb', evidence='none', external='none', exclusions='none',
    recover='Raw archive: g-raw', next='n')
    >>> wrong = build_handoff({"goal": "none", "state": " ", "foo": 1})
    >>> [format_defect(defect) for defect in wrong]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['goal:none_not_allowed', 'state:empty', 'next:invalid_type (expected string, got missing)',
     "handoff:unexpected_field ('foo' is not a handoff field)"]
    """
    if isinstance(value, str):
        try:
            value = parse(value)
        except ValueError:
            value = None
    members: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
    texts: dict[str, str] = {}
    found: list[HandoffDefect] = []
    for field in LABELS:
        slot = _slot(field, members)
        if isinstance(slot, str):
            texts[field] = slot
        else:
            found.append(slot)
    found += _unknown(members)
    if raw_archive is not None:
        name = _normal(raw_archive)
        if not is_name(name):
            found.append(HandoffDefect("rawArchiveAlias", "invalid_archive_alias"))
        elif "recover" in texts:
            texts["recover"] = _with_archive(texts["recover"], name)
    return tuple(found) if found else Handoff(**texts)


def handoff_text(handoff: Handoff, *, marker: str = MARKER) -> str:
    r"""Write a handoff as text.

    Args:
        handoff: as `build_handoff` gives it.
        marker: the first line; empty for none.

    >>> handoff = build_handoff({"goal": "g", "state": "a\nb", "next": "n"})
    >>> handoff_text(handoff, marker="").split("\n")[:3]
    ['Goal: g', 'State: a', '  b']
    """
    lines = [marker] if marker else []
    for label, value in handoff.slots():
        first, *rest = value.split("\n")
        lines.append(f"{label}: {first}")
        lines += [f"  {line}" if line else "" for line in rest]
    return "\n".join(lines)


def read_slot(text: str, label: str, following: str = "") -> str | None:
    r"""Read the value of one slot out of the text of a handoff.

    Args:
        text: any text.
        label: one of `LABELS`; its first place at the start of a line counts (for the goal, its
            first place anywhere).
        following: label where the value ends; empty for the end of the text, which is also where
            it ends if the label doesn't follow.

    Returns:
        The value; None if the label isn't there.

    >>> read_slot("Goal: a\nState: b\n  c\nNEXT: d", "State", "NEXT")
    'b\nc'
    """
    start = f"{label}: " if label == LABELS["goal"] else f"\n{label}: "
    at = text.find(start)
    if at < 0:
        return None
    at += len(start)
    end = text.find(f"\n{following}: ", at) if following else -1
    return trim(text[at : end if end >= 0 else len(text)].replace("\n  ", "\n"))


def read_handoff(text: str, *, marker: str = MARKER) -> Handoff | None:
    """Read a handoff back from its text; None if `handoff_text` would have written another.

    >>> handoff = build_handoff({"goal": "g", "state": "s", "next": "n"})
    >>> read_handoff(handoff_text(handoff)) == handoff
    True
    >>> read_handoff(handoff_text(handoff) + " ") is None
    True
    """
    names, labels = list(LABELS), list(LABELS.values())
    ends = [*labels[1:], ""]
    slots = {
        name: read_slot(text, label, end)
        for name, label, end in zip(names, labels, ends, strict=True)
    }
    if not all(slots.values()):
        return None
    handoff = build_handoff(slots)
    if isinstance(handoff, Handoff) and handoff_text(handoff, marker=marker) == text:
        return handoff
    return None


@frozen
class LineCheck:
    """Say which slots of a plain summary are not as they should be, each in the order of slots.

    Args:
        missing: labels that start no line.
        empty: labels with a line that has nothing behind it.
        duplicate: labels that start several lines.
        out_of_order: the first lines of the labels are not in the order of the slots.
    """

    missing: tuple[str, ...]
    empty: tuple[str, ...]
    duplicate: tuple[str, ...]
    out_of_order: bool

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.missing or self.empty or self.duplicate or self.out_of_order)


def check_handoff_lines(text: str) -> LineCheck:
    r"""Check a plain summary: each slot stands once at the start of a line, in order, with a value.

    Lines end with LF or CRLF. Letter case counts, `none` is a value everywhere, and other lines are
    free.

    >>> check_handoff_lines("State: b\nGoal: a\nEvidence:\nGoal: dup\nNEXT: go")
    ... # doctest: +NORMALIZE_WHITESPACE
    LineCheck(missing=('External', 'Exclusions', 'Recover'), empty=('Evidence',),
    duplicate=('Goal',), out_of_order=True)
    """
    places: dict[str, list[int]] = {label: [] for label in LABELS.values()}
    empty: set[str] = set()
    for number, line in enumerate(_LINE_END.split(text)):
        label, colon, value = line.partition(":")
        if colon and label in places:
            places[label].append(number)
            if not trim(value):
                empty.add(label)
    first = [found[0] for found in places.values() if found]
    return LineCheck(
        tuple(label for label, found in places.items() if not found),
        tuple(label for label in places if label in empty),
        tuple(label for label, found in places.items() if len(found) > 1),
        first != sorted(first),
    )


def ticket_name(goal: str, taken: Collection[str]) -> str:
    """Name the branch that is left after its goal, unlike all names that are taken.

    The first four different words of the goal, in small letters, at most 48 characters, and `-raw`;
    then numbers from 2 on. Linear in the goal and in what is taken.

    Args:
        goal: any text.
        taken: names in use, also those of other entries. None of them can be `root`.

    >>> ticket_name("Fix the parser bug, fix it NOW", {"fix-the-parser-bug-raw"})
    'fix-the-parser-bug-raw-2'
    >>> ticket_name("\u4fee\u590d", ())
    'fold-raw'
    """
    words: dict[str, None] = {}
    for found in _WORD.finditer(goal.lower()):
        words[found[0]] = None
        if len(words) == _WORDS:
            break
    stem = "-".join(words)[:_LENGTH].rstrip("-")
    base = f"{stem if _LETTER.search(stem) else 'fold'}-raw"
    used = set(taken)
    name, number = base, 1
    while name in used:
        number += 1
        name = f"{base}-{number}"
    return name
