"""Do the laws have teeth? Each mutant damages one thing, and a named law must notice.

The tables are data: what is damaged, the law that dies of it, and how it is done. A rule of the
gate that no law notices when it is switched off is either a missing law or needless. The same
tables stand in the reference.
"""

from __future__ import annotations

import inspect
import random
import sys
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import pytest
import test_digest
import test_limit
import test_writes
from attrs import evolve
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

import ctxalgebra
from ctxalgebra import (
    RULES,
    Answer,
    Break,
    CtxError,
    Cut,
    Drop,
    Head,
    IllegalDecision,
    Message,
    Replace,
    Reply,
    Request,
    Sent,
    Session,
    Strip,
    assistant,
    at_leaf,
    chars4,
    estimate,
    exchanges,
    log,
    path,
    record,
    select,
    user,
)
from ctxalgebra.laws import LAWS, fits_budget, verdict
from ctxalgebra.laws.strategies import journals, sessions, stages
from ctxalgebra.model.view import Slots

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "laws.md"
BUDGET = 40
BY_NAME = {law.name: law for law in (*LAWS, fits_budget(budget=BUDGET))}

# By name: some modules are hidden by functions that are called like them.
(
    account,
    events,
    gate,
    journal,
    view,
    pruning,
    selecting,
    limiting,
    unsent,
    digesting,
    writing,
    arguments,
) = (
    sys.modules[f"ctxalgebra.{name}"]
    for name in (
        "account",
        "events",
        "model.gate",
        "model.session",
        "model.view",
        "transforms.prune",
        "transforms.select",
        "transforms.limit",
        "transforms.unsent",
        "transforms.digest",
        "transforms.writes",
        "transforms.arguments",
    )
)


# Tools for damage: each takes the sound function as its first argument


def step(kind, new):
    """Damage what an entry of a kind does to the view."""
    return lambda mp: mp.setitem(view.STEPS, kind, partial(new, view.STEPS[kind]))


def inside(module, name, new):
    """Damage a function for its own module."""
    return lambda mp: mp.setattr(module, name, partial(new, getattr(module, name)))


def put(module, name, value):
    """Put something else in a name of a module."""
    return lambda mp: mp.setattr(module, name, value, raising=False)


def everywhere(module, name, new):
    """Damage a function for all who imported it."""

    def patch(mp):
        sound = getattr(module, name)
        for user_of in list(sys.modules.values()):
            known = user_of.__name__.startswith("ctxalgebra")
            if known and vars(user_of).get(name) is sound:
                mp.setattr(user_of, name, partial(new, sound))
        if vars(sys.modules[__name__]).get(name) is sound:
            mp.setattr(sys.modules[__name__], name, partial(new, sound))

    return patch


# Damage to the view


def steering_between_results(sound, now, number, message):
    if now.open and message.role != "tool":
        slots = view._append(now.slots, now.end, number, message)
        return now._replace(slots=slots, end=now.end + 1)
    return sound(now, number, message)


def in_order_of_arrival(sound, now, number, message):
    if message.call in now.open:
        came = (*now.results, message.call)
        now = now._replace(open=(*came, *(call for call in now.open if call not in came)))
    return sound(now, number, message)


def white_space_shown(sound, now, number, message):
    after = sound(now, number, message)
    if message.empty and message.role == "user" and after.end == now.end and not now.open:
        slots = view._append(now.slots, now.end, number, message)
        return after._replace(slots=slots, end=now.end + 1)
    return after


def read_when_failed(sound, now, number, reply):
    after = sound(now, number, reply)
    return after._replace(read=now.fixed) if reply.outcome == "failed" else after


def shown_when_failed(sound, now, number, reply):
    return sound(now, number, evolve(reply, outcome="completed") if reply.message else reply)


def waiting_forgotten(sound, now, number, reply):
    return sound(now._replace(waiting=()), number, reply)


def all_but_one_sent(sound, now, number, sent):
    return sound(now, number, sent)._replace(fixed=max(now.end - 1, 0))


def counting_notice(sound, now, number, sent):
    if now.front:
        messages = [user(f"notice of request {number}"), *now.messages()[1:]]
        now = now._replace(slots=Slots(messages, now.slots.numbers[: now.end]))
    return sound(now, number, sent)


def breaks_not_compared(sound, now, number, sent):
    broke = now.broke and evolve(now.broke, sent=number)
    return sound(now, number, sent)._replace(broke=broke)


def strip_undone(mp):
    """Let a strip hold for one request only."""
    before = []

    def strip(sound, now, number, entry):
        before[:] = [now]
        return sound(now, number, entry)

    def reply(sound, now, number, entry):
        after = sound(now, number, entry)
        numbers = after.slots.numbers[: after.end]
        if before and numbers[: before[0].end] == before[0].slots.numbers[: before[0].end]:
            was = before.pop()
            messages = [*was.messages(), *after.messages()[was.end :]]
            return after._replace(slots=Slots(messages, numbers))
        return after

    step(Strip, strip)(mp)
    step(Reply, reply)(mp)


def read_mark_unmoved(sound, now, number, cut):
    after = sound(now, number, cut)
    return after._replace(read=min(now.read, after.end))


def kept_unprotected(sound, now, number, cut):
    return sound(now, number, cut)._replace(front=1)


def thinking_behind_drop(sound, now, number, drop):
    last = now.slot(drop.last) + 1
    after = sound(now, number, drop)
    rest = now.slots.messages[last : now.end]
    if now.slots.numbers[last : now.end] != after.slots.numbers[after.end - len(rest) : after.end]:
        return after
    messages = [*after.messages()[: after.end - len(rest)], *rest]
    return after._replace(slots=Slots(messages, after.slots.numbers[: after.end]))


def head_unnoticed(sound, now, number, head):
    return now._replace(head=head)


def not_forked(sound, slots, end, number, message):
    slots.messages[end:] = [message]
    slots.numbers[end:] = [number]
    return slots


def rewritten_in_place(sound, now, *args, **kwargs):
    after = sound(now, *args, **kwargs)
    now.slots.messages[:] = after.slots.messages
    now.slots.numbers[:] = after.slots.numbers
    return after


def break_one_late(sound, now, *args, **kwargs):
    after = sound(now, *args, **kwargs)
    if after.broke is None or after.broke is now.broke or after.broke.at < 0:
        return after
    return after._replace(broke=evolve(after.broke, at=after.broke.at + 1))


def break_of_what_was_not_sent(sound, now, number, why, at, *args, **kwargs):
    after = sound(now, number, why, at, *args, **kwargs)
    if now.sent is None or at != now.fixed:
        return after
    known = now.broke or Break(-1, at, "", ())
    return after._replace(broke=Break(-1, min(at, known.at), known.why + why, (*known.by, number)))


def by_the_old_binding(sound, now, number, head):
    after = sound(now, number, head)
    unbound = now.head.route.binding == "none"
    return now._replace(head=head, broke=after.broke) if unbound else after


# Damage to sessions, queries and events


def stale_checkpoint(sound, session, entry):
    after = sound(session, entry)
    if after.leaf.kept is not None:
        stale = {what: session.folds.get(what, what.init) for what in after.leaf.kept}
        object.__setattr__(after.leaf, "kept", {**stale, journal._VIEW: after.view})
    return after


def stale_view(sound, session, entry):
    after = sound(session, entry)
    if after.leaf.kept is not None:
        after.leaf.kept[journal._VIEW] = session.view
    return after


def folds_carried_along(sound, session, number):
    after = sound(session, number)
    return Session(after.leaf, after.last, after.view, dict(session.folds))


def pickled_at_the_end(mp):
    def reduce(session):
        entries, _ = journal._plain(session)
        return journal._rebuild, (entries, len(entries) - 1)

    mp.setattr(Session, "__reduce__", reduce)


def ephemeral(sound, session):
    request = sound(session)
    return evolve(request, messages=(*request.messages, user(f"entry {len(session)}")))


def head_of_today(sound, session):
    return tuple(Request(session.head, request.messages) for request in sound(session))


def reported_once_more(sound, node, sent):
    return None, sound(node, sent)[1]


def first_report_holds(sound, node, sent):
    usage, completed = sound(node, sent)
    while usage is not None and (node := node.previous).number > sent:
        usage = sound(node, sent)[0] or usage
    return usage, completed


def first_reply_holds(sound, node, sent):
    usage, completed = sound(node, sent)
    while (node := node.previous).number > sent:
        if isinstance(node.entry, Reply) and account._request(node) == sent:
            completed = node.entry.outcome == "completed"
    return usage, completed


def all_rebilled(sound, now, measure):
    shared, rebilled, fresh = sound(now, measure)
    return shared, rebilled + fresh, 0


def nothing_is_cut(sound, session, number):
    told = sound(session, number)
    return evolve(told, state="shown") if told.state == "cut" else told


def in_front_of_decisions(sound, session, node):
    return sound(session, node) if type(node.entry) is Sent else node.number


def behind_anything(sound, session, node):
    landing = sound(session, node)
    for later in log(session)[max(landing, 0) :]:
        events = Message | Sent | Reply
        if later.parent and later.parent.number == landing and not isinstance(later.entry, events):
            landing = later.number
    return landing


def head_not_stated_again(sound, session, target):
    after = sound(session, target)
    last = after.leaf.entry if after.leaf is not None else None
    return at_leaf(after, after.leaf.parent.number) if type(last) is Head else after


def no_break_foretold(sound, stage, session, **kwargs):
    return evolve(sound(stage, session, **kwargs), broke=None)


# Damage to stages


def cuts_unread(sound, now):
    return sound(now._replace(read=now.end))


def nearest_cut_only(sound, now):
    places, active = sound(now)
    return places[:1], active


def cuts_more_each_time(sound, session, *, budget, **kwargs):
    less = min(budget, max(1, estimate(session) * 3 // 4))
    return sound(session, budget=less, target=less, **kwargs)


def another_object(sound, session, **kwargs):
    after = sound(session, **kwargs)
    return Session(after.leaf, after.last, after.view, dict(after.folds))


def looks_at_all_branches(sound, session, *, budget, **kwargs):
    here = {node.number for node in path(session)}
    elsewhere = [node.entry for node in log(session) if node.number not in here]
    used = sum(chars4(entry) for entry in elsewhere if isinstance(entry, Message))
    return sound(session, budget=max(1, budget - used), **kwargs)


def forgets_an_entry(sound, session, **kwargs):
    after = sound(session, **kwargs)
    if after.last is None or after.last.previous is None:
        return after
    return at_leaf(Session(None, after.last.previous), -1)


def edits_in_place(sound, session, **kwargs):
    after = sound(session, **kwargs)
    if after is not session:
        session.view.slots.messages[0] = user("edited")
    return after


def asks_a_clock(mp):
    ticks = random.Random(0)  # no pattern that an even number of calls would hide

    def moody(sound, session, **kwargs):
        return sound(session, **kwargs) + ticks.choice((0, 100))

    inside(selecting, "estimate", moody)(mp)


def drops_undeclared(first, last, why, *, breaks):
    return Drop(first, last, why, breaks=not breaks)


def drops_unread(sound, session, over, measure, stub):
    now = session.view
    for start, stop in exchanges(now.slots.messages, now.front, now.end):
        if stop > now.read and sum(map(measure, now.slots.messages[start:stop])) > over:
            numbers = now.slots.numbers
            return record(session, Drop(numbers[start], numbers[stop - 1], "large", breaks=True))
    return session


GATE = (
    ("in-flight", "a decision while a request is in flight", "thinking-binding"),
    ("open-call", "a request with calls open", "protocol-validity"),
    ("orphan-result", "a result that answers nothing", "conservation"),
    ("duplicate-result", "a call answered twice", "progress"),
    ("duplicate-call", "one id for two calls", "progress"),
    ("missing-id", "a call without an id", "progress"),
    ("empty-request", "a request without messages", "protocol-validity"),
    ("no-request", "a reply to nothing", "accounts"),
    ("no-message", "a completed reply without its message", "conservation"),
    ("wrong-role", "a reply by another than the model", "protocol-validity"),
    ("unknown-request", "usage of what is no request", "references"),
    ("unknown-entry", "a label on nothing", "references"),
    ("unknown-ask", "an answer to nothing, or a second one", "references"),
    ("frontier-retreat", "a cut through what an earlier cut kept", "forward-only-frontier"),
    ("not-shown", "a decision on what is not shown", "conservation"),
    ("frozen-notice", "a notice replaced", "frozen-notice"),
    ("unread", "a message cut or dropped unread", "no-unread-drop"),
    ("split-exchange (cut)", "a cut between a call and its result", "protocol-validity"),
    ("split-exchange (drop)", "a drop of a call without its result", "protocol-validity"),
    ("bad-keep", "a cut that keeps what it may not", "conservation"),
    ("bad-notice", "a notice that is empty or no user's", "protocol-validity"),
    ("changed-role", "a replacement of another role, call or error flag", "faithful"),
    ("changed-calls", "a replacement that loses or renames a call", "faithful"),
    ("changed-type", "arguments of another JSON type", "faithful"),
    ("changed-opaque", "a replacement that brings thinking back", "thinking-binding"),
    ("signed-call", "a signed call rewritten", "faithful"),
    ("empty-replacement", "a message replaced by nothing", "protocol-validity"),
    ("no-change (replace)", "a replacement by the same", "effective"),
    ("no-change (strip)", "a strip where nothing thinks", "effective"),
    ("silent-break", "a change of what was sent, not declared", "prefix-extension"),
    ("open-loop", "an open loop without its leading thinking", "leading-thinking"),
)
"""Each rule of the gate, switched off: its code, what gets in, the law that dies of it."""

KINDS = {"(cut)": Cut, "(drop)": Drop, "(replace)": Replace, "(strip)": Strip}

CODE = (
    ("view", "results in the order of arrival", "call-order",
     step(Message, in_order_of_arrival)),
    ("view", "a steering message between results", "protocol-validity",
     step(Message, steering_between_results)),
    ("view", "white space shown", "protocol-validity", step(Message, white_space_shown)),
    (
        "view",
        "white space shown beside calls",
        "provider-validity",
        put(view, "hide_blanks", lambda message: message),
    ),
    ("view", "a failed reply read as read", "no-unread-drop", step(Reply, read_when_failed)),
    ("view", "a failed reply shown", "conservation", step(Reply, shown_when_failed)),
    ("view", "a message lost that waited for the reply", "conservation",
     step(Reply, waiting_forgotten)),
    ("view", "thinking kept behind an edit", "thinking-binding",
     inside(view, "_bound", lambda sound, now, slot: now.end)),
    ("view", "thinking kept behind an edit in its own message", "thinking-binding",
     inside(view, "replaced", lambda sound, shown, message, bound: message)),
    ("view", "thinking kept behind a drop", "thinking-binding", step(Drop, thinking_behind_drop)),
    ("view", "thinking that comes back", "thinking-binding", strip_undone),
    ("view", "a change of head that is no break", "no-silent-break", step(Head, head_unnoticed)),
    ("view", "the read mark not moved by a cut", "no-unread-drop", step(Cut, read_mark_unmoved)),
    ("view", "kept messages not protected", "forward-only-frontier", step(Cut, kept_unprotected)),
    ("view", "the last message not counted as sent", "prefix-extension",
     step(Sent, all_but_one_sent)),
    ("view", "a notice that changes between requests", "frozen-notice",
     step(Sent, counting_notice)),
    ("view", "a break listed that was taken back", "no-false-alarm",
     step(Sent, breaks_not_compared)),
    ("view", "a break listed one message late", "no-false-alarm",
     inside(view, "_rewrite", break_one_late)),
    ("view", "a break laid to a change of what was not sent", "no-false-alarm",
     inside(view, "_rewrite", break_of_what_was_not_sent)),
    ("view", "thinking kept behind a head that binds it, unbound before", "thinking-binding",
     step(Head, by_the_old_binding)),
    ("view", "the shared array not forked on divergence", "append-only",
     inside(view, "_append", not_forked)),
    ("view", "the shared array not forked on divergence", "branch-isolation",
     inside(view, "_append", not_forked)),
    ("view", "the shared array rewritten by a decision", "append-only",
     inside(view, "_rewrite", rewritten_in_place)),
    ("view", "an ask pending after its answer", "references",
     step(Answer, lambda sound, now, number, answer: now)),
    ("session", "folds kept wrong at checkpoints", "replay",
     everywhere(journal, "append", stale_checkpoint)),
    ("session", "the view kept wrong at checkpoints", "replay",
     everywhere(journal, "append", stale_view)),
    ("session", "folds of the other branch carried along", "replay",
     everywhere(journal, "at_leaf", folds_carried_along)),
    ("session", "a leaf lost by pickling", "replay", pickled_at_the_end),
    ("project", "an ephemeral message in each request", "sent-requests-are-frozen",
     everywhere(ctxalgebra, "project", ephemeral)),
    ("project", "old requests under the head of today", "sent-requests-are-frozen",
     everywhere(ctxalgebra, "requests", head_of_today)),
    ("account", "usage counted twice", "accounts",
     inside(account, "_reported", reported_once_more)),
    ("account", "fresh tokens counted as rebilled", "accounts",
     inside(account, "split", all_rebilled)),
    ("account", "the first report held for the last", "accounts",
     inside(account, "_reported", first_report_holds)),
    ("account", "the first reply held for all", "accounts",
     inside(account, "_reported", first_reply_holds)),
    ("account", "a dry run that hides the break", "dry-run-foretells",
     everywhere(account, "dry_run", no_break_foretold)),
    ("explain", "what was cut explained as shown", "conservation",
     everywhere(ctxalgebra, "explain", nothing_is_cut)),
    ("travel", "a landing in front of the decisions", "travel-returns-the-request",
     inside(events, "_landing", in_front_of_decisions)),
    ("travel", "the head not stated again", "travel-returns-the-request",
     everywhere(events, "travel", head_not_stated_again)),
    ("travel", "a landing behind what is no decision", "travel-returns-the-request",
     inside(events, "_landing", behind_anything)),
    ("select", "a cut through what is unread", "totality",
     inside(selecting, "_places", cuts_unread)),
    ("select", "the nearest cut, whatever it leaves", "fits-budget",
     inside(selecting, "_places", nearest_cut_only)),
    ("select", "a further cut at each call", "idempotence",
     everywhere(selecting, "select", cuts_more_each_time)),
    ("select", "another object where nothing is to do", "quiet",
     everywhere(selecting, "select", another_object)),
    ("select", "a budget that other branches use up", "branch-isolation",
     everywhere(selecting, "select", looks_at_all_branches)),
    ("select", "an entry forgotten", "appends", everywhere(selecting, "select", forgets_an_entry)),
    ("select", "a message edited in place", "inputs-unchanged",
     everywhere(selecting, "select", edits_in_place)),
    ("select", "an estimate that reads a clock", "determinism", asks_a_clock),
    ("prune", "a drop not declared", "totality", put(pruning, "Drop", drops_undeclared)),
    ("prune", "a drop of what is unread", "totality",
     inside(pruning, "_exchanges", drops_unread)),
)  # fmt: skip
"""Everything else: where, what is damaged, the law that dies of it, and how to do it."""


def edited(function, old, new):
    """Change a piece of a function's source, for all who imported it."""

    def patch(mp):
        source = inspect.getsource(function)
        assert source.count(old) == 1, old
        names = {}
        exec(source.replace(old, new), vars(sys.modules[function.__module__]), names)
        mp.setattr(function, "__code__", names[function.__name__].__code__)

    return patch


MARKS = "max(view.fixed, view.read, view.front)"
RULES_OF_STAGES = (
    ("unsent", "a result settled anew at each call",
     partial(test_limit.test_a_long_result_is_cut_before_it_is_sent, False),
     edited(unsent.settled, "in fold(session, _SETTLED)", "in ()")),
    ("unsent", "a result settled that was sent in a request that failed",
     partial(test_limit.test_what_was_sent_once_stays_as_it_is, "failed"),
     edited(unsent.exchanges_unsent, MARKS, "max(view.read, view.front)")),
    ("unsent", "a result settled that a recorded reply has read",
     test_limit.test_what_a_recorded_reply_proves_read_stays_as_it_is,
     edited(unsent.exchanges_unsent, MARKS, "max(view.fixed, view.front)")),
    ("unsent", "a fact applied that came too late",
     test_writes.test_a_fact_that_comes_too_late_is_recorded_and_never_applied,
     edited(unsent.exchanges_unsent, MARKS, "view.front")),
    ("limit", "a result cut while its save is out",
     test_limit.test_while_the_save_is_out_the_result_stays_whole,
     edited(limiting.limit_output, "if not place:", "if False:")),
    ("limit", "a result cut whose save failed",
     partial(test_limit.test_without_a_place_the_result_stays_whole, "failed", "disk full"),
     edited(limiting._saved, 'answer.outcome == "answered"', "True")),
    ("limit", "a view cut, with its figures",
     partial(test_limit.test_a_compacted_view_is_never_cut, "read"),
     edited(limiting.limit_output, 'original if by == "compact" else result', "result")),
    ("limit", "a result made longer",
     test_limit.test_a_result_is_never_longer_than_it_was,
     edited(limiting.limit_output, "small.characters < result.characters", "True")),
    ("limit", "a text shown behind the cut",
     test_limit.test_a_text_without_room_goes_and_a_later_one_does_not_come_back,
     edited(limiting.limited, "elif not cut:", "else:")),
    ("limit", "a budget for each text",
     test_limit.test_parts_keep_their_places_around_the_cut,
     edited(limiting.limited, "room.bytes - size.bytes, room.lines", "room.bytes, room.lines")),
    ("digest", "a failed command shown whole",
     test_digest.test_a_failed_command_is_digested_too_and_keeps_its_last_lines,
     edited(digesting.digest_output, "if measure(original) < over:",
            "if result.error or measure(original) < over:")),
    ("digest", "a note of the host told on",
     partial(test_digest.test_no_path_to_the_output_leaks, "answered", False),
     edited(digesting.digest_output, "sanitize_output(", "str(")),
    ("digest", "a digest used that is no smaller",
     partial(test_digest.test_without_a_digest_the_end_is_shown_with_true_figures,
             "answered", test_digest.LOG * 2),
     edited(digesting.digest_output, "measure(shown) >= measure(whole)", "False")),
    ("digest", "a digest of what another stage left",
     partial(test_digest.test_in_any_order_with_other_stages_one_question_is_asked_and_the_digest_holds,
             ctxalgebra.limit_output, 1),
     edited(digesting.digest_output, "carried(find(session, number)) or result", "result")),
    ("writes", "a fact of a write that failed",
     test_writes.test_a_write_that_failed_stays_and_says_nothing,
     edited(writing._settle, "or result.error", "")),
    ("writes", "a signed call rewritten",
     partial(test_writes.test_calls_that_pass, test_writes.write(signature="g")),
     edited(writing._settle, "or call.signature", "")),
    ("writes", "thinking lost behind a call",
     partial(test_writes.test_no_thinking_is_lost, "prefix"),
     edited(writing._settle, "or at < bound", "")),
    ("writes", "a message settled before all its facts are there",
     test_writes.test_a_message_waits_for_all_its_facts,
     edited(writing._settle, "if waits or not facts:", "if not facts:")),
    ("writes", "a fact longer than what it stands for",
     test_writes.test_a_fact_that_is_longer_than_what_it_stands_for_is_not_used,
     edited(writing._settle, "if gain > 0:", "if True:")),
    ("writes", "a text of another member left out",
     partial(test_writes.test_calls_that_pass,
             test_writes.write('{"path":"a","content":["' + "x" * 900 + '"]}')),
     edited(writing._written, "place.way in _WAYS", "place.way[0] == 'content'")),
    ("arguments", "nesting without an end",
     partial(test_writes.test_calls_that_pass,
             test_writes.write('{"path":"a","content":"' + "x" * 900 + '","n":'
                               + "[" * 40 + "]" * 40 + "}")),
     edited(arguments.members, "if most > DEPTH:", "if False:")),
)  # fmt: skip
"""Rules of stages that no law speaks of: where, the damage, the test that dies, and how."""


def switched_off(name):
    """Switch one rule of the gate off."""
    code, _, kind = name.partition(" ")
    (rule,) = (r for r in RULES if r.code == code and (not kind or KINDS[kind] in r.kinds))

    def patch(mp):
        for asked, rules in gate._BY_KIND.items():
            mp.setitem(gate._BY_KIND, asked, tuple(r for r in rules if r is not rule))

    return rule, patch


class Noticed(Exception):
    """A law says what is broken."""


def searched(law):
    """Give the strategies that a law is searched with, and the arguments that it takes."""
    if law.kind in ("invariant", "preorder"):
        return [st.tuples(journals()), st.tuples(sessions())]
    stage = stages()
    if law.kind == "goal":
        # Looked up late: damage may have replaced it.
        stage = st.builds(lambda: partial(select, budget=BUDGET))
    return [st.tuples(stage, journals()), st.tuples(stage, sessions())]


CHOSEN = {"derandomize": True}


@pytest.fixture(autouse=True, scope="module")
def other_examples(pytestconfig):
    """Let --hypothesis-seed choose other examples than those that CI sees."""
    CHOSEN["derandomize"] = pytestconfig.getoption("--hypothesis-seed") is None


def search(values, judge):
    """Search in the ci profile, whatever profile runs."""
    ci = settings.get_profile("ci")

    @settings(ci, phases=(Phase.generate,), **CHOSEN)
    @given(values)
    def look(given_values):
        judge(given_values)

    look()


def hunt(name):
    """Look for what breaks a law; give its sentence, None when nothing was found."""
    law = BY_NAME[name]
    found = []

    def judge(values):
        if what := verdict(law, *values):
            found.append(what)
            raise Noticed(what)

    for values in searched(law):
        # What is damaged may be flaky; that is noticed, too.
        with suppress(Noticed, Flaky):
            search(values, judge)
        if found:
            return found[0]
    return None


@cache
def drawn(kind):
    """Draw once, for all laws of a kind, what a search looks at."""
    found = []
    for values in searched(next(law for law in BY_NAME.values() if law.kind == kind)):
        search(values, found.append)
    return found


@pytest.mark.parametrize(("name", "damage", "law"), GATE, ids=[row[0] for row in GATE])
def test_a_rule_of_the_gate_switched_off_is_noticed(name, damage, law, monkeypatch):
    switched_off(name)[1](monkeypatch)
    assert hunt(law), f"{law} holds with {damage}"


@pytest.mark.parametrize(
    ("where", "damage", "law", "patch"), CODE, ids=[f"{row[0]}: {row[1]}" for row in CODE]
)
def test_damaged_code_is_noticed(where, damage, law, patch, monkeypatch):
    patch(monkeypatch)
    assert hunt(law), f"{law} holds with {damage} in {where}"


@pytest.mark.parametrize(
    ("where", "damage", "test", "patch"),
    RULES_OF_STAGES,
    ids=[f"{row[0]}: {row[1]}" for row in RULES_OF_STAGES],
)
def test_a_rule_of_a_stage_has_a_test_that_dies(where, damage, test, patch, monkeypatch):
    test()
    patch(monkeypatch)
    with pytest.raises((AssertionError, CtxError, RecursionError, ValueError)):
        test()


@pytest.mark.parametrize("law", sorted({row[2] for row in (*GATE, *CODE)}))
def test_without_damage_the_law_holds(law):
    law = BY_NAME[law]
    alike = {"preorder": "invariant", "equation": "function"}
    for values in drawn(alike.get(law.kind, law.kind)):
        assert verdict(law, *values) is None


def test_every_rule_of_the_gate_has_a_row():
    rules = [switched_off(name)[0] for name, _, _ in GATE]
    assert len(rules) == len(set(map(id, rules))) == len(RULES)


def test_every_law_of_the_library_has_a_mutant():
    assert {row[2] for row in (*GATE, *CODE)} == set(BY_NAME)


def test_a_refusal_is_all_that_a_rule_does():
    # What a mutant lets in is what the sound gate refuses: the patch is undone behind each test.
    session = record(Session(), user("hi"))
    with pytest.raises(ctxalgebra.ProtocolViolation, match="no-request"):
        record(session, Reply("lost"))


def test_a_cut_through_the_frontier_itself_is_a_retreat():
    """Another rule would refuse it, too; the code says that it has left, not that it never was."""
    session = record(Session(), user("a"), assistant("b"), user("c"))
    session = record(session, Cut(1, user("notice"), "why"))
    for through in (0, 1):
        with pytest.raises(IllegalDecision, match="frontier-retreat"):
            record(session, Cut(through, user("again"), "why"))


def test_the_reference_has_the_same_tables():
    rows = [
        tuple(cell.strip().strip("`") for cell in line.strip("|").split("|"))
        for line in REFERENCE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    told = {row for row in rows if len(row) == 3}
    ours = {(f"gate, {name}", damage, law) for name, damage, law in GATE}
    ours |= {(where, damage, law) for where, damage, law, _ in CODE}
    assert ours <= told
    stages = {
        (where, damage, getattr(test, "func", test).__name__)
        for where, damage, test, _ in RULES_OF_STAGES
    }
    assert stages <= told
    assert {row for row in told if row[2] in BY_NAME} == ours
