"""Let go of what the model has read: `tag_results` asks about results, `forget` acts on it.

An auxiliary model says of a retrieval result whether it must stay or may go. What may go is
replaced by a stub after a completed request has shown it, never before; the call stays answered,
and the stub says what was there and how to have it back. That is a declared break, and its price
is what stands behind the result; so it is taken only where it is expected to pay and its
price has been earned before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from attrs import evolve

from ctxalgebra.effects import ask
from ctxalgebra.errors import InvalidArgument, escaped
from ctxalgebra.explain import carried
from ctxalgebra.ledger import CACHED, FRESH, WRITTEN, mechanism, stake
from ctxalgebra.model.checks import check_callable, check_items, check_text, check_type
from ctxalgebra.model.entries import Answer, Ask, Cut, Drop, Replace
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, Opaque, Text, ToolCall
from ctxalgebra.model.session import Fold, Node, Session, find, fold, no_session
from ctxalgebra.model.view import Measure, View
from ctxalgebra.tokens import ceil_div, chars4, check_positive
from ctxalgebra.transforms.arguments import members
from ctxalgebra.transforms.facts import verdict
from ctxalgebra.transforms.pipeline import CacheState, check_cache
from ctxalgebra.transforms.unsent import shorten, worded

__all__ = ["RETRIEVAL", "default_forgotten", "default_tag_prompt", "forget", "tag_results"]

RETRIEVAL = ("read", "grep", "find", "ls")
"""Tools whose results can be had again by the same call."""

_TOPIC = "tag"
_KEY = re.compile(rf"{_TOPIC}:[0-9]{{1,18}}")
_SHOWN = 200


class _Tags(NamedTuple):
    """What the path knows: targets of open asks, results that may go, calls whose result went."""

    asked: tuple[tuple[int, int], ...] = ()
    may_go: frozenset[int] = frozenset()
    gone: frozenset[tuple[str, str]] = frozenset()


def _same(call: ToolCall) -> tuple[str, str]:
    """Give what two calls have in common that ask for the same: blanks and order do not count."""
    given = members(call.arguments)
    return call.name, call.arguments if given is None else json.dumps(given, sort_keys=True)


def _call_above(node: Node | None, result: Message) -> ToolCall | None:
    """Find the call that a result answers, in the entries in front of it."""
    while node is not None:
        message = carried(node)
        for call in message.calls if message is not None else ():
            if call.id == result.call:
                return call
        node = node.parent
    return None


def _tag(known: _Tags, node: Node, view: View) -> _Tags:
    match node.entry:
        case Ask(topic=topic, key=key) if topic == _TOPIC and _KEY.fullmatch(key):
            return known._replace(asked=(*known.asked, (node.number, int(key[len(_TOPIC) + 1 :]))))
        case Answer(ask=number, outcome=outcome, value=value):
            target = dict(known.asked).get(number)
            if target is None:
                return known
            known = known._replace(asked=tuple(a for a in known.asked if a[0] != number))
            if outcome == "answered" and verdict(value) == "DROP":
                return known._replace(may_go=known.may_go | {target})
            return known
        case Replace(target=target) as decision if target in known.may_go:
            gone = known.gone
            if mechanism(decision) == _TOPIC:
                place = find(Session(node, node), target)
                call = _call_above(place, decision.message)
                gone = gone if call is None else gone | {_same(call)}
            return known._replace(may_go=known.may_go - {target}, gone=gone)
        case Cut() | Drop():
            left = frozenset(n for n in known.may_go if view.slot(n) >= 0)
            return known if left == known.may_go else known._replace(may_go=left)
        case _:
            return known


_TAGS: Fold[_Tags] = Fold("tags", _Tags(), _tag, reads=(Ask, Answer, Replace, Cut, Drop))


def _call(view: View, slot: int) -> ToolCall | None:
    """Find the call that the result in a slot answers."""
    messages = view.slots.messages
    result, index = messages[slot], slot
    while index and messages[index].role == "tool":
        index -= 1
    return next((call for call in messages[index].calls if call.id == result.call), None)


def default_tag_prompt(call: ToolCall, text: str) -> str:
    """Word the question whether a result may go once the model has read it.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> default_tag_prompt(ToolCall("c1", "read"), "...").splitlines()[-1]
    'Answer with exactly one JSON object: {"decision": "RETAIN"} or {"decision": "DROP"}'
    """
    check_type(call, ToolCall, "call")
    check_type(text, str, "text")
    return (
        "You look after the context of a coding agent. Below is the result of a tool call, which "
        "the agent is about to read. Say whether it must stay in the context after that.\n"
        "DROP only if all of this holds: it is raw material that the same call would bring back; "
        "no reasoning will rest on its exact words; what follows stays coherent without it.\n"
        "RETAIN what will be edited or quoted, what is an instruction, what can't be had again, "
        "and whatever you are not sure of.\n"
        f"Tool: {call.name} {escaped(call.arguments[:_SHOWN])}\n"
        f"<result>\n{text}\n</result>\n"
        'Answer with exactly one JSON object: {"decision": "RETAIN"} or {"decision": "DROP"}'
    )


def default_forgotten(call: ToolCall, tokens: int) -> str:
    """Word the stub that stands for a result which was read.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> default_forgotten(ToolCall("c1", "ls"), 12)
    '[ls {} gave about 12 tokens, let go after they were read. Call it again to have them back.]'
    """
    check_type(call, ToolCall, "call")
    check_type(tokens, int, "tokens")
    arguments = escaped(call.arguments[:_SHOWN])
    if len(call.arguments) > _SHOWN:
        arguments = f"{arguments}..."
    return (
        f"[{call.name} {arguments} gave about {tokens} tokens, let go after they were read. "
        "Call it again to have them back.]"
    )


def tag_results(
    session: Session,
    *,
    tools: tuple[str, ...] = RETRIEVAL,
    over: int = 250,
    longest: int = 24,
    shown: int = 2_000,
    horizon: int = 20,
    regret: int = 50,
    aux: int = FRESH,
    measure: Measure = chars4,
    deadline: int = 20_000,
    prompt: Callable[[ToolCall, str], str] = default_tag_prompt,
) -> Session:
    """Ask of each new retrieval result whether it may go once it was read (a stage).

    Results of errors, small and blank ones are not asked about, nor is one whose call, with the
    same arguments (as JSON says them), gave a result that was let go before: who asks again needs
    it. The question is JSON with `longest` (tokens of the reply) and `prompt`. A question has a
    price, too: it is asked when letting the result go would pay for it within the horizon, and
    when that price is covered (`stake`). Nothing is shown otherwise by this; `forget`
    acts on the answers. Without an answer a result stays.

    Args:
        tools: names of the tools whose results are asked about.
        over: tokens; smaller results are not asked about.
        longest: tokens of the reply.
        shown: characters (code points) of a result that the question holds.
        horizon: how many further requests are expected.
        regret: what may be lost at most: one part in so many of what was spent.
        aux: price of a token of the model that answers, in hundredths of an input token.
        measure: tokens of a message.
        deadline: milliseconds for an answer.
        prompt: words the question; its answer is read by `facts.verdict`.

    Reads: unread results, asks. Records: an `Ask` with the topic `tag` for each such result.

    Raises:
        InvalidArgument: `invalid-argument`, a number that is no positive integer; `wrong-type`.

    The rule is that of the working-memory specification, section 6.1.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("a"), assistant(ToolCall("c1", "read")))
    >>> session = record(session, tool_result("c1", "x" * 4000))
    >>> tag_results(session) is session                     # a question is dear so early
    True
    >>> [p.ask.key for p in pending(tag_results(session, regret=1))]
    ['tag:2']
    """
    check_positive(over=over, longest=longest, shown=shown, deadline=deadline, regret=regret)
    _check_counts(horizon=horizon, aux=aux)
    check_items(tools, str, "tools")
    check_callable(prompt, "prompt")
    try:
        view = session.view
    except AttributeError:
        raise no_session(session) from None
    if view.flight >= 0:
        return session
    messages, numbers = view.slots.messages, view.slots.numbers
    for slot in range(view.read, view.end):
        message = messages[slot]
        if message.role != "tool" or message.error or measure(message) < over:
            continue
        call = _call(view, slot)
        if call is None or call.name not in tools:
            continue
        text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        if not text.strip() or _same(call) in fold(session, _TAGS).gone:
            continue
        said = prompt(call, shorten(text, shown))
        check_text(said, "prompt")
        question = worded({"longest": longest, "prompt": said})
        price = aux * ceil_div(len(question), 4)
        gain = measure(message) * CACHED * horizon
        if price <= min(gain, stake(session, regret=regret, aux=aux, measure=measure)):
            key = f"{_TOPIC}:{numbers[slot]}"
            session = ask(session, Ask(key, _TOPIC, question, deadline))
    return session


def _check_counts(**values: int) -> None:
    for name, value in values.items():
        if type(value) is not int or value < 0:
            raise InvalidArgument("invalid-argument", f"{name} must not be negative", field=name)


class _Candidate(NamedTuple):
    number: int
    slot: int
    tokens: int
    saved: int
    stub: Message


def forget(
    session: Session,
    *,
    horizon: int = 20,
    regret: int = 50,
    aux: int = FRESH,
    measure: Measure = chars4,
    cache: CacheState = "unknown",
    stub: Callable[[ToolCall, int], str] = default_forgotten,
) -> Session:
    """Replace what may go, and was read, by stubs, each when that is cheapest (a stage).

    A result that the latest completed request was the first to show is replaced, as a declared
    break, when that is expected to pay within the horizon and its price is covered: by what the
    stages before have saved on this path so far, plus one part in `regret` of what its requests
    have cost. So whatever comes after, the breaks taken here never make a session dearer than by
    that part, as a skier who buys when the rent that was saved pays for it. In `working_memory` it
    stands behind the stages that shape what is unsent; in front of them, it sees what they save one
    call later. Behind a break that is
    pending anyway, and in a cold cache, a replacement is free.

    Args:
        horizon: how many further requests are expected.
        regret: what may be lost at most: one part in so many of what was spent.
        aux: price of a token of the model that answered, in hundredths of an input token.
        measure: tokens of a message.
        cache: state of the provider's cache.
        stub: words the replacement.

    Reads: the answers to `tag_results`, the view, the ledger. Records: `Replace` decisions.

    Raises:
        InvalidArgument: `invalid-argument` for numbers that are no positive integers, or a state of
            the cache that does not exist; `wrong-type`.

    >>> from ctxalgebra import *
    >>> session = record(Session(), user("a"), assistant(ToolCall("c1", "read")))
    >>> session = tag_results(record(session, tool_result("c1", "x" * 40_000)), regret=1)
    >>> session = record(session, Answer(3, "answered", '{"decision":"DROP"}'))
    >>> forget(session, regret=1) is session                           # nobody has read it
    True
    >>> session = reply(send(session)[0], "completed", assistant(ToolCall("c2", "ls")))
    >>> session = record(session, tool_result("c2", "a.py"))
    >>> project(forget(session, regret=1)).messages[2].parts[0].text[:32]
    '[read {} gave about 10000 tokens'
    """
    check_positive(regret=regret)
    _check_counts(horizon=horizon, aux=aux)
    check_cache(cache)
    check_callable(stub, "stub")
    may_go = fold(session, _TAGS).may_go
    view = session.view
    if not may_go or view.flight >= 0:
        return session
    if cache == "cold":
        free = first = 0
    elif view.broke is not None:
        free = first = view.broke.at
    else:
        free, first = view.end, view.fresh
    found = _candidates(view, may_go, max(first, view.front), measure, stub)
    if not found:
        return session
    take, why = [c for c in found if c.slot >= free], "free"
    if not take:
        bank = stake(session, regret=regret, aux=aux, measure=measure)
        take, why = _best(view, found, bank, horizon, measure)
    for candidate in reversed(take):
        slot = session.view.slot(candidate.number)
        # Where a last message that only thought went with the first change, the loop is open again.
        if not session.view.holds_loop(slot + 1):
            reason = f"{_TOPIC}: {candidate.tokens} tokens, read; {why}"
            decision = Replace(candidate.number, candidate.stub, reason, breaks=True)
            session = record(session, decision)
    return session


def _candidates(
    view: View,
    may_go: frozenset[int],
    first: int,
    measure: Measure,
    stub: Callable[[ToolCall, int], str],
) -> list[_Candidate]:
    """List what may go from a slot on and was read, in the order of the slots."""
    found: list[_Candidate] = []
    for slot in range(first, view.read):
        number, message = view.slots.numbers[slot], view.slots.messages[slot]
        call = _call(view, slot) if number in may_go else None
        if call is None or view.holds_loop(slot + 1):
            continue
        tokens = measure(message)
        # What nobody reads here can leave only with its whole message.
        kept = tuple(part for part in message.parts if isinstance(part, Opaque))
        small = evolve(message, parts=(Text(stub(call, tokens)), *kept), origin="")
        if (saved := tokens - measure(small)) > 0:
            found.append(_Candidate(number, slot, tokens, saved, small))
    return found


def _best(
    view: View, found: list[_Candidate], bank: int, horizon: int, measure: Measure
) -> tuple[list[_Candidate], str]:
    """Choose where to break: all that may go from there on goes with one price."""
    end = view.slots.total(measure, view.end)
    best, most, why = len(found), 0, ""
    saved = 0
    for index in range(len(found) - 1, -1, -1):
        saved += found[index].saved
        tail = end - view.slots.total(measure, found[index].slot) - saved
        price = tail * (WRITTEN - CACHED)
        net = saved * CACHED * horizon - price
        if price <= bank and net >= most:
            best, most = index, net
            why = f"pays after {ceil_div(price, saved * CACHED)} requests"
    return found[best:], why
