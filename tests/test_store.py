"""The store: appended whole or not at all, killed at any byte, locked, taken back when refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import (
    CtxError,
    DecodeError,
    Head,
    InvalidArgument,
    Note,
    Session,
    StoreError,
    ToolCall,
    assistant,
    at_leaf,
    record,
    reply,
    send,
    tool_result,
    travel,
    user,
)
from ctxalgebra.codecs import CODECS, journal
from ctxalgebra.laws.strategies import journals, sessions
from ctxalgebra.store import open_store, whole


def grown(session, turns):
    for n in range(len(session), len(session) + turns):
        session, _ = send(record(session, user(f"Frage {n}: größer als 5?")))
        session = reply(session, "completed", assistant(ToolCall(f"c{n}", "read")))
        session = record(session, tool_result(f"c{n}", "42\n"))
    return session


def stored(path, format="journal"):
    return CODECS[format].decode(path.read_bytes()).session


def test_what_is_appended_is_there_and_the_rest_is_not(tmp_path):
    path = tmp_path / "session.jsonl"
    with open_store(path) as store:
        assert (store.session, store.repairs, store.torn) == (Session(), (), b"")
        assert path.read_bytes() == journal.HEADER
        first = grown(store.session, 2)
        size = store.append(first, sync=True)
        assert path.stat().st_size == len(journal.HEADER) + size
        assert stored(path) == first
        assert store.append(first) == 0
        later = travel(grown(first, 1), 0)
        store.append(later)
        store.sync()
        assert stored(path) == later
    with open_store(path) as store:
        assert store.session == later
        on = record(store.session, user("another branch"))
        store.append(on)
        assert journal.encode_since(on, store.session) == b""
        assert stored(path) == on
    assert path.read_bytes().startswith(journal.encode(grown(first, 1)))


@given(st.one_of(sessions(), journals()), st.data())
def test_any_journal_is_stored_step_by_step(tmp_path_factory, session, data):
    path = tmp_path_factory.mktemp("store") / "s.jsonl"
    cuts = data.draw(st.lists(st.integers(0, len(session)), max_size=4).map(sorted))
    lines = journal.encode(session).splitlines(keepends=True)
    with open_store(path) as store:
        whole_one = journal.decode(b"".join(lines)).session
        for cut in cuts:
            now = earlier(whole_one, cut)
            store.append(now)
            assert store.session is now
            assert stored(path) == now
        store.append(whole_one)
    assert stored(path) == session


def earlier(session, count):
    """The same nodes, the first of them only."""
    node = session.last
    while node is not None and node.number >= count:
        node = node.previous
    there = at_leaf(session, -1 if node is None else node.number)
    return Session(there.leaf, node, there.view)


# Torn


LONG = grown(record(Session(), Note("größe", "ß" * 5)), 50)


def test_a_file_cut_at_any_byte_comes_back_to_the_last_whole_entry(tmp_path):
    assert len(LONG) > 200
    data = journal.encode(LONG)
    ends = [0]
    for line in data.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))
    complete = set(ends) | {end - 1 for end in ends[1:]}
    last = 0
    for size in range(len(data) + 1):
        last = size if size in complete else last
        assert whole(data[:size]) == last, size
    path = tmp_path / "s.jsonl"
    every = [size for end in ends[::4] for size in (end - 1, end, end + 1, end + 40) if size >= 0]
    for size in sorted({min(size, len(data)) for size in every}):
        path.write_bytes(data[:size])
        end = whole(data[:size])
        kept = sum(1 for other in ends[2:] if other <= end + 1)
        with open_store(path) as store:
            assert len(store.session) == kept
            assert store.torn == data[end:size]
            assert store.session == earlier(LONG, kept)
            store.append(record(store.session, Note("goes", "on")))
        assert len(stored(path)) == kept + 1
        aside = Path(f"{path}.torn")
        if data[end:size]:
            assert aside.read_bytes() == data[end:size] + b"\n"
            aside.unlink()
        else:
            assert not aside.exists()


@pytest.mark.parametrize(
    "tail", [b"\0\0\0", b'{"kind":"note","name":"\xff', b"5", b"  ", b'{"a":NaN}']
)
def test_what_is_no_line_is_set_aside(tmp_path, tail):
    path = tmp_path / "s.jsonl"
    good = journal.encode(record(Session(), user("a")))
    for count in (1, 2):
        path.write_bytes(good + tail)
        with open_store(path) as store:
            assert (len(store.session), store.torn) == (1, tail)
        assert path.read_bytes() == good
        assert Path(f"{path}.torn").read_bytes() == (tail + b"\n") * count


def test_an_illegal_or_damaged_journal_is_not_loaded_and_not_touched(tmp_path):
    path = tmp_path / "s.jsonl"
    illegal = journal.encode(record(Session(), user("a"))) + b'{"kind":"reply","outcome":"lost"}\n'
    middle = journal.encode(grown(Session(), 1)).replace(b'"call":"c0"', b'"call":"c0', 1)
    for data, code in (
        (illegal, "no-request"),
        (middle, "invalid-json"),
        (b"no\n", "invalid-json"),
    ):
        path.write_bytes(data + b'{"torn')
        with pytest.raises(DecodeError) as caught:
            open_store(path)
        assert (caught.value.code, caught.value.file) == (code, str(path))
        assert caught.value.line is not None
        assert path.read_bytes() == data + b'{"torn'
        assert not Path(f"{path}.torn").exists()
    path.write_bytes(illegal[: -len(b'{"kind":"reply","outcome":"lost"}\n')])
    with open_store(path) as store:  # the lock was let go
        assert len(store.session) == 1


DOCUMENT = b'[{"role":"user","content":"my only copy"}]'


@pytest.mark.parametrize("format", sorted(CODECS))
@pytest.mark.parametrize(
    "data",
    [
        DOCUMENT,
        b"my diary, one line",
        b"\x89PNG..",
        b"\0" * 40,
        b"{",
        b'{"kind":"journal","spec":1} and more',
        b'{"kind":"journal","spec":9}',
        b'{"kind":"journal","spe.',
        b'[\n {"role": "user", "content": "x"}\n]',
        b'{"secret": "my only c',
    ],
)
def test_a_foreign_file_of_one_line_is_not_set_aside(tmp_path, format, data):
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    header = CODECS[format].encode(Session())
    if data == b"{" and header.startswith(data):
        open_store(path, format=format).close()
        assert Path(f"{path}.torn").read_bytes() == b"{\n"
        return
    try:
        store = open_store(path, format=format)
    except DecodeError as error:
        assert error.file == str(path)  # noqa: PT017 - some of them are files of a format
    else:
        with store:
            assert (store.torn, len(store.session) > 0) == (b"", True)
    assert path.read_bytes() == data
    assert not Path(f"{path}.torn").exists()


@pytest.mark.parametrize("format", sorted(CODECS))
def test_a_first_line_that_a_store_began_is_torn_wherever_it_was_cut(tmp_path, format):
    path = tmp_path / "s.jsonl"
    session = record(Session(), Head(system="be brief"), user("ä" * 9))
    line = CODECS[format].encode(session).partition(b"\n")[0]
    for size in range(1, len(line), 7):
        path.write_bytes(line[:size])
        with open_store(path, format=format) as store:
            assert (store.torn, store.session) == (line[:size], Session())
        assert Path(f"{path}.torn").read_bytes() == line[:size] + b"\n"
        Path(f"{path}.torn").unlink()
    assert size > 20


WRITER = """
import sys
from ctxalgebra import record, reply, send, assistant, user
from ctxalgebra.store import open_store
with open_store(sys.argv[1]) as store:
    print("open", flush=True)
    session = store.session
    while True:
        session, _ = send(record(session, user("é" * 300)))
        store.append(session)
        session = reply(session, "completed", assistant("x" * 700))
        store.append(session)
        print(len(session), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to start a process fast")
def test_a_writer_that_is_killed_a_hundred_times_loses_nothing_that_it_told(tmp_path):
    path = tmp_path / "s.jsonl"
    before = Session()
    for round_ in range(100):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                write_forever(path, writing)
            finally:
                os._exit(1)
        os.close(writing)
        told = os.read(reading, 8)
        time.sleep(0.0003 * (round_ % 17))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while chunk := os.read(reading, 1 << 16):
            told = (told + chunk)[-16:]
        os.close(reading)
        count = int.from_bytes(told[len(told) % 8 :][-8:], "big")
        with open_store(path) as store:
            now = store.session
            assert len(now) >= max(count, len(before)), round_
            assert earlier(now, len(before)) == before
            if now.view.flight >= 0:
                now = reply(now, "lost")
            store.append(now)
            before = now
        if len(before) > 300:
            path.unlink()
            before = Session()


def write_forever(path, told):
    with open_store(path) as store:
        session = store.session
        while True:
            session, _ = send(record(session, user("é" * 300)))
            store.append(session)
            session = reply(session, "completed", assistant("x" * 700))
            store.append(session)
            os.write(told, len(session).to_bytes(8, "big"))


def test_a_process_that_is_killed_frees_the_lock(tmp_path):
    path = tmp_path / "s.jsonl"
    process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    with pytest.raises(StoreError, match="locked"):
        open_store(path)
    count = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    with open_store(path) as store:
        assert len(store.session) >= count


# Refused


def test_one_store_at_a_time(tmp_path):
    path = tmp_path / "s.jsonl"
    store = open_store(path)
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert (caught.value.code, caught.value.file) == ("locked", str(path))
    store.close()
    store.close()
    open_store(path).close()
    for use in (lambda: store.append(store.session), store.sync):
        with pytest.raises(StoreError, match="store-closed"):
            use()


def test_only_what_was_grown_from_the_file_is_appended(tmp_path):
    path = tmp_path / "s.jsonl"
    with open_store(path) as store:
        first = record(store.session, user("a"))
        store.append(first)
        size = path.stat().st_size
        equal = record(Session(), user("a"))
        other = record(Session(), user("b"), user("c"))
        for session in (Session(), equal, other):
            with pytest.raises(StoreError, match="not-grown"):
                store.append(session)
        with pytest.raises(InvalidArgument, match="wrong-type"):
            store.append("session")
        assert path.stat().st_size == size
        assert store.session is first
        left, right = record(first, user("left")), record(first, user("right"))
        store.append(left)
        with pytest.raises(StoreError, match="not-grown"):
            store.append(right)


def test_somebody_else_who_writes_is_noticed(tmp_path):
    path = tmp_path / "s.jsonl"
    with open_store(path) as store:
        with path.open("ab") as file:
            file.write(b'{"kind":"note","name":"foreign"}\n')
        with pytest.raises(StoreError, match="changed-file"):
            store.append(record(store.session, user("a")))
    assert len(stored(path)) == 1


def replaced_by_a_copy(path, aside):
    path.rename(aside)
    shutil.copy(aside, path)


def replaced_by_an_empty_file(path, aside):
    aside.touch()
    aside.replace(path)


def put_back_as_a_link_to_another(path, aside):
    path.rename(aside)
    other = path.with_name("other")
    shutil.copy(aside, other)
    path.symlink_to(other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (replaced_by_a_copy, "another file stands in its place"),
        (replaced_by_an_empty_file, "another file stands in its place"),
        (put_back_as_a_link_to_another, "another file stands in its place"),
        (lambda path, _: path.unlink(), "the file is gone: No such file or directory"),
        (lambda path, aside: path.rename(aside), "the file is gone: No such file or directory"),
        (lambda path, _: os.truncate(path, 3), "somebody else wrote to the file"),
    ],
)
def test_a_file_that_was_replaced_or_removed_is_noticed(tmp_path, change, said):
    path, aside = tmp_path / "s.jsonl", tmp_path / "s.jsonl.x"
    with open_store(path) as store:
        kept = record(store.session, user("a"))
        store.append(kept)
        change(path, aside)
        before = [(each, each.read_bytes()) for each in (path, aside) if each.exists()]
        for session in (kept, record(kept, user("b"))):
            with pytest.raises(StoreError) as caught:
                store.append(session)
            assert (caught.value.code, caught.value.message) == ("changed-file", said)
            assert caught.value.file == str(path)
        assert store.session is kept
        assert [(each, each.read_bytes()) for each in (path, aside) if each.exists()] == before


def test_a_file_that_is_put_back_can_be_written_again(tmp_path):
    path, aside = tmp_path / "s.jsonl", tmp_path / "aside"
    with open_store(path) as store:
        path.rename(aside)
        with pytest.raises(StoreError, match="changed-file"):
            store.append(record(store.session, user("a")))
        aside.rename(path)
        store.append(record(store.session, user("a")))
    assert len(stored(path)) == 1


def test_a_link_leads_to_the_file_and_to_its_lock(tmp_path):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "s.jsonl", tmp_path / "link"
    link.symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path / "there")
    with open_store(link) as store:  # the link led nowhere: now it leads to a file
        for other in (path, link, tmp_path / "folder" / "s.jsonl"):
            with pytest.raises(StoreError, match="locked"):
                open_store(other)
        session = record(store.session, user("a"))
        store.append(session)
        assert (store.path, link.is_symlink(), path.is_symlink()) == (link, True, False)
        assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "link", "there"]
        path.rename(tmp_path / "there" / "moved")
        shutil.copy(tmp_path / "there" / "moved", tmp_path / "other")
        link.unlink()
        link.symlink_to(tmp_path / "other")
        with pytest.raises(StoreError, match="changed-file"):
            store.append(record(session, user("b")))
    assert stored(tmp_path / "other") == stored(tmp_path / "there" / "moved") == session


def test_a_store_outlives_a_change_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("s.jsonl") as store:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        store.append(record(store.session, user("a")))
        assert store.path == tmp_path / "s.jsonl"
    assert len(stored(tmp_path / "s.jsonl")) == 1


def test_a_disk_that_refuses_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    sound = os.write
    with open_store(path) as store:
        store.append(record(store.session, user("a")))
        data, before = path.read_bytes(), store.session
        later = record(before, user("b" * 100))
        for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
            tries = []

            def some(file, rest, error=error, tries=tries):
                tries.append(len(rest))
                if len(tries) > 2:
                    raise error
                return sound(file, rest[:10])

            monkeypatch.setattr(os, "write", some)
            with pytest.raises((StoreError, KeyboardInterrupt)) as caught:
                store.append(later)
            assert tries == [tries[0], tries[0] - 10, tries[0] - 20]
            assert path.read_bytes() == data
            assert store.session is before
            if isinstance(caught.value, StoreError):
                assert caught.value.code == "unwritable"
                assert "No space left" in caught.value.message
        monkeypatch.setattr(os, "write", lambda file, rest: sound(file, rest[:7]))
        store.append(later)
        monkeypatch.undo()
        assert stored(path) == later

        def fails(_):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(StoreError, match="unwritable"):
            store.sync()
        with pytest.raises(StoreError, match="unwritable"):
            store.append(record(later, user("c")), sync=True)
        monkeypatch.undo()
        assert stored(path) == later


def test_what_can_not_be_opened_is_one_error(tmp_path, monkeypatch):
    with pytest.raises(InvalidArgument, match="no format"):
        open_store(tmp_path / "s", format="nope")
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(CtxError, match=r"unwritable|unreadable"):
        open_store(file / "s.jsonl")

    good = tmp_path / "good.jsonl"
    open_store(good).close()
    sound = os.open

    def refuses(path, flags, *mode):
        if path == good and flags & os.O_APPEND and not flags & os.O_CREAT:
            raise OSError(13, "Permission denied")
        return sound(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuses)
    with pytest.raises(StoreError, match="unwritable: Permission denied"):
        open_store(good)
    monkeypatch.undo()
    open_store(good).close()
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(InvalidArgument, match="missing-extra"):
        open_store(good)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_what_is_no_plain_file_is_refused_before_anything_is_created(tmp_path, monkeypatch):
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    to_pipe, to_device = tmp_path / "to-pipe", tmp_path / "to-device"
    to_pipe.symlink_to(pipe)
    to_device.symlink_to("/dev/full")
    there = sorted(tmp_path.iterdir())
    for place in (pipe, to_pipe, to_device, "/dev/full", "/dev/zero", tmp_path, "/", "", loop):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(DecodeError) as caught:
            open_store(place)
        assert caught.value.code == "unreadable"
        assert sorted(tmp_path.iterdir()) == there
    assert not Path("/dev/full.lock").exists()
    with pytest.raises(DecodeError, match="unreadable: File name too long"):
        open_store(tmp_path / ("x" * 300))
    with pytest.raises(StoreError, match="unwritable: File name too long"):
        open_store(tmp_path / ("x" * 252))
    assert sorted(tmp_path.iterdir()) == there


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
@pytest.mark.parametrize("kind", ["pipe", "link", "device"])
@pytest.mark.parametrize("place", ["new", "torn"])
def test_what_stands_where_files_are_made_holds_up_nothing(tmp_path, kind, place):
    path, elsewhere = tmp_path / "s.jsonl", tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    beside = Path(f"{path}.{place}")
    if kind == "pipe":
        os.mkfifo(beside)
    else:
        beside.symlink_to(elsewhere if kind == "link" else "/dev/full")
    data = journal.encode(record(Session(), user("a"))) + b'{"torn'
    if place == "torn":
        path.write_bytes(data)
    with pytest.raises(StoreError, match="unwritable"):
        open_store(path)
    assert elsewhere.read_text() == "mine"
    assert path.read_bytes() == data if place == "torn" else not path.exists()
    beside.unlink()
    open_store(path).close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_that_is_put_in_place_at_the_last_moment_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    open_store(path).close()
    sound = os.open

    def late(name, flags, *mode):
        if name == path:
            path.unlink()
            os.mkfifo(path)
        return sound(name, flags, *mode)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(StoreError, match="unwritable: not a plain file"):
        open_store(path)


def test_a_missing_directory_is_not_made(tmp_path):
    for place in (tmp_path / "nope" / "s.jsonl", tmp_path / "nope" / "more" / "s.jsonl"):
        with pytest.raises(StoreError) as caught:
            open_store(place)
        assert caught.value.code == "unwritable"
        assert caught.value.message == f"there is no directory {place.parent}"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (3, "wrong-type"),
        (None, "wrong-type"),
        (True, "wrong-type"),
        (b"s.jsonl", "wrong-type"),
        ([], "wrong-type"),
        ("a\0b", "invalid-argument"),
        (Path("a\0b"), "invalid-argument"),
        ("\ud800", "lone-surrogate"),
        (Path("\ud800"), "lone-surrogate"),
    ],
)
def test_what_is_no_path_has_a_code(tmp_path, monkeypatch, given, code):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument) as caught:
        open_store(given)
    assert (caught.value.code, caught.value.field) == (code, "path")
    assert list(tmp_path.iterdir()) == []


def test_other_arguments_of_the_wrong_type_have_a_code(tmp_path):
    for wrong in (None, 3, [], {}):
        with pytest.raises(InvalidArgument, match="wrong-type"):
            open_store(tmp_path / "s.jsonl", format=wrong)
        with pytest.raises(InvalidArgument, match="wrong-type"):
            whole(wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.fsencode("\udcff") != b"\xff", reason="names of files are not bytes here")
def test_a_name_that_is_no_text_is_a_name(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.jsonl")
    with open_store(path) as store:
        store.append(record(store.session, user("a")))
    assert len(stored(path)) == 1


# Other formats


def test_a_pi_file_grows_by_lines(tmp_path):
    path = tmp_path / "pi.jsonl"
    with open_store(path, format="pi") as store:
        session = grown(store.session, 2)
        store.append(session)
        data = path.read_bytes()
        assert len(data.splitlines()) == 7  # a header, and no lines for requests
        store.append(session)
        assert path.read_bytes() == data
        session = grown(session, 1)
        store.append(session)
        assert path.read_bytes().startswith(data)
    with open_store(path, format="pi") as store:
        assert [m.role for m in store.session.view.messages()] == ["user", "assistant", "tool"] * 3
        data = path.read_bytes()
        store.append(grown(store.session, 1))
        assert path.read_bytes().startswith(data)
    path.write_bytes(data[:-20])
    with open_store(path, format="pi") as store:
        assert store.torn
        assert [m.role for m in store.session.view.messages()][-1] == "assistant"
        assert len(store.session.view.open) == 1


def test_a_format_that_is_no_list_of_lines_refuses_the_second_append(tmp_path):
    path = tmp_path / "chat.json"
    with open_store(path, format="openai-chat") as store:
        session = record(store.session, user("a"))
        store.append(session)
        with pytest.raises(StoreError, match="openai-chat would have to change"):
            store.append(record(session, user("b")))
        assert len(stored(path, "openai-chat").view.messages()) == 1
