"""The policy: which tools stand in the head, from layered configuration and overrides for models.

Unlike the original's loader (`ctxalgebra.compat.toolpolicy_config`), which takes defaults for what
is not valid, this one refuses it and names the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from attrs import evolve, frozen

from ctxalgebra.compat.toolpolicy_config import matches_model
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_fields, check_items, check_text, check_type, mistyped
from ctxalgebra.model.head import Route

__all__ = ["LIBRARY", "Conflict", "ToolPolicy", "conflicts", "for_route", "tool_policy"]

_FIELDS = {
    "enabled": "enabled",
    "gateways": "gateways",
    "library": "library",
    "core": "core",
    "alwaysActive": "always_active",
    "disabled": "disabled",
    "externallyManaged": "externally_managed",
}
_OVERRIDES = "modelOverrides"
_LONGEST_PATTERN = 256

LIBRARY = (
    "skill",
    "skill_search",
    "retrieve_output",
    "checkpoint",
    "travel",
    "timeline",
)
"""Names of the tools of this library that a harness answers with it, beside the gateways."""

Override = tuple[tuple[str, Any], ...]
"""Fields of a policy and their values."""


@frozen
class ToolPolicy:
    """Say which tools stand in the head.

    Args:
        enabled: whether tools are added, found and held back; if not, the tools are the harness's
            own, and only what is disabled or gone leaves the head.
        gateways: tools that find and activate the others; active wherever they are registered, and
            never disabled.
        library: tools of this library: as `always_active`, so that a policy that names only the
            harness's own tools does not hold them back.
        core: tools that stay where the harness has them active, whatever else is held back.
        always_active: tools that are active wherever they are registered.
        disabled: tools that are never active.
        externally_managed: tools that somebody else switches: kept where they are active, never
            added, found or activated.
        overrides: pattern and fields for models, in the order in which they apply.

    Raises:
        InvalidArgument: `wrong-type`.
    """

    enabled: bool = True
    gateways: tuple[str, ...] = ("lazy", "find_capability", "tool_search")
    library: tuple[str, ...] = LIBRARY
    core: tuple[str, ...] = ()
    always_active: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    externally_managed: tuple[str, ...] = ()
    overrides: tuple[tuple[str, Override], ...] = ()

    def __attrs_post_init__(self) -> None:
        check_fields(self, enabled=bool)
        lists = ("gateways", "library", "core", "always_active", "disabled", "externally_managed")
        for name in lists:
            check_items(getattr(self, name), str, name)
        check_type(self.overrides, tuple, "overrides")


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise mistyped(value, "a list of names", where)
    items = cast("list[object]", value)
    for at, item in enumerate(items):
        check_text(item, f"{where}[{at}]")
    return tuple(dict.fromkeys(cast("list[str]", items)))


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise mistyped(value, "an object", where)
    given = cast("Mapping[object, Any]", value)
    for name in given:
        check_text(name, where)
    return cast("Mapping[str, Any]", given)


def _fields(layer: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Give the fields that a layer sets; null sets nothing."""
    for name, value in layer.items():
        if name not in _FIELDS:
            raise InvalidArgument("extra-field", f"there is no {name!r}", field=where)
        if value is None:
            continue
        place = f"{where}.{name}"
        if name == "enabled":
            check_type(value, bool, place)
            yield name, value
        else:
            yield _FIELDS[name], _names(value, place)


def tool_policy(*layers: Mapping[str, Any]) -> ToolPolicy:
    """Load a policy from layers of configuration, each laid over the ones before it.

    A field that a layer does not set, or sets to null, is what the layers below say; lists stand
    for the whole list. Overrides for a model merge by pattern in the same way, and apply in the
    order in which the patterns first stand. A pattern with a `/` is about `provider/id` or an id
    with a `/`, any other about the id; `*` is any run of characters and `?` one.

    Args:
        layers: objects with `enabled`, `gateways`, `library`, `core`, `alwaysActive`,
            `disabled`, `externallyManaged`, `modelOverrides` (pattern to an object of the same
            without it).

    Raises:
        InvalidArgument: `wrong-type`; `extra-field`, there is no such field; `invalid-argument`,
            a pattern of more than 256 characters. `field` names the place, the first layer is 0.

    The rule is that of the tool-policy specification, A1 and B1.

    >>> policy = tool_policy({"core": ["read"], "disabled": ["rm"]}, {"disabled": None, "core": []})
    >>> policy.core, policy.disabled
    ((), ('rm',))
    >>> tool_policy({"disabled": ["rm", 5]})
    Traceback (most recent call last):
    ...
    ctxalgebra.errors.InvalidArgument: wrong-type: expected a text, got int (field 0.disabled[1])
    """
    found: dict[str, Any] = {}
    overrides: dict[str, dict[str, Any]] = {}
    for at, layer in enumerate(layers):
        given = dict(_object(layer, str(at)))
        inner = given.pop(_OVERRIDES, None)
        found.update(_fields(given, str(at)))
        where = f"{at}.{_OVERRIDES}"
        for pattern, fields in _object({} if inner is None else inner, where).items():
            if len(pattern) > _LONGEST_PATTERN:
                text = f"a pattern has at most {_LONGEST_PATTERN} characters"
                raise InvalidArgument("invalid-argument", text, field=where)
            if fields is not None:
                place = f"{where}.{pattern}"
                known = overrides.setdefault(pattern, {})
                known.update(_fields(_object(fields, place), place))
    layered = tuple((pattern, tuple(fields.items())) for pattern, fields in overrides.items())
    return ToolPolicy(**found, overrides=layered)


def for_route(policy: ToolPolicy, route: Route | None) -> ToolPolicy:
    """Give the policy for a model: overrides that match apply in order, so the last wins.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> policy = tool_policy({"modelOverrides": {"gpt-*": {"enabled": False}}})
    >>> for_route(policy, Route("openai", "gpt-5")).enabled
    False
    """
    check_type(policy, ToolPolicy, "policy")
    if route is None or not policy.overrides:
        return policy
    check_type(route, Route, "route")
    fields: dict[str, Any] = {}
    for pattern, override in policy.overrides:
        if matches_model(pattern, route.provider, route.model):
            fields.update(override)
    return evolve(policy, **fields) if fields else policy


@frozen
class Conflict:
    """Name a tool that two lists claim, and the list that wins."""

    name: str
    lists: tuple[str, str]
    wins: str


def conflicts(policy: ToolPolicy, route: Route | None = None) -> tuple[Conflict, ...]:
    """List the tools that a policy claims twice, in the order of its lists.

    Args:
        policy: as it is configured.
        route: for which model; None for no override.

    >>> conflicts(tool_policy({"externallyManaged": ["a"], "disabled": ["lazy", "a"]}))
    ... # doctest: +NORMALIZE_WHITESPACE
    (Conflict(name='a', lists=('externally_managed', 'disabled'), wins='disabled'),
     Conflict(name='lazy', lists=('gateways', 'disabled'), wins='gateways'))
    """
    known = for_route(policy, route)
    pairs = [
        ("externally_managed", "disabled", "disabled"),
        ("externally_managed", "always_active", "always_active"),
        ("gateways", "disabled", "gateways"),
        ("core", "disabled", "disabled"),
        ("always_active", "disabled", "disabled"),
    ]
    return tuple(
        Conflict(name, (first, second), wins)
        for first, second, wins in pairs
        for name in getattr(known, first)
        if name in getattr(known, second)
    )
