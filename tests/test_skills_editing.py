"""Edits of a configuration: refused or done, and order stays."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra import InvalidArgument
from ctxalgebra.skills.config import Config, configured, record
from ctxalgebra.skills.editing import (
    add_group,
    change_group,
    remove_group,
    set_autoload,
    set_ignored,
    set_member,
)
from ctxalgebra.skills.groups import Group
from ctxalgebra.skills.profiles import Profiles, add, change, remove, save
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.scope import Scope, resolved

CONFIG = Config(
    (Group("a", "Alpha", order=10), Group("b", "Beta", order=20), Group("c", "Gamma", order=30)),
    {"deploy": ("a", "c"), "tdd": ("b",)},
    {"tdd": ("deploy",)},
    {"deploy": ("tdd",)},
)


def written(config):
    return json.dumps(record(config), ensure_ascii=False)


@pytest.mark.parametrize("skill", ["deploy", "tdd", "aaa", "zzz"])
@pytest.mark.parametrize("group", ["a", "b", "c"])
def test_on_and_off_again_gives_the_same_bytes(skill, group):
    once = set_member(CONFIG, skill, group)
    assert written(once) != written(CONFIG)
    assert written(set_member(once, skill, group)) == written(CONFIG)
    assert configured(record(once)) == once


def test_members_stand_in_the_order_of_the_groups():
    config = set_member(CONFIG, "deploy", "b", on=True)
    assert config.memberships["deploy"] == ("a", "b", "c")
    assert list(set_member(CONFIG, "lint", "a").memberships) == ["deploy", "lint", "tdd"]
    odd = evolve(CONFIG, memberships={"z": ("c", "a", "gone"), "a": ("b",)})
    config = set_member(odd, "z", "b")
    assert config.memberships["z"] == ("b", "c", "a", "gone")
    assert list(config.memberships) == ["z", "a"]


def test_an_edit_that_changes_nothing_gives_the_same_object():
    assert set_member(CONFIG, "tdd", "b", on=True) is CONFIG
    assert set_member(CONFIG, "tdd", "a", on=False) is CONFIG
    assert change_group(CONFIG, "a") is CONFIG
    assert change_group(CONFIG, "a", name="Alpha", about="", shortcut=True) is CONFIG
    assert set_autoload(CONFIG, "tdd", "deploy", on=True) is CONFIG
    assert set_ignored(CONFIG, "x", "y", on=False) is CONFIG


def test_lists_of_names_are_sorted_and_give_the_same_bytes_again():
    config = CONFIG
    for other in ("z", "a", "\U0001f600", "\uff5e"):
        config = set_autoload(config, "tdd", other)
    # Units of UTF-16, in which the smile stands before the tilde.
    assert config.autoload["tdd"] == ("a", "deploy", "z", "\U0001f600", "\uff5e")
    for other in ("a", "\uff5e", "z", "\U0001f600"):
        config = set_autoload(config, "tdd", other)
    assert written(config) == written(CONFIG)
    assert dict(set_ignored(CONFIG, "deploy", "tdd").ignored) == {}
    assert set_ignored(CONFIG, "deploy", "b").ignored["deploy"] == ("b", "tdd")


def test_a_group_is_made_renamed_and_taken_away_with_its_memberships():
    config, group = add_group(CONFIG, "  Film / Story ", about="x\ny", shortcut=False)
    assert (group.id, group.name, group.description) == ("film-story", "Film / Story", "x y")
    assert (group.order, group.shortcut) == (40, False)
    config = set_member(config, "tdd", group.id)
    config = change_group(config, group.id, name="Film", about="Films", shortcut=True)
    assert config.groups[-1] == Group("film-story", "Film", "Films", True, 40)
    assert config.memberships["tdd"] == ("b", "film-story")
    config = remove_group(config, group.id)
    assert written(config) == written(CONFIG)
    config = remove_group(CONFIG, "b")
    assert [each.id for each in config.groups] == ["a", "c"]
    assert dict(config.memberships) == {"deploy": ("a", "c")}
    assert configured(record(config)) == config


def test_a_scope_whose_group_is_gone_is_that_of_the_profile():
    scope, skills = Scope("group", "p", "b"), (Skill("deploy"), Skill("tdd"))
    before = resolved(scope, CONFIG, skills, profile="p", name="P")
    after = resolved(scope, remove_group(CONFIG, "b"), skills, profile="p", name="P")
    assert (before.label, after.label) == ('group "Beta"', 'profile "P"')
    assert [skill.name for skill in after.skills] == ["deploy"]


@pytest.mark.parametrize(
    ("edit", "code", "field"),
    [
        (lambda c: set_member(c, "tdd", "nope"), "unknown-item", "group"),
        (lambda c: set_member(c, "tdd", "A"), "unknown-item", "group"),
        (lambda c: set_member(c, " \n", "a"), "invalid-argument", "skill"),
        (lambda c: set_member(c, "a\0b", "a"), "invalid-argument", "skill"),
        (lambda c: set_member(c, "n" * 129, "a"), "invalid-argument", "skill"),
        (lambda c: set_member(c, "\U0001f600" * 65, "a"), "invalid-argument", "skill"),
        (lambda c: set_member(c, "\ud800", "a"), "lone-surrogate", "skill"),
        (lambda c: set_member(c, 5, "a"), "wrong-type", "skill"),
        (lambda c: set_member(c, "tdd", 5), "wrong-type", "group"),
        (lambda c: set_member(c, "tdd", "a", on=1), "wrong-type", "on"),
        (lambda c: set_autoload(c, "tdd", ""), "invalid-argument", "other"),
        (lambda c: set_autoload(c, "tdd", "x", on="yes"), "wrong-type", "on"),
        (lambda c: set_ignored(c, None, "x"), "wrong-type", "skill"),
        (lambda c: add_group(c, "alpha"), "invalid-argument", "name"),
        (lambda c: add_group(c, "!!!"), "invalid-argument", "name"),
        (lambda c: add_group(c, 5), "invalid-argument", "name"),
        (lambda c: add_group(c, "x", shortcut=1), "wrong-type", "shortcut"),
        (lambda c: change_group(c, "nope", name="x"), "unknown-item", "group"),
        (lambda c: change_group(c, "a", name="BETA"), "invalid-argument", "name"),
        (lambda c: change_group(c, "a", name=""), "invalid-argument", "name"),
        (lambda c: change_group(c, "a", shortcut=0), "wrong-type", "shortcut"),
        (lambda c: remove_group(c, "nope"), "unknown-item", "group"),
    ],
)
def test_what_can_not_be_is_refused_with_a_code(edit, code, field):
    with pytest.raises(InvalidArgument) as caught:
        edit(CONFIG)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_group_may_be_renamed_to_another_case_of_its_name():
    assert change_group(CONFIG, "a", name="ALPHA").groups[0].name == "ALPHA"


NAMES = st.sampled_from(["deploy", "tdd", "lint", "a", "z", "日本"])
EDITS = st.lists(
    st.tuples(st.sampled_from(["member", "autoload", "ignored", "add", "rename", "remove"]),
              NAMES, NAMES, st.integers(0, 9)),
    max_size=30,
)  # fmt: skip


@given(EDITS)
def test_whatever_is_edited_can_be_stored_and_read_again(edits):
    config, store = CONFIG, Profiles()
    for what, name, other, n in edits:
        ids = [group.id for group in config.groups]
        id = ids[n % len(ids)] if ids else "none"
        before = written(config)
        try:
            match what:
                case "member":
                    config = set_member(config, name, id)
                    assert written(set_member(config, name, id)) == before
                case "autoload":
                    config = set_autoload(config, name, other)
                    assert written(set_autoload(config, name, other)) == before
                case "ignored":
                    config = set_ignored(config, name, other)
                case "add":
                    config, _ = add_group(config, other)
                case "rename":
                    config = change_group(config, id, name=name)
                case _:
                    config = remove_group(config, id)
        except InvalidArgument as error:
            refused = error.code
        else:
            refused = ""
        assert refused in ("", "invalid-argument", "unknown-item")
        assert not refused or written(config) == before
        again = configured(json.loads(written(config)))
        assert again == config
        assert written(again) == written(config)
        store = save(store, record(config)).store
    if edits:
        assert save(store, record(config)).active.config == config


def test_profiles_are_renamed_and_taken_away_with_refusals_that_change_nothing():
    store = add(save(Profiles(), record(CONFIG)).store, "Work").store
    renamed = change(store, "default", name="Home")
    assert [profile.name for profile in renamed.profiles] == ["Home", "Work"]
    assert renamed.profiles[0].config == CONFIG
    left = remove(renamed.store, "work")
    assert (left.active.name, left.active.config) == ("Home", CONFIG)
    for edit in (
        lambda: change(store, "default", name="WORK"),
        lambda: change(store, "default", name="!!"),
        lambda: change(store, "nope", name="x"),
        lambda: remove(store, "nope"),
        lambda: remove(left.store, "default"),
    ):
        with pytest.raises(InvalidArgument, match="invalid-argument"):
            edit()
