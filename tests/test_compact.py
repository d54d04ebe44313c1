"""Compacted views as a stage: before the first sending, true about what came before, reversible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from ctxalgebra import (
    CtxError,
    Image,
    InvalidArgument,
    Opaque,
    Replace,
    Session,
    Text,
    ToolCall,
    assistant,
    compact_output,
    limit_output,
    pipeline,
    project,
    record,
    reply,
    retrieve_output,
    savings,
    send,
    tool_result,
    travel,
    user,
)
from ctxalgebra.codecs import journal, load
from ctxalgebra.compaction.engine import DEFAULT, original, pressure
from ctxalgebra.replay.replay import resend
from ctxalgebra.transforms.compact import RETRIEVE, exact, originals

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions"
LOG = "\r\n".join(f"INFO request {n} served in 3 ms" for n in range(10_000, 10_200))
LOGS = ToolCall("c1", "bash", '{"command":"docker logs web"}')


def called(session: Session, *calls: ToolCall) -> Session:
    return reply(send(session)[0], "completed", assistant(*calls))


def fresh(text: str = LOG, call: ToolCall = LOGS, said: str = "what is slow?") -> Session:
    session = called(record(Session(), user(said)), call)
    return record(session, tool_result(call.id, text))


def last(session: Session) -> str:
    return "".join(p.text for p in project(session).messages[-1].parts if isinstance(p, Text))


def named(session: Session) -> str:
    return last(session).rpartition("full=")[2].rstrip("]\n")


def page(session: Session, **given: object) -> tuple[dict[str, object], str]:
    message = retrieve_output(session, ToolCall("r", "retrieve_output", json.dumps(given)))
    assert not message.error
    head, _, text = message.parts[0].text.partition("\n")
    return json.loads(head), text


def test_a_view_is_sent_first_and_stays():
    session = compact_output(fresh())
    assert compact_output(session) is session
    view = last(session)
    assert len(view) < len(LOG) / 2
    assert "×200 alike" in view
    session, first = send(session)
    session = reply(session, "completed", assistant("ok"))
    session, second = send(compact_output(record(session, user("and?"))))
    assert second.extends(first)
    assert savings(session).mechanisms.keys() == {"compact"}


def test_what_was_sent_once_stays_as_it_was():
    session = reply(send(fresh())[0], "failed")
    assert compact_output(session) is session


def test_the_output_comes_back_exactly_by_lines_and_by_characters():
    session = compact_output(fresh())
    for form in ("lines", "characters"):
        told, text = page(session, id=named(session), **(
            {"maxLines": 7} if form == "lines" else {"maxCharacters": 333}
        ))  # fmt: skip
        whole = text + told.get("separator", "")
        while (at := told["nextLine" if form == "lines" else "nextCharacter"]) is not None:
            given = {"startLine": at, "maxLines": 90} if form == "lines" else {"startCharacter": at}
            told, text = page(session, id=named(session), **given)
            whole += text + told.get("separator", "")
        assert whole == LOG
    assert page(session, id=f" {named(session)} ", startLine=10**9)[0]["startLine"] == 200


def test_the_store_is_there_again_when_the_journal_is_loaded_and_on_each_branch():
    session = compact_output(fresh())
    restored = journal.decode(journal.encode(session)).session
    assert original(originals(restored).store, named(session)) == LOG
    away = record(travel(session, 0), user("elsewhere"))
    assert originals(away).store.held == 0


def test_an_output_that_came_before_is_a_reference_that_says_how_it_was_shown():
    session = compact_output(fresh())
    again = ToolCall("c2", "bash", '{"command":"docker logs web"}')
    session = record(called(session, again), tool_result("c2", LOG))
    session = compact_output(session)
    assert last(session).startswith("[duplicate: this output of bash came before and was shown as")
    assert page(session, id=named(session), maxLines=1000)[1] == LOG
    whole = called(fresh(), again)  # nobody compacted the first one
    whole = compact_output(record(whole, tool_result("c2", LOG)))
    assert "was shown in full" in last(whole)


def test_of_two_equal_outputs_in_one_round_the_second_refers_to_the_first():
    text = "\n".join(f"a line of words {chr(97 + n % 26)}{n} and more" * 3 for n in range(12))
    calls = (ToolCall("c1", "cat"), ToolCall("c2", "cat"))
    session = called(record(Session(), user("go")), *calls)
    session = record(session, tool_result("c1", text), tool_result("c2", text))
    once = compact_output(session)
    assert compact_output(once) is once
    first, second = (m.parts[0].text for m in project(once).messages[-2:])
    assert first == text
    assert "was shown in full" in second


def test_asking_for_the_beginning_shows_more_of_the_next():
    session = compact_output(fresh())
    for arguments, level in (
        ({"id": named(session), "startLine": 100}, 0),
        ({"id": "0" * 24}, 0),
        ({"id": 5}, 0),
        ([], 0),
        ({"id": named(session), "startCharacter": 5}, 0),
        ({"id": named(session)}, 1),
    ):
        call = ToolCall("r1", "retrieve_output", json.dumps(arguments))
        asked = called(session, call)
        assert pressure(originals(asked), "bash") == level
        recorded = record(session, assistant(call))
        assert pressure(originals(recorded), "bash") == level
    answered = record(asked, retrieve_output(asked, call))
    assert compact_output(answered) is answered  # what was asked for is shown as it is
    assert "INFO request 10050" in last(answered)


def test_a_page_of_lines_is_bounded_and_says_how_to_read_on():
    """Long lines come in as many answers as they need, and put together they are the output."""
    long = "x y " * 40_000
    lines = ["first", *(f"INFO {n} {'w' * 400}" for n in range(600)), long, "", long, "last"]
    text = "\r\n".join(lines)
    session = compact_output(fresh(text))
    name = named(session)
    given, whole, sizes = {"maxLines": 1000}, "", []
    while given:
        told, piece = page(session, id=name, **given)
        sizes.append(len(piece))
        whole += piece + told.get("separator", "")
        given = {}
        if told.get("nextLine"):
            given = {"startLine": told["nextLine"], "maxLines": 1000}
        elif told.get("nextCharacter"):
            given = {"startCharacter": told["nextCharacter"]}
    assert whole == text
    assert max(sizes) <= 50_000
    told, piece = page(session, id=name, startLine=602)
    assert (told["startLine"], told["characters"], piece) == (602, 50_000, long[:50_000])
    assert page(session, id=name, startCharacter=told["startCharacter"])[1] == long[:16_000]
    assert len(page(session, id=name, startCharacter=0, maxCharacters=100_000)[1]) == 100_000
    session = compact_output(fresh(long * 60))
    told, piece = page(session, id=named(session))
    assert (told["startCharacter"], told["nextCharacter"], len(piece)) == (0, 50_000, 50_000)


@pytest.mark.parametrize("size", [49_999, 50_000, 50_001])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_line_that_just_fits_is_a_page(size, ending):
    text = "a" * size + ending + "INFO b 1\n" * 2_000
    session = compact_output(fresh(text, ToolCall("c1", "bash", '{"command":"docker logs w"}')))
    told, piece = page(session, id=named(session))
    assert piece == "a" * min(size, 50_000)
    if size <= 50_000:
        assert (told["endLine"], told["separator"]) == (1, ending)
        told, piece = page(session, id=named(session), startLine=2)
        assert piece.startswith("INFO b 1")


def test_files_about_to_be_edited_and_exact_output_pass():
    code = "\n".join(f"def f{n}():\n    return {n}" for n in range(400))
    read = ToolCall("c1", "read", '{"path":"a.py"}')
    assert compact_output(fresh(code, read, "explain a.py")) != fresh(code, read, "explain a.py")
    for said in ("fix a.py", "we are fixing and updating the parser"):
        session = fresh(code, read, said)
        assert compact_output(session) is session
    exact = ToolCall("c1", "bash", '{"command":"kubectl get pods -ojson"}')
    session = fresh(json.dumps([{"a": n} for n in range(900)]), exact)
    assert compact_output(session) is session


def test_each_text_of_a_result_by_itself_and_the_rest_stays():
    parts = (Text(LOG), Image("aGk=", "image/png"), Text("short"), Opaque("x", "{}"))
    session = called(record(Session(), user("go")), LOGS)
    session = record(session, tool_result("c1", parts, error=True))
    session = compact_output(session)
    shown = project(session).messages[-1]
    assert shown.error
    assert [type(p) for p in shown.parts] == [Text, Image, Text, Opaque]
    assert shown.parts[2].text == "short"
    assert session.leaf.entry.why.split("; ")[1] == "whole"
    assert originals(session).store.held == 1
    assert len(page(session, id=shown.parts[0].text.rpartition("full=")[2][:-1])[1]) > 0


def test_tools_can_be_chosen_and_other_stages_come_first():
    assert compact_output(fresh(), tools=("read",)) == fresh()
    assert compact_output(fresh(), tools=("bash",)) != fresh()
    mine = record(fresh(), Replace(3, tool_result("c1", LOG + "!"), "mine"))
    assert compact_output(mine) is mine
    assert originals(send(mine)[0]).remembered == 0
    both = pipeline(compact_output, limit_output)
    once = both(fresh(LOG * 20))
    assert both(once) is once
    assert original(originals(once).store, named(once)) == LOG * 20


def test_a_replacement_of_something_else_is_none_of_its():
    session = record(fresh(), Replace(0, user("else"), "compact: text", breaks=True))
    assert originals(session).store.held == 0
    assert originals(reply(send(session)[0], "aborted", assistant("x"))).store.held == 0


def test_a_result_without_its_call_goes_by_its_own_name():
    session = record(Session(), user("a"), assistant(ToolCall("c1", "bash")))
    session = send(record(session, tool_result("c1", LOG, name="other")))[0]
    assert originals(session).remembered == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("nothing", "no JSON object"),
        ("{}", "id is missing"),
        ('{"id":5}', "id is no text"),
        ('{"id":"a","more":1}', "no argument 'more'"),
        ('{"id":"a","startLine":0}', "startLine is no integer from 1"),
        ('{"id":"a","maxLines":1001}', "maxLines is no integer"),
        ('{"id":"a","maxLines":true}', "maxLines is no integer"),
        ('{"id":"a","startCharacter":-1}', "startCharacter is no integer"),
        ('{"id":"a","maxCharacters":1e3}', "maxCharacters is no integer"),
        ('{"id":"a"}', "No output with the id a"),
        ('{"id":"a","startCharacter":3}', "No output with the id a"),
        (json.dumps({"id": "\x1b" * 9999}), "is held"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(arguments, told):
    message = retrieve_output(Session(), ToolCall("c9", RETRIEVE.name, arguments))
    assert (message.role, message.call, message.error) == ("tool", "c9", True)
    assert told in message.parts[0].text
    assert len(message.parts[0].text) < 300


def test_arguments_are_checked():
    for call in (
        lambda: compact_output(5),
        lambda: compact_output(fresh(), tools="bash"),
        lambda: compact_output(fresh(), policy=5),
        lambda: retrieve_output(5, LOGS),
        lambda: retrieve_output(Session(), 5),
        lambda: originals(5),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_what_must_be_exact_is_so_for_limits_too():
    loaded = "The following skill instructions were loaded\n" + "Do it. " * 4000
    for text, call, told in (
        (loaded, ToolCall("c1", "use_skill"), True),
        ("Do it. " * 4000, ToolCall("c1", "use_skill"), False),
        ("", ToolCall("c1", "retrieve_output"), True),
    ):
        session = fresh(text, call)
        assert exact(session, call, tool_result("c1", text)) is told
    image = tool_result("c1", (Image("aGk=", "image/png"),))
    assert exact(fresh(), ToolCall("c1", "retrieve_output"), image)
    assert not exact(fresh(), LOGS, image)


def test_a_filter_that_fails_shows_the_output():
    def broken(*_, **__):
        raise RuntimeError("broken")

    policy = evolve(DEFAULT, filters=dict.fromkeys(DEFAULT.filters, broken))
    assert compact_output(fresh(), policy=policy) == fresh()


FILES = sorted(p for p in SHARED.rglob("*") if p.is_file() and p.suffix != ".md")


@pytest.mark.skipif(not FILES, reason="the shared session files are absent")
def test_every_output_of_real_sessions_comes_back_exactly():
    held = views = 0
    for file in FILES:
        try:
            recorded = load(file).session
        except CtxError:
            continue
        for session in resend(recorded, compact_output):
            view = session.view
            for slot in range(view.end):
                message = view.slots.messages[slot]
                text = "".join(p.text for p in message.parts if isinstance(p, Text))
                if message.role == "tool" and "full=" in text and slot >= view.end - 3:
                    views += 1
        state = originals(session)
        held += state.store.held
    assert held > 20
