"""Skills as records: reading them, the host's catalogue, groups, shortcuts, scopes."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cmp_to_key

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.compaction import signals
from ctxalgebra.compat.skills_names import ascii_token
from ctxalgebra.skills import catalogue, groups, records, scope, shortcuts, texts
from ctxalgebra.skills import given as shapes
from ctxalgebra.skills.config import Config, configured, record
from ctxalgebra.skills.groups import Group
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.records import Skill, visible
from ctxalgebra.utf16 import SPACE

ODD = st.text(
    st.sampled_from(
        "ab1 -_.:/<>&'\"\n\r\t\x00\x7f\x85\x9b\u00e9\u200b\u202e\u2028\ufeff\U0001f600\ud800"
    ),
    max_size=24,
)
GIT = Skill("git", "Git help", "/s/git/SKILL.md")


# Order


def slow_order(a, b):
    """Compare printable ASCII as the specification words it."""
    keys = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
    first, second = ([keys.index(c) for c in x.lower()] for x in (a, b))
    if first != second:
        return -1 if first < second else 1
    for x, y in zip(a, b, strict=True):
        if x != y:
            return -1 if x.islower() else 1
    return 0


PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6)


@given(st.lists(PRINTABLE | st.sampled_from(["a", "A", "a-b", "A-B", "ab", "a_b"]), max_size=8))
def test_names_are_ordered_as_the_host_orders_them(names):
    assert sorted(names, key=name_order) == sorted(names, key=cmp_to_key(slow_order))


@given(st.lists(ODD, max_size=6))
def test_the_order_does_not_depend_on_where_names_stood(names):
    turned = names[::-1]
    assert sorted(names, key=name_order) == sorted(turned, key=name_order)


# Texts


@given(ODD)
def test_one_line_is_one(text):
    line = texts.one_line(text)
    assert not set(line) & (set(map(chr, [*range(32), *range(127, 160)])) | set("\u2028\u202e"))
    assert line == line.strip(SPACE)
    assert "  " not in line
    assert texts.one_line(line) == line
    assert texts.description(line) == line


def test_w38_no_control_of_a_terminal_or_of_direction_is_left():
    hostile = "ok \x9b31m red \u202e rtl \u2066 x \u0085 nel \x1b[0m"
    assert texts.description(hostile) == "ok 31m red rtl x nel [0m"
    assert texts.description("שלום \u200f!") == "שלום \u200f!"


@given(ODD, st.integers(1, 30))
def test_a_cut_line_holds_whole_characters_and_no_more_than_it_may(text, most):
    short = texts.cut_line(text, most)
    assert signals.units(short) <= most
    if short != text:
        kept = short.removesuffix("…")
        assert text.startswith(kept)
        assert "\ud83d" not in kept


def test_a_description_ends_before_a_character_that_has_no_room():
    assert texts.description("x" * 1023 + "\U0001f600") == "x" * 1023
    assert texts.description("\U0001f600" * 512) == "\U0001f600" * 512
    assert texts.description(None) == ""


# Records


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | ODD,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "path", "filePath", "skillPath", "description", "source", "sourceInfo",
                 "disableModelInvocation"]
            ),
            inner | st.just("skill"),
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(ANY)
def test_whatever_the_host_gives_there_are_records(value):
    for read in (records.from_prompt, records.from_commands):
        names = [skill.name for skill in read(value)]
        assert len(set(names)) == len(names)
        assert sorted(names, key=name_order) == names
        assert all(name and not texts.CONTROLS.search(name) for name in names)


def test_w32_a_skill_that_only_a_command_tells_of_is_not_for_the_model():
    command = {"name": "skill:deploy", "source": "skill", "sourceInfo": {"path": "/d"}}
    told = records.from_commands([command])
    assert [skill.for_model for skill in told] == [None]
    (unsaid,) = records.known_skills((), told)
    assert not unsaid.visible
    prompt = records.from_prompt([{"name": "deploy", "path": "/d"}])
    assert records.visible(records.known_skills(prompt, told)) == prompt


def test_the_same_names_are_sorted_once(monkeypatch):
    known = tuple(Skill(f"sorted once {at}", for_model=at % 2 == 0) for at in range(9))
    monkeypatch.setattr(records, "name_order", Counted(records.name_order))
    first, again = visible(reversed(known)), visible(reversed([evolve(each) for each in known]))
    assert [skill.name[-1] for skill in first] == ["0", "2", "4", "6", "8"]
    assert records.name_order.called == 5
    assert first == again
    assert not set(map(id, first)) & set(map(id, again))


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.called = function, 0

    def __call__(self, value):
        self.called += 1
        return self.function(value)


def test_w33_no_name_is_special():
    names = ["__proto__", "constructor", "hasOwnProperty", "toString"]
    found = records.from_prompt([{"name": name, "path": "/x"} for name in names])
    assert [skill.name for skill in found] == names
    config = Config((Group("g", "G"),), {"constructor": ("g",)})
    assert [s.name for s in scope.group_members("g", config, found)] == ["constructor"]
    now = scope.resolved(scope.Scope(), config, found, profile="p", name="P")
    assert now.names == {"constructor"}
    assert len(scope.outside(now, found)) == 3


# Catalogue


def catalog(*names):
    inner = "".join(f"<skill><name>{name}</name></skill>\n" for name in names)
    return f"<available_skills>\n{inner}</available_skills>"


INTRO = f"{catalogue.PREAMBLE}\nUse the read tool.\nResolve paths.\n\n"
RULES = "RULE 1: never delete files.\nRULE 2: ask first."


@pytest.mark.parametrize(
    "text",
    [
        f"AGENTS.md says: {catalogue.PREAMBLE}\n\n{RULES}\n\n",
        f"AGENTS.md says: {catalogue.PREAMBLE}\n",
        f"{catalogue.PREAMBLE}\n\n{RULES}\n\n",
        f"{catalogue.PREAMBLE}\n{RULES}\nRULE 3\n\n",
    ],
)
def test_w29_what_only_quotes_the_preamble_stays(text):
    prompt = f"You code.\n{text}{catalog('foreign')}\nTAIL"
    assert catalogue.replaced(prompt, [GIT], "STUB") == prompt
    told = catalogue.prepared(prompt, [GIT], "STUB")
    assert told == catalogue.Prepared(f"{prompt}\n\nSTUB", leftover=True)


def test_w30_a_second_catalogue_that_does_not_end_is_told():
    prompt = f"HEAD\n\n{INTRO}{catalog('git')}\n<available_skills>\n<name>git</name>"
    told = catalogue.prepared(prompt, [GIT], "STUB")
    assert told.prompt == "HEAD\n\nSTUB\n<available_skills>\n<name>git</name>"
    assert told.leftover
    clean = catalogue.prepared(f"HEAD\n\n{INTRO}{catalog('git')}", [GIT], "STUB")
    assert clean == catalogue.Prepared("HEAD\n\nSTUB", leftover=False)


def test_w31_a_name_alone_is_no_catalogue():
    prompt = f"Use digital tools. {catalog('foreign')}"
    assert catalogue.prepared(prompt, [GIT], "STUB").prompt == f"{prompt}\n\nSTUB"
    assert not catalogue.leftover(prompt, [GIT])
    assert catalogue.leftover("<available_skills> <name>git</name>", [GIT])
    assert not catalogue.leftover("<available_skills> <name>git</name>", [])
    assert not catalogue.leftover("<available_skills>", [Skill("a", path="")])
    assert catalogue.leftover("git /s/git/SKILL.md", [GIT])


@settings(max_examples=60)
@given(
    st.lists(st.text("/sk1", max_size=12), max_size=60),
    st.lists(st.text("/sk1", min_size=1, max_size=14), max_size=30).map(" ".join),
    st.booleans(),
    st.booleans(),
)
def test_of_many_skills_the_same_are_told_as_of_each_alone(paths, prompt, marked, long):
    paths = [f"/a/long/folder/{path}" if long and path else path for path in paths]
    prompt = prompt.replace(" ", " /a/long/folder/") if long else prompt
    prompt = f"<available_skills> {prompt}" if marked else prompt
    skills = [Skill(path[-2:], path=path) for path in dict.fromkeys(paths)]
    alone = [catalogue.leftover(prompt, [skill]) for skill in skills]
    assert catalogue.leftover(prompt, skills) == any(alone)


def test_many_skills_are_looked_for_in_one_pass():
    many = [Skill(f"n{at}", path=f"/skills/{at}/SKILL.md") for at in range(4_000)]
    told = " ".join(f"/skills/{at}/SKILL" for at in range(4_000))
    assert not catalogue.leftover(told, many)
    assert catalogue.leftover(f"{told} n7 /skills/7/SKILL.md", many)
    assert not catalogue.leftover(f"{told} /skills/7/SKILL.md", many)


PIECES = st.lists(
    st.sampled_from(
        [INTRO, catalog("git"), catalog("foreign"), catalogue.PREAMBLE, "<available_skills>",
         "</available_skills>", "\n", "text ", "<name>git</name>", "\U0001f600"]
    ),
    max_size=9,
).map("".join)  # fmt: skip


@given(PIECES)
def test_a_catalogue_is_gone_and_everything_else_stays(prompt):
    found = catalogue.blocks(prompt, [GIT])
    rest, at = [], 0
    for block in found:
        assert at <= block.start < block.end
        rest.append(prompt[at : block.start])
        at = block.end
    rest.append(prompt[at:])
    text = "".join([rest[0], "\n\nSTUB", *rest[1:]]) if found else prompt
    assert catalogue.replaced(prompt, [GIT], "STUB") == text


# Groups


def test_w26_every_script_can_be_typed_and_names_stay_apart():
    assert groups.free_name("日本語", ()) == "日本語"
    assert groups.token("Größe") == "Größe" != groups.token("Grüße")
    assert groups.token("Gro\u0308ße") == groups.token("Größe")
    assert groups.token("हिन्दी नाम") == "हिन्दी_नाम"
    assert ascii_token("Größe") == ascii_token("Grüße").replace("ü", "ö") == "Gr_e"
    group = Group("g", "Größe")
    assert shortcuts.called("/größe los", [group], [], Config()) == shortcuts.Called(
        group=group, task="los"
    )


@given(st.lists(ODD, max_size=5))
def test_groups_that_are_made_can_be_told_apart(names):
    made = []
    for name in names:
        with suppress(InvalidArgument):
            made.append(groups.created(name, made, about=name))
    assert len({group.id for group in made}) == len(made)
    assert len({groups.token(group.name).lower() for group in made}) == len(made)
    config = configured(record(Config(tuple(made))))
    assert config.groups == tuple(made)


@given(ANY)
def test_a_configuration_is_read_or_refused(value):
    with suppress(InvalidArgument):
        config = configured(value)
        assert configured(record(config)) == config


def test_values_of_unknown_shape():
    assert shapes.number(2**70) == 2**70
    assert shapes.number(float("inf")) is None
    assert configured({"groups": [{"id": "a", "name": "A", "order": float("nan")}]}).groups == (
        Group("a", "A", order=10),
    )


# Shortcuts


def test_w37_an_exact_name_comes_before_a_token():
    first, second, third = Skill("x y"), Skill("x_y"), Skill("X_Y")
    assert shortcuts.skill_of("x_y", [first, second]) is second
    assert shortcuts.skill_of("X_Y", [first, second, third]) is third
    assert shortcuts.skill_of("X_y", [first, second]) is second
    assert shortcuts.skill_of("x_Y", [first]) is first
    assert shortcuts.skill_of("z", [first]) is None


@given(ODD)
def test_whatever_is_typed_is_read(text):
    skills, several = [GIT, Skill("a b")], [Group("g", "Git", shortcut=False), Group("a", "A")]
    config = Config(tuple(several), {"git": ("a",)})
    for typed in (text, f"/{text}", f"/a:{text}", f"/skill:{text}", f"/skill-profile:{text}"):
        for found in (
            shortcuts.called(typed, several, skills, config),
            shortcuts.called_skill(typed, several, skills),
        ):
            assert found is None or isinstance(found, shortcuts.Called | shortcuts.Wrong)
        assert not set(shortcuts.profile_of(typed)) & set(SPACE)


def test_a_name_of_both_is_neither_and_says_why():
    several = [Group("g", "Git"), Group("d", "Dev", shortcut=False)]
    both = shortcuts.called_skill("/skill:git", several, [GIT])
    assert both.reason == "git is a skill and a group; for the group, type /Git for it"
    hidden = shortcuts.called_skill("/skill:dev", several, [Skill("dev")])
    assert "its shortcut is off" in hidden.reason


# Scope


def test_a_stub_names_nothing_and_stays_short():
    skills = tuple(Skill(f"name-{n}", f"about {n}", f"/s/{n}") for n in range(99))
    for held in (skills, skills[:1], ()):
        told = scope.stub(scope.Resolved("group", f'group "{"x" * 128}"', held, restricted=True))
        assert len(told) < 800
        assert f"\n{len(held)} skill" in told
        assert not any(text in told for s in held for text in (s.name, s.description, s.path))
    assert "1 skill is at hand" in scope.stub(
        scope.Resolved("all", "x", skills[:1], restricted=False)
    )


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
    "opened catalogues": lambda n: catalogue.replaced("<available_skills>" * (n // 18), [GIT], ""),
    "catalogues": lambda n: catalogue.replaced(catalog("git") * (n // 80), [GIT], "S"),
    "preambles": lambda n: catalogue.prepared(
        f"{catalogue.PREAMBLE}\n" * (n // 80) + catalog("x"), [GIT], ""
    ),
    "lines in front": lambda n: catalogue.replaced("\n" * n + INTRO + catalog("git"), [GIT], ""),
    "skills and words": lambda n: catalogue.leftover(
        "/s/word1 /s/word2 ab " * (n // 21),
        [Skill(f"x{at}", path=f"/s/word{at}/SKILL.md") for at in range(n // 100)],
    ),
    "names": lambda n: catalogue.leftover("<name>" * (n // 6), [GIT]),
    "blanks": lambda n: texts.one_line("a" + " \x00" * (n // 2) + "b"),
    "tokens": lambda n: groups.token("_ " * (n // 2)),
    "slugs": lambda n: groups.slug("a " * (n // 2), ()),
    "short form": lambda n: shortcuts.called("/" + "a" * n, [Group("g", "G")], [], Config()),
    "long form": lambda n: shortcuts.called_skill("/skill:a" + " " * n, [], []),
    "profile": lambda n: shortcuts.profile_of(" " * n + "/skill-profile:a b"),
    "order": lambda n: name_order("\u00e9" * n),
    "groups": lambda n: configured(
        {"groups": [{"id": f"g{at}", "name": f"G{at}"} for at in range(n // 100)]}
    ),
    "members": lambda n: configured({"autoload": {"a": [f"x{at}" for at in range(n // 10)]}}),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_million_characters_cost_no_more_than_their_share(name):
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    rule = GROWING[name]
    assert took(rule, MILLION) <= 100 * max(took(rule, MILLION // 16), 0.001)
