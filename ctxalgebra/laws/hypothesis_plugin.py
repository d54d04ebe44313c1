"""Tell Hypothesis how to make values, so that `st.from_type(Session)` works once installed.

What has no rules beyond its types Hypothesis makes by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["register"]

MADE_BY = (
    ("model.session", "Session", "sessions"),
    ("model.session", "Node", "nodes"),
    ("model.view", "View", "views"),
    ("model.parts", "Message", "messages"),
    ("model.head", "Head", "heads"),
    ("model.head", "Usage", "usages"),
    ("model.gate", "Rule", "rules"),
    ("transforms.pipeline", "Pipeline", "pipelines"),
    ("profiles", "Profile", "profiles"),
    ("cache_profiles", "Prices", "prices"),
    ("cache_profiles", "CacheProfile", "cache_profiles"),
    ("breakpoints", "Placed", "placed"),
    ("usage.budget", "Reading", "readings"),
    ("errors", "CtxError", "errors"),
)
"""Module and name of each type, and the strategy that makes it."""


def register() -> None:
    """Register strategies for the public types; Hypothesis calls this when it starts."""
    from hypothesis import strategies as st

    def make(name: str) -> Callable[[object], st.SearchStrategy[Any]]:
        def strategy(kind: object) -> st.SearchStrategy[Any]:
            from ctxalgebra.laws import strategies

            made = getattr(strategies, name)
            found: st.SearchStrategy[Any] = made(kind) if name == "errors" else made()
            return found

        return strategy

    for module, name, maker in MADE_BY:
        kind = getattr(import_module(f"ctxalgebra.{module}"), name)
        for each in (kind, *kind.__subclasses__()) if name == "CtxError" else (kind,):
            st.register_type_strategy(each, make(maker))
