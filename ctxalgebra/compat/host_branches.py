"""What the pi host summarises of a branch that it leaves (its format, section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ctxalgebra.compat.host_context import messages_of
from ctxalgebra.compat.host_entries import LAST, Entry, branch, name_of
from ctxalgebra.compat.host_files import FileOps, file_ops, named_before
from ctxalgebra.compat.host_usage import counted, entry_tokens

__all__ = ["BranchMessages", "LeftBranch", "collect_entries", "prepare_branch_entries"]


class LeftBranch(NamedTuple):
    """Hold the entries that are left, oldest first, and the id of the last one that is not."""

    entries: tuple[Entry, ...]
    ancestor: str | None


class BranchMessages(NamedTuple):
    """Hold messages to summarise, oldest first, the files that they name, and their weight."""

    messages: tuple[Entry, ...]
    files: FileOps
    tokens: int


def collect_entries(
    entries: Sequence[Entry], target: str | None, leaf: str | None = LAST
) -> LeftBranch:
    """List the entries that are left by moving from a leaf to a target.

    From the last entry that both paths share, also across compactions. An id that is not there
    has no path.

    Args:
        entries: in the order of the file.
        target, leaf: ids; None stands before the first entry.

    Raises:
        DecodeError: `cyclic-parent`.

    >>> entries = [{"id": "a"}, {"id": "b", "parentId": "a"}, {"id": "c", "parentId": "a"}]
    >>> collect_entries(entries, "b")
    LeftBranch(entries=({'id': 'c', 'parentId': 'a'},), ancestor='a')
    """
    old = branch(entries, leaf)
    on_path = {name_of(entry): at for at, entry in enumerate(old)}
    names = (name_of(entry) for entry in reversed(branch(entries, target)))
    ancestor = next((name for name in names if name in on_path), None)
    shared = -1 if ancestor is None else on_path[ancestor]
    return LeftBranch(tuple(old[shared + 1 :]), ancestor)


_SUMMARIES = ("compaction", "branch_summary")


def prepare_branch_entries(entries: Sequence[Entry], budget: float = 0) -> BranchMessages:
    """Choose the messages of a branch that are summarised, newest first within a budget.

    Results of tools are left out: the calls tell of them. What would go beyond the budget ends it;
    if that is a summary, it is taken all the same while a tenth of the budget is free.

    Args:
        entries: of the branch, oldest first.
        budget: tokens; 0 for no limit.

    Raises:
        DecodeError: `wrong-type`, an entry of type `message` holds none.
        InvalidArgument: `wrong-type`, a message can't be weighed; `invalid-argument`, the budget
            is no number of the host's.

    >>> user = {"type": "message", "message": {"role": "user", "content": "12345678"}}
    >>> prepare_branch_entries([user, user, user], 5).tokens
    4
    """
    limit = counted(budget, "budget")
    summaries = (entry for entry in entries if entry.get("type") == "branch_summary")
    before = [named for entry in summaries for named in named_before(entry)]
    chosen: list[Entry] = []
    asked: list[Entry] = []
    total = 0
    for entry in reversed(entries):
        messages = [m for m in messages_of(entry) if m.get("role") != "toolResult"]
        if not messages:
            continue
        asked += messages
        tokens = entry_tokens(entry)
        over = limit > 0 and total + tokens > limit
        if not over or (entry.get("type") in _SUMMARIES and total < limit * 0.9):
            chosen += messages
            total += tokens
        if over:
            break
    return BranchMessages(tuple(reversed(chosen)), file_ops(asked, before), total)
