"""What became of a write, told by the journal before and after, and what follows from it.

A plan meets a store that may fail before it writes, fail after it wrote, write nothing, write
something else, or be written to by others at the same time. What the call returned or raised proves
nothing; the journal does. So each write is one of three: *applied*, since what was asked for is
there and was not there before; *not applied*, since nothing changed; *indeterminate*, for all else.
A travel writes a label and then a branch. `SETTLEMENTS` says for each pair of outcomes what is left
to do. Unlike the original, which looks at the leaf alone, what somebody else wrote behind a branch
does not make it indeterminate (W16). Source: travel, section 13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeVar

from attrs import frozen

__all__ = [
    "SETTLEMENTS",
    "Labelled",
    "Outcome",
    "Presence",
    "Settlement",
    "classify",
    "presence",
]

Outcome: TypeAlias = Literal["applied", "not-applied", "indeterminate"]
Labelled: TypeAlias = Literal["none", "present", "created", "not-applied", "indeterminate"]
Presence: TypeAlias = Literal["present", "absent", "unknown"]

E = TypeVar("E")


def classify(
    before: Mapping[str, E],
    after: Mapping[str, E] | None,
    *,
    wanted: Callable[[E], bool],
    moved: bool = False,
) -> tuple[Outcome, str | None]:
    """Say what became of a write, and which entry it is.

    Args:
        before: entries by their ids, as they were read before the call.
        after: the same behind it; None where they can't be read.
        wanted: whether an entry is what was to be written, and holds now.
        moved: whether the leaf is another one.

    >>> classify({}, {"n1": "label"}, wanted=lambda entry: entry == "label")
    ('applied', 'n1')
    >>> classify({"n1": "label"}, {"n1": "label"}, wanted=lambda entry: entry == "label")
    ('not-applied', None)
    >>> classify({}, {"n1": "other"}, wanted=lambda entry: entry == "label")
    ('indeterminate', None)
    """
    if after is None:
        return "indeterminate", None
    fresh = {key: entry for key, entry in after.items() if key not in before}
    for key, entry in fresh.items():
        if wanted(entry):
            return "applied", key
    # What is gone was changed, too: a journal is only appended to.
    same = not fresh and not moved and len(after) == len(before)
    return ("not-applied" if same else "indeterminate"), None


def presence(owners: Iterable[E] | None, target: E) -> Presence:
    """Say whether a name stands at an entry.

    Args:
        owners: entries that carry the name now; None where that can't be read.
        target: the entry.

    >>> presence(["r2"], "r2"), presence([], "r2"), presence(None, "r2")
    ('present', 'absent', 'unknown')
    """
    if owners is None:
        return "unknown"
    return "present" if target in owners else "absent"


@frozen
class Settlement:
    """Say what follows from what became of label and branch.

    Args:
        done: the travel stands.
        failed: which write failed.
        undo: the label that was made has to be taken back.
        kept: why a label that was, or may have been, made stays.
        reread: what is shown has to be made anew from the journal, since the branch may be there.
    """

    done: bool = False
    failed: Literal["", "label", "branch"] = ""
    undo: bool = False
    kept: Literal["", "label-indeterminate", "branch-indeterminate"] = ""
    reread: bool = False


_DONE = Settlement(done=True)
_NOTHING = Settlement(failed="branch")
_REREAD = Settlement(failed="branch", reread=True)

SETTLEMENTS: Final[Mapping[tuple[Labelled, Outcome | None], Settlement]] = MappingProxyType(
    {
        # label,           branch (None: not tried)
        ("not-applied", None): Settlement(failed="label"),
        ("indeterminate", None): Settlement(failed="label", kept="label-indeterminate"),
        ("none", "applied"): _DONE,
        ("none", "not-applied"): _NOTHING,
        ("none", "indeterminate"): _REREAD,
        ("present", "applied"): _DONE,
        ("present", "not-applied"): _NOTHING,
        ("present", "indeterminate"): _REREAD,
        ("created", "applied"): _DONE,
        ("created", "not-applied"): Settlement(failed="branch", undo=True),
        ("created", "indeterminate"): Settlement(
            failed="branch", kept="branch-indeterminate", reread=True
        ),
    }
)
"""What follows for each outcome of the label and of the branch, None where it was not tried."""
