"""The part of `skills` that loads them, and shapes what is sent: dependencies, bundles, tools."""

from __future__ import annotations

from typing import Any, get_args

from ctxalgebra.compaction.signals import ERROR_WORDS
from ctxalgebra.compat.skills_ranking import rank_tools
from ctxalgebra.conformance import skills_values as values
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.shaping import effort
from ctxalgebra.shaping.descriptions import LONGEST, metadata, shorten_descriptions
from ctxalgebra.skills import dependencies, loading, references
from ctxalgebra.skills.given import items, members
from ctxalgebra.skills.records import Skill
from ctxalgebra.utf16 import cut

__all__ = ["OPERATIONS"]

_Object = dict[str, Any]

# Dependencies


def detect_dependencies(*, body: str, current_skill: str, names: list[str]) -> Any:
    """Find references."""
    return list(references.references(body, references.Names(names), current_skill))


def effective_dependencies(*, skill: str, auto_detected: list[str], config: _Object) -> Any:
    """Give what a skill needs."""
    return list(dependencies.effective(skill, auto_detected, values.config(config)))


def is_negated_reference(*, body: str, index: int) -> Any:
    """Say whether a reference is forbidden."""
    return references.forbidden(body, len(cut(body, 0, max(0, index))))


def resolve_dependency_graph(
    *, root: str, skills: list[_Object], config: _Object, bodies: dict[str, str]
) -> Any:
    """Walk what a skill needs."""

    def read(skill: Skill) -> str:
        if skill.name not in bodies:
            raise values.refused()
        return bodies[skill.name]

    found = loading.skill_graph(root, values.skills(skills), values.config(config), read)
    return {
        "root": found.root,
        "order": list(found.order),
        "edges": {name: list(needs) for name, needs in found.edges.items()},
        "missing": list(found.missing),
        "cycles": list(map(list, found.cycles)),
    }


# Loading


def strip_frontmatter(*, text: str) -> Any:
    """Take front matter off."""
    return loading.strip_frontmatter(text)


def render_loaded_bundle(
    *, roots: Any, loaded: list[_Object], issues: _Object | None = None
) -> Any:
    """Write skills as one text."""
    skills = values.skills(loaded)
    names = [roots] if isinstance(roots, str) else items(roots)
    given = members(issues)
    found = loading.Loaded(
        tuple(map(str, names)),
        tuple((skill, str(skills.out(skill).get("body", ""))) for skill in skills),
        tuple(map(str, items(given.get("missing")))),
        tuple(tuple(map(str, items(cycle))) for cycle in items(given.get("cycles"))),
    )
    words = {"intro": "<intro>", "missing": "<missing: {}>", "cycles": "<cycles: {}>"}
    return loading.bundle(found, words)


# Tools


def sanitize_tool_metadata_text(*, value: Any = None, max_chars: float) -> Any:
    """Make one clean line."""
    return metadata(value, max(1, int(max_chars)))


def rank_deferred_tools(*, tools: list[_Object], query: str, limit: float | None = None) -> Any:
    """Rank deferred tools."""
    named = [(tool.get("name"), tool.get("description")) for tool in tools]
    texts = [
        (name if isinstance(name, str) else "", about if isinstance(about, str) else "")
        for name, about in named
    ]
    return [tools[at] for at in rank_tools(texts, query, int(limit or 5))]


def compact_provider_tool_descriptions(*, payload: _Object, max_chars: float = LONGEST) -> Any:
    """Shorten descriptions of tools."""
    found = shorten_descriptions(payload, most=max(1, int(max_chars)))
    return {"payload": found.payload, "changed": found.changed, "savedChars": found.saved}


def clamp_routine_provider_effort(*, payload: _Object) -> Any:
    """Lower the effort."""
    found = effort.lower_effort(payload)
    return {"payload": found, "changed": found is not payload}


def update_routine_continuation_state(*, state: str, routine: bool) -> Any:
    """Count one result."""
    for known in get_args(effort.Routine):
        if state == known:
            return effort.routine_after(known, routine=routine)
    raise InvalidInput("input.state: expected none, eligible or blocked")


def is_routine_tool_continuation(
    *, tool_name: str, input_: Any = None, text: str, is_error: bool = False
) -> Any:
    """Say whether a result is routine."""
    arguments = members(input_)
    return effort.is_routine(tool_name, arguments, text, failed=is_error, errors=ERROR_WORDS)


OPERATIONS = collect(
    "skills",
    detect_dependencies,
    effective_dependencies,
    is_negated_reference,
    resolve_dependency_graph,
    strip_frontmatter,
    render_loaded_bundle,
    sanitize_tool_metadata_text,
    rank_deferred_tools,
    compact_provider_tool_descriptions,
    clamp_routine_provider_effort,
    update_routine_continuation_state,
    is_routine_tool_continuation,
)
