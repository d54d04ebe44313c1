"""Cache breakpoints: where a request ends that the provider shall remember.

Some providers write their cache only at breakpoints that the request names (rule C3), so where
those stand decides what an edit near the tail costs. A *place* is the end of something: of
the message with that index, of the system text (`HEAD`), of the tools (`TOOLS`). A breakpoint
stands at a place; what stands in front of it is cached as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from ctxalgebra.cache_profiles import CacheProfile, level
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.loading import immediate, loads
from ctxalgebra.model.checks import check_callable, check_items, check_type
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Image, Message, Opaque, Text, Thinking, ToolCall
from ctxalgebra.model.view import HEAD, Measure, hide_thinking
from ctxalgebra.project import Request
from ctxalgebra.tokens import chars4, check_positive

__all__ = [
    "NOWHERE",
    "TOOLS",
    "Placed",
    "carries",
    "common_messages",
    "common_place",
    "default_breakpoints",
    "keys",
    "last_place",
    "looks_back",
    "plan_breakpoints",
    "rendered",
    "shows_image",
]

TOOLS = -2
"""The place behind the tools, in front of the system text."""

NOWHERE = -3
"""The place in front of everything."""

# Blocks that we do not read and that may carry a breakpoint.
_CARRIERS = frozenset({"document", "mcp_tool_use", "search_result", "server_tool_use"})


def _part_carries(part: object) -> bool:
    if isinstance(part, Text):
        return bool(part.text.strip())
    if isinstance(part, Opaque):
        return part.type in _CARRIERS or part.type.endswith("_tool_result")
    return not isinstance(part, Thinking)


def carries(request: Request, place: int) -> bool:
    """Say whether a breakpoint may stand at a place; thinking (C11) and blank text carry none.

    >>> from ctxalgebra import Head, Request, Thinking, assistant, user
    >>> request = Request(Head(), (user("a"), assistant("b", Thinking("c", "d"))))
    >>> [carries(request, place) for place in (TOOLS, HEAD, 0, 1)]
    [False, False, True, False]
    """
    if place < 0:
        head = request.head
        if place == HEAD:
            return bool(head.system.strip())
        return place == TOOLS and bool(immediate(head).tools)
    message = request.messages[place]
    # The result is one block, whatever it holds.
    return message.role == "tool" or (bool(message.parts) and _part_carries(message.parts[-1]))


@frozen
class Placed:
    """Hold a request and where its breakpoints stand.

    Args:
        request: as it is sent.
        breakpoints: places in ascending order: the index of a message, or `HEAD` or `TOOLS`.
        long: so many of the first ones are kept for the long time. Those of the short time stand
            behind them, as rule C5 wants it.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument` for places out of order, that the request
            does not have, or that carry no breakpoint.
    """

    request: Request
    breakpoints: tuple[int, ...] = ()
    long: int = field(default=0)

    def __attrs_post_init__(self) -> None:
        check_type(self.request, Request, "request")
        check_items(self.breakpoints, int, "breakpoints")
        check_type(self.long, int, "long")
        before = NOWHERE
        for place in self.breakpoints:
            if not before < place < len(self.request.messages) or not carries(self.request, place):
                raise InvalidArgument(
                    "invalid-argument", f"no breakpoint can stand at {place}", field="breakpoints"
                )
            before = place
        if self.long < 0:
            raise InvalidArgument("invalid-argument", "long can't be negative", field="long")


def keys(head: Head) -> tuple[object, object, object]:
    """Give what keys the tools, the system text and the messages besides each other (C1, C10).

    Deferred tools are no part of the prefix (1.2).
    """
    route = head.route
    parameters: dict[str, list[tuple[str, str]]] = {"tools": [], "system": [], "messages": []}
    for name, value in route.parameters:
        reached = level(name, value)
        if reached is not None:
            parameters[reached].append((name, value))
    tools, system, messages = (tuple(found) for found in parameters.values())
    return (
        (route.provider, route.model, immediate(head).tools, tools),
        (head.system, system),
        messages,
    )


def shows_image(messages: tuple[Message, ...], first: int = 0) -> int:
    """Find the first message from index `first` on that shows an image; -1 when none does."""
    for index in range(first, len(messages)):
        if any(type(part) is Image for part in messages[index].parts):
            return index
    return -1


def common_messages(ours: tuple[Message, ...], theirs: tuple[Message, ...], start: int = 0) -> int:
    """Find the first index from `start` on at which two lists differ or the shorter one ends.

    >>> from ctxalgebra import user
    >>> common_messages((user("a"), user("b")), (user("a"), user("c")))
    1
    """
    end = min(len(ours), len(theirs))
    # Nearly always they are equal up to there, which one comparison of slices tells at once.
    if ours[start:end] == theirs[start:end]:
        return end
    return next(i for i in range(start, end) if ours[i] != theirs[i])


def common_place(now: Request, earlier: Request) -> int:
    """Find the last place in front of which a provider sees the same in two requests (C1, C10).

    `NOWHERE` when the model or a tool differs, `TOOLS` when the system text does, `HEAD` when a
    parameter does that keys messages only, or when one of the two shows images and the other none.

    >>> from ctxalgebra import Head, Request, Tool, user
    >>> a = Request(Head(tools=(Tool("read"),)), (user("a"), user("b")))
    >>> b = Request(Head(system="new", tools=(Tool("read"),)), (user("a"), user("b")))
    >>> common_place(a, a), common_place(a, b)
    (1, -2)
    """
    if now.head is not earlier.head and now.head != earlier.head:
        pairs = zip(keys(now.head), keys(earlier.head), strict=True)
        for place, (ours, theirs) in zip((NOWHERE, TOOLS, HEAD), pairs, strict=True):
            if ours != theirs:
                return place
    same = common_messages(now.messages, earlier.messages)
    if now.head != earlier.head:
        # A deferred tool stands where it is loaded.
        ours, theirs = loads(now.head, now.messages), loads(earlier.head, earlier.messages)
        moved = [at for at in ours.keys() | theirs.keys() if ours.get(at) != theirs.get(at)]
        same = min([same, *moved])
    # What both show says nothing of a difference, unless only one shows an image behind it.
    image = shows_image(now.messages, same) >= 0
    if image != (shows_image(earlier.messages, same) >= 0) and (
        shows_image(now.messages[:same]) < 0
    ):
        return HEAD
    return same - 1


def rendered(request: Request, profile: CacheProfile) -> Request:
    """Give the request as the model sees it: some lose earlier thinking when a user speaks (C11).

    >>> from ctxalgebra import Head, Request, Thinking, assistant, user
    >>> request = Request(Head(), (user("a"), assistant(Thinking("b"), "c"), user("d")))
    >>> len(rendered(request, CacheProfile(strips=True)).messages[1].parts)
    1
    """
    messages = request.messages
    if not profile.strips or not any(message.thinks for message in messages):
        return request
    spoken = max((i for i, m in enumerate(messages) if m.role == "user"), default=0)
    earlier = tuple(hide_thinking(message) for message in messages[:spoken])
    return Request(request.head, earlier + messages[spoken:])


def last_place(request: Request, place: int) -> int:
    """Find the last place up to this one that carries a breakpoint, or `NOWHERE`."""
    while place > NOWHERE and not carries(request, place):
        place -= 1
    return place


def _runs(message: Message) -> list[str]:
    """List the positions of a message: its blocks, each run of calls as one (C3)."""
    if message.role == "tool":
        return ["result"]
    runs: list[str] = []
    for part in message.parts:
        kind = "call" if type(part) is ToolCall else "block"
        if kind == "block" or runs[-1:] != ["call"]:
            runs.append(kind)
    return runs


def looks_back(request: Request, place: int, lookback: int = 20) -> Iterator[int]:
    """Give the places that a breakpoint looks at for an entry, itself first (C3).

    It walks back over so many positions, itself included. A block is a position; so are a run of
    calls, a run of results, the system text and each tool.

    >>> from ctxalgebra import Head, Request, user
    >>> list(looks_back(Request(Head(system="s"), tuple(map(user, "abc"))), 2, 3))
    [2, 1, 0]
    """
    behind = ""
    for index in range(place, HEAD, -1):
        runs = _runs(request.messages[index])
        if not runs:
            continue
        # A run that goes on in the message behind was counted there.
        lookback -= behind == "block" or runs[-1] != behind
        if lookback < 0:
            return
        yield index
        lookback -= len(runs) - 1
        behind = runs[0]
    if place >= HEAD and request.head.system:
        lookback -= 1
        if lookback < 0:
            return
        yield HEAD
    if place >= TOOLS and immediate(request.head).tools and lookback > 0:
        yield TOOLS


def _first_place(request: Request, minimum: int, measure: Measure) -> int:
    """Find the first place with so many tokens in front of it; behind the last one when none is."""
    head = immediate(request.head)
    if measure(evolve(head, system="")) >= minimum:
        return TOOLS
    tokens = measure(head)
    if tokens >= minimum:
        return HEAD
    loaded = loads(request.head, request.messages)
    for index, message in enumerate(request.messages):
        tokens += measure(message)
        if index in loaded:
            tokens += measure(Head(tools=loaded[index]))
        if tokens >= minimum:
            return index
    return len(request.messages)


def default_breakpoints(request: Request, *, tail: int = 1) -> Placed:
    """Place breakpoints as harnesses do: behind system text and tools, and behind the last message.

    Args:
        tail: how many of the last user turns get one, results included; many harnesses mark two.

    Raises:
        InvalidArgument: `invalid-argument`, no positive `tail`; `wrong-type`.

    >>> from ctxalgebra import Head, Request, assistant, user
    >>> request = Request(Head(system="s"), (user("a"), assistant("b"), user("c")))
    >>> default_breakpoints(request).breakpoints, default_breakpoints(request, tail=2).breakpoints
    ((-1, 2), (-1, 0, 2))
    """
    check_type(request, Request, "request")
    check_positive(tail=tail)
    messages = request.messages
    places = {last_place(request, HEAD)}
    index = len(messages) - 1
    places.add(last_place(request, index))
    for _ in range(min(tail, len(messages)) - 1):
        while index >= 0 and messages[index].role != "assistant":
            index -= 1
        while index >= 0 and messages[index].role == "assistant":
            index -= 1
        places.add(last_place(request, index))
    return Placed(request, tuple(sorted(places - {NOWHERE})))


def plan_breakpoints(
    previous: Placed | None,
    now: Request,
    profile: CacheProfile,
    *,
    long: int = 0,
    measure: Measure = chars4,
) -> Placed:
    """Place the breakpoints of a request so that what the previous one wrote is read (a query).

    In the order of importance, as many as there may be:

    * behind the last message;
    * at the end of the prefix that the two requests share;
    * at the last entry in front of it, if the look-back does not reach that;
    * behind the head;
    * as far from the end as the edit was, where that is near: the next one will often be there;
    * behind the last user turn but one, if it is new;
    * where the previous ones stand.

    None stands below the minimum, where it would be ignored. Where nothing changed, nothing moves.

    Costs what the two requests don't share, and the search for the minimum.

    Args:
        previous: the request before this one with its breakpoints, as this function gave them;
            None for the first request, and for one in a cold cache.
        now: the request that is about to leave.
        profile: of the model that it goes to (`cache_profile`).
        long: so many of the first breakpoints are kept for the long time.
        measure: tokens of a message or head.

    Provider rules C2, C3, C4, C10, and section 4 there.

    Raises:
        InvalidArgument: `invalid-argument`, a negative `long`; `wrong-type`.

    >>> from ctxalgebra import Head, Request, Route, user
    >>> from ctxalgebra.cache_profiles import cache_profile
    >>> profile = cache_profile(Route("anthropic", "claude-opus-5-5"))
    >>> a, b = user("a" * 4000), user("b" * 4000)
    >>> first = plan_breakpoints(None, Request(Head(), (a, b)), profile)
    >>> plan_breakpoints(first, Request(Head(), (a, b, user("c"))), profile).breakpoints
    (1, 2)
    """
    if previous is not None:
        check_type(previous, Placed, "previous")
    check_type(now, Request, "now")
    check_type(profile, CacheProfile, "profile")
    check_callable(measure, "measure")
    seen = rendered(now, profile)
    end = last_place(now, len(now.messages) - 1)
    floor = _first_place(seen, profile.minimum, measure)
    wanted, known, shared, edited = [end], list[int](), NOWHERE, 0
    if previous is not None:
        common = common_place(seen, rendered(previous.request, profile))
        shared = last_place(now, common)
        known = [place for place in reversed(previous.breakpoints) if floor <= place <= common]
        wanted.append(shared)
        if known and known[0] not in looks_back(seen, shared, profile.lookback):
            wanted.append(known[0])
        edited = len(previous.request.messages) - 1 - common
    wanted.append(last_place(now, HEAD))
    forecast = last_place(now, max(len(now.messages) - 1 - edited, NOWHERE))
    if forecast in looks_back(seen, end, profile.lookback):
        wanted.append(forecast)
    turns = reversed(default_breakpoints(now, tail=2).breakpoints)
    wanted += [*(place for place in turns if place > shared), *known]
    places = [place for place in dict.fromkeys(wanted) if place >= floor]
    return Placed(now, tuple(sorted(places[: profile.breakpoints])), long)
