"""Skills over a session: profiles, searches, what may be loaded, what is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.compat.skills_ranking import rank_skills, rank_tools, score_skill
from ctxalgebra.conformance import door
from ctxalgebra.skills import asking, profiles
from ctxalgebra.skills.config import Config, record
from ctxalgebra.skills.groups import Group, token
from ctxalgebra.skills.profiles import Profiles
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.scope import Resolved, Scope
from ctxalgebra.skills.session import Skills, asked, chosen, loaded, scope_of, typed

SKILLS = (
    Skill("build", "Build things"),
    Skill("deploy", "Deploy things"),
    Skill("secret", "Deploy secrets", for_model=False),
    Skill("unit", "Write a unit test"),
)
CONFIG = Config(
    (Group("d", "Dev"), Group("e", "Empty"), Group("m", "Manual")),
    {"unit": ("d",), "secret": ("m",)},
)


def document(id, name, config=CONFIG):
    return {**record(config), "profileId": id, "profileName": name}


def state(config=CONFIG):
    manager = {"version": 2, "activeProfileId": "p"}
    store = Profiles(manager, {"p": document("p", "P", config), "q": document("q", "Q", Config())})
    return Skills(SKILLS, profiles.opened(store))


def read(skill):
    return f"This is {skill.name}."


def search(skills, query, **more):
    return asked(skills, query, rank=rank_skills, **more)


# Searching and loading


def test_what_a_search_allows_holds_until_the_next_one():
    now, found = search(state(), "deploy")
    assert (found.where, [s.name for s in found.skills]) == ("global-fallback", ["deploy"])
    assert loaded(now, "deploy", read)[0] == "global-fallback"
    assert loaded(now, "build", read) == ("outside", None)
    later, found = search(now, "unit")
    assert (found.where, found.allowed) == ("active", frozenset())
    assert loaded(later, "deploy", read) == ("outside", None)
    assert loaded(later, "unit", read)[1].bodies == ((SKILLS[3], "This is unit."),)
    everywhere, found = search(later, "things", everywhere=True)
    assert (found.where, found.allowed) == ("global", {"build", "deploy"})
    assert loaded(everywhere, "unit", read)[0] == "active-scope"
    assert chosen(everywhere, Scope()).allowed == frozenset()


def test_manual_skills_are_neither_found_nor_loaded():
    for config in (CONFIG, Config()):
        now = chosen(state(config), Scope("all"))
        assert "secret" not in [s.name for s in search(now, "deploy secrets")[1].skills]
        assert loaded(now, "secret", read) == ("manual-only", None)
        assert loaded(now, "deploy", read)[0] == "active-scope"
        with pytest.raises(InvalidArgument, match="unknown-item"):
            loaded(now, "nobody", read)


@given(st.lists(st.sampled_from(["unit", "deploy", "things", "zzz", "/dev", "/skill-profile:q"])))
def test_no_model_loads_what_it_was_not_shown(steps):
    now, shown = state(), set()
    for step in steps:
        if step.startswith("/"):
            now, _ = typed(now, step, read)
            shown &= now.allowed
        else:
            now, found = search(now, step)
            shown = {skill.name for skill in found.skills}
            assert len(shown) <= asking.MOST
        for skill in SKILLS:
            may, told = loaded(now, skill.name, read)
            allowed = skill.visible and (skill.name in scope_of(now).names | shown)
            assert (told is not None) == allowed, (may, skill.name)


def test_a_search_shows_no_more_than_it_may():
    many = tuple(Skill(f"s{at}", "film") for at in range(20))
    scope = Resolved("all", "all", many, restricted=False)
    for limit, count in ((-1, 1), (0, 1), (3, 3), (99, asking.MOST)):
        found = asking.search(scope, many, "film", rank=lambda some, q, n: some, limit=limit)
        assert len(found.skills) == count


def test_w28_a_limit_of_one_is_one_unit():
    (skill,) = [Skill("a\nb", "hello \x1b[0m\u202e there")]
    assert asking.lines([skill], shown=1) == "1. a b: …"
    assert asking.lines([skill], shown=0) == "1. a b"
    assert asking.lines([skill], shown=99) == "1. a b: hello [0m there"
    assert asking.lines([Skill("a", "  ")], shown=9) == "1. a"


# Typing


def test_what_is_typed_is_done():
    now, told = typed(state(), "/dev fix it", read)
    assert (told.action, told.text, scope_of(now).label) == ("transform", "fix it", 'group "Dev"')
    assert typed(now, "/dev", read)[1].action == "handled"
    same, told = typed(now, "/empty x", read)
    assert (same, told.action, told.notice) == (now, "handled", "Empty holds no skill")
    manual, told = typed(now, "/skill:manual", read)
    assert (scope_of(manual).skills, told.action) == ((), "handled")
    same, told = typed(now, "/skill:secret", read)
    assert same == now
    assert told.text.endswith("This is secret.\n\n</skill-orchestrator>\n\n"
                              "Follow these skills in what comes next.")  # fmt: skip
    assert typed(now, "/dev:unit go", read)[1].text.endswith("# Task\n\ngo")
    for text in ("/dev:deploy", "/dev:nobody", "/skill:nobody", "/skill-profile:nobody"):
        same, told = typed(now, text, read)
        assert (same, told.action) == (now, "handled")
        assert told.notice
    other, told = typed(now, "/skill-profile:Q", read)
    assert (scope_of(other).label, told.notice) == ('profile "Q"', "Q is the profile now")
    assert typed(other, "/dev fix it", read) == (other, typed(other, "x", read)[1])
    silent = typed(now, "/skill:unit", lambda skill: "")
    assert silent[1].notice == "unit says nothing"


# Profiles


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "switch", "remove", "rename", "save"]),
        st.sampled_from(["Work", "work", "A B", "a_b", "default", "Größe", "", "!", "work-2"]),
    ),
    max_size=8,
)


@given(CHANGES)
def test_profiles_stay_whole_whatever_is_done(changes):
    store = profiles.opened(Profiles()).store
    for change, name in changes:
        try:
            if change == "add":
                now = profiles.add(store, name)
                assert now.active.name == name
            elif change == "switch":
                now = profiles.switch(store, name)
            elif change == "remove":
                now = profiles.remove(store, name)
            elif change == "rename":
                active = profiles.opened(store).active
                now = profiles.change(store, active.id, name=name, about="x")
                assert (now.active.id, now.active.name) == (active.id, name)
            else:
                now = profiles.save(store, record(CONFIG))
                assert now.active.config == CONFIG
        except InvalidArgument:
            now = profiles.opened(store)
        assert profiles.opened(now.store) == now
        store = now.store
        typed_so = [token(profile.name).lower() for profile in now.profiles]
        assert len(set(typed_so)) == len(typed_so) > 0
        assert now.active in now.profiles


def test_w37_the_profile_that_is_named_is_used():
    documents = {"b": document("b", "A"), "x": document("x", "B"), "a-b": document("a-b", "C")}
    store = Profiles(
        {"version": 2, "activeProfileId": "x"}, {**documents, "c": document("c", "a B")}
    )
    for given_so, id in (("B", "x"), ("b", "b"), ("A", "b"), ("a b", "c"), ("A_B", "c"),
                         ("A-B", "a-b"), ("C", "a-b"), ("c", "c")):  # fmt: skip
        assert profiles.switch(store, given_so).active.id == id
    for nobody in ("", " ", "!", 5):
        with pytest.raises(InvalidArgument, match="there is no profile"):
            profiles.switch(store, nobody)


def test_a_store_from_before_is_kept_once():
    old = {"groups": [{"id": "a", "name": "A"}]}
    first = profiles.opened(Profiles(old))
    assert (first.store.legacy, first.active.name) == (old, "Default")
    again = profiles.opened(Profiles(old, first.store.profiles, {"kept": 1}))
    assert (again.store.legacy, again.active.name) == ({"kept": 1}, "Imported Default")
    third = profiles.opened(Profiles(old, again.store.profiles))
    assert (third.active.name, third.active.id) == ("Imported Default 2", "default-3")
    with pytest.raises(InvalidArgument, match="version True"):
        profiles.opened(Profiles({"version": True}))


def test_a_profile_keeps_what_is_not_changed():
    store = profiles.add(Profiles(), "Work", "about").store
    assert profiles.change(store, "work", about="other").active.name == "Work"
    assert profiles.change(store, "work", name="Job").active.description == "about"
    with pytest.raises(InvalidArgument, match="there is no profile"):
        profiles.change(store, "nobody")


# The original's rankings


def test_w27_a_sentence_may_end_and_a_term_may_be_short():
    tools = [("s3_upload", "Store files"), ("ci_run", "Run a pipeline"), ("email", ""), ("x", "s3")]
    assert rank_tools(tools, "an email.") == (2,)
    assert rank_tools(tools, "s3 or ci please") == (1, 0, 3)
    assert rank_tools([("or", ""), ("specific", "")], "please or ci") == ()
    assert rank_tools([("db", ""), ("db_query", "")], "db") == (0, 1)


def test_w23_w25_w26_what_the_rule_of_the_original_finds():
    """The rule is kept as it is, under its own name; the library's own search is another."""
    assert score_skill("frontend-design", "Design layouts", "the ui layout") < score_skill(
        "theme-builder", "Builds themes", "the ui layout"
    )
    assert score_skill("unit-test", "Write a unit test", "tests") == 0
    assert score_skill("x", "代码 审查", "代码审查") == 0


# Whatever stands anywhere

ANYTHING = (None, True, -1, 2.5, 10**30, "", "x", "\ud800", [], [None], {}, {"name": 5}, [[]])
VECTORS = Path(__file__).parent / "vectors" / "v1"
FILES = ("skills_records", "skills_loading", "skills_session")
ROWS = [
    json.loads(line)
    for file in FILES
    for line in (VECTORS / f"{file}.jsonl").read_bytes().splitlines()
]


def places(value):
    """List the places of a value, those of its members among them."""
    every = [()]
    for place in every:
        inner = value
        for step in place:
            inner = inner[step]
        if isinstance(inner, dict | list):
            steps = inner if isinstance(inner, dict) else range(len(inner))
            every += [(*place, step) for step in steps]
    return every[1:]


def put(value, place, new):
    if not place:
        return new
    changed = value.copy()
    changed[place[0]] = put(value[place[0]], place[1:], new)
    return changed


@pytest.mark.parametrize("operation", sorted({row["operation"] for row in ROWS}))
def test_whatever_stands_anywhere_there_is_an_answer(operation):
    asked_for = 0
    for row in ROWS:
        if row["operation"] != operation or "error" in row:
            continue
        for place in places(row["input"]):
            for value in ANYTHING:
                asked_for += 1
                told = door.result(operation, put(row["input"], place, value))
                assert told.get("error", {}).get("code") != "internal-error", (place, value, told)
    assert asked_for > 0
