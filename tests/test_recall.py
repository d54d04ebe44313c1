"""Recall on sessions: items, search, browse, load, pages. Laws first, then what is odd."""

from __future__ import annotations

import importlib.util
import json
import math
import pickle
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    CtxError,
    Head,
    Image,
    InvalidArgument,
    Label,
    Message,
    Note,
    Opaque,
    ProtocolViolation,
    Reply,
    Route,
    Session,
    Text,
    Thinking,
    ToolCall,
    abandon,
    assistant,
    at_leaf,
    fold,
    log,
    open_calls,
    path,
    project,
    prune_suffix,
    record,
    reply,
    select,
    send,
    system,
    tool_result,
    travel,
    user,
)
from ctxalgebra.compat.paging_recall import UTF16
from ctxalgebra.laws.strategies import conversations, dirty_messages, journals
from ctxalgebra.recall import (
    CODE_POINTS,
    RECALL_NAMES,
    History,
    browse,
    find_model_turn,
    history,
    history_items,
    history_of,
    is_recall_turn,
    item_json,
    load,
    model_turn,
    page,
    public_item,
    public_part,
    read_output,
    search,
    turn_with,
    words,
)
from ctxalgebra.recall import index as index_module
from ctxalgebra.recall import items as items_module
from ctxalgebra.recall.index import Index, ranked
from ctxalgebra.recall.items import files_in
from ctxalgebra.recall.texts import count_words, preview, quote, safe, unescaped

history_module = sys.modules["ctxalgebra.recall.history"]
ROOT = Path(__file__).resolve().parents[1]

# Hostile sessions: few ids, which come again; words in every script; arguments of every shape

TEXTS = (
    "needle",
    "a needle: found\nneedle again",
    "请分页显示历史记录 abc分页",
    "İstanbul ſ Straße naïve １２",
    "..//.. -:./ _lead_ foo_bar.baz:qux don't C++",
    "\U0001f600\U0001f600 pub \U0001f600",
    "\u2028\ufeff x\x00y \x1b[31m",
    "",
    " \n ",
    ".分页 a...分 b....",
    "x" * 300,
)
ARGUMENTS = (
    "{}",
    '{"path":"src/app.ts","content":"line one\\nTODO_MARKER here"}',
    '{"File_Path":"a\\\\b.py","edits":[{"files":["c.py",3,"c.py"]}],"filename":"no"}',
    '{"n":1.50,"big":1e400,"d":' + "9" * 5000 + "}",
    '{"path":"\\ud800x"}',
    "not json",
    "[" * 100_000,
    '"\\q"',
    "NaN",
)
IDS = ("call_0", "call_1", "c")
NAMES = ("read", "bash", "search_history", "load_history")
OPAQUE = Opaque("server", '{"secret":"hidden_word"}')

CALLS = st.builds(
    ToolCall, st.sampled_from(IDS), st.sampled_from(NAMES), st.sampled_from(ARGUMENTS)
)
SAID = st.one_of(
    st.sampled_from(TEXTS).map(Text),
    st.just(Thinking("hidden_word", "s")),
    st.just(OPAQUE),
    CALLS,
)
OUTPUT = st.lists(
    st.one_of(
        st.sampled_from(TEXTS).map(Text),
        st.just(Image("aGk=", "image/png")),
        st.just(Opaque("video", '{"a":"b"}')),
    ),
    max_size=3,
).map(tuple)
EXCHANGES = st.tuples(
    st.just("exchange"),
    st.tuples(
        st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda call: call.id),
        st.sampled_from((Text("needle"), Thinking("hidden_word", "s"), OPAQUE)) | st.none(),
        st.lists(OUTPUT | st.none(), min_size=3, max_size=3),
        st.integers(0, 9),
    ),
)
MOVES = st.one_of(
    st.tuples(st.just("user"), st.sampled_from(TEXTS)),
    st.tuples(st.just("system"), st.sampled_from(TEXTS)),
    st.tuples(st.sampled_from(("say", "reply", "fail")), st.lists(SAID, max_size=4)),
    st.tuples(st.just("result"), st.tuples(st.integers(0, 3), OUTPUT, st.booleans())),
    EXCHANGES,
    EXCHANGES,
    EXCHANGES,
    st.tuples(st.just("cut"), st.integers(1, 200)),
    st.tuples(st.just("travel"), st.integers(0, 60)),
    st.tuples(st.just("search"), st.none()),
    st.tuples(st.just("note"), st.none()),
)


def played(moves):
    """Offer moves to the gate; keep what it takes."""
    session = Session()
    for kind, value in moves:
        try:
            session = moved(session, kind, value)
        except CtxError:
            continue
    return session


def moved(session, kind, value):
    match kind:
        case "user" | "system":
            return record(session, (user if kind == "user" else system)(value))
        case "say":
            return record(session, assistant(*value))
        case "reply" | "fail":
            outcome = "completed" if kind == "reply" else "failed"
            return reply(send(session)[0], outcome, assistant(*value))
        case "exchange":
            return exchanged(session, *value)
        case "result":
            which, parts, error = value
            calls = open_calls(session)
            call = calls[which % len(calls)] if calls else "c"
            return record(session, tool_result(call, parts, error=error))
        case "cut":
            return select(session, budget=value)
        case "travel":
            return travel(session, value % len(session)) if len(session) else session
        case "search":
            search(session, "needle")
            return session
        case _:
            return record(session, Note("n", "x"), Label(0, "first"))


def exchanged(session, calls, first, outputs, chance):
    """Close what is open, call, and answer in another order; now and then something is amiss."""
    for call in open_calls(session):
        session = abandon(session, call, "left")
    session = record(session, assistant(*([first] if first else []), *calls))
    for at in sorted(range(len(calls)), key=lambda at: (at * 7 + chance) % 3):
        if chance == at:
            session = record(session, user("steer needle"))
        if outputs[at] is None:
            if chance > 7:
                return session
            session = record(session, tool_result(calls[at].id, "plain output", error=chance > 5))
        else:
            session = record(session, tool_result(calls[at].id, outputs[at]))
    return session


SESSIONS = st.lists(MOVES, max_size=40).map(played)


def projected(session):
    """Project a path into (number, results) by the rule, without the fold."""
    found, waiting, open_turn = [], [], None
    for node in path(session):
        entry = node.entry
        message = entry.message if isinstance(entry, Reply) else entry
        if not isinstance(message, Message):
            continue
        if message.role == "tool":
            open_turn[1].append(node.number)
            if len(open_turn[1]) == len(open_turn[2]):
                found += [(open_turn[0], tuple(open_turn[1])), *waiting]
                waiting, open_turn = [], None
            continue
        lost = isinstance(entry, Reply) and entry.outcome != "completed"
        if message.calls and not lost:
            open_turn = (node.number, [], message.calls)
        else:
            (waiting if open_turn else found).append((node.number, ()))
    return found


def recorded(session):
    return {
        node.number: node.entry.message if isinstance(node.entry, Reply) else node.entry
        for node in path(session)
    }


@given(st.one_of(SESSIONS, journals()))
def test_the_history_is_that_of_the_path_and_holds_what_was_recorded(session):
    items = history_items(session)
    assert [(item.number, item.numbers) for item in items] == projected(session)
    entries = recorded(session)
    for item in items:
        assert item.message is entries[item.number]
        for result, at in zip(item.results, item.numbers, strict=True):
            assert result is entries[at]
        assert item.id == str(item.number)
        for number in (item.number, *item.numbers):
            if item.kind == "modelTurn":
                assert turn_with(session, number) is item
            else:
                assert turn_with(session, number) is None


@given(SESSIONS)
def test_grown_equals_from_scratch_for_history_and_search(session):
    again = pickle.loads(pickle.dumps(session))
    assert history_items(again) == history_items(session)
    for query in ("needle", "页", "TODO_MARKER here", "abc分页", "c.py"):
        assert search(again, query, limit=10) == search(session, query, limit=10)
    assert search(again, "", failed=True) == search(session, "", failed=True)


@given(st.one_of(SESSIONS, journals()))
def test_every_message_that_left_is_in_an_item(session):
    """Conservation: what is not shown any more, is found; except what was never complete."""
    shown = set(session.view.slots.numbers[: session.view.end])
    waiting = {n for n, _ in session.view.waiting} | {n for n, _ in session.view.results.values()}
    owned = {n for item in history_items(session) for n in (item.number, *item.numbers)}
    said = {n for n, m in recorded(session).items() if isinstance(m, Message)}
    assert said - shown - waiting <= owned


@given(SESSIONS)
def test_what_is_visible_is_all_but_turns_that_only_asked_for_history(session):
    items = history_items(session)
    visible = [item for item in items if not item.hidden]
    assert len(history(session)) == len(visible)
    for item in items:
        asks = bool(item.tools) and set(item.tools) <= set(RECALL_NAMES)
        spoke = any(isinstance(p, Text) and p.text.strip() for p in item.message.parts)
        assert item.hidden == (asks and not spoke)
        assert is_recall_turn(item) == bool(set(item.tools) & set(RECALL_NAMES))
    for sequence, item in enumerate(visible):
        (got,) = load(session, [item.id])
        assert got == public_item(item, sequence)
        assert [p for p in got.content if p is not None] == [
            public_part(p) for p in item.message.parts if public_part(p) is not None
        ] or item.kind != "modelTurn"
        assert len(got.content) == len(item.message.parts)


def brute_force(items, query):
    """Rank by the formula of the specification, over counts of each item."""
    counts = [count_words(item.words()) for item in items]
    total = sum(sum(c.values()) for c in counts)
    scores = {}
    for term in dict.fromkeys(words(query)):
        df = sum(term in c for c in counts)
        idf = math.log(1 + (len(items) - df + 0.5) / (df + 0.5))
        for at, c in enumerate(counts):
            if term in c:
                norm = 1.2 * (0.25 + 0.75 * sum(c.values()) / (total / len(items)))
                scores[at] = scores.get(at, 0) + idf * c[term] * 2.2 / (c[term] + norm)
    return scores


@given(SESSIONS, st.sampled_from((*TEXTS, "needle todo_marker", "c.py src app.ts", "hidden_word")))
def test_search_is_bm25_over_the_visible_items(session, query):
    visible = [item for item in history_items(session) if not item.hidden]
    query = query[:200]
    scores = brute_force(visible, query)
    found = search(session, query, limit=10)
    if not query:
        assert [f.sequence for f in found] == list(range(min(10, len(visible))))
        return
    assert len(found) == min(10, len(scores))
    given = [scores[f.sequence] for f in found]
    assert given == sorted(given, reverse=True) or all(
        math.isclose(a, b) or a > b for a, b in pairwise(given)
    )
    left = [score for at, score in scores.items() if at not in {f.sequence for f in found}]
    assert all(score <= min(given) * (1 + 1e-9) for score in left)


@given(SESSIONS)
def test_every_word_that_may_be_shown_leads_to_its_item(session):
    known = history(session)
    visible = [item for item in history_items(session) if not item.hidden]
    if not visible:
        return
    index = known.index.reach(known.top.shown)
    for sequence, item in enumerate(visible):
        texts = [p.text for p in item.message.parts if isinstance(p, Text)]
        texts += [c.name for c in item.message.calls]
        texts += list(item.files)
        names = {c.id: c.name for c in item.message.calls}
        for result in item.results:
            if names[result.call] not in RECALL_NAMES:
                texts += [p.text for p in result.parts if isinstance(p, Text)]
        for word in {w for text in texts for w in words(text)}:
            hits = ranked(index, known.top.shown, word, (), 10**6)
            assert sequence in {cell.seen - 1 for cell in hits}
    assert not search(session, "hidden_word")


@given(SESSIONS, st.integers(1, 50), st.integers(1, 9))
def test_pages_put_together_are_what_was_recorded(session, limit, step):
    for item in history_items(session):
        if item.kind != "modelTurn":
            with pytest.raises(InvalidArgument, match="unknown-item"):
                read_output(session, item.id, index=0)
            continue
        names = {c.id: c.name for c in item.message.calls}
        for result in item.results:
            if names[result.call] in RECALL_NAMES:
                with pytest.raises(InvalidArgument, match="withheld-output"):
                    read_output(session, item.id, call=result.call)
                continue
            text, form = whole(session, item.id, limit * step, call=result.call)
            if len(result.parts) == 1 and isinstance(result.parts[0], Text):
                assert (text, form) == (result.parts[0].text, "text")
            else:
                assert form == "json"
                assert len(json.loads(text)) == len(result.parts)
        for at, part in enumerate(item.message.parts):
            if public_part(part) is None:
                with pytest.raises(InvalidArgument, match="withheld-output"):
                    read_output(session, item.id, index=at)
            elif isinstance(part, Text):
                assert whole(session, item.id, limit, index=at) == (part.text, "text")
            elif len(part.arguments) < 1000:
                text, form = whole(session, item.id, limit, index=at)
                assert form == "json"
                assert part.arguments in text or json.dumps(part.arguments) in text


def whole(session, id, limit, **which):
    pieces, offset = [], 0
    while offset is not None:
        got = read_output(session, id, offset=offset, limit=limit, **which)
        assert got.offset == offset
        assert len(got.text) <= limit
        assert got.next == (offset + len(got.text) if offset + limit < got.total else None)
        pieces.append(got.text)
        offset = got.next
    assert sum(map(len, pieces)) == got.total
    return "".join(pieces), got.form


@given(
    SESSIONS,
    st.sampled_from(("backward", "forward", "around")),
    st.none() | st.integers(0, 12),
    st.integers(1, 10),
    st.integers(1, 10),
)
def test_browse_walks_as_the_specification_says(session, direction, anchor, count, stride):
    length = len(history(session))
    if anchor is not None and anchor >= length:
        with pytest.raises(InvalidArgument, match="unknown-anchor"):
            browse(session, direction, sequence=anchor)
        return
    found = browse(session, direction, sequence=anchor, count=count, stride=stride)
    every = list(range(length))
    if direction == "forward":
        expected = every[0 if anchor is None else anchor + stride :: stride][:count]
    elif direction == "backward":
        last = length - 1 if anchor is None else anchor - stride
        expected = every[last::-stride][:count] if last >= 0 else []
    else:
        middle = length - 1 if anchor is None else anchor
        candidates = [at for at in every if (at - middle) % stride == 0]
        at = candidates.index(middle) if candidates else 0
        start = max(0, min(at - (count - 1) // 2, len(candidates) - count))
        expected = candidates[start : start + count]
    assert [f.sequence for f in found] == expected
    for f in found:
        assert f.previous == (None if f.sequence == 0 else browse(
            session, "backward", id=f.id, count=1)[0].id)  # fmt: skip
        assert (f.next is None) == (f.sequence == length - 1)
        if anchor is None:
            assert browse(session, direction, id=f.id, count=count) == browse(
                session, direction, sequence=f.sequence, count=count
            )


# What things cost: counts, not times


@pytest.fixture
def indexed(monkeypatch):
    seen = Counter()

    def counting(*arguments):
        seen["items"] += 1
        return count_words(*arguments)

    monkeypatch.setattr(index_module, "count_words", counting)
    return seen


def turns(session, numbers, text="some output"):
    for number in numbers:
        call = ToolCall("call_0", "bash", f'{{"n":{number}}}')
        session = record(
            session,
            user(f"ask {number}"),
            assistant(call),
            tool_result("call_0", f"{text} {number}"),
        )
    return session


def test_an_item_is_indexed_once_whatever_is_searched_later_and_on_which_branch(indexed):
    trunk = turns(Session(), range(200))
    assert indexed["items"] == 0
    assert [f.id for f in search(trunk, "ask 7", limit=1)] == ["21"]
    assert indexed["items"] == 400
    search(trunk, "output")
    assert indexed["items"] == 400
    longer = turns(trunk, [200])
    search(longer, "output")
    assert indexed["items"] == 402
    # Back to any place: all of it is known there; a branch costs what it adds.
    for place in (3, 299, 301, 450):
        branch = turns(at_leaf(longer, place - place % 3 + 2), [1000 + place], "elsewhere")
        search(branch, "elsewhere")
    assert indexed["items"] == 402 + 8
    assert [f.preview for f in search(branch, "elsewhere")] == [
        '{"type":"toolCall","id":"call_0","name":"bash","arguments":{"n":1450}}'
    ]
    assert not search(longer, "elsewhere")
    assert search(travel(branch, 299), "output", limit=10) == search(
        pickle.loads(pickle.dumps(travel(branch, 299))), "output", limit=10
    )


def test_what_waited_is_indexed_behind_each_end_of_its_turn():
    """The same message stands behind two turns, which differ by their results."""
    open_turn = record(Session(), user("go"), assistant(ToolCall("a", "read")), user("steer"))
    one = record(open_turn, tool_result("a", "first_end"))
    assert [f.id for f in search(one, "first_end")] == ["1"]
    two = record(travel(one, 2), tool_result("a", "second_end"))
    assert [f.id for f in search(two, "second_end")] == ["1"]
    assert search(two, "first_end") == search(one, "second_end") == ()
    assert [f.id for f in search(two, "steer")] == ["2"]


def test_trials_that_are_thrown_away_cost_themselves(indexed):
    session = turns(Session(), range(10))
    for number in range(50):
        search(turns(session, [900 + number]), "output")
        session = turns(session, [number])
        search(session, "output")
    assert indexed["items"] == 20 + 50 * 4
    assert len(search(session, "", limit=10)) == 10
    assert [f.preview for f in search(session, "949")] == []


def test_a_turn_costs_the_fold_one_step():
    session = record(Session(), Head())
    history(session)
    known = session
    for number in range(300):
        before = history(known).top
        known = turns(known, [number])
        after = history(known).top
        assert after.depth == 2 * number + 2
        assert after.parent.parent is before


def test_browse_reads_a_logarithm_of_cells(monkeypatch):
    session = Session()
    for number in range(30_000):
        session = record(session, user(f"m{number}"))
    known = history(session)
    seen = Counter()

    def counting(*arguments):
        seen["reads"] += 1
        return getattr(*arguments)

    monkeypatch.setattr(history_module, "getattr", counting, raising=False)
    for sequence in range(0, 30_000, 997):
        seen.clear()
        found = browse(known, "around", sequence=sequence, count=10, stride=10)
        assert len(found) == 10
        # Three places an answer (it and its neighbours), two reads a step, twice a logarithm.
        assert seen["reads"] <= 10 * 3 * 2 * 2 * 17
    assert browse(known, "forward", id="29998")[0].id == "29999"


def test_the_benchmark_measures_what_it_says():
    spec = importlib.util.spec_from_file_location("recall", ROOT / "benchmarks" / "recall.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    outputs = benchmark.texts(60_000, 30)
    assert 60_000 <= sum(map(len, outputs)) <= 75_000
    session = benchmark.session_of(outputs)
    assert len(history(session)) == 60
    assert [f.files for f in search(session, "step42")] == []
    assert search(session, "step29", limit=1)[0].id == "88"
    assert benchmark.tokenise(outputs) >= sum(len(words(text, UTF16)) for text in outputs) > 5_000
    figures = benchmark.measure(size=30_000, length=1_000, runs=1)
    assert {"first", "append", "browse", "missed"} <= set(figures)
    assert set(figures["missed"]) <= set(benchmark.LIMITS)


def test_two_threads_at_the_index_do_not_meet():
    """Whoever finds it busy builds one of its own, and nothing of that is kept."""
    session = turns(Session(), range(5))
    shared = history(session).index
    shared.busy.append(object())
    alone = search(session, "output", limit=10)
    assert shared.places == {}
    shared.busy.clear()
    assert search(session, "output", limit=10) == alone
    assert len(shared.places) == 10
    assert shared.busy == []


def test_an_item_that_could_not_be_indexed_is_tried_again(monkeypatch):
    session = turns(Session(), range(3))

    def failing(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(index_module, "count_words", failing)
        with pytest.raises(MemoryError):
            search(session, "output")
    assert len(search(session, "output")) == 3


def test_half_an_item_in_the_index_is_never_read(monkeypatch):
    session = turns(Session(), range(3))

    class Torn(dict):
        def values(self):
            return super().values()

        def items(self):
            yield "output", 1
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(index_module, "count_words", lambda *_: Torn(output=1))
        with pytest.raises(KeyboardInterrupt):
            search(session, "output")
    known = history(session).index
    assert len(known.cells) == 1
    assert known.places == {}
    assert [f.id for f in search(session, "output")] == ["1", "4", "7"]
    assert [f.id for f in search(session, "")] == ["0", "1", "3", "4", "6"]


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please find src/app.ts", "please find src/app.ts src app.ts src app ts"),
        ("foo_bar.baz:qux", "foo_bar.baz:qux foo_bar.baz qux foo_bar baz qux"),
        ("_lead_ ...x... a-b don't", "_lead_ x a-b a b don t"),
        ("a-b.c", "a-b.c a b c"),
        ("-:./", ""),
        ("a:./b", "a:./b a b a b a b"),
        ("C++ user@host.com", "c user host.com host com"),
        ("x分页 分页x .分页 a..分", "x 分 页 分 页 x 分 页 a 分"),
        ("İstanbul", "i stanbul"),
        ("ſ １２ Straße", "s 12 strasse"),
        ("\ufb01le e\u0301te\u0301 ÉTÉ", "file été été"),
        ("a....... b", "a b"),
    ],
)
def test_words(text, expected):
    assert words(text) == expected.split()
    assert count_words([(text, 2)]) == Counter(expected.split() * 2)


def test_what_stands_in_front_of_a_line_number_is_found_and_so_are_other_spellings():
    lines = "src/hay.py:7: needle\nsrc/hay.py-8-other\n../lib/x.tar.gz"
    said = "E\u0301te\u0301 in the \ufb01le"
    session = record(Session(), user(lines), assistant("On line 7."), user(said))
    for query in ("src/hay.py", "hay.py", "hay", "x.tar.gz", "lib/x.tar.gz", "Hay.PY x"):
        assert [found.id for found in search(session, query)] == ["0"], query
    assert [found.id for found in search(session, "SRC/HAY.PY:7")] == ["0", "1"], "best first"
    for query in ("été", "e\u0301te\u0301", "ÉTÉ", "file", "ﬁle"):
        assert [found.id for found in search(session, query)] == ["2"], query
    assert search(session, "haypy") == ()


@given(st.text(alphabet="aB_./:-分é \n", max_size=30))
def test_words_of_ascii_and_of_all_texts_are_found_alike(text):
    plain = "".join(c for c in text if c.isascii())
    # A letter that is no ASCII, apart, sends the text the other way.
    assert words(plain) == [w for w in words(plain + " é") if w != "é"]
    assert Counter(words(text)) == count_words([(text, 1)])
    assert words(text, UTF16) == [w for w in words(text, UTF16) if w == w.strip("./:-")]
    assert count_words([(text, 3)], UTF16) == Counter(words(text, UTF16) * 3)


def test_finding_words_is_linear_in_the_text():
    runs = ("." * 400_000, "a" + "." * 400_000, ("a" + "." * 50) * 8_000, '"' * 400_000)
    for run in (*runs, "a:" * 200_000, "a./" * 135_000, "\u0301\u0316" * 200_000):
        assert len(words(run)) <= 3 * run.count("a") + 1
        assert len(unescaped('{"' + run + '\\"')) >= 400_000


def test_escapes_in_arguments_are_undone():
    call = ToolCall("c1", "write", '{"content":"line one\\nTODO_MARKER \\u00e9t\\u00e9 \\q"}')
    odd = ToolCall("c2", "write", '{"content":"l\\nSECOND \\q"}')
    session = record(Session(), assistant(call, odd), *(tool_result(i, "") for i in ("c1", "c2")))
    for query in ("TODO_MARKER", "line", "été", "SECOND"):
        assert len(search(session, query)) == 1
    assert not search(session, "nTODO_MARKER")
    assert unescaped('"\\ud83d\\ude00 \\ud83d \\/a\\\\" \\') == '"\U0001f600 \ud83d /a\\" \\'


@given(st.text(max_size=400), st.text(max_size=400))
def test_previews_are_one_line_and_the_beginning(first, second):
    space = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
    space += "".join(map(chr, range(0x2000, 0x200B)))
    text = f"{first} {second}"
    for char in space:
        text = text.replace(char, " ")
    assert preview([first, second], CODE_POINTS) == " ".join(filter(None, text.split(" ")))[:160]


def test_texts_that_messages_can_not_hold_are_made_safe():
    assert safe("a\ud800b") == "a\\ud800b"
    assert json.loads(quote('"\n\ud83d')) == '"\n\ud83d'


# Search, browse, load: what they refuse


def some():
    return record(
        Session(),
        user("Please find the Needle in src/app.ts"),
        assistant(ToolCall("k1", "read", '{"path":"src/app.ts"}')),
        tool_result("k1", "needle: found\nneedle again"),
        assistant(ToolCall("k2", "search_history", '{"query":"needle"}')),
        tool_result("k2", "{}"),
        assistant("The needle is on line 7."),
        system("Mind the gap."),
    )


def test_references_and_filters():
    session = some()
    first, second, third = search(session, "needle")
    assert [first.id, second.id, third.id] == ["5", "0", "1"]
    assert (third.tools, third.files, third.failed) == (("read",), ("src/app.ts",), False)
    assert (third.previous, third.next, third.sequence) == ("0", "5", 1)
    assert third.timestamp is None
    assert [f.kind for f in browse(session, "forward")] == [
        "user",
        "modelTurn",
        "modelTurn",
        "system",
    ]
    assert [f.id for f in search(session, "", tools=["read"], files=("src/app.ts",))] == ["1"]
    assert search(session, "", tools=["read"], files=["other"]) == ()
    assert search(session, "needle", tools=["read"], failed=True) == ()
    assert [f.id for f in search(session, "needle", failed=False, limit=1)] == ["5"]
    assert search(session, "!!!") == ()
    assert search(Session(), "a") == browse(Session(), "around") == ()
    hidden = record(Session(), assistant(ToolCall("k", "load_history")), tool_result("k", "needle"))
    assert search(hidden, "needle") == ()
    assert load(session, ("5", "0", "5"))[2].sequence == 2


def test_a_turn_that_also_did_something_else_is_found_without_what_was_recalled():
    """The original hides it whole; what else it did would be lost."""
    calls = ToolCall("a", "search_history", '{"query":"x"}'), ToolCall("b", "bash", "{}")
    session = record(
        Session(),
        assistant(*calls),
        tool_result("a", "recalled_word", name="search_history"),
        tool_result("b", "built_word"),
    )
    assert [f.id for f in search(session, "built_word")] == ["0"]
    assert search(session, "recalled_word") == ()
    (item,) = load(session, ["0"])
    assert [result.call for result in item.results] == ["b"]
    assert "recalled_word" not in item_json(item)
    assert len(history_items(session)[0].results) == 2


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("wrong-type", lambda s: search(None, "a")),
        ("wrong-type", lambda s: history(None)),
        ("wrong-type", lambda s: search(s, 5)),
        ("invalid-argument", lambda s: search(s, "x" * 201)),
        ("wrong-type", lambda s: search(s, "x", files="abc")),
        ("wrong-type", lambda s: search(s, "x", files=5)),
        ("wrong-type", lambda s: search(s, "x", tools=[5])),
        ("invalid-argument", lambda s: search(s, "x", tools=["x" * 201])),
        ("invalid-argument", lambda s: search(s, "x", tools=["x"] * 11)),
        ("wrong-type", lambda s: search(s, "x", failed="no")),
        ("invalid-argument", lambda s: search(s, "x", limit=0)),
        ("invalid-argument", lambda s: search(s, "x", limit=11)),
        ("wrong-type", lambda s: search(s, "x", limit=True)),
        ("invalid-argument", lambda s: browse(s, "up")),
        ("invalid-argument", lambda s: browse(s, 5)),
        ("unknown-anchor", lambda s: browse(s, "around", id="0", sequence=0)),
        ("unknown-anchor", lambda s: browse(s, "around", id="77")),
        ("unknown-anchor", lambda s: browse(s, "around", id="3")),
        ("unknown-anchor", lambda s: browse(s, "around", id="00")),
        ("unknown-anchor", lambda s: browse(s, "around", id="\u0663")),
        ("unknown-anchor", lambda s: browse(s, "around", sequence=99)),
        ("invalid-argument", lambda s: browse(s, "around", sequence=-1)),
        ("invalid-argument", lambda s: browse(s, "around", id="1" * 129)),
        ("wrong-type", lambda s: browse(s, "around", id=1)),
        ("invalid-argument", lambda s: browse(s, "around", count=11)),
        ("invalid-argument", lambda s: browse(s, "around", stride=0)),
        ("wrong-type", lambda s: load(s, "0")),
        ("wrong-type", lambda s: load(s, 5)),
        ("invalid-argument", lambda s: load(s, [])),
        ("invalid-argument", lambda s: load(s, ["0"] * 4)),
        ("wrong-type", lambda s: load(s, [0])),
        ("unknown-item", lambda s: load(s, ["0", "77"])),
        ("unknown-item", lambda s: load(s, [""])),
        ("unknown-item", lambda s: load(s, ["3"])),
        ("unknown-item", lambda s: load(s, ["9" * 100])),
        ("invalid-argument", lambda s: read_output(s, "1")),
        ("invalid-argument", lambda s: read_output(s, "1", call="k1", index=0)),
        ("wrong-type", lambda s: read_output(s, "1", call=5)),
        ("wrong-type", lambda s: read_output(s, "1", index="0")),
        ("invalid-argument", lambda s: read_output(s, "1", index=-1)),
        ("unknown-item", lambda s: read_output(s, "1", index=9)),
        ("unknown-item", lambda s: read_output(s, "1", call="k9")),
        ("unknown-item", lambda s: read_output(s, "77", call="k1")),
        ("unknown-item", lambda s: read_output(s, "0", index=0)),
        ("withheld-output", lambda s: read_output(s, "3", call="k2")),
        ("invalid-argument", lambda s: read_output(s, "1", call="k1", limit=2001)),
        ("invalid-argument", lambda s: read_output(s, "1", call="k1", offset=-1)),
        ("invalid-argument", lambda s: read_output(s, "1", call="k1", offset=999)),
        ("wrong-type", lambda s: page(5)),
        ("wrong-type", lambda s: page("a", limit=1.5)),
        ("wrong-type", lambda s: turn_with(s, "1")),
        ("wrong-type", lambda s: find_model_turn(s, 5)),
        ("wrong-type", lambda s: is_recall_turn(5)),
        ("wrong-type", lambda s: public_item(5, 0)),
        ("wrong-type", lambda s: history_of([5])),
    ],
)
def test_refused(code, asked):
    session = some()
    with pytest.raises(InvalidArgument) as caught:
        asked(session)
    assert caught.value.code == code
    assert caught.value.field


def test_what_is_more_than_one_text_is_read_as_json():
    call = ToolCall("c", "read")
    image = Image("aGk=", "image/png")
    for parts in ((Text("a"), Text("b")), (image,), (), (Opaque("video", '{"n":1.50}'),)):
        session = record(Session(), assistant(call), tool_result("c", parts))
        got = read_output(session, "0", call="c")
        assert got.form == "json"
        assert len(json.loads(got.text)) == len(parts)
    assert got.text == '[{"n":1.50}]'


def test_pages_of_what_is_json_are_cut_from_one_text(monkeypatch):
    written = 0
    real = items_module.quote

    def quote(text):
        nonlocal written
        written += len(text)
        return real(text)

    monkeypatch.setattr(items_module, "quote", quote)
    call = ToolCall("c1", "write", f'{{"text":"{"y" * 90_000}"')  # no JSON, so that it is quoted
    parts = tuple(Text("x" * 1000) for _ in range(90))
    session = record(Session(), assistant(call), tool_result("c1", parts))
    read = {}
    for where in ({"call": "c1"}, {"index": 0}):
        written, at, pieces = 0, 0, []
        while at is not None:
            found = read_output(session, "0", offset=at, **where)
            pieces.append(found.text)
            at = found.next
        assert len(pieces) > 40
        assert 90_000 <= written < 100_000
        read[next(iter(where))] = json.loads("".join(pieces))
    assert [part["text"] for part in read["call"]] == [part.text for part in parts]
    assert read["index"]["arguments"] == call.arguments
    same = record(Session(), assistant(call), tool_result("c1", (*parts, Text("z"))))
    assert read_output(same, "0", call="c1").total > found.total, "another output is another text"


def test_the_end_of_a_text_is_an_empty_page():
    assert read_output(some(), "1", call="k1", offset=26).text == ""
    assert page("", limit=1) == page("", offset=0)


# Items


def test_what_names_files():
    value = {"Path": "src/a.ts", "nested": [{"files": ["b.ts", 3, "src/a.ts"]}], "filename": "no"}
    assert list(files_in(value)) == ["src/a.ts", "b.ts", "src/a.ts"]
    assert list(files_in({"file": {"path": "in"}, "FILE_PATH": "out"})) == ["in", "out"]
    deep = "[" * 400 + '{"path":"x"}' + "]" * 400
    assert model_turn(0, assistant(ToolCall("c", "r", deep))).files == ("x",)


def test_an_exchange_is_absent_until_it_is_complete_and_what_follows_waits():
    call = assistant(ToolCall("a", "read"), ToolCall("b", "read"))
    session = record(Session(), user("go"), call, tool_result("b", "2"), user("steer"), system("s"))
    assert [item.id for item in history_items(session)] == ["0"]
    assert turn_with(session, 1) is None
    done = record(session, tool_result("a", "1", error=True))
    turn = history_items(done)[1]
    assert [item.id for item in history_items(done)] == ["0", "1", "3", "4"]
    assert (turn.numbers, turn.failed, turn.interrupted) == ((2, 5), True, False)
    assert turn_with(done, 5) is turn
    assert turn_with(done, 3) is None
    assert [r.call for r in turn.results] == ["b", "a"]


def test_replies_that_failed_are_recovered_at_once():
    session, _ = send(record(Session(), user("go")))
    session = reply(session, "aborted", assistant("half a", ToolCall("a", "read")))
    session = reply(send(session)[0], "failed")
    _, turn = history_items(session)
    assert (turn.failed, turn.interrupted, turn.results) == (True, True, ())
    assert [f.id for f in search(session, "half", failed=True)] == ["2"]
    assert project(session).messages == (user("go"),)


def test_reused_ids_and_newest_first():
    session = turns(Session(), range(3))
    assert find_model_turn(session, "call_0").id == "7"
    assert find_model_turn(session, "c9") is None
    assert read_output(session, "1", call="call_0").text == "some output 0"
    assert read_output(session, "4", call="call_0").text == "some output 1"
    assert turn_with(session, 2).id == "1"
    assert find_model_turn(Session(), "a") is turn_with(Session(), 0) is None


def test_decisions_change_no_history():
    session = turns(record(Session(), Head(Route(binding="none"))), range(20), "x" * 500)
    before = history(session)
    pruned = prune_suffix(session, stub_over=50, drop_over=40)
    cut = select(pruned, budget=500)
    assert len(project(cut).messages) < len(project(session).messages)
    assert history_items(cut) == history_items(session)
    assert read_output(cut, "2", call="call_0").text == f"{'x' * 500} 0"
    assert history(cut).top is before.top


def test_the_public_view_keeps_places_and_hides_the_rest():
    signed = ToolCall("a", "read", '{"n":1.50,"k":[1,2]}', signature="sig")
    turn = model_turn(
        3,
        assistant(Thinking("secret", "s"), "pub", signed, OPAQUE, Image("aGk=", "image/png")),
        [(4, tool_result("a", (Text("out"), Image("aGk=", "image/png")), error=True))],
    )
    public = public_item(turn, 7)
    assert public.content[0] is public.content[3] is public.content[4] is None
    assert public.content[2] == ToolCall("a", "read", '{"n":1.50,"k":[1,2]}')
    text = item_json(public)
    assert '"arguments":{"n":1.50,"k":[1,2]}' in text
    assert "secret" not in text
    assert "sig" not in text
    value = json.loads(text)
    assert value["historyId"] == "3"
    assert value["toolResults"][0]["toolName"] == "read"
    assert value["toolResults"][0]["content"][1]["mimeType"] == "image/png"
    assert value["toolResults"][0]["isError"] is True
    assert value["metadata"] == {"tools": ["read"], "files": [], "failed": True}
    odd = model_turn(0, assistant(ToolCall("a", "r", "not json")))
    assert (
        json.loads(item_json(public_item(odd, 0)))["assistantMessage"]["content"][0]["arguments"]
        == "not json"
    )


@given(SESSIONS)
def test_items_are_written_as_json_that_says_what_was_recorded(session):
    for item in history_items(session):
        value = json.loads(item_json(public_item(item, 0)), parse_int=str)
        (message,) = (v for k, v in value.items() if k.endswith("Message"))
        for part, block in zip(item.message.parts, message["content"], strict=True):
            if isinstance(part, Text):
                assert block == {"type": "text", "text": part.text}
            elif isinstance(part, ToolCall):
                assert (block["id"], block["name"]) == (part.id, part.name)
            elif item.kind == "modelTurn":
                assert block is None


def test_user_content_that_is_no_text_is_kept_and_searched_by_what_can_be_read():
    session = record(Session(), user((Text("look"), Image("aGk=", "image/png"), OPAQUE)))
    assert [f.id for f in search(session, "hidden_word")] == ["0"]
    assert [f.id for f in search(session, "image/png")] == ["0"]
    assert search(session, "aGk=") == ()
    (item,) = load(session, ["0"])
    assert item.content == (Text("look"), Image("aGk=", "image/png"), OPAQUE)
    (found,) = browse(session, "forward")
    assert found.preview.startswith('look {"type":"image"')


def test_histories_are_told_by_their_sizes():
    assert repr(history(some())) == "<History: 5 items, 4 visible>"
    assert repr(History()) == "<History: 0 items, 0 visible>"
    assert len(history(some())) == 4


# Lists from elsewhere

CALL = assistant(ToolCall("a", "read"), ToolCall("b", "read"))
A, B = tool_result("a", "1"), tool_result("b", "2")


@pytest.mark.parametrize(
    ("code", "entry", "messages"),
    [
        ("orphan-result", 1, [user("x"), A]),
        ("orphan-result", 0, [A]),
        ("mismatched-result", 1, [assistant("t"), A]),
        ("mismatched-result", 2, [CALL, A, tool_result("c", "")]),
        ("duplicate-result", 2, [CALL, A, A]),
        ("duplicate-result", 3, [CALL, A, B, B]),
        ("incomplete-results", 0, [CALL, A, user("x")]),
        ("incomplete-results", 1, [user("x"), CALL, CALL, A, B]),
    ],
)
def test_lists_that_are_no_history(code, entry, messages):
    with pytest.raises(ProtocolViolation) as caught:
        history_of(messages)
    assert (caught.value.code, caught.value.entry) == (code, entry)


def test_lists_that_are_a_history():
    known = history_of([user("x"), CALL, B, A, system("s"), CALL, A], interrupted=[])
    assert [(i.id, i.kind, i.numbers) for i in history_items(known)] == [
        ("0", "user", ()),
        ("1", "modelTurn", (2, 3)),
        ("4", "system", ()),
    ]
    broken = history_of([CALL, A, user("x"), CALL], interrupted={0, 3})
    assert [(i.id, i.failed) for i in history_items(broken)] == [
        ("0", True),
        ("2", False),
        ("3", True),
    ]
    assert [f.id for f in search(broken, "x")] == ["2"]
    assert history_items(history_of([])) == ()
    twice = assistant(ToolCall("a", "read"), ToolCall("a", "read"))
    assert len(history_items(history_of([twice, A]))) == 1


@given(st.one_of(conversations(), dirty_messages()))
def test_lists_are_grouped_whole_or_refused_with_their_place(messages):
    try:
        items = history_items(history_of(messages))
    except ProtocolViolation as error:
        place = error.entry
    else:
        place = None
    if place is not None:
        assert 0 <= place < len(messages)
        return
    owned = [n for item in items for n in (item.number, *item.numbers)]
    assert owned == list(range(len(owned)))
    assert not messages[len(owned) :] or messages[len(owned)].calls
    for item in items:
        assert {r.call for r in item.results} == {c.id for c in item.message.calls}


def test_the_fold_is_one_value_on_all_ways_to_a_leaf():
    session = turns(Session(), range(100))
    back = at_leaf(turns(at_leaf(session, 150), [1]), 299)
    assert history_items(back) == history_items(session)
    assert log(back)[150] is log(session)[150]
    assert fold(session, history_module._HISTORY) is history(session)
    assert isinstance(history(session).index, Index)
