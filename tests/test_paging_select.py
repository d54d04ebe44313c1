"""The original's selector as a compatibility profile: its rules, and growing sessions."""

from __future__ import annotations

import json
import random

import pytest

from ctxalgebra.codecs.pi_weights import host_tokens
from ctxalgebra.compat.paging_groups import Slot, group, normalise
from ctxalgebra.compat.paging_keys import CutKey, CutState, Frontier, RawHistory, RawItem
from ctxalgebra.compat.paging_limits import SelectionError, context_token_limits
from ctxalgebra.compat.paging_notices import default_wording
from ctxalgebra.compat.paging_select import FALLBACKS, select_context
from ctxalgebra.compat.paging_session import PagingState, next_request
from ctxalgebra.compat.paging_tokens import Estimates, record_response
from ctxalgebra.conformance import door
from ctxalgebra.errors import CODES
from ctxalgebra.recall.report import thousands
from ctxalgebra.transforms.settings import PagingSettings, resolve_settings, warn_headroom


def user(text, at):
    return {"role": "user", "content": text, "timestamp": at}


def says(text, at, **more):
    return {
        "role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": at, **more,
    }  # fmt: skip


def calls(ids, at, **more):
    content = [{"type": "toolCall", "id": i, "name": "read", "arguments": {}} for i in ids]
    return {"role": "assistant", "content": content, "timestamp": at, **more}


def result(call, text, at):
    return {
        "role": "toolResult", "toolCallId": call, "toolName": "read",
        "content": [{"type": "text", "text": text}], "timestamp": at,
    }  # fmt: skip


def custom(text, at):
    return {"role": "custom", "content": text, "timestamp": at}


def history(messages):
    items = []
    for message in messages:
        if message["role"] in ("user", "assistant"):
            items.append(RawItem(f"h{message['timestamp']}", message))
        elif message["role"] == "toolResult":
            items[-1] = items[-1]._replace(results=(*items[-1].results, message))
    return items


def copied(messages):
    """Give equal messages that are other objects, as the host does."""
    return json.loads(json.dumps(messages))


def layout(selection):
    return [placed.at if placed.at >= 0 else placed.kind for placed in selection.placed]


def select(messages, budget, **more):
    more.setdefault("raw_history", history(copied(messages)))
    return select_context(messages, token_budget=budget, **more)


def key_of(selection):
    frontier = selection.cut.frontier
    return frontier.kind, frontier.last.history, frontier.last.call, frontier.user


TURNS = [user("q1", 1), says("a" * 800, 2), user("q2", 3), says("b" * 800, 4), user("q3", 5)]
LOOP = [
    user("go", 1), calls(["c1"], 2), result("c1", "x" * 800, 3),
    calls(["c2"], 4), result("c2", "y" * 800, 5), calls(["c3"], 6), result("c3", "z" * 800, 7),
]  # fmt: skip


# Limits and settings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((100,), (100, 62, None)),
        ((100, 100, 10), (10, 10, 10)),
        ((100, 50, 10.5), (10.5, 5, 10.5)),
        ((100, 50, 0.5), (0.5, 1, 0.5)),
        ((2**53 - 1, 2**53 - 2, 64_000), (64_000, 63_999, 64_000)),
        ((1,), (1, 1, None)),
    ],
)
def test_limits_scale_in_whole_numbers(given, expected):
    limits = context_token_limits(*given)
    assert (limits.budget, limits.target, limits.window) == expected


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((0, 0, -1), "invalid-model-context"),
        ((0, 0), "invalid-token-budget"),
        ((1, None), "invalid-trim-target"),
        ((1, 1, None), "invalid-model-context"),
        ((1, 1, float("inf")), "invalid-model-context"),
        ((1, 1, 10**400), "invalid-model-context"),
        ((True,), "invalid-token-budget"),
        ((2**53,), "invalid-token-budget"),
    ],
)
def test_errors_of_limits_come_in_their_order(given, code):
    with pytest.raises(SelectionError) as caught:
        context_token_limits(*given)
    assert (caught.value.code, caught.value.resident, caught.value.budget) == (code, 0, 0)


def layer(**paging):
    return {"contextPaging": paging}


def test_settings_come_from_the_nearest_layer_that_counts():
    both = layer(tokenBudget=1000, trimToTokens=900), layer(tokenBudget=500, enabled=False)
    assert resolve_settings(*both, project_trusted=True) == PagingSettings(False, 500, 900, True)
    assert resolve_settings(*both, project_trusted=False) == PagingSettings(True, 1000, 900, True)
    assert resolve_settings({}, None, project_trusted=True) == PagingSettings()
    assert resolve_settings(*both) == PagingSettings(True, 1000, 900, True), "trust is said"
    assert resolve_settings(None) == resolve_settings(None, both[0]) == PagingSettings()
    assert resolve_settings(None, both[1], project_trusted=True).budget == 500


def test_a_whole_number_counts_however_json_writes_it():
    found = resolve_settings(layer(tokenBudget=10.0, trimToTokens=4.0))
    assert found == PagingSettings(True, 10, 4, True)
    assert (type(found.budget), type(found.target)) == (int, int)
    given = {"globalSettings": layer(tokenBudget=10.0, enabled=1.0), "projectTrusted": False}
    assert door.result("paging.resolve_settings", given)["output"]["tokenBudget"] == 10


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, "9", True, None, 2**53, 2.0**53, float("inf"), float("nan"), [9]]
)
def test_a_setting_that_is_no_number_of_tokens_falls_through(value):
    project = layer(tokenBudget=value, trimToTokens=value, enabled="no")
    found = resolve_settings(layer(tokenBudget=100), project, project_trusted=True)
    assert found == PagingSettings(True, 100, 62, False)
    assert resolve_settings({"contextPaging": value}, project_trusted=True) == PagingSettings()


@pytest.mark.parametrize("given", [([], None), ({}, "x"), (0, None), ({}, False)])
def test_a_layer_is_an_object(given):
    with pytest.raises(ValueError, match="wrong-type"):
        resolve_settings(*given, project_trusted=True)


def test_a_target_without_headroom_is_warned_about_once_for_each_pair():
    warned = frozenset()
    told = []
    for budget, target, explicit in (
        (100, 100, True), (100, 100, True), (100, 120, True), (100, 99, True), (1, 1, False),
    ):  # fmt: skip
        text, warned = warn_headroom(PagingSettings(True, budget, target, explicit), warned)
        told.append(bool(text))
    assert told == [True, False, True, False, False]
    assert warned == {(100, 100), (100, 120)}
    assert [PagingSettings(True, 100, target).aim for target in (99, 120)] == [99, 100]


# Structure and groups


@pytest.mark.parametrize(
    "messages",
    [
        [result("c", "x", 1)],
        [user("q", 1), result("c", "x", 2)],
        [says("t", 1), result("c", "x", 2)],
        [calls(["c", "c"], 1)],
        [calls(["c", "c"], 1, stopReason="error")],
        [calls(["c"], 1)],
        [calls(["c"], 1), result("c", "x", 2), result("c", "x", 3)],
        [calls(["c"], 1), {**result("c", "x", 2), "toolCallId": ["c"]}],
        [user("q", 1), {"role": "system", "content": "s"}],
    ],
)
def test_what_is_no_conversation_is_refused_far_below_the_budget(messages):
    with pytest.raises(SelectionError) as caught:
        select_context(messages, token_budget=10**6)
    assert caught.value.code == "invalid-message-structure"
    assert (caught.value.resident, caught.value.budget) == (None, None)


def test_interrupted_assistants_leave_with_their_results():
    messages = [
        user("q", 1), calls(["a", "b"], 2, stopReason="aborted"), result("b", "x", 3),
        says("half", 4, stopReason="error"), user("again", 5),
    ]  # fmt: skip
    selection = select_context(messages, token_budget=100)
    assert layout(selection) == [0, 4]
    assert selection.messages == (messages[0], messages[4])
    whole = [Slot(n, m, 1, outgoing=False) for n, m in enumerate(TURNS)]
    assert normalise(whole) is whole


def slots(messages, outgoing=()):
    return [Slot(n, m, 1, n in outgoing) for n, m in enumerate(messages)]


def shape(messages, outgoing=()):
    groups = group(slots(messages, outgoing))

    def places(units):
        return [[slot.at for slot in unit.slots] for unit in units]

    active = groups.active
    if active is None:
        return places(groups.prefixes), places(groups.completed)
    return (
        places(groups.prefixes),
        places(groups.completed),
        [slot.at for slot in active.envelope],
        places(active.exchanges),
        [slot.at for slot in active.trailing],
    )


def test_groups():
    front = [{"role": "system", "content": "s"}, calls(["c"], 1), result("c", "x", 2)]
    assert shape(front) == ([[0], [1, 2]], [])
    assert shape([*front, *LOOP]) == ([[0], [1, 2]], [], [3], [[4, 5], [6, 7], [8, 9]], [])
    assert shape(TURNS) == ([], [[0, 1], [2, 3]], [4], [], [])
    assert shape([custom("a", 1), custom("b", 2)]) == ([], [[0]], [1], [], [])
    noted = [user("q", 1), custom("n", 2), says("a", 3), custom("m", 4)]
    assert shape(noted) == ([], [[0, 1, 2]], [3], [], [])
    noted = [user("q", 1), user("in", 0), custom("n", 2), says("a", 3), user("in", 0), says("b", 4)]
    assert shape(noted, {1, 4}) == ([], [], [0, 1, 2], [[3], [5]], [4])
    assert shape([custom("n", 1), user("in", 0), says("a", 2)], {1}) == ([], [], [0], [[2]], [1])
    assert shape([user("in", 0)], {0}) == ([[0]], [])


# Selecting


def test_equality_does_not_advance_and_an_advance_aims_at_the_target():
    total = sum(map(host_tokens, TURNS)) + 1
    assert select(TURNS, total).mode == "within-budget"
    first = select(TURNS, total - 1, trim_to_tokens=300)
    assert layout(first) == ["notice", 2, 3, 4] or first.estimate <= 300
    assert first.mode == "paged"
    second = select([*TURNS, says("ok", 6), user("q4", 7)], total - 1, cut=first.cut)
    assert second.cut is first.cut
    assert second.messages[: len(first.messages)] == first.messages


def test_a_cut_inside_the_active_turn_is_held_when_the_turn_is_over():
    first = select(LOOP, 500)
    assert key_of(first) == ("partialTurn", "h4", "c2", "h1")
    assert layout(first) == ["notice", 0, 5, 6]
    over = [*LOOP, says("done", 8), user("next", 9), says("yes", 10)]
    second = select(over, 500, cut=first.cut)
    assert layout(second) == ["notice", 0, 5, 6, 7, 8, 9]
    assert second.cut is first.cut
    third = select([*over, user("n" * 1200, 11)], 500, cut=second.cut)
    assert key_of(third) == ("completedTurn", "h10", None, None)


def test_a_turn_that_a_custom_message_began_is_cut_without_a_user():
    begun = [custom("go", 1), *LOOP[1:]]
    selection = select(begun, 500)
    assert key_of(selection) == ("partialTurn", "h4", "c2", None)
    again = select([*begun, says("done", 8)], 500, cut=selection.cut)
    assert layout(again) == ["notice", 0, 5, 6, 7]
    over = [*begun, says("done", 8), user("in", 0), user("next", 9)]
    flags = [message["content"] == "in" for message in over]
    rest = select(over, 500, cut=selection.cut, outgoing_only=flags)
    assert layout(rest) == ["notice", 0, 5, 6, 7, 8, 9]


def test_protected_results_go_over_the_budget_then_become_references():
    items = history(copied(LOOP))
    over = select(LOOP, 250, model_context_window=500)
    assert over.mode == "protected-overflow"
    assert layout(over)[0] == "overflow-notice"
    recovered = select(LOOP, 200, model_context_window=260)
    assert recovered.mode == "recovery"
    assert layout(recovered) == ["recovery-notice", 0, 5, "reference"]
    reference = recovered.messages[-1]
    assert '"toolCallId":"c3"' in reference["content"][0]["text"]
    assert {**reference, "content": LOOP[-1]["content"]} == LOOP[-1]
    assert recovered.cut.notice["content"].startswith("[Generated paging notice] Earlier")
    with pytest.raises(SelectionError) as caught:
        select(LOOP, 80, model_context_window=90)
    assert caught.value.code == "active-request-too-large"
    assert caught.value.estimate > 90
    for raw in (items[:-1], [*items, RawItem("h8", user("later", 8))], []):
        assert layout(select([LOOP[0], *LOOP[-2:]], 150, raw_history=raw)) == ["notice", 0]


def test_an_overflow_without_a_cut_remembers_nothing():
    selection = select(LOOP[:3], 100, model_context_window=500)
    assert (selection.mode, selection.cut, selection.fallback) == ("protected-overflow", None, "")


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([user("q" * 800, 1)], "active-request-too-large"),
        ([], "resident-input-too-large"),
    ],
)
def test_what_can_not_leave_is_too_large(messages, code):
    with pytest.raises(SelectionError) as caught:
        select(messages, 100, context_tokens=300)
    assert (caught.value.code, caught.value.estimate, caught.value.budget) == (code, 300, 100)
    assert code in CODES


def test_resident_input_alone_is_too_large():
    with pytest.raises(SelectionError, match="resident input") as caught:
        select(TURNS, 100, system_prompt="s" * 800)
    assert caught.value.resident == caught.value.estimate == 201
    tools = [{"name": "read", "description": "Read", "parameters": {}, "extra": 1}]
    with pytest.raises(SelectionError, match="resident input"):
        select(TURNS, 10, active_tools=tools)


def test_measured_tokens_and_estimates_are_used_only_when_they_are_whole():
    assert select(TURNS, 500, context_tokens=450).estimate == 450
    weights = Estimates(2.5, (1, 100.25, 1, 100.25, 1))
    assert select(TURNS, 500, context_tokens=250, estimates=weights).mode == "within-budget"
    # 206 tokens measured: each turn left with its own weight, and the constant stayed.
    assert select(TURNS, 205, context_tokens=206, estimates=weights).estimate == pytest.approx(
        206 - 202.5 + host_tokens(select(TURNS, 205, context_tokens=206).messages[0])
    )
    for odd in (Estimates(1, (1,)), Estimates(-1, (1,) * 5), Estimates(1, (1e308,) * 5)):
        assert select(TURNS, 500, context_tokens=450, estimates=odd).estimate == 450
    for odd in (-1, "9", True, float("nan"), 10**400):
        assert select(TURNS, 500, context_tokens=odd).estimate == 404


# Fallbacks


def fallback(messages, budget, **more):
    selection = select(messages, budget, **more)
    assert selection.cut is None
    assert selection.fallback in FALLBACKS
    return selection.fallback


def state(kind="completedTurn", history="h2", call=None, user=None):
    notice = {"role": "user", "content": "FROZEN", "timestamp": 0}
    return CutState(Frontier(kind, CutKey(history, call), user), notice)


def test_each_fallback_has_its_cause():
    assert fallback(TURNS, 300, raw_history=None) == "raw-history-unavailable"
    assert fallback(TURNS, 1000, raw_history=None, cut=state()) == "raw-history-unavailable"
    assert fallback(TURNS, 300, cut=state(history="gone")) == "cut-key-unresolved"
    twins = [user("s" * 800, 1), user("s" * 800, 1), user("live", 3)]
    assert fallback(twins, 300) == "cut-key-unresolved"
    assert fallback([custom("c" * 800, 1), user("q", 2)], 150) == "keyless-no-key"
    noted = [*TURNS[:2], custom("c" * 800, 3), user("q", 4)]
    assert fallback(noted, 250, trim_to_tokens=100) == "keyless-snap-over-budget"
    raw = history(copied(TURNS))
    assert fallback(TURNS[2:], 300, cut=state(), raw_history=raw) == "frontier-not-in-groups"
    prefix = state("prefix", "h1")
    assert fallback(TURNS, 1000, cut=prefix) == "frontier-not-in-groups"
    wrong = state("partialTurn", "h2", "c1", "h1")
    assert fallback([user("other", 0), *LOOP[1:]], 1000, cut=wrong, raw_history=history(LOOP)) == (
        "frontier-not-in-groups"
    )
    loop = state("partialTurn", "h2", "c1")
    assert fallback([user("q", 9)], 1000, cut=loop, raw_history=history(LOOP)) == (
        "frontier-not-in-groups"
    )


def test_a_cut_of_the_prefix_is_held():
    prefix = [says("p" * 800, 1), says("r", 2), user("q", 3)]
    first = select(prefix, 180)
    assert key_of(first) == ("prefix", "h1", None, None)
    assert layout(first) == ["notice", 1, 2]
    second = select([*prefix, says("ok", 4)], 180, cut=first.cut)
    assert layout(second) == ["notice", 1, 2, 3]
    assert layout(select(prefix[:1], 180, trim_to_tokens=10)) == ["notice"]
    wrong = state("prefix", "h1", "c9")
    assert fallback(prefix, 1000, cut=wrong) == "cut-key-unresolved"


def test_a_cut_that_ends_without_a_key_snaps_back():
    noted = [*TURNS[:2], custom("c" * 800, 3), user("q", 4)]
    snapped = select(noted, 320, trim_to_tokens=100)
    assert (key_of(snapped), layout(snapped)) == (
        ("completedTurn", "h2", None, None), ["notice", 2, 3],
    )  # fmt: skip
    more = [*noted, custom("d" * 800, 5), user("q5", 6)]
    assert key_of(select(more, 320, trim_to_tokens=100, cut=snapped.cut))[:2] == (
        "completedTurn", "h4",
    )  # fmt: skip
    # A snap back to the remembered cut is over the budget, or there had been no advance.
    held = state("completedTurn", "h2")
    assert fallback([*noted, custom("x", 5)], 203, trim_to_tokens=20, cut=held) == (
        "keyless-snap-over-budget"
    )


def test_what_is_only_sent_needs_no_key():
    injected = [user("in" * 400, 0), says("r", 1), user("q", 2)]
    flags = [True, False, False]
    selection = select(injected, 180, outgoing_only=flags, raw_history=history(injected[1:]))
    assert selection.fallback == "keyless-no-key"
    injected = [says("in" * 400, 0), user("q", 2)]
    flags = [True, False]
    selection = select(injected, 180, outgoing_only=flags, raw_history=history(injected[1:]))
    assert selection.fallback == "keyless-no-key"


# Keys


def test_keys_are_strict_and_owners_are_not():
    items = history(LOOP)
    found = RawHistory(items)
    assert found.key(LOOP[1]) == CutKey("h2", "c1")
    assert found.owner(LOOP[2]).id == "h2"
    assert found.owner(result("c2", "other", 99)).id == "h4"
    assert found.owner(custom("x", 1)) is None
    assert found.key(result("c1", "x", 3)) is None
    assert found.key({**LOOP[1], "extra": 1}) == CutKey("h2", "c1")
    assert found.key({**LOOP[0], "extra": 1}) is None
    assert found.key({"timestamp": 1, "content": "go", "role": "user"}) is None
    assert RawHistory([*items, RawItem("h2", user("twin", 50))]).key(LOOP[1]) is None
    untimed = {"role": "user", "content": "x"}
    assert RawHistory([RawItem("a", untimed)]).key(dict(untimed)) == CutKey("a")
    for stamp in (None, True, "t", 1.0):
        timed = {**untimed, "timestamp": stamp}
        assert RawHistory([RawItem("a", timed)]).key(dict(timed)) == CutKey("a")
        assert RawHistory([RawItem("a", timed)]).key(untimed) is None
    listed = {**untimed, "timestamp": [1]}
    assert RawHistory([RawItem("a", listed)]).key(dict(listed)) is None
    odd = {"role": "assistant", "content": [None, {"type": "toolCall", "id": 1, "name": "n"}]}
    odd["content"] += [{"type": "toolCall", "id": "c", "name": 1}, {"type": "text"}]
    assert RawHistory([RawItem("a", odd)]).key(dict(odd)) == CutKey("a")


def test_call_ids_that_come_again_lead_the_notice_to_the_newest_turn():
    again = [
        user("first", 1), calls(["c"], 2), result("c", "x" * 800, 3),
        user("second", 4), calls(["c"], 5), result("c", "new", 6),
    ]  # fmt: skip
    selection = select(again, 200)
    assert key_of(selection)[1:3] == ("h2", "c")
    assert '"historyId":"h5"' in selection.cut.notice["content"]


def test_amounts_and_wording():
    assert [thousands(n) for n in (0.5, 1600.5, 12345.6789, 1e30)] == [
        "0.5", "1,600.5", "12,345.679", "1,000,000,000,000,000,019,884,624,838,656",
    ]  # fmt: skip
    plain = default_wording().notice("9", None, None)
    assert "search_history" in plain
    assert "last item" not in plain
    nameless = [user("q", 1), {**calls(["c"], 2)}, {**result("c", "x" * 800, 3)}, user("n", 4)]
    del nameless[2]["toolName"]
    assert "left ()" in select(nameless, 180).cut.notice["content"]


# Growing sessions


def grow(random, messages):
    """Add what a session may add, and say whether a request may follow."""
    at = len(messages) + 1
    last = messages[-1]["role"] if messages else "assistant"
    if last == "assistant":
        return [user("u" * random.randint(1, 300), at)]
    if random.random() < 0.4:
        return [says("a" * random.randint(1, 600), at), user("n", at + 1)]
    ids = [f"{at}-{n}" for n in range(random.randint(1, 3))]
    found = [result(i, "r" * random.choice((10, 200, 900)), at + 1 + n) for n, i in enumerate(ids)]
    return [calls(ids, at), *found]


@pytest.mark.parametrize("seed", range(25))
def test_between_advances_each_request_extends_the_last_one(seed):
    """And what is in no exceptional mode keeps the budget; nothing falls back."""
    rng = random.Random(seed)
    messages, before, paging = [], None, PagingState()
    advances = 0
    for _ in range(40):
        messages = [*messages, *grow(rng, messages)]
        step = next_request(
            paging,
            copied(messages),
            persistent=messages,
            raw_history=history(messages),
            token_budget=1500,
            model_context_window=10**6,
            status_tokens=None,
        )
        now = step.selection
        assert now.fallback == ""
        if now.mode in ("within-budget", "paged"):
            assert now.estimate <= now.budget
            if before is not None and now.cut == before.cut:
                assert now.messages[: len(before.messages)] == before.messages
            else:
                advances += 1
            before = now
        else:
            before = None
        paging = step.state
    assert advances < 20


def test_usage_calibrates_what_is_selected():
    messages = [user("u" * 4000, 1)]
    more = {"token_budget": 6000, "raw_history": history(messages), "system_prompt": "s" * 400}
    step = next_request(PagingState(), messages, persistent=messages, **more)
    answer = says("ok", 2, usage={"totalTokens": 4000})
    paging = PagingState(record_response(step.state.tracker, answer), step.state.cut)
    messages = [*messages, answer, user("n", 3)]
    more["raw_history"] = history(messages)
    step = next_request(paging, messages, persistent=messages, status_tokens=4001, **more)
    assert step.prepared.context == 4001
    assert step.selection.estimate == pytest.approx(4001)
    assert step.prepared.estimates.resident > step.resident
