"""What the original working memory takes from its auxiliary model, and which model that is.

How a tagger's reply is read is `ctxalgebra.transforms.facts.verdict`: the original drops also what
merely holds the word (fault W13), and nothing here does (specification of the working memory,
section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ctxalgebra.compat.memory_texts import extract_text
from ctxalgebra.utf16 import trim

__all__ = ["reply_text", "resolve_model", "said"]

Model: TypeAlias = Mapping[str, Any]


def said(reply: str | None) -> str | None:
    r"""Give a reply without white space around it; None for one that says nothing.

    >>> said(" a\n"), said(" \n")
    ('a', None)
    """
    return trim(reply or "") or None


def reply_text(blocks: Sequence[object]) -> str | None:
    r"""Give what an answer says: its texts, a line each; None for nothing.

    >>> reply_text([{"type": "text", "text": " a "}, {"type": "text", "text": "b\n"}])
    'a \nb'
    """
    return said(extract_text(list(blocks)))


def resolve_model(
    aux_model: str | None, active: Model | None, registry: Sequence[Model]
) -> Model | None:
    """Choose the auxiliary model.

    A name of the form `provider/id` is looked up as it is; then its id under the provider of the
    active model; what is not found leaves the active model.

    Args:
        aux_model: a name; None or empty for none.
        active: the model of the session, with `provider` and `id`; None without one.
        registry: the models that there are.

    >>> registry = [{"provider": "a", "id": "b/c"}, {"provider": "p", "id": "x"}]
    >>> resolve_model("a/b/c", {"provider": "p", "id": "y"}, registry)["id"]
    'b/c'
    >>> resolve_model("/x", {"provider": "p", "id": "y"}, registry)["id"]
    'x'
    """
    if not aux_model:
        return active
    provider, slash, name = aux_model.partition("/")
    if not slash:
        provider, name = "", aux_model
    wanted: list[tuple[Any, str]] = [(provider, name)] if provider else []
    if active is not None:
        wanted.append((active.get("provider"), name))
    for pair in wanted:
        for model in registry:
            if (model.get("provider"), model.get("id")) == pair:
                return model
    return active
