"""Laws of checkpoints and travel over trees, by a hostile machine; and what it notices.

The machine talks, labels, keeps checkpoints, travels with and without tools, navigates by hand,
cuts and edits, forges handoffs, resumes from the journal and throws plans away, in any order. What
it knows of the past it keeps beside the session, and asks again after each step.
"""

from __future__ import annotations

import json
import random
import sys
from functools import partial

import pytest
import test_checkpoints
import test_usage
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ctxalgebra import (
    DECISIONS,
    CtxError,
    Cut,
    Head,
    Label,
    Message,
    Note,
    Replace,
    Reply,
    Request,
    Route,
    Sent,
    Session,
    Text,
    Thinking,
    ToolCall,
    UsageReport,
    assistant,
    at_leaf,
    chars4,
    defects,
    find,
    label,
    labels,
    log,
    open_calls,
    path,
    project,
    record,
    reply,
    send,
    timeline,
    tool_result,
    travel,
    user,
)
from ctxalgebra.checkpoints import names as naming
from ctxalgebra.checkpoints import provenance, receipts, targets, tools
from ctxalgebra.checkpoints import travel as travelling
from ctxalgebra.checkpoints.handoff import build_handoff
from ctxalgebra.checkpoints.refusals import REFUSALS, Refusal
from ctxalgebra.codecs import journal
from ctxalgebra.laws import check_journal
from ctxalgebra.laws.playing import MOVES
from ctxalgebra.timeline import views

events = sys.modules["ctxalgebra.events"]

NAMES = ("a", "b", "way-1", "Root", "#3", "two words", "")
WORDS = ("go", "more", "  ", "", "x" * 40)
HEADS = (Head(system="a"), Head(system="b"), Head(Route(binding="leading"), system="a"),
         Head(Route(binding="none"), system="a"))  # fmt: skip
NOTES = {"goal": "find the bug", "state": "seen", "next": "go on"}
HANDOFF = build_handoff(NOTES)
REMINDER = user("[Context reminder]")
FACTS = provenance.Facts(0, "a", 0, 0, "b", 0, "c", open=True)


def shown_at(session, number):
    return project(at_leaf(session, number))


def state_of(session):
    """What a place of the tree stands for: it must stay, whatever happens elsewhere."""
    places = targets.complete_places(session)
    return (
        project(session), open_calls(session), session.view.flight, places,
        provenance.summary_depth(session), provenance.turn_open(session),
    )  # fmt: skip


def shared(one: Request, other: Request) -> int:
    """Measure what leads both requests."""
    if one.head != other.head:
        return 0
    count = chars4(one.head)
    for a, b in zip(one.messages, other.messages, strict=False):
        if a != b:
            break
        count += chars4(a)
    return count


def answered(messages):
    """Say whether the last word of the user's has its answer, told by the messages alone."""
    for message in reversed(messages):
        if message.empty:
            continue
        if message.role == "user":
            return False
        if message.role == "assistant" and not message.calls:
            return True
    return True


class Travels(RuleBasedStateMachine):
    """A session, and what is known of its past."""

    def __init__(self):
        super().__init__()
        self.session = Session()
        self.known = []  # entry and parent by number
        self.told = []  # numbers of reminders
        self.states = {}  # state by number of the entry
        self.sent = {}  # requests by the number of the entry in front of them
        self.left = []  # tickets: name, place, request there, entry that was left
        self.genuine = set()  # entries that are handoffs
        self.calls = 0

    def take(self, session):
        self.session = session
        if session.leaf is not None:
            self.states.setdefault(session.leaf.number, state_of(session))

    def offer(self, *entries):
        for entry in entries:
            try:
                self.take(record(self.session, entry))
            except CtxError:
                return

    def somewhere(self, at):
        return at % len(self.session) if len(self.session) else 0

    # Conversation

    @rule(word=st.sampled_from(WORDS))
    def say(self, word):
        self.offer(user(word))

    @rule(at=st.sampled_from(HEADS))
    def state_head(self, at):
        self.offer(at)

    def leave(self):
        try:
            after, request = send(self.session)
        except CtxError:
            return False
        here = -1 if self.session.leaf is None else self.session.leaf.number
        self.sent.setdefault(here, []).append(request)
        self.take(after)
        return True

    def spoken(self, kinds, word):
        calls = []
        for kind in kinds:
            self.calls += 1
            calls.append(ToolCall(f"c{self.calls}", kind, "{}"))
        start = (Thinking("t", "s"),) if len(word) > 3 else ()
        return assistant(*start, word or "hm", *calls)

    @rule(
        kinds=st.lists(st.sampled_from(["read", "travel", "checkpoint"]), max_size=2),
        word=st.sampled_from(WORDS),
        outcome=st.sampled_from(["completed"] * 4 + ["failed", "aborted", "lost"]),
    )
    def turn(self, kinds, word, outcome):
        if self.session.view.flight < 0 and not self.leave():
            return
        message = None if outcome == "lost" else self.spoken(kinds, word)
        self.take(reply(self.session, outcome, message))

    @initialize(rounds=st.integers(0, 5), at=st.sampled_from(HEADS))
    def begin(self, rounds, at):
        self.offer(at, user("go"))
        self.work(rounds, 2)

    @rule(rounds=st.integers(1, 3), calls=st.integers(0, 2))
    def work(self, rounds, calls):
        """Go on as a conversation does."""
        for _ in range(rounds):
            self.results(all_of=True)
            if self.session.view.flight < 0 and not self.session.view.end:
                self.say("go")
            self.turn(["read"] * calls, "Let me look.", "completed")
            self.results(all_of=True)

    @rule(kind=st.sampled_from(["travel", "travel", "checkpoint"]), said=st.booleans(),
          word=st.sampled_from(["hm", "  "]), works=st.integers(0, 1))  # fmt: skip
    def call_tool(self, kind, said, word, works):
        self.work(works, 1)
        self.turn([kind], word, "completed")
        if said:
            self.say("by the way")

    @rule()
    def only_send(self):
        self.leave()

    @rule(all_of=st.booleans())
    def results(self, all_of):
        calls = open_calls(self.session)
        self.offer(*[tool_result(call, f"out {call}") for call in calls[: None if all_of else 1]])

    @rule(which=st.integers(0, 255), a=st.integers(0, 255), b=st.integers(0, 255))
    def move(self, which, a, b):
        """Whatever the laws' own hostile game does: cuts, drops, replacements, late reports."""
        try:
            session = MOVES[which % len(MOVES)](self.session, a, b)
        except CtxError:
            return
        for node in log(session)[len(self.session) :]:
            if isinstance(node.entry, Sent):
                here = -1 if node.parent is None else node.parent.number
                self.sent.setdefault(here, []).append(shown_at(session, node.number))
        self.take(session)

    @rule(at=st.integers(0, 9), word=st.sampled_from(WORDS))
    def edit(self, at, word):
        view = self.session.view
        if view.end:
            number = view.slots.numbers[at % view.end]
            message = evolve(view.slots.messages[at % view.end], parts=user(word).parts)
            self.offer(Replace(number, message, "edited", breaks=True))

    @rule(at=st.integers(0, 9))
    def cut(self, at):
        view = self.session.view
        if view.end:
            notice = user("[cut]")
            self.offer(Cut(view.slots.numbers[at % view.end], notice, "old", breaks=True))

    @rule(at=st.integers(0, 9), cuts=st.booleans())
    def decide_before_sending(self, at, cuts):
        """As stages do: what was decided shaped what was sent, and the message in front leads."""
        self.results(all_of=True)
        self.say("go on")
        if cuts:
            self.cut(at)
        else:
            self.edit(at, "shorter")
        self.turn([], "Yes.", "completed")

    # Names

    @rule(at=st.integers(0, 200), name=st.sampled_from(NAMES))
    def put_label(self, at, name):
        if len(self.session):
            self.take(label(self.session, self.somewhere(at), name))

    @rule(
        name=st.sampled_from(NAMES),
        goal=st.none() | st.sampled_from(["root", "a", "b", "way-1", "#1", "#5", "#40", "?"]),
    )
    def keep_place(self, name, goal):
        before = self.session
        after, found = receipts.checkpoint(before, name, target=goal)
        assert found == receipts.plan_checkpoint(before, name, target=goal)
        if isinstance(found, Refusal):
            assert after is before
            assert found.code in REFUSALS
            return
        assert project(after) == project(before)
        assert labels(after)[found.number] == name
        assert found.kept == self.kept_at(before, found.number)
        if goal is None:
            assert not open_calls(at_leaf(before, found.number))
            assert found.number == self.naive_place()
        gone = {n: held for n, held in labels(before).items() if labels(after).get(n) != held}
        assert all(not targets.is_addressable(held) for held in gone.values())
        assert len(after) == len(before) + (found.status == "created")
        self.take(after)

    @rule(stamp=st.sampled_from(["s", "t"]))
    def before_cut(self, stamp):
        after, found = receipts.checkpoint_before_cut(self.session, stamp)
        if isinstance(found, Refusal):
            assert self.naive_place() < 0
            return
        assert targets.resolve_target(after, found.name).number == self.naive_place()
        self.take(after)

    def naive_place(self):
        """Go up the path and ask each place anew, as nobody should."""
        for node in reversed(path(self.session)):
            view = at_leaf(self.session, node.number).view
            if isinstance(node.entry, Label | UsageReport):
                continue
            if view.end and not view.open and view.flight < 0:
                return node.number
        return -1

    # Journeys

    def targets(self):
        return ["root", *labels(self.session).values(), "#0", f"#{len(self.session) // 2}"]

    @rule(
        at=st.integers(0, 200), by=st.sampled_from(["label", "number", "ticket"]),
        ticket=st.sampled_from([None, None, None, "a", "way-1", "way-2"]), by_call=st.booleans(),
    )  # fmt: skip
    def journey(self, at, by, ticket, by_call):
        known = [ticket for ticket, *_ in self.left]
        chosen = {
            "label": self.targets(),
            "number": [f"#{self.somewhere(at)}"],
            "ticket": known or ["root"],
        }[by]
        target = chosen[at % len(chosen)]
        calls = [c for c in self.session.view.open if c not in self.session.view.results]
        call = calls[-1] if by_call and calls else ""
        self.go(target, ticket, call)

    @rule(kind=st.sampled_from(["travel", "checkpoint", "read"]))
    def go_back_at_once(self, kind):
        self.results(all_of=True)
        place = self.naive_place()
        self.turn([kind], "  ", "completed")
        self.results(all_of=True)
        if place >= 0:
            self.go(f"#{place}", None, "")

    @rule(said=st.sampled_from(WORDS), at=st.integers(0, 200))
    def leave_while_spoken_to(self, said, at):
        self.work(1, 1)
        self.turn(["travel"], "hm", "completed")
        calls = open_calls(self.session)
        self.say(said)
        if calls:
            self.go(f"#{self.somewhere(at)}", None, calls[-1])

    def go(self, target, ticket, call):
        before = self.session
        asked = {"target": target, "handoff": NOTES, "ticket": ticket, "call": call}
        plan = travelling.plan_travel(before, **asked)
        assert plan == travelling.plan_travel(before, **asked)
        if isinstance(plan, Refusal):
            self.judge_refusal(plan, target, call)
            return
        after = travelling.apply_travel(before, plan)
        assert after == travelling.apply_travel(before, plan)
        copy = journal.decode(journal.encode(before)).session
        assert travelling.plan_travel(copy, **asked) == plan
        assert journal.encode(travelling.apply_travel(copy, plan)) == journal.encode(after)
        self.judge(plan, before, after)
        self.arrive(plan, before, after)

    def arrive(self, plan, before, after):
        place = plan.ticket.place
        self.left.append((plan.ticket.name, place, shown_at(before, place), before.leaf.number))
        handoff = max(n.number for n in path(after) if isinstance(n.entry, Note)) + 1
        self.genuine.add(handoff)
        self.take(after)

    def judge_refusal(self, plan, target, call):
        assert plan.code in REFUSALS
        found = targets.resolve_target(self.session, target)
        if isinstance(found, Refusal) and plan.code not in ("mixed-tool-batch",):
            assert plan.code == found.code
        if plan.code == "zero-distance-travel":
            there = project(travel(self.session, found.number)).messages
            assert (
                not self.missed(found)
                or there == shown_at(self.session, self.naive_place()).messages
            )
        if plan.code == "mixed-tool-batch":
            assert len(self.session.view.open) > 1
            assert call in self.session.view.open

    def kept_at(self, session, number):
        """Arrive there with some handoff, and take that away again."""
        landed = travelling._arrived(session, travel(session, number), FACTS, HANDOFF)
        request = project(landed)
        over = 1 + len(travelling._waiting(session))
        over -= sum(message.empty for _, message in travelling._waiting(session))
        messages = request.messages[: len(request.messages) - over]
        return receipts.Size(len(messages), chars4(request.head) + sum(map(chars4, messages)))

    def missed(self, target):
        """Say whether anything but rounds of our own tools would go, looking at each entry."""
        if target.off_path:
            return True
        landed = travel(self.session, target.number)
        landing = max(n.number for n in path(landed) if n.number < len(self.session))
        ours = False
        for node in path(self.session):
            entry = node.entry
            message = entry if isinstance(entry, Message) else getattr(entry, "message", None)
            if isinstance(entry, Reply) and entry.outcome != "completed":
                continue
            if isinstance(entry, DECISIONS):
                gone = True
            elif not isinstance(entry, Message | Reply) or message is None:
                gone = False
            elif message.role == "assistant":
                names = {call.name for call in message.calls}
                said = any(isinstance(p, Text) and p.text.strip() for p in message.parts)
                ours = bool(names) and names <= {"checkpoint", "travel", "timeline"} and not said
                gone = not ours and not message.empty
            elif message.role == "tool":
                gone = not ours and not message.empty
            else:
                gone = not message.empty and not self.reminds(node)
            if gone and landing < node.number <= self.naive_place():
                return True
        return False

    def judge(self, plan, before, after):
        view = after.view
        assert not open_calls(after)
        assert view.flight < 0
        assert after.head == before.head or after.view.holds_loop(-1)
        request = project(after)
        # Ids that come again are the hostile game's, and legal.
        assert {defect.code for defect in defects(request.messages)} <= {"reused-id"}
        send(after)
        # What it says of itself is so.
        whole = chars4(request.head) + sum(map(chars4, request.messages))
        assert (plan.after.messages, plan.after.tokens) == (len(request.messages), whole)
        now = project(before)
        whole = chars4(now.head) + sum(map(chars4, now.messages))
        assert (plan.before.messages, plan.before.tokens) == (len(now.messages), whole)
        assert plan.depth_before == provenance.summary_depth(before)
        assert plan.depth_after == provenance.summary_depth(after)
        (*_, last) = provenance.handoffs(after)
        assert (last.facts, last.handoff) == (plan.facts, plan.handoff)
        assert plan.facts.open is not answered(self.heard(before)), (plan, self.heard(before))
        # Who waited is heard.
        waiting = [
            message
            for number, message in before.view.waiting
            if not message.empty and not self.reminds(find(before, number))
        ]
        assert list(request.messages[len(request.messages) - len(waiting) :]) == waiting
        # What was told in front of it is so.
        (row,) = timeline.checkpoints(label(before, plan.target.number, "zz"), part="zz").rows[-1:]
        assert row.messages == plan.after.messages - 1 - len(waiting)
        assert row.tokens == sum(map(chars4, request.messages[: row.messages]))
        # It goes somewhere.
        landed = travel(before, plan.target.number)
        place = plan.ticket.place
        assert plan.target.off_path or plan.target.number < place
        assert self.missed(plan.target)
        assert plan.abandoned == open_calls(landed)
        assert labels(after).get(place) == plan.ticket.name
        assert plan.facts.call not in before.view.open or len(before.view.open) == 1
        assert project(landed).messages != shown_at(before, place).messages
        assert place == self.naive_place()
        assert plan.target.off_path is (find(before, plan.target.number) is None)
        # What was sent there is back, and what is told of the cache is true.
        for sent in self.sent.get(plan.facts.landed, ()):
            if sent.head == request.head:
                assert request.extends(sent)
        most = max((shared(request, one) for many in self.sent.values() for one in many), default=0)
        assert plan.cached <= most
        first = self.sent_behind(before, plan.target.number)
        if first is not None and first.head == request.head:
            assert request.extends(first)
            assert plan.cached >= shared(request, first)

    def sent_behind(self, session, number):
        """Find the request that was first sent behind an entry, with only decisions in between."""
        at = number
        for node in log(session):
            if node.parent is None or node.parent.number != at:
                continue
            if isinstance(node.entry, Sent):
                return shown_at(session, node.number)
            if not isinstance(node.entry, (Label, Note, UsageReport, *DECISIONS)):
                return None
            at = node.number
        return None

    def heard(self, session):
        """List what was said on the path, handoffs left out unless the turn was over."""
        said = []
        for node in path(session):
            entry = node.entry
            message = entry
            if isinstance(entry, Reply):
                message = entry.message if entry.outcome == "completed" else None
            elif not hasattr(entry, "role"):
                message = None
            if node.number in self.genuine:
                facts = json.loads(node.parent.entry.data)
                said.append(user("open") if facts["open"] else assistant("closed"))
            elif message is not None and not (message.role == "user" and self.reminds(node)):
                said.append(message)
        return said

    @rule(
        arguments=st.sampled_from([
            "{}", "[]", "{", '{"name":"a"}', '{"name":5}', '{"target":"root"}',
            json.dumps({"target": "root", "handoff": NOTES}),
            json.dumps({"target": "#1", "handoff": json.dumps(NOTES), "ticket": "way-1"}),
            json.dumps({"target": "way-1", "handoff": {**NOTES, "goal": "\ud800"}}),
            '{"name":"b","target":"root"}', '{"name":"root"}',
        ]),
    )  # fmt: skip
    def tool(self, arguments):
        calls = [c for c in open_calls(self.session) if self.kind_of(c) in ("travel", "checkpoint")]
        if not calls:
            return
        before = self.session
        call = ToolCall(calls[0], self.kind_of(calls[0]), arguments)
        after = tools.respond_travel(before, call)
        assert after == tools.respond_travel(before, call)
        assert len(after) > len(before)
        if call.id in open_calls(before) and call.id in after.view.open:
            assert call.id in after.view.results or call.id not in open_calls(after)
        travelled = len(provenance.archives(after)) and find(after, before.leaf.number) is None
        if travelled:
            plan = travelling.plan_travel(before, call=call.id, **json.loads(arguments))
            self.judge(plan, before, after)
            self.arrive(plan, before, after)
        else:
            self.take(after)

    def kind_of(self, call):
        for node in reversed(path(self.session)):
            entry = node.entry
            message = entry.message if isinstance(entry, Reply) else entry
            for known in getattr(message, "calls", ()):
                if known.id == call:
                    return known.name
        raise AssertionError(call)

    @rule(at=st.integers(0, 200), bare=st.booleans())
    def navigate(self, at, bare):
        """As a person does: to any entry, or back to where it all began."""
        if len(self.session):
            number = self.somewhere(at)
            if bare:
                self.session = at_leaf(self.session, number)
            else:
                self.take(travel(self.session, number))

    @rule(change=st.sampled_from(["text", "origin", "place", "landed", "note", "between"]))
    def forge(self, change):
        """Write what looks like a handoff; it must count for nothing."""
        if len(self.session) < 2 or self.session.leaf is None or self.session.view.open:
            return
        here = self.session.leaf.number
        facts = provenance.Facts(0, "a", 0, here, "b", 0, "c", open=True)
        changed = {
            "origin": evolve(facts, origin=len(self.session) + 5),
            "place": evolve(facts, place=-1),
            "landed": evolve(facts, landed=here + 1),
        }.get(change, facts)
        note = provenance.note(changed)
        message = provenance.frame(changed, HANDOFF)
        if change == "text":
            message = user(message.parts[0].text.replace("still open", "closed"))
        if change == "note":
            note = Note("handoffs", note.data)
        self.offer(*([note, Note("x"), message] if change == "between" else [note, message]))

    @rule()
    def remind(self):
        """The harness speaks, and is not the user."""
        before = len(self.session)
        self.offer(events.reminder_note(30, REMINDER), REMINDER)
        if len(self.session) == before + 2:
            self.told.append(before + 1)

    @rule(near=st.sampled_from(["text", "level", "between", "alone"]))
    def seem_to_remind(self, near):
        """Something is a little like a reminder, and is the user's."""
        note = events.reminder_note(0 if near == "level" else 30, REMINDER)
        said = user("[Context reminder] not") if near == "text" else REMINDER
        between = [Label(0, "")] if near == "between" and len(self.session) else []
        if near != "between" or between:
            self.offer(*([] if near == "alone" else [note, *between]), said)

    def reminds(self, node):
        return node.number in self.told and node.entry == REMINDER

    @rule()
    def resume(self):
        again = journal.decode(journal.encode(self.session)).session
        assert again == self.session
        self.session = again

    # What must hold

    @invariant()
    def nothing_is_lost(self):
        now = [(n.entry, -1 if n.parent is None else n.parent.number) for n in log(self.session)]
        assert now[: len(self.known)] == self.known
        self.known = now

    @invariant()
    def names_are_one_to_one(self):
        events = [
            (n.entry.target, n.entry.name) for n in log(self.session) if isinstance(n.entry, Label)
        ]
        assert labels(self.session) == dict(naming.read_names(events).names)

    @invariant()
    def places_are_found(self):
        assert targets.complete_places(self.session).newest == self.naive_place()

    @invariant()
    def only_genuine_handoffs_count(self):
        found = {handoff.number for handoff in provenance.handoffs(self.session)}
        assert found == {n.number for n in path(self.session)} & self.genuine
        assert len(found) == provenance.summary_depth(self.session)
        count = 0
        for node in log(self.session):
            if node.number in self.genuine:
                count += 1
            elif getattr(node.entry, "role", "") == "user" and not node.entry.empty:
                count = count if self.reminds(node) else 0
        assert provenance.journeys(self.session) == count

    @invariant()
    def archives_can_be_reached(self):
        held = provenance.archives(self.session)
        for name, place, request, leaf in self.left[-4:]:
            assert shown_at(self.session, place) == request
            assert find(self.session, leaf, along="log") is not None
            found = targets.resolve_target(self.session, f"#{leaf}")
            assert found.number == leaf
            if labels(self.session).get(place) == name and targets.is_addressable(name):
                assert held.get(name) == place
                assert targets.resolve_target(self.session, name).number == place

    @invariant()
    def places_keep_their_state(self):
        numbers = sorted(self.states)
        for number in numbers[:: max(1, len(numbers) // 4)]:
            assert state_of(at_leaf(self.session, number)) == self.states[number]

    def teardown(self):
        if len(self.session):
            check_journal(self.session)


SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
TestTravels = Travels.TestCase
TestTravels.settings = settings(
    stateful_step_count=40, max_examples=30, deadline=None, suppress_health_check=SLOW
)


# Does it notice? Each mutant damages one thing; the machine must fail of it.


def inside(module, name, new):
    """Damage a function for its own module."""
    return lambda mp: mp.setattr(module, name, new(getattr(module, name)))


def plans(**changes):
    """Damage the plan."""

    def damage(sound):
        return lambda *given: evolve(
            plan := sound(*given), **{name: change(plan) for name, change in changes.items()}
        )

    return inside(travelling, "_plan", damage)


def step_of(module, name, new):
    """Damage the step of a fold."""

    def damage(mp):
        what = getattr(module, name)
        mp.setattr(module, name, evolve(what, step=new(what.step)))

    return damage


def without_tickets(sound):
    def ticket(*given):
        found = sound(*given)
        return found if isinstance(found, Refusal) else evolve(found, place=0)

    return ticket


def forgets_waiting(sound):
    def arrived(session, *rest):
        return sound(at_leaf(session, -1) if session.view.waiting else session, *rest)

    return arrived


def trusts_notes(sound):
    """Believe whatever stands behind a note with facts."""

    def read(node):
        before = node.parent
        if before is not None and isinstance(before.entry, Note):
            facts = provenance._facts(before.entry)
            if facts is not None:
                return provenance.HandedOver(node.number, facts, HANDOFF)
        return sound(node)

    return read


def trusts_texts(sound):
    return lambda entry: sound(entry) or sound(Note(provenance.NOTE, entry.data))


def old_heads(mp):
    """Let the head of the target hold there."""

    def bare(landed, since):
        node = landed.leaf
        while node is not None and isinstance(node.entry, Head) and node.number >= since:
            node = node.parent
        return at_leaf(landed, -1 if node is None else node.number)

    sound = travelling._arrived
    mp.setattr(travelling, "travel", lambda s, number: bare(travel(s, number), len(s)))
    mp.setattr(travelling, "_arrived", lambda s, *rest: bare(sound(s, *rest), len(s)))


MUTANTS = {
    "calls stay open where a journey lands": inside(
        travelling, "open_calls", lambda _: lambda _session: ()
    ),
    "a journey lands on the bare entry": inside(
        travelling, "travel", lambda _: lambda session, n: at_leaf(session, n)
    ),
    "a ticket is put somewhere else": inside(travelling, "_ticket", without_tickets),
    "a ticket is told and not written": inside(
        travelling, "label", lambda _: lambda session, *_rest: session
    ),
    "what waited is forgotten": inside(travelling, "_arrived", forgets_waiting),
    "no distance is zero": inside(travelling, "_is_shown", lambda _: lambda *_given: False),
    "each distance is zero": inside(travelling, "_is_shown", lambda _: lambda *_given: True),
    "calls of our own are missed": inside(
        travelling, "newest_work", lambda _: lambda session: session.leaf.number
    ),
    "the head of then is told of": inside(
        views, "kept", lambda _: lambda _session, landed: (landed.view, landed.view.end)
    ),
    "what is abandoned is not told": plans(abandoned=lambda _: ()),
    "depth counts nothing": plans(depth_after=lambda plan: plan.depth_before),
    "all is cached": plans(cached=lambda plan: plan.after.tokens),
    "nothing is cached": plans(cached=lambda _: 0),
    "sizes leave out the head": inside(
        receipts, "weigh", lambda _: lambda _measure, _head: 0
    ),
    "the head of then stays": old_heads,
    "places are where calls are open": step_of(
        targets, "_COMPLETE",
        lambda _: lambda known, node, view: known._replace(newest=node.number)
        if view.end
        else known,
    ),
    "labels are places": lambda mp: mp.setattr(
        targets, "_COMPLETE", evolve(targets._COMPLETE, reads=None)
    ),
    "notes are believed": inside(provenance, "handed_over", trusts_notes),
    "a note is a reminder's wherever it was recorded": inside(
        provenance, "is_reminder",
        lambda sound: lambda node: sound(node)
        or (getattr(node.entry, "role", "") == "user" and node.entry == REMINDER),
    ),
    "a note of any name is believed": inside(provenance, "_facts", trusts_texts),
    "a note is believed wherever it stands": inside(
        provenance, "_lands", lambda _: lambda _note, _facts: True
    ),
    "words beside a call close the turn": step_of(
        provenance, "_PATH",
        lambda sound: lambda known, node, view: sound(
            known, node, view
        )._replace(open=sound(known, node, view).open and not calling(node.entry)),
    ),
    "a plan depends on what was asked before": inside(
        travelling, "free_name",
        lambda sound: lambda session, name: sound(session, f"{name}{random.getrandbits(20)}"),
    ),
}  # fmt: skip


RARE = {
    "any label gives way": inside(receipts, "is_addressable", lambda _: lambda _name: False),
    "a note makes any message a reminder": inside(
        events, "_fingerprint", lambda _: lambda _message: "x"
    ),
    "a name has many entries": step_of(
        events, "_LABELS",
        lambda _: lambda known, node, _view: events.Labels(
            known.targets.put(node.entry.name, node.entry.target),
            known.names.put(node.entry.target, node.entry.name or None),
        ),
    ),
    "a view tells of the bare entry": inside(
        views, "travel", lambda _: lambda session, n: at_leaf(session, n)
    ),
}  # fmt: skip
"""What the machine meets too rarely, and which tests notice at once."""


def calling(entry):
    message = entry.message if isinstance(entry, Reply) else entry
    return bool(message is not None and message.calls)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_machine_notices(mutant, monkeypatch):
    MUTANTS[mutant](monkeypatch)
    quick = settings(
        max_examples=300,
        stateful_step_count=40,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        deadline=None,
        suppress_health_check=SLOW,
    )
    with pytest.raises((AssertionError, CtxError)):
        run_state_machine_as_test(Travels, settings=quick)


NOTICED_BY = {
    "any label gives way": test_checkpoints.test_what_is_refused_records_nothing,
    "a note makes any message a reminder": (
        test_usage.test_a_reminder_is_the_note_and_the_message_to_the_letter
    ),
    "a name has many entries": test_checkpoints.test_the_label_fold_is_the_rule_of_names,
    "a view tells of the bare entry": partial(
        test_checkpoints.test_what_is_told_of_a_place_is_what_a_journey_keeps,
        target=2,
        binding="prefix",
    ),
}


@pytest.mark.parametrize("mutant", RARE)
def test_a_test_notices(mutant, monkeypatch):
    RARE[mutant](monkeypatch)
    with pytest.raises((AssertionError, CtxError, ExceptionGroup)):
        NOTICED_BY[mutant]()
