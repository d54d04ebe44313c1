"""The part of `skills` that goes over a session: stored profiles, scope, searches and loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ctxalgebra.compaction.jsontext import parse, plain
from ctxalgebra.compat.skills_ranking import rank_skills
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.skills_records import most
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills import profiles as stored
from ctxalgebra.skills import session as sessions
from ctxalgebra.skills.config import record
from ctxalgebra.skills.given import members, number
from ctxalgebra.skills.records import Skill, from_prompt
from ctxalgebra.skills.scope import Scope

__all__ = ["OPERATIONS"]

_Object = dict[str, Any]

_MANAGER = "skill-manager.json"
_LEGACY = f"{_MANAGER}.legacy-v1.json"


def _document(value: object) -> Any:
    """Read a document; a text is what the file holds, and stays one where it is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return plain(parse(value))
    except ValueError:
        return value


def _told(opened: stored.Opened, profile: stored.Profile) -> _Object:
    return {
        "id": profile.id,
        "name": profile.name,
        "description": profile.description,
        "active": profile.id == opened.active.id,
    }


def _listed(opened: stored.Opened) -> list[_Object]:
    return [_told(opened, profile) for profile in opened.profiles]


def _loaded(store: stored.Profiles) -> tuple[stored.Opened, _Object]:
    """Read the store; where it can't be read, nothing is changed and the default stands in."""
    failed: _Object = {}
    try:
        opened = stored.opened(store)
    except InvalidArgument:
        opened, failed = stored.fallback(store), {"error": "<error>"}
    return opened, {
        "config": record(opened.active.config),
        "activeProfile": _told(opened, opened.active),
        "profiles": _listed(opened),
        **failed,
    }


def _dump(store: stored.Profiles) -> _Object:
    files = {_MANAGER: store.manager, _LEGACY: store.legacy}
    found = {name: document for name, document in files.items() if document is not None}
    return found | {f"skill-profiles/{id}.json": each for id, each in store.profiles.items()}


_CHANGES: Mapping[str, Callable[[stored.Profiles, _Object], stored.Opened]] = {
    "saveActiveConfig": lambda store, op: stored.save(store, op.get("config")),
    "createProfile": lambda store, op: stored.add(store, op.get("name"), op.get("description")),
    "switchProfile": lambda store, op: stored.switch(store, op.get("id")),
    "updateProfile": lambda store, op: stored.change(
        store, op.get("id"), name=op.get("name"), about=op.get("description")
    ),
    "deleteProfile": lambda store, op: stored.remove(store, op.get("id")),
}


def profile_store(
    *, manager: Any = None, profiles: dict[str, Any] | None = None, ops: list[_Object]
) -> Any:
    """Store profiles."""
    documents = {id: _document(each) for id, each in (profiles or {}).items()}
    store = stored.Profiles(_document(manager), documents)
    results: list[Any] = []
    for op in ops:
        name = op.get("op")
        if name == "dump":
            results.append(_dump(store))
        elif name in ("load", "listProfiles"):
            opened, told = _loaded(store)
            store = opened.store
            results.append(told if name == "load" else told["profiles"])
        elif change := _CHANGES.get(str(name)):
            try:
                opened = change(store, op)
            except InvalidArgument:
                results.append({"ok": False, "error": "<error>"})
                continue
            store = opened.store
            results.append(
                {
                    "ok": True,
                    "config": record(opened.active.config),
                    "profile": _told(opened, opened.active),
                    "profiles": _listed(opened),
                }
            )
        else:
            raise InvalidInput(f"input.ops: there is no operation {name!r}")
    return results


def _search(now: sessions.Skills, params: Mapping[str, object]) -> tuple[sessions.Skills, _Object]:
    query = params.get("query")
    if not isinstance(query, str):
        raise InvalidInput("input.ops: query is a text")
    now, found = sessions.asked(
        now,
        query,
        rank=rank_skills,
        everywhere=params.get("scope") == "global",
        limit=most(number(params.get("limit")), 5),
    )
    details = {
        "activeScope": sessions.scope_of(now).label,
        "searchScope": found.where,
        "query": query,
        "matches": [skill.name for skill in found.skills],
    }
    return now, {"details": details, "isError": False}


def _load(now: sessions.Skills, params: Mapping[str, object], read: sessions.Read) -> _Object:
    name = params.get("name")
    if not isinstance(name, str):
        raise InvalidInput("input.ops: name is a text")
    label = sessions.scope_of(now).label
    try:
        may, found = sessions.loaded(now, name, read)
    except InvalidArgument:
        return {"details": {"root": name}, "isError": True}
    if found is None:
        manual = {"manualOnly": True}
        outside = {"activeScope": label, "fallbackAuthorized": False}
        details = {"root": name, **(manual if may == "manual-only" else outside)}
        return {"details": details, "isError": True}
    details = {
        "roots": list(found.roots),
        "loaded": [skill.name for skill, _ in found.bodies],
        "missing": list(found.missing),
        "cycles": list(map(list, found.cycles)),
        "selection": may,
        "activeScope": label,
    }
    return {"details": details, "isError": False}


def session(*, config: Any = None, skills: list[_Object], ops: list[_Object]) -> Any:
    """Search and load skills over a session.

    A skill is read from its `body`, and says something that refers to no other where it has none.
    """
    given = [{"filePath": f"/skills/{each.get('name')}/SKILL.md", **each} for each in skills]
    texts = {str(each.get("name")): each.get("body") for each in given}

    def read(skill: Skill) -> str:
        text = texts.get(skill.name)
        return text if isinstance(text, str) else "Do it."

    document = {**members(config), "profileId": "default", "profileName": "Default"}
    manager = {"version": 2, "activeProfileId": "default"}
    opened, _ = _loaded(stored.Profiles(manager, {"default": document}))
    now = sessions.Skills(from_prompt(given), opened)
    results: list[Any] = []
    for op in ops:
        name, params, tool = op.get("op"), members(op.get("params")), op.get("name")
        told: _Object | None = None
        if name == "session_start":
            now = sessions.chosen(now, Scope())
        elif name == "input" and isinstance(op.get("text"), str):
            now, typed = sessions.typed(now, op["text"], read)
            told = {"action": typed.action}
        elif name == "tool" and tool == "skill_search":
            now, told = _search(now, params)
        elif name == "tool" and tool == "skill":
            told = _load(now, params, read)
        elif name != "before_agent_start":
            raise InvalidInput(f"input.ops: there is no operation {name!r} like this")
        results.append(told)
    return results


OPERATIONS = collect("skills", profile_store, session)
