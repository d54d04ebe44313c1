"""Profiles: configurations of which one is active, as documents that somebody stores.

Pure: a store is a value, and so is what a change makes of it; whoever calls reads and writes files.
Nothing is changed while the documents can't be read. Source: skills and saver, section 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

from attrs import evolve, field, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills.config import Config, configured, record
from ctxalgebra.skills.given import members, text
from ctxalgebra.skills.groups import free_name, slug, token
from ctxalgebra.skills.order import name_order
from ctxalgebra.skills.texts import description

__all__ = [
    "Opened",
    "Profile",
    "Profiles",
    "add",
    "change",
    "fallback",
    "meant",
    "opened",
    "remove",
    "save",
    "switch",
]

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_DEFAULT: Final = "Default"
_NONE: Mapping[str, Any] = MappingProxyType({})


@frozen
class Profiles:
    """Hold the documents.

    Args:
        manager: the one that says which profile is active; None where there is none.
        profiles: those of the profiles, by id; what is no object can't be read.
        legacy: the manager as it was before profiles; None where there is none.
    """

    manager: Any = None
    profiles: Mapping[str, Any] = field(default=_NONE)
    legacy: Any = None


@frozen
class Profile:
    """Hold a profile.

    Args:
        id: lower-case words with hyphens, and the name of its document.
        name: what a person calls it; typed like no other.
        description: what it is for.
        config: what it says.
    """

    id: str
    name: str
    description: str = ""
    config: Config = field(factory=Config)


@frozen
class Opened:
    """Hold documents that were read.

    Args:
        store: the documents as they are to be stored now.
        active: the profile in use.
        profiles: all that can be read, by name.
    """

    store: Profiles
    active: Profile
    profiles: tuple[Profile, ...]


def _wrong(why: str, where: str = "profile") -> InvalidArgument:
    return InvalidArgument("invalid-argument", why, field=where)


def _profile(id: str, document: Any) -> Profile | None:
    """Read the document of a profile; None where it is none, or another one's."""
    given = members(document)
    if not _ID.match(id) or text(given.get("profileId")) != id:
        return None
    try:
        name = free_name(given.get("profileName"), (), "Profile")
        config = configured(given)
    except InvalidArgument:
        return None
    return Profile(id, name, description(given.get("profileDescription")), config)


def _listed(store: Profiles) -> tuple[Profile, ...]:
    found = (_profile(id, document) for id, document in store.profiles.items())
    kept = (profile for profile in found if profile)
    return tuple(sorted(kept, key=lambda profile: name_order(profile.name)))


def _unlike(profiles: tuple[Profile, ...]) -> tuple[Profile, ...]:
    """Refuse profiles that are typed alike."""
    typed: dict[str, str] = {}
    for profile in profiles:
        low = token(profile.name).lower()
        if low in typed:
            raise _wrong(f"{typed[low]} and {profile.name} are typed alike")
        typed[low] = profile.name
    return profiles


def _document(profile: Profile) -> dict[str, Any]:
    return {
        **record(profile.config),
        "profileId": profile.id,
        "profileName": profile.name,
        "profileDescription": profile.description,
    }


def _with(store: Profiles, *profiles: Profile, active: str = "") -> Profiles:
    """Store profiles, and say which one is active."""
    documents = {**store.profiles, **{each.id: _document(each) for each in profiles}}
    manager = {"version": 2, "activeProfileId": active} if active else store.manager
    return evolve(store, profiles=documents, manager=manager)


def _free_id(name: str, store: Profiles) -> str:
    return slug(name, {id for id in store.profiles if _ID.match(id)})


def _read(store: Profiles, active: object) -> Opened:
    profiles = _unlike(_listed(store))
    id = text(active)
    found = next((profile for profile in profiles if profile.id == id), None)
    if found is None:
        raise _wrong(f"there is no profile {id!r} that can be read", "activeProfileId")
    return Opened(store, found, profiles)


def _migrated(store: Profiles, manager: Mapping[str, object]) -> Opened:
    """Make a profile of a manager from before there were profiles."""
    config = configured(manager)
    others = _unlike(_listed(store))
    typed = {token(profile.name).lower() for profile in others}
    first = f"Imported {_DEFAULT}" if others else _DEFAULT
    name, number = first, 2
    while token(name).lower() in typed:
        name = f"{first} {number}"
        number += 1
    made = Profile(_free_id(_DEFAULT, store), name, "", config)
    legacy = manager if store.legacy is None else store.legacy
    return _read(evolve(_with(store, made, active=made.id), legacy=legacy), made.id)


def opened(store: Profiles) -> Opened:
    """Read documents; the first time they are made, and those from before profiles are taken over.

    Raises:
        InvalidArgument: `wrong-type`, a document is no object; `invalid-argument`, another version,
            no such profile, profiles that are typed alike, or as `config.configured`.

    >>> opened(Profiles()).active.name
    'Default'
    """
    if store.manager is None:
        profiles = _unlike(_listed(store))
        if not profiles:
            made = Profile(_free_id(_DEFAULT, store), _DEFAULT)
            return _read(_with(store, made, active=made.id), made.id)
        return _read(_with(store, active=profiles[0].id), profiles[0].id)
    if not isinstance(store.manager, Mapping):
        raise InvalidArgument("wrong-type", "the manager is an object", field="manager")
    manager = members(cast("object", store.manager))
    version = manager.get("version")
    if not isinstance(version, bool):
        if version == 1 or ("version" not in manager and not manager.get("activeProfileId")):
            return _migrated(store, manager)
        if version == 2:
            return _read(store, manager.get("activeProfileId"))
    raise _wrong(f"version {version!r} of the manager is not known", "version")


def fallback(store: Profiles) -> Opened:
    """Give what is used while the documents can't be read: an empty profile that is not stored.

    >>> fallback(Profiles("{bad")).active.name
    'Default'
    """
    stand_in = Profile("default", _DEFAULT)
    return Opened(store, stand_in, (stand_in,))


def save(store: Profiles, config: object) -> Opened:
    """Give the active profile another configuration.

    Raises:
        InvalidArgument: as `opened` and `config.configured`.

    >>> save(Profiles(), {"catalogDescriptionMax": 9}).active.config.shown
    9
    """
    now = opened(store)
    changed = evolve(now.active, config=configured(config))
    return opened(_with(now.store, changed))


def add(store: Profiles, name: object, about: object = "") -> Opened:
    """Make an empty profile, and use it.

    Raises:
        InvalidArgument: as `opened`; `invalid-argument`, the name can't be one or is taken.

    >>> add(Profiles(), "Work A").active.id
    'work-a'
    """
    now = opened(store)
    checked = free_name(name, (profile.name for profile in now.profiles), "Profile")
    made = Profile(_free_id(checked, now.store), checked, description(about))
    return opened(_with(now.store, made, active=made.id))


def _chosen(now: Opened, id: object) -> Profile:
    found = next((profile for profile in now.profiles if profile.id == id), None)
    if found is None:
        raise _wrong(f"there is no profile {id!r}", "id")
    return found


def meant(typed: object, profiles: Sequence[Profile]) -> Profile | None:
    """Choose the profile that a typed text means: what fits best counts, then the first (W37).

    Args:
        typed: a name or id as it is, or in another case, or how a name is typed.
        profiles: what there is.

    >>> meant("B", [Profile("b", "A"), Profile("x", "B")]).id
    'x'
    """
    given = text(typed)
    low, like = given.lower(), token(given).lower()
    fits: list[tuple[int, int]] = []
    for at, each in enumerate(profiles):
        same = (
            each.name == given,
            each.id == given,
            each.name.lower() == low,
            each.id == low,
            token(each.name).lower() == like,
        )
        if True in same:
            fits.append((same.index(True), at))
    return profiles[min(fits)[1]] if fits else None


def switch(store: Profiles, typed: object) -> Opened:
    """Use another profile.

    Args:
        store: the documents.
        typed: as `meant` takes it.

    Raises:
        InvalidArgument: as `opened`; `invalid-argument`, there is none.

    >>> switch(add(Profiles(), "Work A").store, " default ").active.name
    'Default'
    """
    now = opened(store)
    found = meant(typed, now.profiles)
    if found is None:
        raise _wrong(f"there is no profile {typed!r}", "id")
    return opened(_with(now.store, active=found.id))


def change(store: Profiles, id: object, *, name: object = None, about: object = None) -> Opened:
    """Rename or describe a profile; its id stays.

    Args:
        store: the documents.
        id: of the profile.
        name, about: what changes; None for what stays.

    Raises:
        InvalidArgument: as `opened`; `invalid-argument`, there is none, or the name is taken.

    >>> change(Profiles(), "default", name="Main").active.name
    'Main'
    """
    now = opened(store)
    found = _chosen(now, id)
    others = (profile.name for profile in now.profiles if profile.id != found.id)
    called = found.name if name is None else free_name(name, others, "Profile")
    told = found.description if about is None else description(about)
    return opened(_with(now.store, evolve(found, name=called, description=told)))


def remove(store: Profiles, id: object) -> Opened:
    """Take a profile away, unless it is the last one; of the others the first is used then.

    Raises:
        InvalidArgument: as `opened`; `invalid-argument`, there is none, or no other.

    >>> remove(add(Profiles(), "Work").store, "work").active.id
    'default'
    """
    now = opened(store)
    found = _chosen(now, id)
    others = [profile for profile in now.profiles if profile.id != found.id]
    if not others:
        raise _wrong("the last profile stays", "id")
    active = now.active.id if now.active.id != found.id else others[0].id
    left = {key: value for key, value in now.store.profiles.items() if key != found.id}
    return opened(_with(evolve(now.store, profiles=left), active=active))
