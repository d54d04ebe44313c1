"""Notices that say how to get back what a cut takes out: exact, and ready to be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from attrs import frozen

from ctxalgebra.model.checks import check_callable, check_type
from ctxalgebra.model.session import Session
from ctxalgebra.recall.history import cell_of, history
from ctxalgebra.recall.items import RECALL_TOOLS, Item
from ctxalgebra.recall.search import LIMITS
from ctxalgebra.recall.texts import quote
from ctxalgebra.transforms.select import Evicted

__all__ = ["Recoverable", "default_words", "recall_notice"]


@frozen
class Recoverable:
    """Tell what a notice may point at.

    Args:
        evicted: what the cut takes out.
        id: address of the last item that leaves; None when the cut takes no item.
        tool: the tool of the first result that leaves in this cut; None when none does.
        arguments: what `read_context_output` takes to read that result, as JSON.
    """

    evicted: Evicted
    id: str | None = None
    tool: str | None = None
    arguments: str | None = None


def default_words(found: Recoverable) -> str:
    """Word a notice.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> print(default_words(Recoverable(Evicted(0, 7, 8), "7")))
    [Generated notice. Earlier messages, up to entry 7, are not shown any more; nothing is lost.
    Find them with search_history, browse_history, load_history; read_context_output gives pages.
    Last item that left: historyId "7".]
    """
    check_type(found, Recoverable, "found")
    until = f"Earlier messages, up to entry {found.evicted.last}, are not shown any more"
    lines = [
        f"[Generated notice. {until}; nothing is lost.",
        f"Find them with {', '.join(RECALL_TOOLS[:3])}; {RECALL_TOOLS[3]} gives pages.",
    ]
    if found.id is not None:
        lines.append(f"Last item that left: historyId {quote(found.id)}.")
    if found.arguments is not None:
        reads = f"{RECALL_TOOLS[3]}({found.arguments})"
        lines.append(f"First output that left, of {found.tool}: {reads}.")
    return "\n".join(lines) + "]"


def recall_notice(
    session: Session, *, words: Callable[[Recoverable], str] = default_words
) -> Callable[[Evicted], str]:
    """Make the notice for `select` on this session: it points at what leaves by its address.

    The text is recorded with the cut and stands until the frontier moves. Addresses are entry
    numbers, so that a call id that was used twice can't lead to another turn.

    Args:
        session: the one that `select` is asked for.
        words: words the notice.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("a" * 400), assistant("b" * 400), user("now"))
    >>> cut = select(session, budget=200, target=90, notice=recall_notice(session))
    >>> print(project(cut).messages[0].parts[0].text.splitlines()[-1])
    Last item that left: historyId "1".]
    """
    known = history(session)
    check_callable(words, "words")

    def notice(evicted: Evicted) -> str:
        check_type(evicted, Evicted, "evicted")
        view = session.view
        first = view.slot(evicted.first)
        # What leaves another session is not ours to point at.
        numbers = [] if first < 0 else view.slots.numbers[first : view.slot(evicted.last) + 1]
        last: str | None = None
        tool: str | None = None
        arguments: str | None = None
        for number in numbers:
            cell = cell_of(known, str(number))
            if cell is None:
                continue
            item = cast("Item", cell.record)
            last = item.id
            if arguments is None:
                names = {call.id: call.name for call in item.message.calls}
                calls = (result.call for result in item.results)
                answered = next((c for c in calls if names[c] not in RECALL_TOOLS), None)
                if answered is not None:
                    tool = names[answered]
                    arguments = (
                        f'{{"historyId":{quote(item.id)},"source":"toolResult","toolCallId":'
                        f'{quote(answered)},"offset":0,"limit":{LIMITS.page}}}'
                    )
        return words(Recoverable(evicted, last, tool, arguments))

    return notice
