"""Pages of an output: exact pieces of a text, each with the offset of the next."""

from __future__ import annotations

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.session import Session
from ctxalgebra.recall.history import History, as_history
from ctxalgebra.recall.items import Form
from ctxalgebra.recall.search import LIMITS, check_id, check_range, item_at
from ctxalgebra.recall.texts import CODE_POINTS, Units

__all__ = ["Page", "page", "read_output"]

_FARTHEST = 2**53 - 1


@frozen
class Page:
    """Hold a piece of a text.

    Args:
        offset: where it begins.
        next: where the next piece begins; None behind the last.
        total: the length of the whole text.
        text: the piece. Put together, the pieces are the text.
        form: `text`, as it was recorded; `json` for what is more than one text.
    """

    offset: int
    next: int | None
    total: int
    text: str
    form: Form = "text"


def page(
    text: str,
    *,
    offset: int = 0,
    limit: int = LIMITS.page,
    units: Units = CODE_POINTS,
    form: Form = "text",
) -> Page:
    """Cut a page out of a text.

    Args:
        offset: where it begins, at most the length of the text. Inside a character, which code
            points never are, the page begins in front of it.
        limit: how long it is at most, 1 to 2000. It ends earlier where the units could part a
            character; code points can't.
        units: what both are counted in.
        form: what the page says of the text.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, beyond the limits; with `field`.

    >>> page("abcde", offset=1, limit=3)
    Page(offset=1, next=4, total=5, text='bcd', form='text')
    """
    check_type(text, str, "text")
    check_range(offset, 0, _FARTHEST, "offset")
    check_range(limit, 1, LIMITS.page, "limit")
    total = units.size(text)
    if offset > total:
        raise InvalidArgument("invalid-argument", f"the text ends at {total}", field="offset")
    offset, piece = units.cut(text, offset, limit)
    end = offset + units.size(piece)
    return Page(offset, end if end < total else None, total, piece, form)


def read_output(
    source: Session | History,
    id: str,
    *,
    call: str | None = None,
    index: int | None = None,
    offset: int = 0,
    limit: int = LIMITS.page,
) -> Page:
    """Give a page of what a turn put out: the result of a call, or a part of its message.

    A result that is one text, and a part that is a text, come as they were recorded. Anything else
    comes as JSON; there the arguments of a call stand as the model wrote them.

    Args:
        id: the address of the turn. With it, the id of a call is exact, though other turns may
            have used it too.
        call: whose result.
        index: which part of the assistant's message, as it was recorded. One of the two.
        offset: where the page begins, in code points.
        limit: how long it is at most, 1 to 2000 code points.

    Raises:
        InvalidArgument: `unknown-item`, there is no such turn, result or part;
            `withheld-output`, it is not shown again: thinking, what the library does not read,
            and what recall answered; `wrong-type`; `invalid-argument`, beyond the limits;
            with `field`.

    >>> from ctxalgebra import Session, ToolCall, assistant, record, tool_result
    >>> session = record(Session(), assistant(ToolCall("c1", "read")), tool_result("c1", "abcde"))
    >>> read_output(session, "0", call="c1", limit=3).text
    'abc'
    """
    known = as_history(source)
    check_id(id, "id", known.units)
    if (call is None) == (index is None):
        raise InvalidArgument("invalid-argument", "a call or an index, one of them", field="call")
    if call is not None:
        check_type(call, str, "call")
    if index is not None:
        check_range(index, 0, _FARTHEST, "index")
    check_range(offset, 0, _FARTHEST, "offset")
    check_range(limit, 1, LIMITS.page, "limit")
    text, form = item_at(known, id).record.output(call, index)
    return page(text, offset=offset, limit=limit, units=known.units, form=form)
