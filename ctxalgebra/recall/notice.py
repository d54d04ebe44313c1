"""Notices and stubs that say how to get back what they stand for: exact, and ready to be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from attrs import frozen

from ctxalgebra.model.checks import check_callable, check_type
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.recall.history import cell_of, history, turn_with
from ctxalgebra.recall.items import RECALL_NAMES, Item
from ctxalgebra.recall.search import LIMITS
from ctxalgebra.recall.texts import quote
from ctxalgebra.transforms.prune import default_stub
from ctxalgebra.transforms.select import Evicted

__all__ = ["Recoverable", "default_words", "recall_notice", "recall_stub"]


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


def _reading(item: Item, call: str) -> str:
    """Write what `read_context_output` takes to read a result from its beginning."""
    return (
        f'{{"historyId":{quote(item.id)},"source":"toolResult","toolCallId":{quote(call)},'
        f'"offset":0,"limit":{LIMITS.page}}}'
    )


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
        f"Find them with {', '.join(RECALL_NAMES[:3])}; {RECALL_NAMES[3]} gives pages.",
    ]
    if found.id is not None:
        lines.append(f"Last item that left: historyId {quote(found.id)}.")
    if found.arguments is not None:
        reads = f"{RECALL_NAMES[3]}({found.arguments})"
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
                answered = next((c for c in calls if names[c] not in RECALL_NAMES), None)
                if answered is not None:
                    tool = names[answered]
                    arguments = _reading(item, answered)
        return words(Recoverable(evicted, last, tool, arguments))

    return notice


def recall_stub(session: Session) -> Callable[[Message, int], str]:
    """Make the stub for `prune_suffix` on this session: it says how to read what it stands for.

    What recall itself answered can't be read again; there, and for what this session does not
    show, it is `default_stub`.

    Args:
        session: the one that `prune_suffix` is asked for.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), assistant(ToolCall("c", "read")), tool_result("c", "." * 2000))
    >>> pruned = prune_suffix(session, stub_over=50, drop_over=50, stub=recall_stub(session))
    >>> print(project(pruned).messages[-1].parts[0].text[:90])
    [The result of read was left out unsent: about 500 tokens. In pages: read_context_output({
    """
    check_session(session)

    def stub(result: Message, tokens: int) -> str:
        plain = default_stub(result, tokens)
        view = session.view
        shown = view.slots.messages[: view.end]
        # By identity, from the end: an equal result of another turn is another output.
        slot = next((s for s in reversed(range(view.end)) if shown[s] is result), -1)
        item = None if slot < 0 else turn_with(session, view.slots.numbers[slot])
        calls = () if item is None else item.message.calls
        name = next((call.name for call in calls if call.id == result.call), RECALL_NAMES[0])
        if item is None or name in RECALL_NAMES:
            return plain
        return (
            f"[The result of {name} was left out unsent: about {tokens} tokens. "
            f"In pages: {RECALL_NAMES[3]}({_reading(item, result.call)}).]"
        )

    return stub
