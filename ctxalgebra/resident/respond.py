"""The tools that find and activate the others, ready to be offered, and the answer to a call.

A harness adds `LAZY`, `FIND_CAPABILITY` or `TOOL_SEARCH` to its tools, records what
`respond_discovery` gives for a call, and lets `resident_tools` settle. Searching records nothing
but its result, so it costs nothing else. What the model needs to know of a tool stands in the
result that activated it, never in the system text, which would change the head. An answer is
bounded, whatever was asked and whatever there is; a mark says that something was left out, and how
to get it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from attrs import evolve, frozen

from ctxalgebra.arguments import arguments_of, schema
from ctxalgebra.errors import CtxError, InvalidArgument, escaped
from ctxalgebra.model.checks import check_callable, check_items, check_text, check_type, mistyped
from ctxalgebra.model.entries import Entry
from ctxalgebra.model.head import Tool
from ctxalgebra.model.parts import ToolCall, tool_result
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.model.view import HEAD
from ctxalgebra.resident.activation import activate, activated_tools, active_tools, reset
from ctxalgebra.resident.discovery import Found, Ranking, rank
from ctxalgebra.resident.index import Capability, Index, indexed
from ctxalgebra.resident.policy import ToolPolicy, for_route
from ctxalgebra.resident.reconcile import discoverable, texts

__all__ = ["FIND_CAPABILITY", "LAZY", "TOOL_SEARCH", "respond_discovery"]

_LINE, _NAME = 200, 128
_GUIDANCE, _BODY = 2_000, 20_000
_MOST, _USUAL = 8, 3
_MOST_ACTIVATED = 5
_MOST_NAMES, _MOST_UNKNOWN = 20, 5
_NO_BODIES: Mapping[str, str] = MappingProxyType({})


def _says(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more, "description": description}


LAZY = Tool(
    "lazy",
    "Find and activate tools that are not listed. Search first, then activate by name; activated "
    "tools can be called from your next step on.",
    schema(
        [],
        search=_says("string", "What a tool should do, in a few words"),
        activate=_says("array", "Names of tools to activate", items={"type": "string"}),
        reset=_says("boolean", "Deactivate what was activated"),
    ),
)
"""The gateway of the tool policy: search, activate, reset; without arguments it tells the state."""

FIND_CAPABILITY = Tool(
    "find_capability",
    "Find a tool or a skill by what it should do, and load the best match.",
    schema(
        ["description"],
        description=_says("string", "What it should do, in a few words"),
        kind=_says("string", "Only tools, or only skills", enum=["any", "tool", "skill"]),
        load=_says("boolean", "Load the best match, which is so if left out"),
        top=_says("integer", "Most matches, 3 if left out", minimum=1, maximum=_MOST),
    ),
)
"""The finder of the working memory: search, and load the best match."""

TOOL_SEARCH = Tool(
    "tool_search",
    "Find tools that are not listed, by what they should do, and activate the matches. They can be "
    "called from your next step on.",
    schema(
        ["query"],
        query=_says("string", "What a tool should do, in a few words"),
        limit=_says("integer", "Most tools, 3 if left out", minimum=1, maximum=_MOST_ACTIVATED),
    ),
)
"""The finder of the saver: what matches is activated at once. OpenAI's own tool search has its
name, so a call of that is answered as well."""

_TOOLS: Mapping[str, Tool] = MappingProxyType(
    {tool.name: tool for tool in (LAZY, FIND_CAPABILITY, TOOL_SEARCH)}
)


@frozen
class _Place:
    """What a call is answered with: see `respond_discovery`."""

    session: Session
    policy: ToolPolicy
    registered: tuple[Tool, ...]
    index: Index
    bodies: Mapping[str, str]
    ranking: str | Ranking


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _line(text: str) -> str:
    # A description of nothing but white space is no reason to read all of it.
    return _short(escaped(" ".join(text[: 10 * _LINE].split())), _LINE)


def _named(name: str) -> str:
    return _short(escaped(name[: _NAME + 1]), _NAME)


def _cut(text: str, most: int, rest: str) -> str:
    """Give the beginning of a text that is too long, with a mark that says how to get the rest."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[The first {most:,} of {len(text):,} characters. {rest}]"


def _listed(found: tuple[Found, ...], active: tuple[str, ...]) -> list[str]:
    return [
        f"- [{one.capability.kind}{', active' if one.capability.name in active else ''}] "
        f"{_named(one.capability.name)}: {_line(one.capability.description)}"
        for one in found
    ]


def _search(
    place: _Place, query: str, *, kind: str | None, most: int, active: bool = True
) -> tuple[Found, ...]:
    names = [tool.name for tool in place.registered]
    allowed = {*discoverable(place.policy, names, place.session.head.route)}
    if not active:
        allowed -= {*_active(place)}
    hidden = {item.name for item in place.index.items if item.kind == "tool"} - allowed
    return rank(place.index, query, ranking=place.ranking, kind=kind, left_out=hidden, most=most)


def _when(session: Session) -> str:
    """Say from when on what was activated can be called: a held head waits (rule V-A7)."""
    view = session.view
    soon = "They can be called from your next step on"
    if view.states_head() and view.holds_loop(HEAD):
        return f"{soon}, or, if they are not listed then, from the user's next message on."
    return f"{soon}."


def _guidance(place: _Place, names: list[str]) -> list[str]:
    known = {tool.name: tool for tool in place.registered}
    rest = "All of it stands in the description of the tool, which you have from your next step on."
    texts = [(name, _cut(known[name].description, _GUIDANCE, rest)) for name in names]
    # Guidance keeps its lines, and nothing else that a terminal obeys.
    return [
        f"- {_named(name)}: " + "\n".join(map(escaped, text.splitlines())) for name, text in texts
    ]


def _names(lead: str, names: Sequence[str]) -> list[str]:
    told = ", ".join(map(_named, names[:_MOST_NAMES]))
    more = len(names) - _MOST_NAMES
    return [f"{lead}: {told}{f' and {more:,} more' if more > 0 else ''}."] if names else []


def _active(place: _Place) -> tuple[str, ...]:
    return active_tools(place.session, policy=place.policy, registered=place.registered)


def _unknown(place: _Place, names: list[str]) -> list[str]:
    lines: list[str] = []
    for name in names[:_MOST_UNKNOWN]:
        near = [f.capability.name for f in _search(place, name[:_NAME], kind="tool", most=_USUAL)]
        hint = f" Near it: {', '.join(map(_named, near))}." if near else ""
        lines.append(f"There is no tool {_named(name)}.{hint}")
    return lines + _names("There are none of these either", names[_MOST_UNKNOWN:])


def _asked(names: list[str], known: Collection[str]) -> list[str]:
    """List the names that are asked for, as they are spelled where there is such a tool."""
    spelled = (name if name in known else name.strip() for name in names)
    return list(dict.fromkeys(name for name in spelled if name))


def _activate(place: _Place, names: list[str]) -> tuple[Session, list[str]]:
    known = {tool.name for tool in place.registered}
    asked = _asked(names, known)
    wanted, left = asked[:_MOST_NAMES], len(asked) - _MOST_NAMES
    before = {*_active(place)}
    session = activate(
        place.session, wanted, policy=place.policy, registered=place.registered, by="model"
    )
    after = {*_active(evolve(place, session=session))}
    fresh = [name for name in wanted if name in after and name not in before]
    refused = [n for n in wanted if n not in fresh and n not in before]
    lines = _names("Activated", fresh)
    if fresh:
        lines += [_when(session), *_guidance(place, fresh)]
    lines += _names("Active already", [name for name in wanted if name in before])
    lines += _names("Not allowed", [name for name in refused if name in known])
    lines += _unknown(place, [name for name in refused if name not in known])
    if left > 0:
        lines.append(f"{left:,} more names were passed over: at most {_MOST_NAMES} at once.")
    return session, lines or ["Nothing to activate."]


def _state(place: _Place) -> list[str]:
    active = _active(place)
    names = [tool.name for tool in place.registered]
    allowed = discoverable(place.policy, names, place.session.head.route)
    rest = sum(name not in active for name in allowed)
    return [
        *_names("Active", active),
        *_names("Activated", [n for n in activated_tools(place.session) if n in active]),
        f"{rest} more can be found and activated.",
    ]


def _lazy(place: _Place, given: dict[str, Any]) -> tuple[Session, list[str]]:
    if given.get("reset"):
        session = reset(place.session)
        return session, ["Everything that was activated is given back."]
    if given.get("activate"):
        return _activate(place, given["activate"])
    if "search" in given:
        found = _search(place, given["search"], kind="tool", most=_MOST)
        lines = _listed(found, _active(place))
        return place.session, lines or ["No tool matches. Try other words."]
    return place.session, _state(place)


def _find(place: _Place, given: dict[str, Any]) -> tuple[Session, list[str]]:
    kind = given.get("kind", "any")
    most = max(1, min(_MOST, given.get("top", _USUAL)))
    query = given["description"]
    found = _search(place, query, kind=None if kind == "any" else kind, most=most)
    if not found:
        return place.session, ["Nothing matches. Try other words."]
    lines = _listed(found, _active(place))
    best = found[0].capability
    if not given.get("load", True):
        return place.session, lines
    if best.kind == "tool":
        session, told = _activate(place, [best.name])
        return session, [*lines, *told]
    if best.name in place.bodies:
        body = place.bodies[best.name]
        check_text(body, f"bodies.{best.name}")
        rest = "Load or read the skill by its name to get all of it."
        return place.session, [*lines, "", _cut(body, _BODY, rest)]
    return place.session, lines


def _search_tools(place: _Place, given: dict[str, Any]) -> tuple[Session, list[str]]:
    most = max(1, min(_MOST_ACTIVATED, given.get("limit", _USUAL)))
    found = _search(place, given["query"], kind="tool", most=most, active=False)
    if not found:
        return place.session, ["No tool that is held back matches. Try other words."]
    names = [one.capability.name for one in found]
    session = activate(
        place.session, names, policy=place.policy, registered=place.registered, by="model"
    )
    lines = [*_names("Activated", names), _when(session)]
    return session, [*lines, *_listed(found, ())]


_ANSWERS = MappingProxyType(
    {LAZY.name: _lazy, FIND_CAPABILITY.name: _find, TOOL_SEARCH.name: _search_tools}
)


def respond_discovery(
    session: Session,
    call: ToolCall,
    *,
    policy: ToolPolicy,
    registered: tuple[Tool, ...],
    skills: tuple[Capability, ...] = (),
    bodies: Mapping[str, str] = _NO_BODIES,
    index: Index | None = None,
    ranking: str | Ranking = "default",
) -> tuple[Entry, ...]:
    """Answer a call of `lazy`, `find_capability` or `tool_search`: give what is to be recorded.

    That is the result, and in front of it the snapshot where tools were activated or given back.
    Whatever the model wrote gets an answer: what is wrong with a call is the text of an error
    result, with the code. At most 20 names are activated at once. Names, guidance and bodies are
    cut where they are longer than 128, 2,000 and 20,000 characters, with a mark. Nothing is
    recorded here, and equal sessions get equal answers.

    Args:
        session: holds the call.
        call: its name is that of `LAZY`, `FIND_CAPABILITY` or `TOOL_SEARCH`.
        policy: as it is configured.
        registered: all tools that there are.
        skills: what else can be found.
        bodies: the text of skills by name; where the best match has one, it is shown.
        index: over the tools and skills, where it was made before.
        ranking: as `rank` takes it.

    Raises:
        InvalidArgument: `invalid-argument`, the call is for another tool, or there is no such
            ranking; `wrong-type`; `lone-surrogate`.

    >>> from ctxalgebra import Session, assistant, record, user
    >>> call = ToolCall("c1", "lazy", '{"activate":["web"]}')
    >>> session = record(Session(), user("Look it up"), assistant(call))
    >>> tools = (LAZY, Tool("web", "Search the web"))
    >>> entries = respond_discovery(session, call, policy=ToolPolicy(), registered=tools)
    >>> [type(entry).__name__ for entry in entries], activated_tools(record(session, *entries))
    (['Note', 'Message'], ('web',))
    """
    check_session(session)
    check_type(call, ToolCall, "call")
    check_items(registered, Tool, "registered")
    check_items(skills, Capability, "skills")
    if not isinstance(cast("object", bodies), Mapping):
        raise mistyped(bodies, "a mapping of names to texts", "bodies")
    if index is not None:
        check_type(index, Index, "index")
    if not isinstance(ranking, str):
        check_callable(ranking, "ranking")
    answer = _ANSWERS.get(call.name)
    if answer is None:
        raise InvalidArgument("invalid-argument", f"{call.name!r} finds nothing", field="call")
    known = indexed(registered, skills) if index is None else index
    rank(known, "", ranking=ranking)
    place = _Place(session, policy, registered, known, bodies, ranking)
    if not for_route(policy, session.head.route).enabled:
        return (tool_result(call.id, "Tools are not switched here.", name=call.name),)
    try:
        asked = arguments_of(call, _TOOLS[call.name])
        texts(asked.get("activate", ()), "activate")
    except CtxError as error:
        return (tool_result(call.id, str(error), name=call.name, error=True),)
    after, lines = answer(place, asked)
    result = tool_result(call.id, "\n".join(lines), name=call.name)
    if after is session or after.leaf is None:
        return (result,)
    return after.leaf.entry, result
