"""Whatever is passed to a public name, what comes out is a value or an error with a code.

Each argument of each public function and class is replaced, one at a time, by what does not belong
there. A wrong number of arguments is a `TypeError`, as Python has it, and not looked at here.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle

import pytest
from attrs.exceptions import FrozenInstanceError

import ctxalgebra
from ctxalgebra import (
    CODES,
    PROFILES,
    Ask,
    Calibration,
    CtxError,
    Evicted,
    Explanation,
    Fold,
    Head,
    InvalidArgument,
    Node,
    Route,
    Session,
    Strip,
    Tally,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    assistant,
    chars4,
    default_stub,
    exchanges,
    explain,
    find,
    log,
    pipeline,
    profile_for,
    project,
    record,
    reply,
    send,
    snap_frontier,
    tool_result,
    user,
    violations,
)
from ctxalgebra.recall import default_words
from ctxalgebra.transforms.compact import POLICY
from ctxalgebra.transforms.memory_settings import MemorySettings

CALLS = (user("a"), assistant(ToolCall("c1", "read")), tool_result("c1", "42"))
SESSION = reply(send(record(Session(), *CALLS))[0], "completed", assistant(Thinking("t", "s"), "b"))
FLYING, _ = send(SESSION)
OPEN = record(SESSION, assistant(ToolCall("c2", "read")))
ASKED = record(SESSION, Ask("k", "t", "q"))
STAGE = pipeline()
BEFORE = pickle.dumps((SESSION, FLYING, OPEN, ASKED))

HOSTILE = (
    None, 5, -1, 10**30, "x", "\ud800", "", b"x", 1.5, True, [1], {"a": 1}, {1}, (None,), object(),
)  # fmt: skip


async def answers(asks):
    return ()


# A legal call of each public function and class, by name of the parameter.
LEGAL = {
    "Account": {},
    "Answer": {"ask": 0, "outcome": "answered", "value": "v"},
    "Ask": {"key": "k", "topic": "t", "question": "q", "deadline": 1},
    "Defect": {"code": "missing-id", "index": 0, "call": ""},
    "DryRun": {"entries": (), "broke": None, "rebilled": 0, "input": 1},
    "Evicted": {"first": 0, "last": 1, "count": 2},
    "Explanation": {"number": 0, "state": "shown", "why": "w", "by": ()},
    "Pending": {"number": 0, "ask": Ask("k", "t", "q")},
    "PagingSettings": {"enabled": True, "budget": 2, "target": 1, "explicit": True},
    "Placed": {"request": project(SESSION), "breakpoints": (0,), "long": 0},
    "Pressure": {"estimate": 1, "limit": 2, "cuttable": True},
    "Prices": {"read": 1, "written": 2, "kept": 3},
    "PricedBreak": {"sent": 1, "at": 0, "why": "w", "by": (1,), "rebilled": 3},
    "Reading": {"tokens": 1, "window": 2},
    "RecordedEffects": {"answers": {}},
    "Repair": {"code": "missing-id", "index": 0, "call": "", "action": "a"},
    "Repaired": {"messages": CALLS, "repairs": (), "sources": (0, 1, 2)},
    "Violation": {"rule": "V-A1", "index": 0, "detail": "d"},
    "Break": {"sent": 1, "at": 0, "why": "w", "by": (1,)},
    "Breakdown": {
        "system": 1, "tools": 2, "calls": 3, "messages": 4, "other": 5, "available": 6, "window": 7,
    },
    "CacheProfile": {
        "name": "n", "minimum": 1, "breakpoints": 2, "lookback": 3, "block": 1, "ttl": 5,
        "long_ttl": 6, "strips": True, "prices": ctxalgebra.Prices(),
    },
    "Calibration": {"overhead": 1, "numerator": 2, "denominator": 3},
    "Costs": {"head": 1, "sums": (0, 2), "fit": Calibration()},
    "Cut": {"through": 0, "notice": user("n"), "why": "w", "keep": (0,), "breaks": True},
    "Drop": {"first": 0, "last": 1, "why": "w", "breaks": True},
    "Fold": {"name": "n", "init": 0, "step": lambda v, n, view: v, "along": "path", "reads": None},
    "Head": {"route": Route(), "system": "s", "tools": (Tool("t"),)},
    "Image": {"data": "d", "media_type": "image/png"},
    "Label": {"target": 0, "name": "n"},
    "Message": {
        "role": "user", "parts": "hi", "call": "", "name": "", "error": False, "id": "i",
        "origin": "o",
    },
    "Node": {"entry": user("a"), "parent": None, "previous": None},
    "Note": {"name": "n", "data": "d"},
    "Opaque": {"type": "t", "data": "{}"},
    "Pipeline": {"stages": (STAGE,)},
    "Profile": {"name": "n", "rules": ("V-C1",), "as_user": frozenset(), "merges": True},
    "Replace": {"target": 0, "message": user("n"), "why": "w", "breaks": True},
    "Reply": {"outcome": "failed", "message": None, "usage": None},
    "Request": {"head": Head(), "messages": CALLS},
    "Route": {"provider": "p", "model": "m", "parameters": (("a", "1"),), "binding": "none"},
    "Rule": {"code": "c", "kinds": (), "objects": lambda s, e: None},
    "Sent": {"time": 1, "inferred": False},
    "Session": {},
    "Strip": {"why": "w", "breaks": True},
    "Text": {"text": "t"},
    "Thinking": {"text": "t", "signature": "s", "redacted": False},
    "Tool": {"name": "n", "description": "d", "schema": "{}"},
    "ToolCall": {"id": "i", "name": "n", "arguments": "{}", "signature": "s"},
    "Usage": {"input": 2, "output": 1, "cache_read": 1, "cache_write": 1},
    "UsageReport": {"sent": 3, "usage": Usage()},
    "ByteDrift": {"path": "p", "kind": "text", "at": 0, "before": "a", "after": "b"},
    "Change": {"place": "p", "kind": "text", "at": 0, "before": "a", "after": "b"},
    "Drift": {"sent": 1, "changes": (), "rebilled": 2},
    "Savings": {"mechanisms": {}, "turns": (), "decisions": ()},
    "Tally": {"first": 1, "later": 2, "rebilled": 3, "asked": 4},
    "Weighed": {
        "number": 1, "mechanism": "m", "tokens": 2, "tally": Tally(), "expected": 3, "requests": 4,
    },
    "abandon": {"session": OPEN, "call": "c2", "reason": "r"},
    "account": {"session": SESSION, "measure": chars4},
    "adrive": {"session": ASKED, "stage": STAGE, "effects": answers},
    "answer_to": {"session": SESSION, "key": "k"},
    "ask": {"session": SESSION, "question": Ask("k", "t", "q")},
    "assistant": {"parts": ("a",), "id": "i"},
    "at_leaf": {"session": SESSION, "number": 0},
    "breakdown": {"session": SESSION, "window": 9, "measure": chars4},
    "breaks": {"session": SESSION},
    "browse": {
        "source": SESSION, "direction": "around", "id": None, "sequence": 0, "count": 1,
        "stride": 1,
    },
    "byte_drift": {"before": b"{}", "after": b"{}"},
    "compact_output": {"session": ASKED, "tools": ("read",), "policy": POLICY},
    "default_digest_prompt": {"command": "c", "output": "o", "longest": 9},
    "digest_output": {
        "session": ASKED, "tools": ("read",), "over": 1, "longest": 2, "fallback_bytes": 3,
        "measure": chars4, "deadline": 4, "prompt": lambda command, output, longest: "p",
    },
    "drift": {"session": SESSION, "measure": chars4},
    "forget": {
        "session": SESSION, "horizon": 1, "regret": 2, "aux": 3, "measure": chars4,
        "cache": "cold", "stub": lambda call, tokens: "s",
    },
    "gauge": {"session": OPEN, "window": 9, "measure": chars4},
    "head_drift": {"before": Head(), "after": Head()},
    "limit_output": {
        "session": ASKED, "tools": ("read",), "tail": (), "max_bytes": 1, "max_lines": 1,
        "save": True, "hold": True, "passes": None,
    },
    "limited": {
        "message": CALLS[2], "tail": True, "max_bytes": 1, "max_lines": 1, "place": "p",
        "name": "n",
    },
    "mechanism": {"decision": Strip("a: b")},
    "retrieve_output": {"session": SESSION, "call": ToolCall("c", "n", '{"id":"a"}')},
    "savings": {"session": SESSION, "measure": chars4},
    "stake": {"session": SESSION, "regret": 1, "aux": 2, "measure": chars4},
    "tag_results": {
        "session": OPEN, "tools": ("read",), "over": 1, "longest": 2, "shown": 3, "horizon": 4,
        "regret": 5, "aux": 6, "measure": chars4, "deadline": 7, "prompt": lambda call, text: "p",
    },
    "with_line": {"result": CALLS[2], "line": "x"},
    "working_memory": {
        "settings": MemorySettings(), "compact": True, "limit": True, "shells": ("bash",),
        "retrieval": ("read",), "writers": ("write",), "save": True, "model_facts": True,
        "horizon": 1, "regret": 2, "aux": 3, "measure": chars4, "cache": "cold",
    },
    "write_facts": {
        "session": ASKED, "tools": ("write",), "over": 1, "model": True, "longest": 2, "shown": 3,
        "deadline": 4,
    },
    "cache_profile": {"route": Route("anthropic"), "rules": "anthropic"},
    "calibrate": {"session": SESSION, "measure": chars4},
    "costs": {"session": SESSION, "measure": chars4},
    "chars4": {"value": user("a")},
    "claude_v1": {"value": user("a")},
    "deepseek_v1": {"value": user("a")},
    "measure_of": {"count": len},
    "o200k_v1": {"value": user("a")},
    "qwen_v1": {"value": user("a")},
    "default_breakpoints": {"request": project(SESSION), "tail": 1},
    "default_notice": {"evicted": Evicted(0, 1, 2)},
    "default_stub": {"result": CALLS[2], "tokens": 9},
    "defects": {"messages": CALLS, "aborted": ()},
    "drive": {"session": ASKED, "stage": STAGE, "effects": lambda asks: ()},
    "drop_suffix": {"messages": CALLS, "large": lambda m: True},
    "dry_run": {"stage": STAGE, "session": SESSION, "measure": chars4},
    "estimate": {"session": SESSION, "measure": chars4},
    "exchanges": {"messages": CALLS, "first": 0, "last": 3},
    "explain": {"session": SESSION, "message": 0},
    "find": {"session": SESSION, "number": 0, "along": "path"},
    "fold": {"session": SESSION, "what": Fold("n", 0, lambda v, n, view: v)},
    "label": {"session": SESSION, "target": 0, "name": "n"},
    "labels": {"session": SESSION},
    "log": {"session": SESSION},
    "open_calls": {"session": SESSION},
    "path": {"session": SESSION},
    "pays": {"tail": 9, "saved": 3, "horizon": 9, "cached": 10, "written": 125},
    "pending": {"session": SESSION},
    "pipeline": {"stages": (STAGE,)},
    "plan_breakpoints": {
        "previous": ctxalgebra.Placed(project(record(Session(), *CALLS))), "now": project(SESSION),
        "profile": ctxalgebra.CacheProfile(minimum=0), "long": 0, "measure": chars4,
    },
    "pressure": {"session": SESSION, "budget": 9, "reserve": 1, "window": 90, "measure": chars4},
    "pressure_of": {"session": SESSION, "window": 9, "measure": chars4},
    "profile_for": {"provider": "anthropic"},
    "project": {"session": SESSION},
    "prune_suffix": {
        "session": OPEN, "stub_over": 1, "drop_over": 1, "horizon": 1, "measure": chars4,
        "cache": "cold", "stub": default_stub,
    },
    "recall_notice": {"session": SESSION, "words": default_words},
    "recall_stub": {"session": SESSION},
    "record": {"session": SESSION, "entries": (user("a"),)},
    "remind": {
        "session": record(SESSION, user("a")), "window": 9, "role": "user",
        "wording": lambda level: "w", "measure": chars4,
    },
    "repair": {"messages": CALLS, "aborted": ()},
    "reply": {"session": FLYING, "outcome": "completed", "message": assistant("b"), "usage": None},
    "requests": {"session": SESSION},
    "resolve_settings": {
        "global_settings": {}, "project_settings": {}, "project_trusted": True,
    },
    "respond": {"source": SESSION, "call": ToolCall("q", "browse_history", "{}")},
    "search": {
        "source": SESSION, "query": "a", "files": ("a",), "tools": ("read",), "failed": False,
        "limit": 1,
    },
    "select": {
        "session": SESSION, "budget": 2, "target": 1, "reserve": 1, "window": 90,
        "measure": chars4, "cache": "cold", "notice": lambda evicted: "n",
    },
    "send": {"session": SESSION, "time": 1},
    "snap_frontier": {"messages": CALLS, "index": 3, "findable": lambda m: m.id},
    "stats": {
        "session": SESSION, "budget": 9, "window": 8, "enabled": True, "stored": 7,
        "measure": chars4,
    },
    "strip_thinking": {"session": SESSION, "why": "w"},
    "system": {"content": "c", "id": "i"},
    "tool_result": {"call": "c", "content": "c", "name": "n", "error": False, "id": "i"},
    "travel": {"session": SESSION, "target": 0},
    "user": {"content": "c", "id": "i"},
    "violations": {
        "messages": CALLS, "profile": PROFILES["anthropic"], "head": None, "last_thinking": None,
        "merged": True, "previous_response": False, "reasoning_ids": True, "signatures": False,
    },
    "walk": {"session": SESSION, "since": 0},
    "warn_headroom": {
        "settings": ctxalgebra.PagingSettings(budget=5, target=9, explicit=True),
        "warned": frozenset(),
    },
}  # fmt: skip

EXEMPT = {
    # Errors are made by whoever raises them; a code that is not in the list is a bug there.
    "CtxError", "DecodeError", "IllegalDecision", "InvalidArgument", "LawViolation",
    "ProtocolViolation", "StoreError",
    # Protocols are no constructors, and views are made by folding entries.
    "AsyncEffects", "Effects", "View",
}  # fmt: skip


def called(name, arguments):
    """Call a public name, and use up what is lazy."""
    value = getattr(ctxalgebra, name)
    arguments = dict(arguments)
    positional = []
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            given = arguments.pop(parameter.name)
            positional += given if isinstance(given, tuple) else (given,)
        elif "entries" in arguments and name == "record":
            positional.append(arguments.pop(parameter.name))
    given = value(*positional, **arguments)
    if inspect.iscoroutine(given):
        return asyncio.run(given)
    return list(given) if inspect.isgenerator(given) else given


def test_every_public_function_and_class_is_looked_at():
    values = {name: getattr(ctxalgebra, name) for name in ctxalgebra.__all__}
    public = {n for n, v in values.items() if inspect.isfunction(v) or inspect.isclass(v)}
    assert set(LEGAL) | EXEMPT == public
    assert not set(LEGAL) & EXEMPT


@pytest.mark.parametrize("name", sorted(LEGAL))
def test_what_does_not_belong_there_gives_a_value_or_an_error_with_a_code(name):
    called(name, LEGAL[name])
    refused = []
    for parameter in LEGAL[name]:
        several = isinstance(LEGAL[name][parameter], tuple)
        for hostile in (*HOSTILE, *((h,) for h in HOSTILE if several)):
            try:
                called(name, {**LEGAL[name], parameter: hostile})
            except CtxError as error:
                refused.append(error)
    assert all(error.code in CODES and str(error).isprintable() for error in refused)
    told = inspect.getdoc(getattr(ctxalgebra, name)) or ""
    assert refused or "Raises:" not in told
    assert pickle.dumps((SESSION, FLYING, OPEN, ASKED)) == BEFORE


def refusal(call):
    with pytest.raises(CtxError) as caught:
        call()
    return type(caught.value), caught.value.code, caught.value.field


def unhashable(message):
    return [message]


class Unhashable:
    __hash__ = None

    def __call__(self, value):
        return 1


@pytest.mark.parametrize(
    ("call", "code", "field"),
    [
        (lambda: exchanges(CALLS, 0, 4), "invalid-argument", "last"),
        (lambda: exchanges(CALLS, -2, 3), "invalid-argument", "first"),
        (lambda: exchanges(CALLS, 0, "3"), "wrong-type", "last"),
        (lambda: snap_frontier(CALLS, 3, findable=unhashable), "wrong-type", "findable"),
        (lambda: snap_frontier(CALLS, True), "wrong-type", "index"),
        (lambda: profile_for(None), "wrong-type", "provider"),
        (lambda: violations(CALLS, None), "wrong-type", "profile"),
        (lambda: violations(CALLS, PROFILES["gemini"], head="h"), "wrong-type", "head"),
        (lambda: violations({"a": 1}, PROFILES["gemini"]), "wrong-type", "messages"),
        (lambda: ctxalgebra.Profile("x", None), "wrong-type", "rules"),
        (lambda: ctxalgebra.Profile("x", ("V-X",)), "invalid-argument", "rules"),
        (lambda: pipeline(None), "wrong-type", "stages"),
        (lambda: explain(SESSION, "0"), "wrong-type", "message"),
        (lambda: explain(SESSION, True), "wrong-type", "message"),
        (lambda: find(SESSION, 0, along="tree"), "invalid-argument", "along"),
        (lambda: ctxalgebra.travel(SESSION, None), "wrong-type", "target"),
        (lambda: ctxalgebra.at_leaf(SESSION, "0"), "wrong-type", "number"),
        (lambda: ctxalgebra.drive(SESSION, pipeline(), None), "wrong-type", "effects"),
        (lambda: ctxalgebra.drive(SESSION, None, print), "wrong-type", "stages"),
        (lambda: ctxalgebra.drive(SESSION, lambda s: None, print), "wrong-type", None),
        (lambda: ctxalgebra.dry_run(lambda s: None, SESSION), "wrong-type", "session"),
        (lambda: ctxalgebra.account(SESSION, measure=Unhashable()), "wrong-type", "measure"),
        (lambda: ctxalgebra.calibrate(SESSION, measure=Unhashable()), "wrong-type", "measure"),
        (lambda: SESSION.view.slots.total(Unhashable(), 1), "wrong-type", "measure"),
        (lambda: SESSION.view.slots.total("x", 1), "wrong-type", "measure"),
        (lambda: ctxalgebra.fold(SESSION, []), "wrong-type", "what"),
        (lambda: record(None), "wrong-type", "session"),
    ],
)  # fmt: skip
def test_the_place_is_told(call, code, field):
    assert refusal(call) == (InvalidArgument, code, field)


def test_a_message_is_explained_by_itself():
    session = record(Session(), user("a"), user("b"), user("a"), assistant(Thinking("t"), "c"))
    assert [explain(session, user(text)).number for text in "ab"] == [2, 1]
    # Cut away, the newest that was recorded stands for it; what replaced it is known too.
    session = record(session, ctxalgebra.Cut(2, user("n"), "w"))
    assert explain(session, user("a")) == Explanation(2, "cut", "w", (4,))
    assert explain(session, user("n")).number == 4
    assert explain(session, assistant("c")).number == 3
    assert explain(session, assistant(Thinking("t"), "c")).number == 3
    for call in (lambda: explain(session, user("z")), lambda: explain(session, 9)):
        with pytest.raises(InvalidArgument, match="unknown-entry"):
            call()


def test_nodes_cannot_be_changed():
    session = record(Session(), user("a"), assistant("b"))
    same = pickle.loads(pickle.dumps(session))
    for node in log(session):
        assert type(node) is Node
        for name in Node.__slots__:
            with pytest.raises(FrozenInstanceError):
                setattr(node, name, user("evil"))
            with pytest.raises(FrozenInstanceError):
                delattr(node, name)
    assert session == same
    assert copy.deepcopy(session) == session
    first = session.leaf.parent
    assert repr(Node(user("c"), first, session.leaf)) == f"<2: {user('c')!r}>"
