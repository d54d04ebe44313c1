"""The command line: what it prints for people and for programs, and how it refuses bad input."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ctxalgebra
from ctxalgebra.cli import main
from ctxalgebra.codecs import CODECS
from ctxalgebra.replay import CACHES, PIPELINES, command
from ctxalgebra.replay.memory import STAGES
from ctxalgebra.terminal import aligned

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "example-session.jsonl"


def line(number, message):
    return {
        "type": "message",
        "id": f"{number:08x}",
        "parentId": f"{number - 1:08x}" if number else None,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"timestamp": 1767225600000, **message},
    }


def write_session(path, rounds, text="x" * 400, *, answered=True):
    """Write a session file of the pi coding agent: a tool loop of so many rounds."""
    rows = [
        {
            "type": "session",
            "version": 3,
            "id": "00000000-0000-4000-8000-000000000000",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "cwd": "/",
        },
        line(0, {"role": "user", "content": "begin"}),
    ]
    usage = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15}
    for number in range(rounds):
        call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {}}
        rows.append(
            line(
                len(rows) - 1,
                {
                    "role": "assistant",
                    "content": [call],
                    "provider": "anthropic",
                    "model": "m",
                    "api": "anthropic-messages",
                    "usage": usage,
                    "stopReason": "toolUse",
                },
            )
        )
        if answered or number + 1 < rounds:
            rows.append(
                line(
                    len(rows) - 1,
                    {
                        "role": "toolResult",
                        "toolCallId": f"c{number}",
                        "toolName": "read",
                        "content": [{"type": "text", "text": text}],
                        "isError": False,
                    },
                )
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def call(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )


def test_the_example_session_is_replayed_for_people(capsys):
    code, out, err = call(capsys, "replay", EXAMPLE, "--budget", 12_000)
    assert (code, err) == (0, "")
    assert "\ncost:" in out or " cost: " in out  # the legend
    first, *table, last = out.splitlines()
    assert first.startswith(f"{EXAMPLE}: pi, ")
    assert "budget 12,000 tokens" in first
    assert [
        name for name in ("none", "sliding", "paging") if any(name in row for row in table)
    ] == [
        "none",
        "sliding",
        "paging",
    ]
    assert last.startswith("paging costs 0.")
    assert "of sending everything and 0." in last
    assert "none silent" in last


def test_the_example_session_is_replayed_for_programs(capsys):
    code, out, err = call(capsys, "replay", EXAMPLE, "--budget", 12_000, "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["file"], found["format"]) == (str(EXAMPLE), "pi")
    assert found["messages"] > 100
    assert set(found) == {"file", "format", "messages", "repairs", "runs", "head"}
    assert found["head"] is None
    none, sliding, paging, full = found["runs"]
    assert [run["pipeline"] for run in found["runs"]] == ["none", "sliding", "paging", "full"]
    assert set(none) == {
        "pipeline", "cache", "requests", "mean_request_tokens", "input_tokens", "cached_tokens",
        "uncached_tokens", "cost", "cost_vs_none", "max_request_tokens", "over_budget",
        "invalid_requests", "silent_breaks", "breaks", "saved",
    }  # fmt: skip
    assert (none["cost_vs_none"], none["silent_breaks"], none["cache"]) == (1, 0, "ideal")
    assert paging["cost"] < none["cost"] < sliding["cost"]
    assert (paging["silent_breaks"], paging["invalid_requests"], paging["over_budget"]) == (0, 0, 0)
    assert sliding["silent_breaks"] > 0
    assert full["cost"] < paging["cost"]
    assert (full["silent_breaks"], full["invalid_requests"], full["over_budget"]) == (0, 0, 0)
    assert set(full["saved"]) >= {"fact", "tag"}
    assert set(full["saved"]["tag"]) == {"first", "later", "rebilled", "asked", "net"}
    assert none["saved"] == sliding["saved"] == {}
    assert all(set(b) == {"request", "at", "why", "rebilled"} for b in paging["breaks"])


def test_options_choose_what_is_compared(capsys, tmp_path):
    file = write_session(tmp_path / "s.jsonl", 30)
    _, out, _ = call(
        capsys, "replay", file, "--pipeline", "paging", "--pipeline", "sliding", "--budget", 900,
        "--target", 300, "--window", 600, "--cache", "ideal", "--format", "pi", "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert [run["pipeline"] for run in found["runs"]] == ["paging", "sliding"]
    assert all(run["max_request_tokens"] <= 600 for run in found["runs"])
    assert all(isinstance(run["cost_vs_none"], float) for run in found["runs"])
    _, out, _ = call(capsys, "replay", file, "--pipeline", "sliding")
    assert out.splitlines()[-1].startswith("sliding costs ")
    assert "paging" not in out


def test_repairs_are_told(capsys, tmp_path):
    file = write_session(tmp_path / "s.jsonl", 3)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], "{broken", *lines[4:]]) + "\n")
    code, out, _ = call(capsys, "replay", file, "--json")
    assert code == 0
    repairs = json.loads(out)["repairs"]
    assert repairs
    assert all({"code", "line", "text"} <= set(repair) for repair in repairs)
    _, out, _ = call(capsys, "replay", file)
    assert f"{len(repairs)} repairs: " in out


def test_a_session_without_requests_is_no_error(capsys, tmp_path):
    code, out, _ = call(capsys, "replay", write_session(tmp_path / "s.jsonl", 0))
    assert code == 0
    assert out.endswith("The session holds no request, so there is nothing to compare.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "{tmp}/absent.jsonl"], "error: unreadable: "),
        (["replay", "{tmp}"], "error: unreadable: "),
        (["replay", "{tmp}/garbage"], "error: invalid-utf8: "),
        (["replay", "{tmp}/prose"], "error: format-undetected: "),
        (["replay", "{tmp}/empty"], "error: empty-file: "),
        (["replay", "{tmp}/s.jsonl", "--budget", "0"], "error: invalid-argument: budget must be"),
        (["replay", "{tmp}/s.jsonl", "--target", "-1"], "error: invalid-argument: target must be"),
        (
            ["replay", "{tmp}/s.jsonl", "--budget", "10", "--target", "11"],
            "error: invalid-argument: the target 11 is over the budget 10: ",
        ),
        (["replay", "{tmp}/s.jsonl", "--budget", "many"], "error: invalid-argument: Invalid value"),
        (["replay", "{tmp}/s.jsonl", "--pipeline", "x"], "error: invalid-argument: Invalid value"),
        (["replay", "{tmp}/s.jsonl", "--cache", "x"], "error: invalid-argument: Invalid value"),
        (["replay", "{tmp}/s.jsonl", "--format", "x"], "error: "),
        (["replay"], "error: invalid-argument: Missing argument 'FILE'."),
        (["relay"], "error: invalid-argument: No such command 'relay'."),
        (["replay", "{tmp}/s.jsonl", "--no"], "error: invalid-argument: No such option"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(capsys, tmp_path, arguments, said):
    write_session(tmp_path / "s.jsonl", 1)
    (tmp_path / "garbage").write_bytes(b"\x00\xff nothing\n" * 9)
    (tmp_path / "prose").write_text("Once upon a time.\n")
    (tmp_path / "empty").touch()
    code, out, err = call(capsys, *(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert err.count("\n") == 1


def test_names_are_printed_as_given_and_cannot_steer_the_terminal(capsys, tmp_path):
    hostile = tmp_path / "[bold red]a[b]\x1b[31m\u202e.jsonl"
    write_session(hostile, 2)
    code, out, _ = call(capsys, "replay", hostile)
    assert code == 0
    assert "[bold red]a[b]\\x1b[31m\\u202e.jsonl" in out
    code, out, _ = call(capsys, "replay", hostile, "--json")
    assert json.loads(out)["file"] == str(hostile)
    assert out.isascii()
    code, _, err = call(capsys, "replay", f"{hostile}.absent")
    assert code == 2
    assert "\\x1b[31m" in err
    assert err[:-1].isprintable()
    code, _, err = call(capsys, "replay", hostile, "--pipeline", "[red]\x1b[2J")
    assert code == 2
    assert err[:-1].isprintable()


def test_what_the_terminal_cannot_show_is_escaped(tmp_path):
    file = write_session(tmp_path / "größe.jsonl", 2)
    done = python("-m", "ctxalgebra", "replay", file, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "gr\\xf6\\xdfe.jsonl" in done.stdout


def test_the_module_and_the_version(monkeypatch, capsys):
    done = python("-m", "ctxalgebra", "--version")
    assert done.stdout == f"ctxalgebra, version {ctxalgebra.__version__}\n"
    monkeypatch.setattr(sys, "argv", ["ctxalgebra", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("ctxalgebra", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == done.stdout
    # Imported it does nothing.
    runpy.run_module("ctxalgebra.__main__")
    done = python("-m", "ctxalgebra", "replay", "--help")
    assert done.returncode == 0
    assert "half of the largest" in " ".join(done.stdout.split())


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_sentence_says_what_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from ctxalgebra.cli import main; "
    done = python("-c", code + "sys.exit(main(['--version']))")
    assert done.returncode == 2
    assert done.stderr == "The command line needs click and rich: pip install 'ctxalgebra[cli]'\n"


def test_what_else_is_missing_is_not_hidden(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "ctxalgebra.replay.command")
    monkeypatch.setitem(sys.modules, "ctxalgebra.codecs", None)
    with pytest.raises(ModuleNotFoundError, match="codecs"):
        main(["--version"])
    monkeypatch.setitem(sys.modules, "ctxalgebra.codecs", sys.modules[command.load.__module__])
    monkeypatch.delitem(sys.modules, "ctxalgebra.codecs")
    monkeypatch.delitem(sys.modules, "ctxalgebra.terminal")
    monkeypatch.setitem(sys.modules, "rich", None)
    for name in [n for n in sys.modules if n.startswith("rich.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["--version"]) == 2
    assert "pip install 'ctxalgebra[cli]'" in capsys.readouterr().err


def test_an_interrupt_ends_it_quietly(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "compare", interrupted)
    code, out, err = call(capsys, "replay", EXAMPLE)
    assert (code, out, err.strip()) == (130, "", "")


@pytest.mark.parametrize(
    ("rounds", "terminal", "shown"), [(10, "1", 0), (300, "1", 1), (300, "", 0)]
)
def test_a_long_file_shows_progress_on_a_terminal_only(
    tmp_path, monkeypatch, capsys, rounds, terminal, shown
):
    monkeypatch.setenv("FORCE_COLOR", terminal)
    code, out, err = call(
        capsys, "replay", write_session(tmp_path / "s.jsonl", rounds, "x"), "--json"
    )
    assert code == 0
    assert len(json.loads(out)["runs"]) == 4
    assert ("Replaying" in err) == bool(shown)
    assert ("100%" in err) == bool(shown)
    assert bool(err) == bool(shown)


def test_without_arguments_the_help_is_shown(capsys):
    code, out, err = call(capsys)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ctxalgebra ")
    assert "\n  replay " in err


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--pipeline", PIPELINES),
        ("--stage", STAGES),
        ("--format", ("auto", *CODECS)),
        ("--cache", tuple(CACHES)),
    ],
)
def test_unknown_names_are_told_what_there_is(capsys, option, known):
    code, _, err = call(capsys, "replay", EXAMPLE, option, "nonsense")
    assert code == 2
    assert all(f"'{name}'" in err for name in known)


@pytest.mark.parametrize("columns", [10, 40, 60, 80])
def test_a_narrow_terminal_gets_a_block_for_each_pipeline(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", "200")
    _, wide, _ = call(capsys, "replay", EXAMPLE)
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = call(capsys, "replay", EXAMPLE)
    numbers = re.findall(r"^paging +(.*)$", wide, re.MULTILINE)[0].split()
    lines = out.splitlines()
    at = lines.index("paging")
    assert [line.split()[1] for line in lines[at + 1 : at + 11]] == numbers
    assert all(line.startswith("  ") for line in lines[at + 1 : at + 11])
    if columns > 20:
        prose = (lines[0], lines[-1])  # wrapped by the terminal
        assert all(len(line) <= columns for line in lines if line not in prose)


def test_wide_numbers_and_characters_are_aligned(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    aligned(["name", "text", "n"], [["a", "語\x1b", "1"], ["bb", "x", "1,000,000"]], left=["text"])
    assert capsys.readouterr().out.splitlines() == [
        "name  text            n",
        "----  ------  ---------",
        "a     語\\x1b          1",
        "bb    x       1,000,000",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [[], ["--json"], ["--help"]])
def test_an_output_that_takes_nothing_gets_one_line(arguments):
    for target, said in [("/dev/full", "No space left on device"), ("&-", "closed")]:
        words = [sys.executable, "-m", "ctxalgebra", "replay", str(EXAMPLE), *arguments]
        done = subprocess.run(
            ["sh", "-c", f'"$@" >{target}', "sh", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDEVMODE": "1"},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith("error: unwritable: ")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


class Full(io.StringIO):
    """Takes nothing, as a full disk."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_output_is_closed_and_a_full_stderr_too(monkeypatch, capsys):
    out, err = Full(), Full()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["replay", str(EXAMPLE)]) == 1
    assert out.closed
    assert "unwritable: No space left" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["replay", str(EXAMPLE)]) == 1
    assert err.closed


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    done = subprocess.run(
        ["sh", "-c", '"$@" | true', "sh", sys.executable, "-m", "ctxalgebra", "replay", EXAMPLE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
