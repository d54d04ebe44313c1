"""Completion for an editor: what is offered can be typed, and means what it says."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.skills import profiles
from ctxalgebra.skills.completion import (
    LONGEST,
    SHOWN,
    Candidate,
    Completion,
    completed,
    completion,
)
from ctxalgebra.skills.config import Config
from ctxalgebra.skills.config import record as config_record
from ctxalgebra.skills.groups import Group, token
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.session import Skills, scope_of, typed
from ctxalgebra.skills.texts import one_line

KNOWN = (
    Skill("code-review", "Review a change"),
    Skill("Film notes", "Take\nnotes of \x1b[31mfilms"),
    Skill("ops", "What a group is called, too"),
    Skill("secret", "Not for a model", for_model=False),
    Skill("tdd", "Test first"),
)
GROUPS = (
    Group("d", "Dev Tools", "For developers"),
    Group("e", "Empty"),
    Group("h", "Hidden", shortcut=False),
    Group("o", "Ops"),
)
MEMBERS = {"tdd": ("d", "o"), "secret": ("d", "h"), "Film notes": ("d",)}


def opened(config, *names):
    names = names or ("Work", "Zoo A")
    documents = {
        f"p{at}": {**config_record(config), "profileId": f"p{at}", "profileName": name}
        for at, name in enumerate(names)
    }
    return profiles.opened(profiles.Profiles({"version": 2, "activeProfileId": "p0"}, documents))


SKILLS = Skills(KNOWN, opened(Config(GROUPS, MEMBERS)))


def offered(text, cursor=None, *, skills=SKILLS, **more):
    found = completion(text, len(text) if cursor is None else cursor, skills, **more)
    return [one.text for one in found.candidates]


def test_a_slash_offers_everything_that_is_called_so():
    assert offered("/") == ["/Dev_Tools", "/Ops", "/skill:", "/skill-profile:"]
    assert offered("/d") == ["/Dev_Tools"]
    assert offered("/TOOLS") == ["/Dev_Tools"]
    assert offered("/ski") == ["/skill:", "/skill-profile:"]
    assert offered("/zzz") == []


def test_a_skill_is_offered_also_where_it_is_not_for_a_model():
    assert offered("/skill:") == [
        "/skill:code-review", "/skill:Dev_Tools", "/skill:Film_notes", "/skill:Hidden",
        "/skill:secret", "/skill:tdd",
    ]  # fmt: skip
    assert offered("/SKILL:sec") == ["/skill:secret"]
    # What is a skill and a group calls neither.
    assert "/skill:ops" not in [text.lower() for text in offered("/skill:o")]


def test_beginnings_come_first_then_parts_then_what_holds_it():
    skills = Skills((Skill("deview"), Skill("a-view"), Skill("view-b"), Skill("view-a")))
    assert offered("/skill:VIEW", skills=skills) == [
        "/skill:view-a", "/skill:view-b", "/skill:a-view", "/skill:deview"
    ]  # fmt: skip


def test_members_of_a_group_are_offered_behind_it():
    assert offered("/dev_tools:") == [
        "/dev_tools:Film_notes",
        "/dev_tools:secret",
        "/dev_tools:tdd",
    ]
    assert offered("/Dev_Tools:t") == [
        "/Dev_Tools:tdd",
        "/Dev_Tools:Film_notes",
        "/Dev_Tools:secret",
    ]
    for nothing in ("/hidden:", "/empty:", "/nope:", "/:", "/ops:x"):
        assert offered(nothing) == []


def test_profiles_are_offered():
    assert offered("/skill-profile:") == ["/skill-profile:Work", "/skill-profile:Zoo_A"]
    assert offered("/skill-profile:zoo") == ["/skill-profile:Zoo_A"]


def test_a_profile_that_another_one_hides_is_not_offered():
    """`b` is the id of one and the token of the other, and the id counts first."""
    config = config_record(Config())
    documents = {
        "b": {**config, "profileId": "b", "profileName": "A"},
        "x": {**config, "profileId": "x", "profileName": "b!"},
    }
    store = profiles.Profiles({"version": 2, "activeProfileId": "b"}, documents)
    assert profiles.switch(store, "b").active.name == "A"
    skills = Skills((), profiles.opened(store))
    assert offered("/skill-profile:", skills=skills) == ["/skill-profile:A"]


@pytest.mark.parametrize(
    "text",
    ["", "skill", " ", "see /skill:", "a/", "/skill: x", "/dev x", "\n\n", "/" + "x" * LONGEST],
)
def test_other_words_are_not_completed(text):
    assert completion(text, len(text), SKILLS) == Completion(len(text), len(text))


def test_the_word_at_the_cursor_is_replaced_as_a_whole():
    found = completion("  /skill:tXX do it", 10, SKILLS)
    assert (found.start, found.end) == (2, 12)
    assert found.candidates[0].text == "/skill:tdd"
    assert completed("  /skill:tXX do it", found, found.candidates[0]) == (
        "  /skill:tdd do it", 12
    )  # fmt: skip
    found = completion("/sk", 2, SKILLS)
    one = next(one for one in found.candidates if one.text == "/skill:")
    assert completed("/sk", found, one) == ("/skill:", 7)
    assert completed("/d", Completion(0, 2), Candidate("/Dev", "Dev")) == ("/Dev ", 5)


@pytest.mark.parametrize("cursor", [-5, 10**9])
def test_a_cursor_outside_is_at_the_end_that_is_nearer(cursor):
    found = completion("/sk", cursor, SKILLS)
    assert bool(found.candidates) == (cursor > 0)
    assert 0 <= found.start <= found.end <= 3


def test_what_is_shown_is_one_line_without_controls():
    (one,) = completion("/skill:film", 11, SKILLS).candidates
    assert (one.label, one.about) == ("Film notes", "Take notes of [31mfilms")
    long = Skills((Skill("n" * 100, "x" * 500),))
    (one,) = completion("/skill:n", 8, long).candidates
    assert (len(one.label), len(one.about)) == (80, 120)


def test_the_list_is_bounded_and_says_how_many_more_there_are():
    many = Skills(tuple(Skill(f"s{at:04}") for at in range(3_000)))
    found = completion("/skill:", 7, many)
    assert (len(found.candidates), found.more) == (SHOWN, 3_000 - SHOWN)
    found = completion("/skill:s29", 10, many, most=3)
    assert [one.text for one in found.candidates] == [
        "/skill:s2900",
        "/skill:s2901",
        "/skill:s2902",
    ]
    assert found.more == 97


def test_two_skills_with_one_token_are_offered_as_far_as_each_can_be_meant():
    skills = Skills((Skill("x y"), Skill("x_y"), Skill("!!"), Skill("! !"), Skill("a:b")))
    assert offered("/skill:", skills=skills) == ["/skill:!!", "/skill:a_b", "/skill:x_y"]


def test_groups_without_a_token_are_not_offered():
    config = Config((Group("a", "!!!"),), {"tdd": ("a",)})
    odd = evolve(
        SKILLS, profiles=evolve(SKILLS.profiles, active=profiles.Profile("p", "P", "", config))
    )
    assert offered("/", skills=odd) == ["/skill:", "/skill-profile:"]


def test_values_of_the_wrong_type_are_refused():
    for arguments in [(5, 0, SKILLS), ("", "0", SKILLS), ("", True, SKILLS), ("", 0, KNOWN)]:
        with pytest.raises(InvalidArgument, match="wrong-type"):
            completion(*arguments)
    with pytest.raises(InvalidArgument, match="lone-surrogate"):
        completion("\ud800", 0, SKILLS)
    with pytest.raises(InvalidArgument, match="invalid-argument"):
        completion("", 0, SKILLS, most=0)


NAMES = st.text(st.sampled_from("aAb_- :!.é日\u00a0"), min_size=1, max_size=5)


@given(
    st.lists(NAMES, unique_by=one_line, max_size=6),
    st.lists(NAMES.filter(token), unique_by=lambda name: token(name).lower(), max_size=3),
    st.lists(NAMES.filter(lambda name: token(name) and name.strip()), min_size=1, max_size=3,
             unique_by=lambda name: token(name).lower()),
    st.data(),
)  # fmt: skip
def test_each_candidate_calls_what_it_says(names, groups, profile_names, data):
    known = tuple(Skill(name) for name in names)
    made = tuple(
        Group(f"g{at}", name, shortcut=data.draw(st.booleans())) for at, name in enumerate(groups)
    )
    member = st.lists(st.sampled_from([group.id for group in made] or ["none"]), unique=True)
    config = Config(made, {name: tuple(data.draw(member)) for name in names})
    skills = Skills(known, opened(config, *map(str.strip, profile_names)))
    words = ["/", "/skill:", "/skill-profile:", *(f"/{token(group.name)}:" for group in made)]
    for word in words:
        for one in completion(word, len(word), skills, most=99).candidates:
            if one.kind == "command":
                assert one.text in words
                continue
            after, found = typed(skills, f"{one.text} go" if one.kind != "profile" else one.text,
                                 lambda skill: "Do it.")  # fmt: skip
            if one.kind == "skill":
                assert found.loaded.roots == (next(n for n in names if one_line(n) == one.label),)
            elif one.kind == "group":
                assert found.text == "go"
                assert scope_of(after).kind == "group"
            else:
                assert one_line(after.profiles.active.name) == one.label


@given(
    st.text(st.sampled_from("/skill:-profdevtoolsTDD _\n\u00e9"), max_size=30), st.integers(-2, 40)
)
def test_whatever_is_typed_gets_a_bounded_stable_answer(text, cursor):
    found = completion(text, cursor, SKILLS, most=4)
    assert found == completion(text, cursor, SKILLS, most=4)
    assert len(found.candidates) <= 4
    assert len({one.text for one in found.candidates}) == len(found.candidates)
    assert 0 <= found.start <= found.end <= len(text)
    for one in found.candidates:
        whole, at = completed(text, found, one)
        assert whole[found.start : at].startswith(one.text)
        assert text[found.end :] == whole[at:]
