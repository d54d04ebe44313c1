"""Operations of the working memory at the door: slow readings of the rules, faults, odd input."""

from __future__ import annotations

import json
import time
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import fields
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.codecs.pi_weights import host_tokens, text_tokens, utf16_length
from ctxalgebra.compat.memory_capabilities import FINDER, score
from ctxalgebra.compat.memory_config import NAMES, configured, load_config
from ctxalgebra.compat.memory_replies import resolve_model
from ctxalgebra.compat.memory_texts import short_number, shorten
from ctxalgebra.compat.memory_truncate import truncate_head, truncate_tail
from ctxalgebra.conformance import door
from ctxalgebra.transforms.memory_settings import MemorySettings
from ctxalgebra.utf16 import SPACE

ODD = st.text(st.sampled_from("ab1 \n\r\u2028\u00e9\ufeff\U0001f600\ud800\udc00"), max_size=40)


def asked(operation, **given):
    told = door.result(f"memory.{operation}", given)
    assert told.keys() == {"output"}, told
    return told["output"]


def code(operation, given):
    return door.result(f"memory.{operation}", given).get("error", {}).get("code", "")


# Configuration


def test_names_are_those_of_the_original():
    assert list(NAMES.values()) == [field.name for field in fields(MemorySettings)]
    assert NAMES["amnesiaMaxInputChars"] == "amnesia_max_input_chars"
    record = load_config({"PI_CTX_AUX_MODEL": "a/b", "PI_CTX_LOG_FILE": "/x"})
    assert record.keys() == NAMES.keys()
    assert configured(record) == MemorySettings(aux_model="a/b", log_file="/x")
    assert configured({"nobody": "knows"}) == MemorySettings()


# Texts


@given(
    st.recursive(
        ODD | st.none() | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "image"])}, optional={"text": inner}
            )
        ),
    )
)
def test_the_text_of_content(content):
    if isinstance(content, str):
        told = content
    else:
        blocks = content if isinstance(content, list) else []
        objects = [b for b in blocks if isinstance(b, dict) and b["type"] == "text"]
        told = "\n".join(b["text"] for b in objects if isinstance(b.get("text"), str))
    assert asked("extract_text", content=content) == told
    message = {"role": "custom", "content": content}
    weighed = asked("estimate_message_tokens", message=message)
    assert asked("estimate_tokens_from_text", text=told) <= weighed or told.count("\n")


@given(ODD, st.integers(0, 50))
def test_what_is_shortened_keeps_its_beginning_and_says_what_went(text, most):
    told = shorten(text, most)
    size = utf16_length(text)
    if size <= most:
        assert told == text
    else:
        front, _, mark = told.rpartition("\n")
        assert mark == f"\u2026[truncated {size - most} chars]"
        assert utf16_length(front) == most
        assert text.encode("utf-16-le", "surrogatepass").startswith(
            front.encode("utf-16-le", "surrogatepass")
        )


def test_a_limit_may_have_a_fraction():
    assert shorten("abcd", 2.5) == "ab\n\u2026[truncated 1.5 chars]"


@given(st.floats(-1e25, 1e25) | st.integers(-(10**25), 10**25))
@example(1250)
@example(-0.4)
@example(999.5)
@example(0.49999999999999994)
def test_numbers_are_rounded_half_up(value):
    told, number = short_number(value), float(value)
    if abs(number) > 2**53 and not 0 < number < 1e24:
        assert float(told.removesuffix("k")) == (number / 1000 if number > 0 else number)
    elif number >= 1000:
        tenths = Decimal(number / 1000).quantize(Decimal("0.1"), ROUND_HALF_UP)
        assert told == f"{tenths}k"
    else:
        assert Decimal(told) - Decimal("0.5") <= Decimal(number) < Decimal(told) + Decimal("0.5")


def test_a_number_beyond_those_of_the_host_is_refused():
    with pytest.raises(InvalidArgument, match="invalid-argument"):
        short_number(10**400)
    assert code("fmt_tokens", {"n": 10**400}) == "invalid-argument"


# Truncation


def sized(text):
    return sum(3 if "\ud800" <= c <= "\udfff" else len(c.encode()) for c in text)


def kept(content, lines, most, *, tail):
    """Try every number of lines, the largest first."""
    listed = content.split("\n")
    if not listed[-1]:
        listed.pop()
    if len(listed) <= lines and sized(content) <= most:
        return content
    for count in range(min(lines, len(listed)), -1, -1):
        text = "\n".join(listed[len(listed) - count :] if tail else listed[:count])
        if sized(text) <= most:
            break
    if count or not (tail and listed and lines):
        return text
    last = listed[-1]
    return next(last[at:] for at in range(len(last) + 1) if sized(last[at:]) <= most)


LINES = st.lists(st.text(st.sampled_from("ab \u00e9\u20ac\U0001f600\r\u2028"), max_size=6)).map(
    "\n".join
)


@given(LINES | ODD, st.integers(0, 8), st.integers(0, 20))
@example("a\n", 5, 1)
@example("\n\n", 1, 9)
@example("abc", 3, 0)
def test_a_truncation_keeps_what_fits(content, lines, most):
    for tail, rule in ((True, truncate_tail), (False, truncate_head)):
        found = rule(content, lines, most)
        if not found.partial:
            assert found.content == kept(content, lines, most, tail=tail)
        else:
            whole = kept(content, lines, most, tail=True)
            assert "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in whole) == (
                found.content
            )
        assert found.total_bytes == sized(content)
        assert found.size == sized(found.content)
        if found.by is None:
            assert found.content == content
            assert found.lines == found.total_lines
        else:
            assert found.size <= most
            assert found.lines <= lines
            assert found.content.count("\n") == max(0, found.lines - 1)
        assert not (found.partial and not tail)
        assert not (found.first_too_long and (tail or found.content))


@pytest.mark.parametrize(
    "options",
    [{"maxLines": "1"}, {"maxBytes": None}, {"maxBytes": True}, {"maxBytes": -1}, {"maxLines": []}],
)
def test_limits_are_numbers(options):
    for operation in ("truncate_tail", "truncate_head"):
        assert code(operation, {"content": "a", "options": options}) == "invalid-input"


def test_limits_that_are_not_said_are_those_of_the_host():
    told = asked("truncate_tail", content="x\n" * 3000, options={})
    assert (told["maxLines"], told["maxBytes"], told["outputLines"]) == (2000, 51_200, 2000)


# Models

MODELS = [{"provider": p, "id": i} for p in ("p", "q", "") for i in ("x", "a/x", "")]


@given(
    st.sampled_from([None, "", "p/x", "q/a/x", "q/x", "/x", "x", "z/x", "a/x", "q/"]),
    st.sampled_from([None, *MODELS]),
    st.lists(st.sampled_from(MODELS)),
)
def test_the_model_that_answers(name, active, registry):
    found = resolve_model(name, active, registry)
    assert found is active or found in registry
    if name and found is not active:
        assert name.endswith(found["id"])
        assert found["provider"] in (name.split("/")[0], active and active["provider"])
    if name in ("p/x", "q/a/x"):
        provider, _, wanted = name.partition("/")
        named = {"provider": provider, "id": wanted}
        assert (found == named) >= (named in registry)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "thinking"])}, optional={"text": ODD}
        )
        | st.none()
    )
)
def test_a_reply_is_its_texts(blocks):
    texts = [b["text"] for b in blocks if b and b["type"] == "text" and "text" in b]
    said = "\n".join(texts).strip(SPACE)
    assert asked("run_aux_model", blocks=blocks) == (said or None)


# Results


def event(tool, text="x" * 40, **more):
    return {"toolName": tool, "content": [{"type": "text", "text": text}], **more}


def results(*tools):
    """Draw results, most of them of these tools."""
    return st.builds(
        lambda tool, text, path, content, wrong: event(
            tool, text, isError=wrong, input={"path": path, "content": content}
        ),
        st.sampled_from([*tools * 5, "bash", "write", "read", "edit"]),
        ODD | st.integers(0, 3000).map("ab\n".__mul__),
        st.sampled_from(["a.py", "b.py", "\U0001f600", "", 5]),
        ODD | st.integers(0, 300).map("# x123\n".__mul__) | st.none(),
        st.sampled_from([False, False, None, True]),
    )


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(), "bash": st.booleans(), "write": st.booleans(),
        "amnesia": st.booleans(), "bashMinTokens": st.integers(0, 50),
        "bashFallbackBytes": st.integers(0, 90), "amnesiaMinTokens": st.integers(0, 50),
        "writeMinBytes": st.integers(0, 50),
    },
)  # fmt: skip
REPLIES = st.none() | ODD | st.sampled_from(['{"decision":"DROP"}', "[Wrote a]", "drop", "short"])


@given(CONFIGS, results("bash"), REPLIES)
def test_a_result_is_digested_or_stays(config, result, reply):
    told = asked("bash_tool_result", config=config, event=result, reply=reply)
    text = result["content"][0]["text"]
    if (
        config.get("enabled") is False
        or config.get("bash") is False
        or result["toolName"] != "bash"
    ):
        assert told is None
    if told is None:
        return
    assert text_tokens(text) >= config.get("bashMinTokens", 2000)
    (block,) = told["content"]
    if told["details"]["summarized"]:
        assert block["text"]
        assert block["text"] in reply
        assert told["saved"] == told["details"]["originalTokens"] - text_tokens(block["text"])
    else:
        shown = block["text"].removesuffix("<note>")
        assert sized(shown) <= max(config.get("bashFallbackBytes", 3000), sized("\ufffd"))
        assert "saved" not in told


@given(CONFIGS, results("write"), REPLIES)
def test_a_fact_stands_for_a_file_or_none_does(config, result, reply):
    told = asked("write_tool_result", config=config, event=result, reply=reply)
    if told is None:
        return
    content = result["input"]["content"]
    assert result["toolName"] == "write"
    assert not result["isError"]
    assert utf16_length(content) >= config.get("writeMinBytes", 400)
    assert told["fact"].startswith("[Wrote")
    assert told["savedTokens"] == max(0, text_tokens(content) - text_tokens(told["fact"]))


@given(CONFIGS, results("ls", "find_capability"), REPLIES)
def test_only_what_was_asked_about_may_leave(config, result, reply):
    told = asked("tag_tool_result", config=config, event=result, reply=reply)
    assert told["candidate"] == (told["asked"] and reply == '{"decision":"DROP"}')
    if told["asked"]:
        assert result["toolName"] in ("read", "ls", "find_capability")
        assert text_tokens(result["content"][0]["text"]) >= config.get("amnesiaMinTokens", 250)


def test_w11_the_notes_of_the_host_are_not_shown():
    note = "[Showing lines 9-9 of 12. Full output: /tmp/pi-bash-1.log]"
    result = event("bash", "x\n" * 40 + note, details={"fullOutputPath": "/tmp/pi-bash-1.log"})
    told = asked("bash_tool_result", config={"bashMinTokens": 9}, event=result, reply=None)
    assert "/tmp" not in json.dumps(told)
    assert told["content"][0]["text"].endswith("[output discarded]<note>")


def test_w12_what_a_failing_command_wrote_is_digested():
    result = event("bash", isError=True)
    told = asked("bash_tool_result", config={"bashMinTokens": 9}, event=result, reply="it failed")
    assert told["content"] == [{"type": "text", "text": "it failed"}]


@pytest.mark.parametrize("reply", ["DROP", "RETAIN - do not drop this result", "backdrop"])
def test_w13_prose_drops_nothing(reply):
    told = asked("tag_tool_result", config={}, event=event("read", "x" * 4000), reply=reply)
    assert told == {"asked": True, "candidate": False}


def test_a_result_without_content_or_details_is_none():
    for odd in ({}, {"toolName": "bash"}, {"toolName": 5}, event("bash", details="x", input=5)):
        asked("bash_tool_result", config={"bashMinTokens": 0}, event=odd, reply="x")
        asked("write_tool_result", config={}, event=odd, reply="x")
        assert not asked("tag_tool_result", config={}, event=odd, reply="x")["candidate"]


# Requests


def call(name, tool="read", **arguments):
    return {"type": "toolCall", "id": name, "name": tool, "arguments": arguments}


def said(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def answer(name):
    return {"role": "toolResult", "toolCallId": name, "content": [{"type": "text", "text": name}]}


TEXT = {"type": "text", "text": "look"}
ORPHANS = ("w", "x", "y", "z")
FACT = {"role": "custom", "customType": "fact", "content": "[Wrote a]"}


@st.composite
def requests(draw):
    """Draw a conversation, dirty now and then: results that lack, are orphans or are parted."""
    messages = [{"role": "user", "content": "q"}]
    names = iter("abcdefghijklmnop")
    for number in range(draw(st.integers(0, 4))):
        ids = [next(names) for _ in range(draw(st.integers(0, 3)))]
        front = [TEXT] if draw(st.booleans()) else [{"type": "thinking", "thinking": "h"}]
        messages.append(said(*front, *map(call, ids)))
        for name in ids:
            if draw(st.integers(0, 9)):
                messages.append(answer(name))
            if not draw(st.integers(0, 9)):
                messages.append(FACT)
        if not draw(st.integers(0, 4)):
            messages.append(draw(st.sampled_from([FACT, {"role": "user", "content": "go on"}])))
        if not draw(st.integers(0, 9)):
            messages.append(answer(ORPHANS[number]))
    chosen = draw(st.sets(st.sampled_from("abcdefghijklmnop") | st.sampled_from(ORPHANS)))
    wide = draw(st.booleans())
    return sorted(set("abcdefghijklmnop") - chosen if wide else chosen), messages


def ids_of(message):
    return [b["id"] for b in message["content"] if isinstance(b, dict) and b["type"] == "toolCall"]


def originally(candidates, messages):
    """Read the rule of the original, step by step; also say whether it rewrote a message."""
    marked, pruned = set(), []
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message["role"] == "toolResult" and message["toolCallId"] in candidates:
            pruned.append(message["toolCallId"])
        elif not (
            message["role"] == "assistant"
            and ids_of(message)
            and all(name in candidates for name in ids_of(message))
            and all(block["type"] != "text" for block in message["content"])
        ):
            break
        marked.add(at)
    if not marked:
        return messages, None, False
    at = min(marked) - 1
    while at >= 0 and messages[at]["role"] == "toolResult":
        at -= 1
    owner = messages[at] if at >= 0 and messages[at]["role"] == "assistant" else said()
    rewritten = any(name in pruned for name in ids_of(owner))
    left = [m for at, m in enumerate(messages) if at not in marked]
    saved = sum(host_tokens(messages[at]) for at in marked)
    told = {"saved": saved, "messageCount": len(marked), "droppedResultIds": pruned}
    return left, told, rewritten


def open_calls(messages):
    answered = {m["toolCallId"] for m in messages if m["role"] == "toolResult"}
    calls = {name for m in messages if m["role"] == "assistant" for name in ids_of(m)}
    return calls - answered


@given(requests())
def test_the_tail_leaves_as_in_the_original_unless_that_would_part_a_round(drawn):
    candidates, messages = drawn
    told = asked("prune_messages", candidates=candidates, messages=messages)
    left, removed, rewritten = originally(candidates, messages)
    if not rewritten and not open_calls(left) - open_calls(messages):
        assert told["messages"] == left
        assert told["removed"] == removed


@given(requests())
def test_rounds_leave_whole_or_not_at_all(drawn):
    candidates, messages = drawn
    told = asked("prune_messages", candidates=candidates, messages=messages)
    left, removed = told["messages"], told["removed"]
    gone = messages[len(left) :]
    assert left == messages[: len(left)]
    assert open_calls(left) <= open_calls(messages)
    for message in gone:
        if message["role"] == "toolResult":
            assert message["toolCallId"] in candidates
        else:
            assert ids_of(message)
            assert set(ids_of(message)) <= set(candidates)
    if removed is None:
        assert not gone
    else:
        assert removed["messageCount"] == len(gone)
        assert removed["saved"] == sum(map(host_tokens, gone))
        assert removed["droppedResultIds"] == [
            m["toolCallId"] for m in reversed(gone) if m["role"] == "toolResult"
        ]
    again = asked("prune_messages", candidates=candidates, messages=left)
    assert again == {"messages": left, "removed": None}
    if gone and left and left[-1]["role"] == "assistant":
        assert not set(ids_of(left[-1])) & set(removed["droppedResultIds"])


def test_w4_a_round_goes_with_its_text():
    messages = [{"role": "user", "content": "q"}, said(TEXT, call("a")), answer("a")]
    told = asked("prune_messages", candidates=["a"], messages=messages)
    assert told["messages"] == messages[:1]


def test_w5_a_round_of_which_something_stays_stays_whole():
    messages = [said(call("a"), call("b"), call("c")), *map(answer, "abc")]
    for candidates in ("c", "ac", "bc"):
        told = asked("prune_messages", candidates=list(candidates), messages=messages)
        assert told == {"messages": messages, "removed": None}


def test_w20_an_id_that_comes_again_stands_for_its_last_round():
    first = [said(call("call_0")), answer("call_0")]
    messages = [*first, said(TEXT, call("call_0")), answer("call_0")]
    told = asked("prune_messages", candidates=["call_0"], messages=messages)
    assert told["messages"] == first


def test_w21_a_message_between_results_leaves_no_call_open():
    messages = [said(call("a"), call("b")), answer("a"), FACT, answer("b")]
    told = asked("prune_messages", candidates=["b"], messages=messages)
    assert told == {"messages": messages, "removed": None}


def test_odd_messages_are_walked_past():
    odd = [
        {"role": "assistant", "content": "text"},
        {
            "role": "assistant",
            "content": [None, {"type": "toolCall"}, {"type": "toolCall", "id": 5}],
        },
        {"role": "toolResult", "toolCallId": 5, "content": None},
        {"role": "toolResult"},
    ]
    for at in range(len(odd)):
        given = {"candidates": ["", "5"], "messages": odd[: at + 1]}
        assert asked("prune_messages", **given)["messages"][:at] == odd[:at]
        assert asked("strip_write_content", ids=["5"], messages=odd[: at + 1]) == {
            "messages": odd[: at + 1]
        }


WRITES = st.lists(
    st.builds(
        call, st.sampled_from("abc"), st.sampled_from(["write", "edit"]),
        content=st.just("x") | st.none(), path=st.just("p"),
    ) | st.sampled_from([TEXT, None, {**call("a", "write"), "arguments": "content"}]),
    max_size=4,
)  # fmt: skip


@given(
    st.lists(WRITES.map(lambda blocks: said(*blocks)) | st.just(FACT), max_size=4),
    st.lists(st.sampled_from("abc")),
)
def test_only_the_last_writes_lose_their_content(messages, ids):
    told = asked("strip_write_content", ids=ids, messages=messages)["messages"]
    assert len(told) == len(messages)
    last = max((at for at, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    for at, (before, after) in enumerate(zip(messages, told, strict=True)):
        if at != last:
            assert after == before
            continue
        for old, new in zip(before["content"], after["content"], strict=True):
            taken = (
                isinstance(old, dict)
                and old.get("name") == "write"
                and old["id"] in ids
                and isinstance(old["arguments"], dict)
            )
            assert new == ({**old, "arguments": {"path": "p"}} if taken else old)


# Counting

PARTS = ("bash", "amnesia", "lazy", "write")
NUMBERS = st.integers(-50, 5000) | st.sampled_from([0.5, 2.25])
STEPS = st.one_of(
    st.tuples(st.just("beginTurn"), st.integers(0, 9)),
    st.tuples(st.just("endTurn")),
    st.tuples(st.sampled_from(["recordBash", "recordWrite"]), NUMBERS, NUMBERS),
    st.tuples(st.sampled_from(["recordAmnesia", "setLazy"]), NUMBERS),
    st.tuples(
        st.just("restore"),
        st.none()
        | st.fixed_dictionaries(
            {},
            optional={
                "cumulative": st.dictionaries(st.sampled_from([*PARTS, "total"]), NUMBERS)
                | st.just("x"),
                "turns": st.just([{"turn": 1}]) | st.none(),
            },
        ),
    ),
)


def counted(ops):
    """Count with variables."""
    turn, pending, turns, entries = 0, 0, [], []
    now, total = dict.fromkeys(PARTS, 0), dict.fromkeys((*PARTS, "total"), 0)
    for name, *args in ops:
        if name == "beginTurn":
            turn, now = args[0], dict.fromkeys(PARTS, 0)
        elif name in ("recordBash", "recordWrite"):
            now["bash" if name == "recordBash" else "write"] += max(0, args[0] - args[1])
        elif name == "recordAmnesia":
            now["amnesia"] += args[0]
        elif name == "setLazy":
            pending = max(pending, args[0])
        elif name == "endTurn":
            now["lazy"], pending = pending, 0
            turns.append({"turn": turn, **now, "total": sum(now.values())})
            total = {part: total[part] + turns[-1][part] for part in total}
            entries.append({"cumulative": total, "turns": turns[-40:]})
        elif args[0] and isinstance(args[0].get("cumulative"), dict):
            total = {part: args[0]["cumulative"].get(part, 0) for part in total}
            turns = list(args[0].get("turns") or [])
    return {"cumulative": total, "turns": turns, "entries": entries}


@given(st.lists(STEPS, max_size=60))
def test_savings_are_counted(ops):
    assert asked("stats", ops=list(map(list, ops))) == counted(ops)


@pytest.mark.parametrize(
    "op",
    [[], ["none"], [5], [["endTurn"]], ["beginTurn"], ["recordBash", 1], ["setLazy", "1"],
     ["recordAmnesia", True], ["recordWrite", 1, None]],
)  # fmt: skip
def test_steps_that_are_none(op):
    assert code("stats", {"ops": [op]}) == "invalid-input"
    assert asked("stats", ops=[["restore"]])["turns"] == []


# Capabilities


def matched(query, haystack):
    wanted, text = query.lower(), haystack.lower()
    if wanted in text:
        return 100 + min(utf16_length(text), 1000) / 100
    split = str.maketrans({c: " " for c in map(chr, range(128)) if not c.isalnum()})

    def words(of):
        plain = "".join(c if c.isascii() else " " for c in of).translate(split)
        return plain.split()

    total = 0
    for word in words(wanted):
        if len(word) >= 2:
            known = words(text)
            if word in known:
                total += 10
            elif any(w.startswith(word) or word.startswith(w) for w in known):
                total += 3
    return total


QUERY = st.lists(
    st.sampled_from(
        ["a", "ab", "abc", "abcd", "b", "bc", "Read", "file", "files", "\u00e9", "\u212a"]
    )
    | st.sampled_from([" ", "-", "_", "\U0001f600"])
).map("".join)


@given(QUERY, QUERY)
@example("abd", "a ab abc")
@example("\u0130", "i\u0307")
def test_a_score_is_that_of_each_word_by_each(query, haystack):
    assert score(query, haystack) == matched(query, haystack)


CATALOGUE = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["grep", "ls", "web", FINDER])},
        optional={
            "description": QUERY | st.none(), "promptGuidelines": st.lists(QUERY) | st.none(),
            "disableModelInvocation": st.booleans(), "parameters": st.none() | st.just({"a": 1}),
        },
    ),
    max_size=4,
)  # fmt: skip
LAZY = st.lists(
    st.just({"op": "task_boundary"})
    | st.fixed_dictionaries(
        {"op": st.just("find"), "description": QUERY},
        optional={
            "kind": st.sampled_from(["any", "tool", "skill"]), "load": st.booleans(),
            "top": st.integers(-2, 99) | st.just(2.5) | st.none(),
        },
    ),
    max_size=5,
)  # fmt: skip


@given(CATALOGUE, CATALOGUE, st.lists(st.sampled_from(["ls", "read", FINDER])), st.booleans(), LAZY)
def test_active_tools_only_grow_at_their_end(tools, skills, active, lazy, ops):
    given = {"tools": tools, "skills": skills, "active": active, "ops": ops}
    results = asked("lazy_tools", **given, config={"lazy": lazy})
    before = active if FINDER in active else [*active, FINDER]
    hidden = [s for s in skills if s.get("disableModelInvocation") is True]
    for op, told in zip(ops, results, strict=True):
        matches, loaded = told.get("matches", []), told.get("loaded")
        new = told["active"][len(before) :]
        assert told["active"][: len(before)] == before
        assert new == (
            [loaded["name"]]
            if loaded and loaded["kind"] == "tool" and loaded["name"] not in before
            else []
        )
        before = told["active"]
        if op["op"] == "task_boundary":
            assert told.keys() == {"active"}
            continue
        top = op.get("top")
        assert len(matches) <= max(1, min(8, 3 if top is None else int(top)))
        assert all(first["score"] >= second["score"] for first, second in pairwise(matches))
        assert all(match["score"] > 0 for match in matches)
        assert {m["kind"] for m in matches} <= {"tool", "skill"} - (
            {"skill"} if op.get("kind") == "tool" else set()
        ) - ({"tool"} if op.get("kind") == "skill" else set())
        assert not [m for m in matches if m["kind"] == "tool" and m["name"] == FINDER]
        if op.get("load", True) is False or not matches:
            assert loaded is None
        elif lazy or matches[0]["kind"] == "skill":
            assert loaded == {name: matches[0][name] for name in ("kind", "name")}
        else:
            assert loaded is None
    assume(hidden)
    shown = [s for s in skills if s not in hidden]
    assert results == asked("lazy_tools", **{**given, "skills": shown}, config={"lazy": lazy})


TOOLS = [{"name": "grep", "description": "Search"}, {"name": "web", "description": "Search it"}]
SEARCH = {"op": "find", "description": "search"}


def test_w8_w9_what_was_activated_stays_where_it_is():
    given = {"tools": TOOLS, "skills": [], "active": ["a", FINDER, "b"]}
    ops = [SEARCH, {"op": "task_boundary"}, {"op": "task_boundary"}]
    for told in asked("lazy_tools", **given, ops=ops):
        assert told["active"] == ["a", FINDER, "b", "web"]


def test_w17_nothing_is_activated_where_lazy_tools_are_off():
    given = {"tools": TOOLS, "skills": [], "active": ["a", FINDER], "config": {"lazy": False}}
    (told,) = asked("lazy_tools", **given, ops=[SEARCH])
    assert (told["loaded"], told["active"], len(told["matches"])) == (None, ["a", FINDER], 2)


def test_w18_a_skill_that_is_not_for_the_model_is_not_found():
    skill = {"name": "deploy", "description": "Search", "disableModelInvocation": True}
    (told,) = asked("lazy_tools", tools=[], skills=[skill], active=[], ops=[SEARCH])
    assert told["matches"] == []
    skill["disableModelInvocation"] = False
    (told,) = asked("lazy_tools", tools=[], skills=[skill], active=[], ops=[SEARCH])
    assert told["loaded"] == {"kind": "skill", "name": "deploy"}


@pytest.mark.parametrize(
    "op",
    [{}, {"op": "seek"}, {"op": "find"}, {**SEARCH, "top": "3"}, {**SEARCH, "top": True},
     {**SEARCH, "description": 5}],
)  # fmt: skip
def test_searches_that_are_none(op):
    given = {"tools": [], "skills": [], "active": [], "ops": [op]}
    assert code("lazy_tools", given) == "invalid-input"


def test_odd_tools_are_weighed_and_searched():
    odd = {"name": 5, "description": None, "parameters": None, "promptGuidelines": [1, "a b", None]}
    assert asked("estimate_tool_spec_tokens", tool=odd) == text_tokens("  {} a b")
    for lines in ("ab", True, 5, {"a": 1}, None):
        assert asked("estimate_tool_spec_tokens", tool={"promptGuidelines": lines}) == 2
    (told,) = asked("lazy_tools", tools=[odd], skills=[], active=[], ops=[{**SEARCH, "kind": 7}])
    assert told["matches"] == []


# Whatever stands anywhere

ANYTHING = (None, True, -1, 2.5, 10**30, "", "x", "\ud800", [], [None], {}, {"type": "text"}, [[]])
VECTORS = Path(__file__).parent / "vectors" / "v1" / "memory_rules.jsonl"
ROWS = [json.loads(line) for line in VECTORS.read_bytes().splitlines()]


def places(value):
    """List the places of a value, those of its members among them."""
    found = [()]
    for place in found:
        inner = value
        for step in place:
            inner = inner[step]
        if isinstance(inner, dict | list):
            steps = inner if isinstance(inner, dict) else range(len(inner))
            found += [(*place, step) for step in steps]
    return found[1:]


def put(value, place, new):
    if not place:
        return new
    changed = value.copy()
    changed[place[0]] = put(value[place[0]], place[1:], new)
    return changed


@pytest.mark.parametrize("operation", sorted({row["operation"] for row in ROWS}))
def test_whatever_stands_anywhere_there_is_an_answer(operation):
    for row in ROWS:
        if row["operation"] != operation or "error" in row:
            continue
        for place in places(row["input"]):
            for value in ANYTHING:
                told = door.result(operation, put(row["input"], place, value))
                assert told.get("error", {}).get("code") != "internal-error", (place, value, told)


# Hostile lengths


def took(rule, value):
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        rule(value)
        best = min(best, time.process_time() - start)
    return best


MILLION = 1_000_000
GROWING = {
    "tail of lines": lambda n: truncate_tail("\n" * n, n, n // 2),
    "tail of one line": lambda n: truncate_tail("\u00e9" * n, 9, n),
    "head of lines": lambda n: truncate_head("a\n" * (n // 2), n, n // 2),
    "shorten": lambda n: shorten("\U0001f600" * (n // 2), n // 2),
    "words": lambda n: score("ab " * (n // 3) + "x", "abc " * (n // 4)),
    "different words": lambda n: score(
        " ".join(f"q{at}" for at in range(n // 8)), " ".join(f"q{at}x" for at in range(n // 8))
    ),
    "one word in another": lambda n: score("a" * n + "b", "a" * (n // 2)),
    "words in one another": lambda n: score(
        "a" * 999 + "b", " ".join("a" * at for at in range(n // 999))
    ),
    "calls": lambda n: asked(
        "prune_messages",
        candidates=[str(at) for at in range(n // 200)],
        messages=[m for at in range(n // 200) for m in (said(call(str(at))), answer(str(at)))],
    ),
    "one round": lambda n: asked(
        "prune_messages",
        candidates=["x"],
        messages=[said(*[call(str(at)) for at in range(n // 100)], call("x")), answer("x")],
    ),
    "orphans": lambda n: asked(
        "prune_messages", candidates=["x"], messages=[answer("x") for _ in range(n // 100)]
    ),
    "writes": lambda n: asked(
        "strip_write_content",
        ids=[str(at) for at in range(n // 200)],
        messages=[said(*[call(str(at), "write", content="x") for at in range(n // 200)])],
    ),
    "turns": lambda n: asked("stats", ops=[["endTurn"]] * (n // 1000)),
    "searches": lambda n: asked(
        "lazy_tools", tools=TOOLS * (n // 2000), skills=[], active=[], ops=[SEARCH] * 3
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_million_characters_cost_no_more_than_their_share(name):
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    rule = GROWING[name]
    assert took(rule, MILLION) <= 100 * max(took(rule, MILLION // 16), 0.001)
