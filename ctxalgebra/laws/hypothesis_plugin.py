"""Tell Hypothesis how to make sessions, so that `st.from_type(Session)` works once installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["register"]


def register() -> None:
    """Register strategies for the types of the model; Hypothesis calls this when it starts."""
    from hypothesis import strategies as st

    from ctxalgebra.model.head import Head
    from ctxalgebra.model.parts import Message
    from ctxalgebra.model.session import Session

    def make(name: str) -> Callable[[object], st.SearchStrategy[Any]]:
        def strategy(_: object) -> st.SearchStrategy[Any]:
            from ctxalgebra.laws import strategies

            made: st.SearchStrategy[Any] = getattr(strategies, name)()
            return made

        return strategy

    st.register_type_strategy(Session, make("sessions"))
    st.register_type_strategy(Message, make("messages"))
    st.register_type_strategy(Head, make("heads"))
