"""Where a conversation can go: numbers, labels and the root, and what is known of each place.

A target is a text: `#12` is the entry with this number, `root` in any letter case where the path
begins, and anything else is a label. So a name never hides an entry, and the other way round. What
can't be written as a target is no name. Source: travel, sections 3 to 5; W04, W25.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from attrs import frozen

from ctxalgebra.checkpoints.names import Names, is_reserved
from ctxalgebra.checkpoints.refusals import Refusal
from ctxalgebra.events import labelled
from ctxalgebra.model.checks import check_text, mistyped
from ctxalgebra.model.entries import Label, UsageReport
from ctxalgebra.model.session import Fold, Node, Session, check_session, find, fold
from ctxalgebra.model.view import STEPS, View

__all__ = [
    "LONGEST_TARGET",
    "Complete",
    "Target",
    "complete_places",
    "free_name",
    "is_addressable",
    "names_of",
    "resolve_target",
    "save_point",
]

LONGEST_TARGET = 1_000
"""What is longer than that, blanks at its ends aside, is no target, and as a label no name."""

Resolved: TypeAlias = Literal["root", "label", "number"]

_NUMBER = re.compile(r"#(0|[1-9][0-9]{0,17})")


class Complete(NamedTuple):
    """Say where on the path requests can leave: no call is open, and something is shown.

    Numbers of entries, -1 for none: the first such place, and the newest. Labels and usage
    reports are no places, since they change nothing.
    """

    first: int = -1
    newest: int = -1


def _complete(known: Complete, node: Node, view: View) -> Complete:
    if view.open or view.flight >= 0 or not view.end:
        return known
    return Complete(node.number if known.first < 0 else known.first, node.number)


_COMPLETE: Fold[Complete] = Fold(
    "complete", Complete(), _complete, reads=STEPS.keys() - {Label, UsageReport}
)


def complete_places(session: Session) -> Complete:
    """Find the first and the newest entry of the path whose request could leave.

    A fold: costs what is new, whatever lies in between. While calls are open, the newest is in
    front of the request that they came from.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, user
    >>> session = record(Session(), user("hi"), assistant(ToolCall("c1", "read")))
    >>> complete_places(session)
    Complete(first=0, newest=0)
    """
    return fold(session, _COMPLETE)


def names_of(session: Session) -> Names[int]:
    """Give who has which name, as `name_conflict` reads it; costs what is new.

    >>> from ctxalgebra import Session, label, record, user
    >>> names_of(label(record(Session(), user("hi")), 0, "start")).targets["start"]
    0
    """
    return Names(*labelled(session))


def is_addressable(name: str) -> bool:
    """Say whether a label can be written as a target: no `root`, no number, at most 1,000 long.

    >>> [is_addressable(name) for name in ("start", "two words", "ROOT", "#7", " ")]
    [True, True, False, False, False]
    """
    if not 0 < len(name) <= LONGEST_TARGET or name != name.strip():
        return False
    return not is_reserved(name) and _NUMBER.fullmatch(name) is None


def free_name(session: Session, name: str) -> str:
    """Make a name that no entry has: the name itself, or with the first number from 2 on.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, label, record, user
    >>> free_name(label(record(Session(), user("hi")), 0, "a"), "a")
    'a-2'
    """
    check_text(name, "name")
    known = labelled(session).targets
    free, number = name, 1
    while free in known:
        number += 1
        free = f"{name}-{number}"
    return free


def save_point(session: Session, before: int) -> Node | None:
    """Find the nearest entry of the path in front of a number that has a label; None for none.

    Looks at labels from the newest entry down, never at entries.

    >>> from ctxalgebra import Session, label, record, user
    >>> save_point(label(record(Session(), user("a"), user("b")), 0, "start"), 1).number
    0
    """
    for number in reversed(labelled(session).names):
        if number < before and (node := find(session, number)) is not None:
            return node
    return None


@frozen
class Target:
    """Say which entry a text stands for.

    Args:
        text: as it was given.
        number: the entry.
        by: what resolved it.
        off_path: it does not lie on the current path.
        label: that it has, if any.
    """

    text: str
    number: int
    by: Resolved
    off_path: bool = False
    label: str = ""


def resolve_target(session: Session, text: str) -> Target | Refusal:
    """Find the entry that a target stands for.

    The root is the first entry of the path whose request can leave, so that the user's first words
    stay (W25). Labels count by letter case; there are no prefixes.

    Returns:
        The target; or `invalid-params` (no text, or more than 1,000 characters), `no-active-leaf`
        and `empty-session` (both for the root only), `target-not-found`.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, label, record, user
    >>> session = label(record(Session(), user("a"), user("b")), 1, "second")
    >>> [resolve_target(session, text).number for text in ("Root", "second", "#1")]
    [0, 1, 1]
    >>> resolve_target(session, "Second").code
    'target-not-found'
    """
    check_session(session)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers
        raise mistyped(text, "a text", "text")
    name = text.strip()
    if not name:
        return Refusal("invalid-params", "the target is blank")
    if len(name) > LONGEST_TARGET:
        return Refusal("invalid-params", f"a target has at most {LONGEST_TARGET:,} characters")
    if is_reserved(name):
        if session.leaf is None and len(session):
            return Refusal("no-active-leaf", "no entry is the current one")
        first = complete_places(session).first
        if first < 0:
            return Refusal("empty-session", "no request could leave from this path yet")
        return _at(session, text, first, "root")
    known = labelled(session)
    if (number := _NUMBER.fullmatch(name)) is not None:
        if int(number[1]) >= len(session):
            return Refusal("target-not-found", f"there is no entry {name:.80}")
        return _at(session, text, int(number[1]), "number")
    if name not in known.targets:
        hint = f": the entry is written #{name}" if _NUMBER.fullmatch(f"#{name}") else ""
        return Refusal("target-not-found", f"no entry has the label {name!r:.80}{hint}")
    return _at(session, text, known.targets[name], "label")


def _at(session: Session, text: str, number: int, by: Resolved) -> Target:
    off = find(session, number) is None
    return Target(text, number, by, off, labelled(session).names.get(number, ""))
