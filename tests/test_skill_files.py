"""Skills in files: front matter by a YAML library, hostile files, folders."""

from __future__ import annotations

import builtins
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctxalgebra import CtxError, DecodeError, InvalidArgument
from ctxalgebra.cli import main
from ctxalgebra.codecs import skill_files
from ctxalgebra.codecs.cassette import read_yaml
from ctxalgebra.codecs.skill_files import (
    MOST_FILE,
    MOST_FRONT,
    read_skill,
    read_skills,
    skill_text,
)
from ctxalgebra.commands import skills as skills_command
from ctxalgebra.skills.loading import frontmatter, strip_frontmatter
from ctxalgebra.skills.records import Skill

PATH = "/s/a/SKILL.md"


def front(*lines, body="Do it."):
    return "\n".join(["---", *lines, "---", body])


def refused(text, code, line, *, field=None, **more):
    with pytest.raises(DecodeError) as caught:
        read_skill(text, PATH, **more)
    error = caught.value
    assert (error.code, error.file, error.line, error.field) == (code, PATH, line, field)
    return error


# One file


@pytest.mark.parametrize(
    ("lines", "name", "about", "for_model"),
    [
        (["name: tdd", "description: Test first"], "tdd", "Test first", True),
        (["name: 2024-01-05", "description: 12:30:45"], "2024-01-05", "12:30:45", True),
        (["name: 1.10", "description: 0x1F"], "1.10", "0x1F", True),
        (["name: 1_000", "description: 1e3"], "1_000", "1e3", True),
        (["name: true", "description: no"], "true", "no", True),
        (["name: 007", "description: ~x"], "007", "~x", True),
        (["name: \"a # b\"", "description: 'it''s'"], "a # b", "it's", True),
        (["name: a # note", "description: >", "  Two", "  lines", ""], "a", "Two lines", True),
        (["name: a", "description: |", "  Two", "  lines"], "a", "Two lines", True),
        (["name: a", "description: x", "license: MIT", "metadata: {a: [1, 2]}"], "a", "x", True),
        (["name: !!str a", "description: !!python/name:os.system x"], "a", "x", True),
        (["name: a", "description: x", "disable-model-invocation: true"], "a", "x", False),
        (["name: a", "description: x", "disable-model-invocation: Yes"], "a", "x", False),
        (["name: a", "description: x", "disable-model-invocation: 'on'"], "a", "x", False),
        (["name: a", "description: x", "disable-model-invocation: false"], "a", "x", True),
        (["name: a", "description: x", "disable-model-invocation:"], "a", "x", True),
        (["# a comment", "", "name: a", "description: x\u202ey"], "a", "xy", True),
        (["name:", "description: x"], "folder", "x", True),
        (["description: x"], "folder", "x", True),
        (["name: 日本語", "description: 代码 审查"], "日本語", "代码 审查", True),
    ],
)  # fmt: skip
def test_names_and_descriptions_stay_the_texts_that_they_are(lines, name, about, for_model):
    for text in (front(*lines), "\ufeff" + front(*lines), front(*lines).replace("\n", "\r\n")):
        found = read_skill(text, PATH, name="folder")
        assert found == Skill(name, about, PATH, "", for_model)
    assert read_skill(front(*lines), name="folder").path == ""


def test_a_long_description_is_cut_as_anywhere():
    assert len(read_skill(front("name: a", f"description: {'x' * 5_000}")).description) == 1024


@pytest.mark.parametrize(
    ("lines", "code", "line", "field"),
    [
        (["name: a"], "missing-field", 1, "description"),
        (["description: x"], "missing-field", 1, "name"),
        (["name: a", "description: ''"], "missing-field", 1, "description"),
        (["name: a", "description: \"\\u0000\""], "missing-field", 1, "description"),
        (["name: [a]", "description: x"], "wrong-type", 2, "name"),
        (["name: a", "description: {x: y}"], "wrong-type", 3, "description"),
        (["name: a", "description: x", "disable-model-invocation: [true]"], "wrong-type", 4,
         "disable-model-invocation"),
        (["name: a", "description: x", "disable-model-invocation: maybe"], "invalid-argument", 4,
         "disable-model-invocation"),
        (["name: \"a\\nb\"", "description: x"], "invalid-argument", 2, "name"),
        (["\"name\": \"a\\u2028b\"", "description: x"], "invalid-argument", 1, "name"),
        (["name: " + "n" * 129, "description: x"], "invalid-argument", 2, "name"),
        (["name: a", "name: b", "description: x"], "invalid-yaml", 3, None),
        (["name: a", "description: x: y"], "invalid-yaml", 3, None),
        (["name: a", "description: 'x"], "invalid-yaml", 3, None),
        (["name: a", "\tdescription: x"], "invalid-yaml", 3, None),
        (["name: a", "description: x", "[b]: c"], "invalid-yaml", 4, None),
        (["name: a", "description: &x y", "more: *x"], "invalid-yaml", 4, None),
        (["name: a", "<<: *x", "description: y"], "invalid-yaml", 3, None),
        (["name: a", "description: .nan"], "invalid-number", 3, None),
        (['! "name: a"', "# description: x"], "wrong-type", 1, None),
        (["name: a", "description: \x01"], "invalid-yaml", 1, None),
        (["name: a", "...", "description: x"], "invalid-yaml", 4, None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(lines, code, line, field):
    refused(front(*lines), code, line, field=field)


def test_a_file_without_front_matter_has_no_description():
    for text in ("", "Do it.", "---\n- a\n---\nx", "---\n\n# Title\n\n---\nx", "---\nname: a\n"):
        refused(text, "missing-field", 1, field="description", name="a")
    refused("---\n---\nx", "missing-field", 1, field="name")


def test_billions_of_laughs_are_not_laughed():
    lines = ["name: a", "description: x", "a: &a [x, x, x, x, x, x, x, x, x]"]
    for at in range(30):
        before, after = f"a{at or ''}".replace("a0", "a"), f"a{at + 1}"
        lines.append(f"{after}: &{after} [{', '.join(f'*{before}' for _ in range(9))}]")
    refused(front(*lines), "invalid-yaml", 5)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "!!x [", "|\n  "])
def test_what_is_deep_is_refused_in_bounded_time(opening):
    text = front("name: a", "description: x", "deep: " + opening * 20_000)
    with pytest.raises(DecodeError) as caught:
        read_skill(text, PATH)
    assert caught.value.code in {"too-deep", "invalid-yaml", "unreadable"}
    assert caught.value.file == PATH


def test_half_a_character_is_refused():
    with pytest.raises(DecodeError) as caught:
        read_skill(front("name: a", 'description: "\\ud800"'), PATH)
    assert caught.value.code in {"invalid-yaml", "lone-surrogate"}  # by the parser, or by us
    assert caught.value.line == 3


def test_long_front_matter_is_refused():
    body = "x" * (2 * MOST_FRONT)
    assert read_skill(front("name: a", "description: x", body=body)).name == "a"
    refused(front("name: a", f"description: {'x' * MOST_FRONT}"), "unreadable", 1)


def test_values_of_the_wrong_type_are_refused():
    for arguments in [(b"x",), ("x", None), ("x", "", 5)]:
        with pytest.raises(InvalidArgument, match="wrong-type"):
            read_skill(*arguments[:2], **({"name": arguments[2]} if arguments[2:] else {}))
    with pytest.raises(InvalidArgument, match="lone-surrogate"):
        read_skill("\ud800")
    for wrong in (None, b"/x", 5):
        with pytest.raises(InvalidArgument, match="wrong-type"):
            read_skills(wrong)
    with pytest.raises(InvalidArgument, match="wrong-type"):
        read_skills("/", follow=1)
    with pytest.raises(InvalidArgument, match="wrong-type"):
        skill_text("/x")


FRAGMENTS = st.sampled_from(
    ["---", "\n", "\r\n", "\r", "name: a", "name: b", "description: x", ": ", "- ", "[", "]", "{",
     "}", "&a ", "*a", "!!binary ", "!!timestamp ", "!!python/object/apply:os.system ", "|", ">",
     "'", '"', "\\", "#", "%YAML 1.1", "<<: ", "\t", "  ", "\ufeff", "\x00", "\x85", "\u2028", "~",
     "disable-model-invocation: ", "true", "no", "2024-01-01", "..."]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=14).map("".join) | st.text())
@example("---\nname: a\ndescription: x\n---")
def test_whatever_a_file_holds_it_is_a_skill_or_a_coded_error(text):
    for whole in (text, f"---\n{text}\n---\nBody"):
        skill = error = None
        try:
            skill = read_skill(whole, PATH, name="folder")
        except DecodeError as caught:
            error = caught
        if error is not None:
            assert (error.file, error.line > 0, str(error).isprintable()) == (PATH, True, True)
        else:
            assert skill.description
            assert skill.name == skill.name.strip()


@given(st.lists(FRAGMENTS, max_size=14).map("".join) | st.text())
def test_front_matter_and_the_rest_are_the_file(text):
    head, body = frontmatter(text)
    assert head + body == text.removeprefix("\ufeff")
    assert body.strip(" \n") in text
    assert strip_frontmatter(text) == strip_frontmatter(body) or not head


def test_keys_may_stand_twice_where_nobody_asks():
    assert read_yaml("a: x\na: y") == {"a": "y"}
    with pytest.raises(DecodeError, match="invalid-yaml: a key stands twice"):
        read_yaml("b: {a: x, a: y}", unique=True)
    assert read_yaml("a: {a: x}\nb: [{a: y}]", unique=True) == {"a": {"a": "x"}, "b": [{"a": "y"}]}


def test_without_the_library_one_error_says_what_to_install(tmp_path, monkeypatch):
    put(tmp_path, "a")
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "yaml", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DecodeError, match="missing-extra"):
        read_skill(front("name: a", "description: x"))
    with pytest.raises(DecodeError, match="missing-extra"):
        read_skills(tmp_path)


# Folders


def put(folder, name, text=None, *, file="SKILL.md"):
    path = folder / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    data = front(f"name: {Path(name).name}", "description: x") if text is None else text
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def codes(found):
    return [(problem.code, Path(problem.file).name) for problem in found.problems]


def test_a_folder_gives_its_skills_in_order(tmp_path):
    for name in ("b", "a", "deep/er/c", "B"):
        put(tmp_path, name)
    put(tmp_path, "a/inside")  # below another skill
    put(tmp_path, ".git/x")
    put(tmp_path, "node_modules/y")
    put(tmp_path, "readme", file="README.md")
    put(tmp_path, "lower", file="skill.md")
    found = read_skills(tmp_path)
    assert [skill.name for skill in found.skills] == ["a", "b", "B", "c"]
    assert found.problems == ()
    assert found == read_skills(str(tmp_path))
    assert skill_text(found.skills[0]).endswith("Do it.")
    assert [s.name for s in read_skills(tmp_path / "deep" / "er" / "c").skills] == ["c"]


def test_problems_are_listed_and_the_others_are_read(tmp_path):
    put(tmp_path, "a")
    put(tmp_path, "b", "no front matter")
    put(tmp_path, "c", b"---\nname: c\ndescription: \xff\n---\n")
    put(tmp_path, "d", front("name: a", "description: y"))
    put(tmp_path, "e", front("name: e", "description: x: y"))
    put(tmp_path, "f", b"x" * (MOST_FILE + 1))
    put(tmp_path, "g", "")
    (tmp_path / "h").mkdir()
    os.mkfifo(tmp_path / "h" / "SKILL.md")
    (tmp_path / "i" / "SKILL.md").mkdir(parents=True)
    found = read_skills(tmp_path)
    assert [(skill.name, skill.description) for skill in found.skills] == [("a", "x")]
    told = [(p.code, Path(p.file).parent.name, p.line, p.field) for p in found.problems]
    assert told == [
        ("missing-field", "b", 1, "description"),
        ("invalid-utf8", "c", 3, None),
        ("duplicate-id", "d", None, "name"),
        ("invalid-yaml", "e", 3, None),
        ("unreadable", "f", None, None),
        ("missing-field", "g", 1, "description"),
        ("unreadable", "h", None, None),
        ("unreadable", "i", None, None),
    ]
    assert all(isinstance(problem, CtxError) for problem in found.problems)


def test_links_are_followed_only_where_that_is_asked_for(tmp_path):
    outside, root = tmp_path / "outside", tmp_path / "root"
    put(outside, "linked")
    put(root, "plain")
    (root / "link").symlink_to(outside / "linked")
    (root / "loop").mkdir()
    (root / "loop" / "again").symlink_to(root)
    (root / "loop" / "gone").symlink_to(root / "nothing")
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside / "linked" / "SKILL.md")
    found = read_skills(root)
    assert [skill.name for skill in found.skills] == ["plain"]
    assert codes(found) == [
        ("unreadable", "link"), ("unreadable", "SKILL.md"), ("unreadable", "again")
    ]  # fmt: skip
    found = read_skills(root, follow=True)
    assert [skill.name for skill in found.skills] == ["linked", "plain"]
    assert codes(found) == [("duplicate-id", "SKILL.md")]
    assert [s.name for s in read_skills(root / "link").skills] == ["linked"]


def test_what_is_too_deep_or_too_much_is_told(tmp_path, monkeypatch):
    put(tmp_path, "/".join(f"d{at}" for at in range(8)))
    put(tmp_path, "/".join(f"e{at}" for at in range(9)))
    found = read_skills(tmp_path)
    assert [skill.name for skill in found.skills] == ["d7"]
    assert codes(found) == [("unreadable", "e7")]
    monkeypatch.setattr(skill_files, "MOST_FOLDERS", 5)
    for at in range(20):
        put(tmp_path / "wide", f"w{at}")
    found = read_skills(tmp_path / "wide")
    assert len(found.skills) == 20  # all of one folder, and no further
    put(tmp_path / "wide", "w0/x").parent.parent.joinpath("SKILL.md").unlink()
    assert codes(read_skills(tmp_path / "wide")) == [("unreadable", "w0")]


def test_names_of_folders_may_be_anything(tmp_path):
    put(tmp_path, os.fsdecode(b"half\xff"), front("description: x"))
    put(tmp_path, "tab\there", front("description: x"))
    put(tmp_path, "Größe", front("description: x"))
    found = read_skills(tmp_path)
    assert [skill.name for skill in found.skills] == ["Größe"]
    assert sorted(problem.code for problem in found.problems) == [
        "invalid-argument", "lone-surrogate"
    ]  # fmt: skip
    assert all(str(problem).isprintable() for problem in found.problems)


def test_a_folder_that_is_none_is_an_error(tmp_path):
    file = put(tmp_path, "a")
    for wrong in (tmp_path / "nope", file, "x\0y", "x" * 9_000):
        with pytest.raises(DecodeError, match="unreadable"):
            read_skills(wrong)


def test_folders_that_can_not_be_read_are_told(tmp_path, monkeypatch):
    put(tmp_path, "a")
    put(tmp_path, "b/c")
    real = Path.iterdir

    def failing(self):
        if self.name == "b":
            raise PermissionError(13, "Permission denied")
        return real(self)

    monkeypatch.setattr(Path, "iterdir", failing)
    found = read_skills(tmp_path)
    assert [skill.name for skill in found.skills] == ["a"]
    assert [str(p).partition(" (")[0] for p in found.problems] == ["unreadable: Permission denied"]


def test_a_file_that_changes_is_read_as_it_is_then(tmp_path):
    path = put(tmp_path, "a")
    (skill,) = read_skills(tmp_path).skills
    path.write_text(front("name: a", "description: x", body="Other."))
    assert skill_text(skill).endswith("Other.")
    path.unlink()
    for gone in (skill, Skill("x", path="a\0b"), Skill("x", path=str(tmp_path)), Skill("x")):
        with pytest.raises(DecodeError, match="unreadable"):
            skill_text(gone)


# The command


def command(capsys, *arguments):
    code = main(["skills", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_lists_skills_and_problems(tmp_path, capsys):
    put(
        tmp_path,
        "deploy",
        front("name: deploy", "description: x\u202ey", body="Use the tdd skill."),
    )
    put(tmp_path, "tdd", front("name: tdd", "description: Test first", body="Red."))
    put(tmp_path, "odd", front("name: \x1b", "description: x"))
    put(tmp_path, "secret", front("name: secret", "description: x", "disable-model-invocation: on"))
    put(tmp_path, "empty", front("name: empty", "description: x", body=""))
    code, out, err = command(capsys, tmp_path)
    assert (code, err) == (0, "")
    assert "3 skills, 2 problems; a list of them takes " in out.splitlines()[0]
    rows = [line.split() for line in out.splitlines()[4:7]]
    assert rows == [
        ["deploy", "the", "model", "5", "tdd", "xy"],
        ["secret", "a", "person", "2", "x"],
        ["tdd", "the", "model", "1", "Test", "first"],
    ]
    assert out.splitlines()[8].startswith("missing-field: ")
    assert out.splitlines()[9].startswith("invalid-yaml: ")
    assert "\x1b" not in out
    code, out, err = command(capsys, tmp_path, "--json")
    told = json.loads(out)
    assert [row["name"] for row in told["skills"]] == ["deploy", "secret", "tdd"]
    assert [row["needs"] for row in told["skills"]] == [["tdd"], [], []]
    assert [row["for_model"] for row in told["skills"]] == [True, False, True]
    assert [row["code"] for row in told["problems"]] == ["missing-field", "invalid-yaml"]
    assert told["listed_tokens"] > 0


@pytest.mark.parametrize("body", ["", "\n\n \t\n", "\ufeff"])
def test_a_file_that_says_nothing_is_no_skill_anywhere(tmp_path, capsys, body):
    put(tmp_path, "empty", front("name: empty", "description: x", body=body))
    put(tmp_path, "a")
    read = read_skills(tmp_path)
    told = json.loads(command(capsys, tmp_path, "--json")[1])
    assert [skill.name for skill in read.skills] == [row["name"] for row in told["skills"]] == ["a"]
    (problem,) = read.problems
    assert (problem.code, problem.field) == ("missing-field", "body")
    assert [(row["code"], row["field"]) for row in told["problems"]] == [("missing-field", "body")]
    with pytest.raises(DecodeError, match="missing-field"):
        read_skill(front("name: a", "description: x", body=body))


def test_the_command_without_skills_or_problems(tmp_path, capsys):
    assert command(capsys, tmp_path)[1] == (
        f"{tmp_path}: 0 skills, 0 problems; a list of them takes 0 tokens of every request\n"
    )
    put(tmp_path / "real", "a")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert "1 skill, 1 problem" in command(capsys, tmp_path)[1]
    assert "1 skill, 0 problems" in command(capsys, tmp_path, "--follow")[1]
    code, out, err = command(capsys, tmp_path / "nope")
    assert (code, out) == (2, "")
    assert err.startswith("error: unreadable: not a folder")


def test_a_file_that_went_before_it_was_loaded_is_a_problem(tmp_path, capsys, monkeypatch):
    put(tmp_path, "a")

    def gone(skill):
        Path(skill.path).unlink()
        return skill_text(skill)

    monkeypatch.setattr(skills_command, "skill_text", gone)
    _, out, _ = command(capsys, tmp_path)
    assert "0 skills, 1 problem" in out
    assert "unreadable: No such file" in out


def test_the_options_of_the_command_are_told():
    page = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"
    text = page.read_text("utf-8").partition("\n## skills\n")[2]
    options = [o.opts[0] for o in skills_command.skills.params if o.opts[0].startswith("--")]
    assert options == ["--follow", "--json"]
    assert [line.split("`")[1] for line in text.splitlines() if line.startswith("| `--")] == options
