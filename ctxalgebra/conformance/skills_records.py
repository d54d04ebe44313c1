"""The part of `skills` about records: reading, catalogue, names, shortcuts, scope, search."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import isfinite, trunc
from typing import Any

from ctxalgebra.compaction import signals
from ctxalgebra.compat.skills_names import ascii_token
from ctxalgebra.compat.skills_ranking import rank_skills, score_skill, tokens
from ctxalgebra.conformance import skills_values as values
from ctxalgebra.conformance.operations import collect
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills import catalogue, config, groups, records, scope, shortcuts, texts

__all__ = ["OPERATIONS"]

_Object = dict[str, Any]


@contextmanager
def _checked() -> Generator[None]:
    try:
        yield
    except InvalidArgument:
        raise values.refused() from None


# Records


def to_skill_records(*, skills: Any = None) -> Any:
    """Read the host's prompt options."""
    return list(map(values.skill_out, records.from_prompt(skills)))


def to_skill_records_from_commands(*, commands: Any = None) -> Any:
    """Read slash commands."""
    return list(map(values.skill_out, records.from_commands(commands)))


def merge_skill_records(*, sets: list[list[_Object]]) -> Any:
    """Put sets together; the first of a name counts."""
    given = values.skills(value for each in sets for value in each)
    return list(map(given.out, records.merged(given)))


def is_model_visible_skill(*, skill: _Object) -> Any:
    """Say whether a model may call a skill."""
    return skill.get("modelVisible") is not False


def normalize_indexed_description(*, value: Any = None) -> Any:
    """Bring a description into form."""
    return texts.description(value)


def normalize_scope_description(*, value: Any = None) -> Any:
    """Bring the description of a group into form."""
    return texts.description(value)


def safe_inline_metadata(*, value: str) -> Any:
    """Make one line."""
    return texts.one_line(value)


# Catalogue


def replace_native_skill_catalog(
    *, system_prompt: str, skills: list[_Object], replacement: str
) -> Any:
    """Put a text in the place of the host's catalogue."""
    return catalogue.replaced(system_prompt, values.skills(skills), replacement)


def native_skill_catalog_ranges(*, system_prompt: str, skills: list[_Object]) -> Any:
    """Say what would be taken out, in units."""
    found = catalogue.blocks(system_prompt, values.skills(skills))
    told: list[dict[str, int]] = []
    units = at = 0
    for block in found:
        start = units + signals.units(system_prompt[at : block.start])
        units = start + signals.units(system_prompt[block.start : block.end])
        at = block.end
        told.append({"start": start, "end": units})
    return told


def contains_known_native_skill_catalog(*, system_prompt: str, skills: list[_Object]) -> Any:
    """Say whether a block names a skill."""
    found = catalogue.blocks(system_prompt, values.skills(skills))
    return any(block.known for block in found)


def contains_potential_native_skill_catalog(*, system_prompt: str, skills: list[_Object]) -> Any:
    """Say whether a prompt looks as if it showed skills."""
    return catalogue.leftover(system_prompt, values.skills(skills))


# Groups


def normalize_config(*, raw: Any = None) -> Any:
    """Read a configuration."""
    with _checked():
        return config.record(config.configured(raw))


def validate_scope_display_name(*, value: Any = None, kind: str = "Group") -> Any:
    """Check a name."""
    with _checked():
        return groups.checked_name(value, kind)


def validate_group_name(
    *, name: Any = None, existing_groups: list[_Object], exclude_group_id: str | None = None
) -> Any:
    """Check the name of a group against others."""
    others = values.groups(existing_groups)
    with _checked():
        return groups.free_name(name, (g.name for g in others if g.id != exclude_group_id))


def create_skill_group(
    *,
    name: Any = None,
    description: Any = None,
    shortcut_enabled: bool = True,
    existing_groups: list[_Object],
) -> Any:
    """Make a group."""
    others = values.groups(existing_groups)
    with _checked():
        made = groups.created(name, others, about=description, shortcut=shortcut_enabled)
    return config.record(config.Config((made,)))["groups"][0]


def slugify_group_id(*, name: str, existing: list[str]) -> Any:
    """Make an id."""
    return groups.slug(name, frozenset(existing))


# Shortcuts


def shortcut_name(*, value: str) -> Any:
    """Make a token as the original has it."""
    return ascii_token(value)


def profile_shortcut_name(*, value: str) -> Any:
    """Make a token of a profile's name as the original has it."""
    return ascii_token(value)


def find_group_by_shortcut(*, token: str, groups: list[_Object]) -> Any:
    """Find a group."""
    given = values.groups(groups)
    found = shortcuts.group_of(token, given)
    return None if found is None else given.out(found)


def find_skill_by_shortcut(*, token: str, skills: list[_Object]) -> Any:
    """Find a skill."""
    given = values.skills(skills)
    found = shortcuts.skill_of(token, given)
    return None if found is None else given.out(found)


def _called(
    found: shortcuts.Called | shortcuts.Wrong | None,
    known: tuple[values.Given[records.Skill], values.Given[groups.Group]],
    *,
    kinds: bool,
) -> Any:
    if not isinstance(found, shortcuts.Called):
        return {"kind": "none" if found is None else "error"}
    told: dict[str, Any] = {}
    if kinds:
        told["kind"] = "skill" if found.skill else "group"
    if found.group:
        told["group"] = known[1].out(found.group)
    if found.skill:
        told["skill"] = known[0].out(found.skill)
    if found.task:
        told["task"] = found.task
    return {"kind": "match", "value": told}


def parse_shortcut(
    *, text: str, groups: list[_Object], skills: list[_Object], config: _Object
) -> Any:
    """Read the short form."""
    known = values.skills(skills), values.groups(groups)
    found = shortcuts.called(text, known[1], known[0], values.config(config))
    return _called(found, known, kinds=False)


def parse_skill_namespace_shortcut(
    *, text: str, groups: list[_Object], skills: list[_Object]
) -> Any:
    """Read the long form."""
    known = values.skills(skills), values.groups(groups)
    return _called(shortcuts.called_skill(text, known[1], known[0]), known, kinds=True)


# Scope


def group_member_records(*, group_id: str, config: _Object, records: list[_Object]) -> Any:
    """Give the skills of a group."""
    given = values.skills(records)
    return list(map(given.out, scope.group_members(group_id, values.config(config), given)))


def profile_member_records(*, config: _Object, records: list[_Object]) -> Any:
    """Give the skills of all groups."""
    given = values.skills(records)
    return list(map(given.out, scope.profile_members(values.config(config), given)))


def _resolved(
    chosen: _Object, config: _Object, given: values.Given[records.Skill], active: _Object
) -> scope.Resolved:
    kind = chosen.get("kind")
    now = scope.Scope(
        kind if kind in ("all", "group") else "profile",
        str(chosen.get("profileId")),
        str(chosen.get("groupId")),
    )
    profile, name = str(active.get("id")), str(active.get("name"))
    return scope.resolved(now, values.config(config), given, profile=profile, name=name)


def resolve_skill_scope(
    *, scope: _Object, config: _Object, records: list[_Object], active_profile: _Object
) -> Any:
    """Say what a scope holds."""
    given = values.skills(records)
    found = _resolved(scope, config, given, active_profile)
    return {
        "kind": found.kind,
        "label": "<label>" if found.kind == "all" else found.label,
        "records": list(map(given.out, found.skills)),
        "allowedNames": [skill.name for skill in found.skills],
        "restricted": found.restricted,
    }


def global_fallback_records(
    *, scope: _Object, config: _Object, records: list[_Object], active_profile: _Object
) -> Any:
    """Give the skills outside of a scope."""
    given = values.skills(records)
    return list(map(given.out, _outside(_resolved(scope, config, given, active_profile), given)))


_outside = scope.outside


# Search


def filter_skill_records_by_search(*, skills: list[_Object], search: str) -> Any:
    """Filter as a list for a person does."""
    given = values.skills(skills)
    return list(map(given.out, records.filtered(given, search)))


def most(limit: float | None, usual: int) -> int:
    """Read a limit: nothing and 0 are the usual one."""
    return trunc(limit) or usual if limit is not None and isfinite(limit) else usual


def rank_skill_records_by_search(
    *, skills: list[_Object], query: str, limit: float | None = None
) -> Any:
    """Rank as the original does."""
    given = values.skills(skills)
    return list(map(given.out, rank_skills(given, query, most(limit, 5))))


def score_skill_record(*, skill: _Object, query: str) -> Any:
    """Score as the original does."""
    (one,) = values.skills([skill])
    return score_skill(one.name, one.description, query)


def normalized_tokens(*, text: str) -> Any:
    """Give the words of a text as the original does."""
    return tokens(text)


OPERATIONS = collect(
    "skills",
    to_skill_records,
    to_skill_records_from_commands,
    merge_skill_records,
    is_model_visible_skill,
    normalize_indexed_description,
    normalize_scope_description,
    safe_inline_metadata,
    replace_native_skill_catalog,
    native_skill_catalog_ranges,
    contains_known_native_skill_catalog,
    contains_potential_native_skill_catalog,
    normalize_config,
    validate_scope_display_name,
    validate_group_name,
    create_skill_group,
    slugify_group_id,
    shortcut_name,
    profile_shortcut_name,
    find_group_by_shortcut,
    find_skill_by_shortcut,
    parse_shortcut,
    parse_skill_namespace_shortcut,
    group_member_records,
    profile_member_records,
    resolve_skill_scope,
    global_fallback_records,
    filter_skill_records_by_search,
    rank_skill_records_by_search,
    score_skill_record,
    normalized_tokens,
)
