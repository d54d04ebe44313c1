"""Where the pi host cuts its context, and what it would summarise (its format, section 7).

Version 0.84.0, but for one rule: where no message after the weight to keep can begin what is kept,
since a result of a tool is larger than that weight, the cut falls on the last message that can.
The host leaves it at the first one there and so cuts nothing (W19).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from ctxalgebra.compat.host_context import (
    last_compaction,
    messages_of,
    place_of,
    session_context,
)
from ctxalgebra.compat.host_entries import Entry, name_of
from ctxalgebra.compat.host_files import FileOps, file_ops, named_before
from ctxalgebra.compat.host_usage import CompactionSettings, counted, entry_tokens, estimate_context
from ctxalgebra.errors import InvalidArgument

__all__ = ["CutPoint", "Preparation", "find_cut_point", "find_turn_start", "prepare_compaction"]

_TURNS = ("user", "bashExecution", "custom", "branchSummary", "compactionSummary")
_CUTS = (*_TURNS, "assistant")


class CutPoint(NamedTuple):
    """Hold indices of entries: the first that is kept, and the start of the turn that it parts.

    `turn` is -1 where no turn is parted.
    """

    first: int
    turn: int = -1

    @property
    def splits(self) -> bool:
        """Say whether a turn is parted."""
        return self.turn >= 0


class Preparation(NamedTuple):
    """Hold what a compaction would do.

    Args:
        first_kept: id of the first entry that is kept.
        to_summarize: messages in front of it, or of the turn that is parted.
        turn_prefix: messages of that turn in front of the cut.
        split: a turn is parted.
        tokens_before: what the context weighs.
        previous_summary: the summary of the compaction before; None without one.
        files: what the messages name, and the compaction before.
        settings: those that were used.
    """

    first_kept: str
    to_summarize: tuple[Entry, ...]
    turn_prefix: tuple[Entry, ...]
    split: bool
    tokens_before: float
    previous_summary: object
    files: FileOps
    settings: CompactionSettings


def _contributes(entry: Entry, roles: tuple[str, ...]) -> bool:
    if entry.get("type") == "compaction":
        return False
    return any(message.get("role") in roles for message in messages_of(entry))


def _range(entries: Sequence[Entry], start: int, end: int) -> range:
    if start < end and (start < 0 or end > len(entries)):
        raise InvalidArgument("invalid-argument", f"there are {len(entries)} entries", field="end")
    return range(start, end)


def find_turn_start(entries: Sequence[Entry], at: int, start: int = 0) -> int:
    """Give the index of the entry that starts the turn of another; -1 where none does.

    Args:
        entries: a path.
        at: index of the entry.
        start: the first index that counts.

    Raises:
        DecodeError: `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `invalid-argument`, the indices are not those of entries.

    >>> find_turn_start([{"type": "custom_message", "content": "go"}, {"type": "label"}], 1)
    0
    """
    places = reversed(_range(entries, start, at + 1))
    return next((place for place in places if _contributes(entries[place], _TURNS)), -1)


def find_cut_point(
    entries: Sequence[Entry], keep: float, start: int = 0, end: int | None = None
) -> CutPoint:
    """Find where to cut so that what is kept weighs about as much as it may.

    Args:
        entries: a path.
        keep: tokens.
        start, end: the range that counts; to the last entry, if there is no end.

    Raises:
        DecodeError: `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `invalid-argument`, the range is not one of entries, or `keep` no number
            of the host's; `wrong-type`, a message can't be weighed.

    >>> user = {"type": "message", "message": {"role": "user", "content": "12345678"}}
    >>> find_cut_point([user, user, user], 4)
    CutPoint(first=1, turn=-1)
    """
    limit = counted(keep, "keep")
    places = _range(entries, start, len(entries) if end is None else end)
    cuts = [at for at in places if _contributes(entries[at], _CUTS)]
    if not cuts:
        return CutPoint(start)
    cut, weight = cuts[0], 0
    for at in reversed(places):
        tokens = entry_tokens(entries[at])
        weight += tokens
        if tokens and weight >= limit:
            cut = cuts[min(bisect_left(cuts, at), len(cuts) - 1)]
            break
    while cut > start and not messages_of(entries[cut - 1]):
        cut -= 1
    if _contributes(entries[cut], _TURNS):
        return CutPoint(cut)
    return CutPoint(cut, find_turn_start(entries, cut, start))


def _messages(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    spoken = (entry for entry in entries if entry.get("type") != "compaction")
    return tuple(message for entry in spoken for message in messages_of(entry))


def prepare_compaction(
    path: Sequence[Entry], settings: CompactionSettings | None = None
) -> Preparation | None:
    """Say what a compaction would summarise and keep; None where there is nothing to do.

    Args:
        path: the entries from the root to the leaf.
        settings: how much is kept; they are the host's own where there are none.

    Raises:
        DecodeError: `cyclic-parent`; `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `unknown-entry`, the last entry has no id; `wrong-type`, a message can't
            be weighed; `invalid-argument`, what is to be kept is no number of the host's.

    >>> prepare_compaction([]) is None
    True
    """
    settings = settings or CompactionSettings()
    previous = last_compaction(path)
    if not path or previous == len(path) - 1:
        return None
    start = 0
    before: Entry = path[previous] if previous >= 0 else {}
    if previous >= 0:
        first = place_of(path, before.get("firstKeptEntryId"), len(path))
        start = first if first >= 0 else previous + 1
    tokens = estimate_context(session_context(path).messages).tokens
    cut = find_cut_point(path, settings.keep_recent_tokens, start)
    kept = name_of(path[cut.first])
    to_summarize = _messages(path[start : cut.turn if cut.splits else cut.first])
    prefix = _messages(path[cut.turn : cut.first]) if cut.splits else ()
    if kept is None or not (to_summarize or prefix):
        return None
    return Preparation(
        kept,
        to_summarize,
        prefix,
        cut.splits,
        tokens,
        before.get("summary"),
        file_ops([*to_summarize, *prefix], named_before(before)),
        settings,
    )
