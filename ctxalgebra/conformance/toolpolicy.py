"""The area `toolpolicy`: which tools are active, by the original's own rules without their faults.

The rules stand in `ctxalgebra.compat.toolpolicy_*`; what they do otherwise than the original stands
in the documentation (differences).
"""

from __future__ import annotations

from typing import Any, cast

from attrs import evolve

from ctxalgebra.compat import toolpolicy_config as config_rules
from ctxalgebra.compat import toolpolicy_search as search_rules
from ctxalgebra.compat import toolpolicy_session as gateway
from ctxalgebra.conformance.memory import truncate_head, truncate_tail
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.values import InvalidInput

__all__ = ["OPERATIONS"]


def _texts(value: Any, where: str) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, str) for item in items):
        raise InvalidInput(f"{where}: expected a list of texts")
    return cast("list[str]", items)


def _objects(value: Any, where: str) -> tuple[dict[str, Any], ...]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, dict) for item in items):
        raise InvalidInput(f"{where}: expected a list of objects")
    return tuple(cast("list[dict[str, Any]]", items))


def _model(value: dict[str, Any]) -> tuple[str, str]:
    provider, id = value.get("provider"), value.get("id")
    if not (isinstance(provider, str) and isinstance(id, str)):
        raise InvalidInput("input.model: expected provider and id")
    return provider, id


def _policy(cfg: dict[str, Any]) -> dict[str, Any]:
    return config_rules.resolve_config(cfg)


# Configuration


def deep_merge(*, base: Any = None, override: Any = None) -> Any:
    """Merge configuration values."""
    return config_rules.deep_merge(base, override)


def normalize_lazy_tools_config(*, value: Any = None) -> Any:
    """Keep what is valid of a configuration."""
    return config_rules.normalize_config(value)


def normalize_model_override(*, value: Any = None) -> Any:
    """Keep what is valid of an override."""
    return config_rules.normalize_override(value)


def resolve_lazy_tools_config(*, config: Any = None, model: dict[str, Any] | None = None) -> Any:
    """Give the policy for a model."""
    return config_rules.resolve_config(config, None if model is None else _model(model))


def glob_match(*, pattern: str, text: str) -> Any:
    """Match a text with wildcards."""
    return config_rules.glob_match(pattern, text)


def matches_model(*, pattern: str, model: dict[str, Any]) -> Any:
    """Match a model."""
    return config_rules.matches_model(pattern, *_model(model))


def load_config(*, file: Any = None) -> Any:
    """Load a configuration file."""
    config, problems = config_rules.load_config(file)
    return {"config": config, "errors": problems}


def get_always_active_tools(*, cfg: dict[str, Any]) -> Any:
    """List what is always active."""
    return config_rules.always_active(_policy(cfg))


# Search and sizes


def build_lazy_tool_catalog(*, cfg: dict[str, Any], tools: list[dict[str, Any]]) -> Any:
    """List what the prompt names."""
    return search_rules.catalogue(_policy(cfg), tools)


def estimate_tool_bytes(*, tool: dict[str, Any]) -> Any:
    """Weigh a tool."""
    return search_rules.tool_bytes(tool)


def format_bytes(*, n: float) -> Any:
    """Write a size for the status."""
    return search_rules.format_bytes(n)


def format_size(*, n: float) -> Any:
    """Write a size as the host does."""
    return search_rules.format_size(n)


def search_terms(*, query: str) -> Any:
    """List the words of a query."""
    return search_rules.search_terms(query)


def find_matching_tools(
    *,
    tools: list[dict[str, Any]],
    query: str,
    always_active: list[str],
    disabled: list[str],
) -> Any:
    """Rank tools."""
    return search_rules.find_tools(tools, query, {*always_active, *disabled})


# A session


def _lazy(known: gateway.Gateway, params: Any) -> tuple[gateway.Gateway, dict[str, Any]]:
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    search = given.get("search")
    if search is None:
        search = "" if "search" in given else None
    elif not isinstance(search, str):
        raise InvalidInput("input.ops: search is a text")
    names = given.get("activate")
    names = [] if names is None else _texts(names, "input.ops: activate")
    reset = given.get("reset")
    truth = isinstance(reset, list | dict) or bool(reset)  # as the host's language takes them
    known, called = gateway.call(known, search=search, activate=names, reset=truth)
    if called is None:
        return known, {"off": True}
    told: dict[str, Any] = {
        "activated": known.activated,
        "matches": called.matches,
        "newlyActivated": called.added,
        "disabledNames": called.disabled,
        "unknownNames": called.unknown,
    }
    if (weighed := called.status) is not None:
        told["status"] = {
            "activeSize": weighed.active,
            "totalSize": weighed.total,
            "percent": weighed.percent,
        }
    return known, {name: value for name, value in told.items() if value is not None}


def _cfg(op: dict[str, Any]) -> dict[str, Any] | None:
    cfg = op.get("cfg")
    if cfg is not None and not isinstance(cfg, dict):
        raise InvalidInput("input.ops: cfg is an object")
    return None if cfg is None else _policy(cast("dict[str, Any]", cfg))


def _step(known: gateway.Gateway, op: dict[str, Any]) -> tuple[gateway.Gateway, dict[str, Any]]:
    match op.get("op"):
        case "sessionStart":
            return gateway.start(known), {}
        case "beforeAgentStart" | "toolExecutionEnd":
            return gateway.reconcile(known), {}
        case "modelChange":
            policy = _cfg(op)
            changed = known if policy is None else evolve(known, policy=policy)
            return gateway.reconcile(changed), {}
        case "reset":
            return gateway.shutdown(known), {}
        case "lazy":
            return _lazy(known, op.get("params"))
        case "setTools":
            return evolve(known, tools=_objects(op.get("tools"), "input.ops: tools")), {}
        case "setActive":
            names = _texts(op.get("active"), "input.ops: active")
            return evolve(known, active=tuple(names)), {}
        case "catalog":
            listed = _cfg(op) or known.policy
            return known, {"catalog": search_rules.catalogue(listed, known.tools)}
        case name:
            raise InvalidInput(f"input.ops: there is no operation {name!r}")


def lazy_tools_session(
    *, cfg: dict[str, Any], tools: list[dict[str, Any]], ops: list[dict[str, Any]]
) -> Any:
    """Play a session of the gateway, and say which tools are active after each step."""
    known = gateway.Gateway(_policy(cfg), tuple(tools))
    results: list[Any] = []
    for op in ops:
        known, told = _step(known, op)
        results.append({"active": list(known.active), **told})
    return results


OPERATIONS = collect(
    "toolpolicy",
    deep_merge,
    normalize_lazy_tools_config,
    normalize_model_override,
    resolve_lazy_tools_config,
    glob_match,
    matches_model,
    load_config,
    get_always_active_tools,
    build_lazy_tool_catalog,
    estimate_tool_bytes,
    format_bytes,
    search_terms,
    find_matching_tools,
    lazy_tools_session,
    truncate_head,
    truncate_tail,
    format_size,
)
