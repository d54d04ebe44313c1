"""The tools of recall as a model calls them, notices, and the host's own items."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    CODES,
    Evicted,
    Head,
    Image,
    InvalidArgument,
    ProtocolViolation,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    assistant,
    default_stub,
    project,
    prune_suffix,
    record,
    reply,
    select,
    send,
    system,
    tool_result,
    user,
)
from ctxalgebra.compat.paging_recall import (
    UTF16,
    find_turn,
    host_history,
    project_branch,
    public_block,
    public_host_item,
    reference_out,
)
from ctxalgebra.conformance.door import result
from ctxalgebra.recall import (
    LIMITS,
    RECALL_NAMES,
    RECALL_TOOLS,
    Recoverable,
    browse,
    default_words,
    history,
    history_items,
    load,
    page,
    read_output,
    recall_notice,
    recall_stub,
    respond,
    search,
)
from ctxalgebra.recall.texts import preview


def turns(session, numbers, output="output"):
    for number in numbers:
        call = ToolCall("call_0", "bash", f'{{"path":"f{number}.py"}}')
        session = record(
            session,
            user(f"ask {number}"),
            assistant(call),
            tool_result("call_0", f"{output} {number}"),
            assistant(f"answer {number}"),
        )
    return session


def asked(session, name, arguments):
    """Record a call as a model makes it, answer it, and record the answer."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = ToolCall("call_0", name, text)
    asking = record(session, user("?"), assistant(call))
    answer = respond(asking, call)
    record(asking, answer)
    assert (answer.role, answer.call, answer.name) == ("tool", "call_0", name)
    (only,) = answer.parts
    return only.text, answer.error


def answered(session, name, **arguments):
    text, error = asked(session, name, arguments)
    assert not error, text
    return text


TEN = turns(Session(), range(10))


# Tools


def test_the_tools_are_four_with_schemas_that_forbid_what_they_do_not_know():
    assert tuple(tool.name for tool in RECALL_TOOLS) == RECALL_NAMES
    assert all(isinstance(tool, Tool) and tool.description for tool in RECALL_TOOLS)
    for tool in RECALL_TOOLS:
        schema = json.loads(tool.schema)
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= schema["properties"].keys()
        assert all("type" in member for member in schema["properties"].values())
    assert Head(tools=RECALL_TOOLS).characters < 4_000


def test_a_search_gives_references_that_can_be_loaded_and_read():
    found = json.loads(answered(TEN, "search_history", query="f7.py output 7", limit=2))
    assert set(found) == {"references"}
    first = found["references"][0]
    assert first["historyId"] == "29"
    assert first["files"] == ["f7.py"]
    assert (first["previousHistoryId"], first["nextHistoryId"]) == ("28", "31")
    loaded = json.loads(answered(TEN, "load_history", historyIds=["29", "28"]))["items"]
    assert [item["historyId"] for item in loaded] == ["29", "28"]
    assert loaded[0]["toolResults"][0]["content"] == [{"type": "text", "text": "output 7"}]
    read = answered(
        TEN, "read_context_output", historyId="29", source="toolResult", toolCallId="call_0"
    )
    head, _, text = read.partition("\n")
    assert json.loads(head) == {
        "offset": 0,
        "nextOffset": None,
        "totalCharacters": 8,
        "form": "text",
    }
    assert text == "output 7"
    said = answered(TEN, "read_context_output", historyId="31", source="assistant", contentIndex=0)
    assert said.partition("\n")[2] == "answer 7"


def test_a_search_that_loads_says_what_it_did_not_load():
    found = json.loads(answered(TEN, "search_history", query="output", load=True, limit=5))
    ids = [reference["historyId"] for reference in found["references"]]
    assert [item["historyId"] for item in found["items"]] == ids[:3]
    assert found["unloadedHistoryIds"] == ids[3:]
    nothing = json.loads(answered(TEN, "search_history", query="nowhere", load=True))
    assert nothing == {"references": [], "items": [], "unloadedHistoryIds": []}
    assert "items" not in json.loads(answered(TEN, "search_history", query="output", load=False))


def test_browse_takes_either_anchor_nulls_and_whole_fractions():
    by_id = answered(TEN, "browse_history", direction="around", historyId="4", count=3.0)
    by_place = answered(TEN, "browse_history", direction="around", sequence=3, count=3, stride=None)
    assert by_id == by_place
    assert [r["sequence"] for r in json.loads(by_id)["references"]] == [2, 3, 4]
    assert [r["kind"] for r in json.loads(by_id)["references"]] == [
        "modelTurn",
        "user",
        "modelTurn",
    ]


def test_pages_of_what_was_said_are_exact_whatever_it_holds():
    text = "\U0001f600" * 1500 + "\u2028\x1b[31m\n" + "é" * 900
    session = record(Session(), assistant(ToolCall("c", "bash")), tool_result("c", text))
    offset, pieces = 0, []
    while offset is not None:
        head, _, piece = answered(
            session,
            "read_context_output",
            historyId="0",
            source="toolResult",
            toolCallId="c",
            offset=offset,
        ).partition("\n")
        assert len(piece) <= 2000
        pieces.append(piece)
        offset = json.loads(head)["nextOffset"]
    assert "".join(pieces) == text


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("search_history", "not json", "invalid-argument"),
        ("search_history", "[" * 100_000, "invalid-argument"),
        ("search_history", "NaN", "invalid-argument"),
        ("search_history", "[]", "invalid-argument"),
        ("search_history", {}, "invalid-argument"),
        ("search_history", {"query": None}, "invalid-argument"),
        ("search_history", {"query": "x", "page": 2}, "invalid-argument"),
        ("search_history", {"query": "x", "\ud800": 2}, "invalid-argument"),
        ("search_history", {"query": 5}, "wrong-type"),
        ("search_history", {"query": "x", "limit": 2.5}, "wrong-type"),
        ("search_history", {"query": "x", "limit": 11}, "invalid-argument"),
        ("search_history", {"query": "x", "load": "yes"}, "wrong-type"),
        ("search_history", {"query": "x", "files": "a"}, "wrong-type"),
        ("browse_history", {"direction": "up"}, "invalid-argument"),
        ("browse_history", {"direction": ["around"]}, "wrong-type"),
        ("browse_history", {"direction": "around", "historyId": "\ud800"}, "lone-surrogate"),
        ("browse_history", {"direction": "around", "historyId": "999"}, "unknown-anchor"),
        ("load_history", {"historyIds": "0"}, "wrong-type"),
        ("load_history", {"historyIds": ["999"]}, "unknown-item"),
        ("load_history", {"historyIds": []}, "invalid-argument"),
        ("read_context_output", {"historyId": "1", "source": "tool"}, "invalid-argument"),
        ("read_context_output", {"historyId": "1", "source": "assistant"}, "invalid-argument"),
        (
            "read_context_output",
            {"historyId": "1", "source": "assistant", "contentIndex": 0, "toolCallId": "call_0"},
            "invalid-argument",
        ),
        (
            "read_context_output",
            {"historyId": "1", "source": "toolResult", "toolCallId": "call_0", "offset": 99},
            "invalid-argument",
        ),
        (
            "read_context_output",
            {"historyId": "1", "source": "toolResult", "toolCallId": ""},
            "unknown-item",
        ),
    ],
)
def test_a_wrong_call_gets_an_error_result_with_the_code(name, arguments, code):
    text, error = asked(TEN, name, arguments)
    assert error
    assert text.startswith(f"{code}: ")
    assert code in CODES


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
NAMES = sorted({n for tool in RECALL_TOOLS for n in json.loads(tool.schema)["properties"]})
LIKELY = st.sampled_from(
    ["29", "0", "call_0", "around", "toolResult", "assistant", "", 1, 0, ["29"]]
)


@given(
    st.sampled_from(RECALL_NAMES),
    st.dictionaries(st.sampled_from(NAMES), JSON | LIKELY, max_size=6),
)
def test_whatever_a_model_asks_it_gets_an_answer_that_can_be_recorded(name, arguments):
    text, error = asked(TEN, name, arguments)
    if error:
        assert text.partition(":")[0] in CODES
    elif name == "read_context_output":
        json.loads(text.partition("\n")[0])
    else:
        json.loads(text)


@given(st.text(max_size=30))
def test_arguments_that_are_any_text_get_an_answer(text):
    assert asked(TEN, "load_history", text)[1]


def test_references_beyond_the_limit_are_refused_and_one_always_fits():
    files = [f"{'d' * 150}/{n}.py" for n in range(300)]
    call = ToolCall("c", "\x01" * 3000, json.dumps({"files": files}))
    session = Session()
    for _ in range(10):
        session = record(session, assistant("\x01" * 200, call), tool_result("c", "ok"))
    text, error = asked(session, "browse_history", {"direction": "forward", "count": 10})
    assert (error, text.partition(":")[0]) == (True, "reply-too-long")
    one = answered(session, "browse_history", direction="forward", count=1)
    assert len(one) <= LIMITS.reply
    (reference,) = json.loads(one)["references"]
    assert reference["files"] == files[: len(reference["files"])]
    assert 0 < len(reference["files"]) < 10
    assert reference["tools"] == []
    assert browse(session, "forward", count=1)[0].files == tuple(files)
    # What is loaded has no limit: it is exact.
    assert len(answered(session, "load_history", historyIds=["0"])) > LIMITS.reply


def test_lone_surrogates_in_arguments_come_out_as_escapes():
    call = ToolCall("c", "read", '{"path":"\\ud800.py"}')
    session = record(Session(), assistant(call), tool_result("c", "ok"))
    found = json.loads(answered(session, "browse_history", direction="forward"))
    assert found["references"][0]["files"] == ["\ud800.py"]
    assert [f.id for f in search(session, "", files=["\ud800.py"])] == ["0"]
    assert "ud800" in answered(session, "load_history", historyIds=["0"])


def test_only_calls_of_recall_are_answered():
    with pytest.raises(InvalidArgument, match="invalid-argument"):
        respond(TEN, ToolCall("c", "bash"))
    with pytest.raises(InvalidArgument, match="wrong-type"):
        respond(TEN, "search_history")
    with pytest.raises(InvalidArgument, match="wrong-type"):
        respond(None, ToolCall("c", "load_history"))


def test_answers_of_recall_are_not_found_again():
    session = TEN
    for number in range(3):
        call = ToolCall(f"q{number}", "search_history", '{"query":"output 7"}')
        session = record(session, user("find it"), assistant(call))
        session = record(session, respond(session, call))
    found = search(session, "output", limit=10)
    assert {f.kind for f in found} == {"modelTurn"}
    assert all(int(f.id) < len(TEN) for f in found)
    with pytest.raises(InvalidArgument, match="withheld-output"):
        read_output(session, str(len(TEN) + 1), call="q0")


# Notices


def test_a_notice_points_at_what_left_and_the_call_in_it_works_as_it_stands():
    session = turns(Session(), range(10), "x" * 400)
    cut = select(session, budget=500, notice=recall_notice(session))
    text = project(cut).messages[0].parts[0].text
    arguments = text.partition("read_context_output(")[2].rpartition(").]")[0]
    assert json.loads(arguments)["historyId"] == "1"
    answer = respond(cut, ToolCall("c", "read_context_output", arguments))
    assert answer.parts[0].text.partition("\n")[2] == f"{'x' * 400} 0"
    last = json.loads(text.partition("historyId ")[2].partition(".")[0])
    assert int(last) == cut.view.frontier


def test_the_notice_of_a_reused_call_id_names_the_turn_that_left():
    """Fault W4: the original names the newest turn, which is still there."""
    session = turns(Session(), range(2), "x" * 2000)
    seen = []

    def words(found):
        seen.append(found)
        return default_words(found)

    cut = select(session, budget=800, target=700, notice=recall_notice(session, words=words))
    found = seen[-1]
    assert (found.id, found.tool) == ("3", "bash")
    assert json.loads(found.arguments)["historyId"] == "1"
    assert found.evicted == Evicted(0, 3, 4)
    later = turns(cut, range(2, 9), "y" * 2000)
    again = select(later, budget=900, notice=recall_notice(later, words=words))
    assert json.loads(seen[-1].arguments)["historyId"] == "5"
    assert len(project(again).messages) < len(project(later).messages)


def test_notices_of_cuts_without_results_or_with_recall_alone():
    session = record(Session(), user("a" * 400), assistant("b" * 400), user("now"))
    cut = select(session, budget=150, target=90, notice=recall_notice(session))
    assert project(cut).messages[0].parts[0].text.endswith('historyId "1".]')
    call = ToolCall("c", "load_history", '{"historyIds":["0"]}')
    session = record(Session(), user("a" * 400), assistant(call))
    session = record(session, respond(session, call), assistant("b" * 400), user("now"))
    seen = []
    select(
        session,
        budget=150,
        target=90,
        notice=recall_notice(session, words=lambda f: str(seen.append(f))),
    )
    assert (seen[0].tool, seen[0].arguments) == (None, None)
    # A harness may ask for words about anything that is shown; an earlier notice is no item.
    notice = recall_notice(cut, words=lambda f: str(f.id))
    number = cut.view.slots.numbers[0]
    assert notice(Evicted(number, number, 1)) == "None"
    assert notice(Evicted(0, 1, 2)) == notice(Evicted(number, 999, 1)) == "None"
    assert default_words(Recoverable(Evicted(0, 0, 1))).endswith("gives pages.]")


def test_the_notice_is_frozen_until_the_frontier_moves():
    session = turns(Session(), range(10), "x" * 400)
    cut = select(session, budget=500, notice=recall_notice(session))
    again = select(cut, budget=500, notice=recall_notice(cut))
    assert again is cut


def test_the_stub_of_a_huge_result_has_the_call_that_reads_it():
    session = turns(Session(), range(2), "x" * 2000)
    calls = [ToolCall("call_0", "bash"), ToolCall("call_1", "grep"), ToolCall("q", "load_history")]
    session = record(session, user("more"), assistant(*calls))
    answers = [
        tool_result("call_0", "a" * 9000),
        tool_result("call_1", (Text("b" * 9000), Image("", "image/png"))),
        tool_result("q", "c" * 9000),
    ]
    session = record(session, *answers)
    pruned = prune_suffix(session, stub_over=500, drop_over=500, stub=recall_stub(session))
    texts = [message.parts[0].text for message in project(pruned).messages[-3:]]
    pages = []
    for text in texts[:2]:
        arguments = text.partition("read_context_output(")[2].removesuffix(").]")
        assert json.loads(arguments)["historyId"] == "9", "of two turns with this call id"
        page = respond(pruned, ToolCall("c", "read_context_output", arguments))
        pages.append(page.parts[0].text.partition("\n")[2])
    assert [page[:30] for page in pages] == ["a" * 30, '[{"type":"text","text":"bbbbbb']
    assert texts[2] == default_stub(answers[2], 2250), "what recall answered is not read again"
    stub = recall_stub(session)
    assert stub(tool_result("call_0", "a" * 9000), 9) == default_stub(answers[0], 9), (
        "no message here"
    )
    assert stub(user("x"), 9) == default_stub(user("x"), 9)
    first = session.view.slots.messages[0]
    assert stub(first, 9) == default_stub(first, 9)


def test_notices_refuse_what_they_can_not_use():
    for wrong in (
        lambda: recall_stub(None),
        lambda: recall_stub(TEN)("x", 1),
        lambda: recall_notice(None),
        lambda: recall_notice(TEN, words=5),
        lambda: recall_notice(TEN)("x"),
        lambda: default_words("x"),
    ):
        with pytest.raises(InvalidArgument, match="wrong-type"):
            wrong()


def test_a_harness_offers_recall_in_a_whole_loop():
    """The model searches, reads a page, and answers; nothing breaks, and nothing was lost."""
    session = record(turns(Session(), range(10), "x" * 400), Head(tools=RECALL_TOOLS))
    session = record(session, user("what was the output of 3?"))
    says = iter(
        [
            assistant(ToolCall("q1", "search_history", '{"query":"ask 3"}')),
            assistant(
                ToolCall(
                    "q2",
                    "read_context_output",
                    '{"historyId":"13","source":"toolResult","toolCallId":"call_0","offset":395}',
                )
            ),
            assistant("It ends with 3."),
        ]
    )
    while True:
        session = select(session, budget=900, notice=recall_notice(session))
        session, _ = send(session)
        answer = next(says)
        session = reply(session, "completed", answer)
        if not answer.calls:
            break
        session = record(session, *map(partial(respond, session), answer.calls))
    texts = [m.parts[0].text for m in project(session).messages if m.role == "tool"]
    assert texts[-1].endswith("\nxxxxx 3")


# The host's items


def call_block(id="k1", name="read", **arguments):
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def host_turn(id, content, results=(), **metadata):
    meta = {"tools": [], "files": [], "failed": False, **metadata}
    return {
        "id": id,
        "kind": "modelTurn",
        "sequence": 0,
        "timestamp": "t",
        "assistantMessage": {"role": "assistant", "content": content},
        "toolResults": list(results),
        "metadata": meta,
    }


def host_user(id, content):
    message = {"role": "user", "content": content}
    return {"id": id, "kind": "user", "sequence": 0, "timestamp": "t", "userMessage": message}


def host_result(call, text, name="read"):
    content = [
        {"type": "text", "text": text},
        {"type": "image", "data": "A", "mimeType": "i"},
        None,
    ]
    return {"role": "toolResult", "toolCallId": call, "toolName": name, "content": content}


HOST = [
    host_user("h0", "Please find the Needle"),
    host_turn(
        "h1",
        [
            {"type": "thinking", "thinking": "secret"},
            {**call_block(path="a.ts"), "namespace": "ns"},
        ],
        [host_result("k1", "found needle")],
        tools=["read"],
        files=["a.ts"],
    ),
    host_turn("h2", [call_block("k2", "load_history")], tools=["bash", "load_history"]),
    host_turn("h3", [{"type": "text", "text": "x分页 \U0001f600"}]),
    host_user("h4", [{"type": "text", "text": "look"}, {"type": "image", "data": "QQ"}, None]),
    host_user("h5", None),
]


def test_the_hosts_items_are_searched_by_its_own_words():
    known = host_history(HOST)
    assert len(known) == 5
    assert [f.id for f in search(known, "needle")] == ["h0", "h1"]
    assert [f.id for f in search(known, "namespace ns")] == ["h1"]
    assert [f.id for f in search(known, "x分页")] == ["h3"]
    assert search(known, "分") == ()
    assert [f.id for f in search(known, "qq")] == ["h4"]
    assert [f.id for f in search(known, "null")] == ["h5"]
    assert [f.id for f in search(known, "mimetype")] == ["h1"]
    assert search(known, "secret") == ()
    found = reference_out(search(known, "", files=["a.ts"])[0])
    assert found["preview"].startswith('{"type":"toolCall","id":"k1"')
    assert found["preview"].endswith('"namespace":"ns"}')
    assert (found["timestamp"], found["nextHistoryId"]) == ("t", "h3")
    with pytest.raises(InvalidArgument, match="unknown-item"):
        load(known, ["h2"])
    assert load(known, ["h3"])[0]["sequence"] == 2
    assert [f.id for f in browse(known, "backward", id="h3", count=1)] == ["h1"]


def test_of_equal_ids_of_the_host_the_first_counts():
    known = host_history([host_user("a", "one"), host_user("a", "two"), host_user("b", "x")])
    assert load(known, ["a"])[0]["userMessage"]["content"] == "one"
    assert browse(known, "forward", id="a", count=1)[0].preview == "two"


def test_the_hosts_pages_are_json_in_utf16_and_part_no_pair():
    known = host_history(HOST)
    whole = read_output(known, "h3", index=0)
    assert whole.text == '{"type":"text","text":"x分页 \U0001f600"}'
    assert whole.total == len(whole.text) + 1
    pieces, offset = [], 0
    while offset is not None:
        got = read_output(known, "h3", index=0, offset=offset, limit=1)
        pieces.append(got.text)
        offset = got.next
    assert "".join(pieces) == whole.text
    assert json.loads(read_output(known, "h1", call="k1").text)["toolCallId"] == "k1"
    for wrong in ({"index": 0}, {"index": 9}, {"call": "k9"}):
        with pytest.raises(InvalidArgument):
            read_output(known, "h1", **wrong)
    with pytest.raises(InvalidArgument, match="unknown-item"):
        read_output(known, "h0", index=0)
    guarded = host_turn("g", [call_block("a", "load_history"), call_block("b")])
    guarded["toolResults"] = [host_result("a", "x"), host_result("b", "x", "browse_history")]
    for call in ("a", "b"):
        with pytest.raises(InvalidArgument, match="withheld-output"):
            read_output(host_history([guarded]), "g", call=call)


@given(st.text(alphabet="a\U0001f600分\ud83d\ude00", max_size=12), st.integers(1, 5))
def test_pages_in_utf16_units_part_no_pair(text, limit):
    pieces, offset = [], 0
    while offset is not None:
        got = page(text, offset=offset, limit=limit, units=UTF16)
        assert got.offset == offset
        assert UTF16.size(got.text) <= max(limit, 2)
        pieces.append(got.text)
        offset = got.next
    joined = "".join(pieces)
    assert joined.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
    assert UTF16.size(preview([text * 40], UTF16)) <= 160


def test_a_page_inside_a_pair_begins_in_front_of_it():
    got = page("a\U0001f600b", offset=2, limit=2, units=UTF16)
    assert (got.offset, got.text, got.next) == (1, "\U0001f600", 3)


def test_the_hosts_public_view():
    text = {"type": "text", "text": "hi", "textSignature": "s"}
    odd = {"type": "toolCall", "id": 5, "name": "read"}
    assert [public_block(b) for b in (text, odd, None, "x", {"type": "image"})] == [
        {"type": "text", "text": "hi"},
        None,
        None,
        None,
        None,
    ]
    signed = {**call_block(), "thoughtSignature": "s"}
    assert public_block(signed) == call_block()
    plain = host_turn("h", "a text")
    assert public_host_item(plain) is plain
    assert public_host_item(HOST[0]) is HOST[0]
    assert find_turn(HOST, "k1") == "h1"
    assert find_turn(HOST, "k9") is None


def entry(id, message, kind="message"):
    return {"type": kind, "id": id, "timestamp": "t", "message": message}


def test_the_hosts_branch_is_projected_by_the_same_rule():
    calls = {"role": "assistant", "content": [call_block(path="a"), call_block("k2", "edit")]}
    done = [
        entry("u", {"role": "user", "content": "x"}),
        entry("b", {"role": "bashExecution"}),
        entry("n", None),
        entry("a", calls),
        entry("c", {"role": "user"}, "custom_message"),
        entry("r2", {**host_result("k2", "2"), "isError": True}),
        entry("r1", host_result("k1", "1")),
        entry("e", {"role": "assistant", "content": [call_block("k3")], "stopReason": "error"}),
    ]
    first, second, third = project_branch(done)
    assert (first["kind"], first["userMessage"]) == ("user", {"role": "user", "content": "x"})
    assert [r["toolCallId"] for r in second["toolResults"]] == ["k2", "k1"]
    assert second["metadata"] == {"tools": ["read", "edit"], "files": ["a"], "failed": True}
    assert (third["id"], third["metadata"]["failed"]) == ("e", True)
    with pytest.raises(ProtocolViolation, match="incomplete-results"):
        project_branch([*done[:6], done[0]])
    assert len(project_branch(done[:6])) == 1


# The door


@pytest.mark.parametrize(
    ("operation", "given", "code"),
    [
        (
            "project_active_branch",
            {"entries": [entry("r", host_result("k", ""))]},
            "ORPHAN_TOOL_RESULT",
        ),
        ("navigator_search", {"items": HOST, "input": 5}, "INVALID_HISTORY_NAVIGATOR_INPUT"),
        (
            "navigator_search",
            {"items": HOST, "input": {"query": "x", "files": None}},
            "INVALID_HISTORY_NAVIGATOR_INPUT",
        ),
        ("navigator_browse", {"items": [], "input": {}}, "INVALID_HISTORY_NAVIGATOR_INPUT"),
        (
            "navigator_browse",
            {"items": HOST, "input": {"direction": "around", "historyId": "h0", "sequence": 0}},
            "UNKNOWN_HISTORY_ANCHOR",
        ),
        ("navigator_load", {"items": HOST, "historyIds": ["zz"]}, "UNKNOWN_HISTORY_ID"),
        ("navigator_load", {"items": HOST, "historyIds": None}, "INVALID_HISTORY_NAVIGATOR_INPUT"),
        ("read_context_output", {"items": HOST, "input": None}, "error"),
        ("read_context_output", {"items": HOST, "input": {"source": "assistant"}}, "error"),
        (
            "read_context_output",
            {"items": HOST, "input": {"source": "toolResult", "toolCallId": "", "historyId": "h1"}},
            "error",
        ),
        (
            "read_context_output",
            {"items": HOST, "input": {"source": "assistant", "contentIndex": 0, "toolCallId": "k"}},
            "error",
        ),
        (
            "read_context_output",
            {"items": HOST, "input": {"source": "assistant", "contentIndex": 0, "historyId": "h0"}},
            "error",
        ),
        ("recovery_tool", {"items": [], "enabled": False, "name": "x", "params": {}}, "error"),
        ("recovery_tool", {"items": [], "enabled": True, "name": "x", "params": {}}, "error"),
        (
            "recovery_tool",
            {
                "items": [host_turn("z", [], files=["f" * 9000])],
                "enabled": True,
                "name": "browse_history",
                "params": {"direction": "forward"},
            },
            "error",
        ),
    ],
)
def test_the_door_refuses_with_the_codes_of_the_original(operation, given, code):
    assert result(f"paging.{operation}", given)["error"]["code"] == code


def test_the_door_answers_as_the_tools_do():
    def tool(name, **params):
        given = {"items": HOST, "enabled": True, "name": name, "params": params}
        return result("paging.recovery_tool", given)["output"]

    found = tool("search_history", query="", load=True, limit=4)
    assert [item["id"] for item in found["items"]] == ["h0", "h1", "h3"]
    assert found["unloadedHistoryIds"] == ["h4"]
    assert tool("search_history", query="nowhere", load=True)["items"] == []
    assert list(tool("search_history", query="needle")) == ["references"]
    assert [r["historyId"] for r in tool("browse_history", direction="forward")["references"]] == [
        "h0", "h1", "h3", "h4", "h5",
    ]  # fmt: skip
    assert tool("load_history", historyIds=["h5"])["items"][0]["sequence"] == 4
    got = tool("read_context_output", historyId="h1", source="toolResult", toolCallId="k1", limit=9)
    assert (got["offset"], got["nextOffset"], got["text"]) == (0, 9, '{"role":"')
    assert result("paging.is_paging_tool_turn", {"item": HOST[2]}) == {"output": True}
    assert result("paging.is_paging_tool_turn", {"item": HOST[0]}) == {"output": False}
    assert result("paging.recovery_history_item", {"item": HOST[0]}) == {"output": HOST[0]}
    assert result("paging.public_assistant_block", {"block": None}) == {"output": None}
    asked_for = {"items": HOST, "toolCallId": "k1"}
    assert result("paging.find_model_turn_by_tool_call_id", asked_for) == {"output": "h1"}


def test_the_door_finds_words_behind_line_breaks():
    write = call_block("c1", "write", content="line one\nTODO_MARKER here")
    items = [host_turn("w", [write], tools=["write"])]
    for query, found in (("TODO_MARKER", ["w"]), ("nTODO_MARKER", [])):
        given = {"items": items, "input": {"query": query}}
        output = result("paging.navigator_search", given)["output"]
        assert [reference["historyId"] for reference in output] == found


def test_system_messages_and_thinking_stay_what_they_are():
    session = record(Session(), system("Mind it."), assistant(Thinking("t", "s"), "ok"))
    assert [item.kind for item in history_items(session)] == ["system", "modelTurn"]
    text = answered(session, "load_history", historyIds=["0", "1"])
    assert json.loads(text)["items"][0]["systemMessage"]["content"][0]["text"] == "Mind it."
    assert json.loads(text)["items"][1]["assistantMessage"]["content"][0] is None
    assert history(session).top.record.message.parts[1] == Text("ok")


def test_two_anchors_are_refused_before_bounds_are_looked_at():
    items = [{"id": "h0", "kind": "user", "userMessage": {"role": "user", "content": "a"}}]
    both = {"direction": "forward", "historyId": "h0", "sequence": 0}
    for odd in ({}, {"count": None}, {"stride": None}, {"count": 99}):
        given = {"items": items, "input": {**both, **odd}}
        assert result("paging.navigator_browse", given)["error"]["code"] == "UNKNOWN_HISTORY_ANCHOR"
    for wrong in ({**both, "direction": None}, {"direction": "forward", "count": None}, 5):
        found = result("paging.navigator_browse", {"items": items, "input": wrong})
        assert found["error"]["code"] == "INVALID_HISTORY_NAVIGATOR_INPUT"


def test_an_id_that_a_hidden_turn_has_first_is_that_of_the_visible_item():
    calls = [{"type": "toolCall", "id": "q", "name": "search_history", "arguments": {}}]
    asking = {
        "id": "h0",
        "kind": "modelTurn",
        "assistantMessage": {"role": "assistant", "content": calls},
        "toolResults": [],
        "metadata": {"tools": ["search_history"], "files": [], "failed": False},
    }
    said = {"id": "h0", "kind": "user", "userMessage": {"role": "user", "content": "a"}}
    given = {"items": [asking, said, {**said, "id": "h1"}]}
    loaded = result("paging.navigator_load", {**given, "historyIds": ["h0"]})
    assert [item["kind"] for item in loaded["output"]] == ["user"]
    asked = {**given, "input": {"direction": "forward", "historyId": "h0"}}
    assert [r["historyId"] for r in result("paging.navigator_browse", asked)["output"]] == ["h1"]
    page = {"historyId": "h0", "source": "assistant", "contentIndex": 0}
    read = result("paging.read_context_output", {**given, "input": page})
    assert "search_history" in read["output"]["text"], "pages are of any item, the first of the id"
