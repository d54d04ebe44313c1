"""A working memory as one pipeline, from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil

from ctxalgebra.ledger import FRESH
from ctxalgebra.model.checks import check_items, check_type
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.compact import compact_output, exact
from ctxalgebra.transforms.digest import digest_output
from ctxalgebra.transforms.limit import limit_output
from ctxalgebra.transforms.memory_settings import MemorySettings, Number
from ctxalgebra.transforms.pipeline import CacheState, Pipeline, Stage, pipeline
from ctxalgebra.transforms.tagging import RETRIEVAL, forget, tag_results
from ctxalgebra.transforms.writes import write_facts

__all__ = ["memory_stages", "working_memory"]

_EXACT_BYTES, _EXACT_LINES = 204_800, 20_000
"""Limits of what must be read word by word: ten times those of other results."""


def memory_stages(
    settings: MemorySettings = MemorySettings(),  # noqa: B008 - a value, that can't change
    *,
    shells: tuple[str, ...] = ("bash",),
    retrieval: tuple[str, ...] = RETRIEVAL,
    writers: tuple[str, ...] = ("write", "edit"),
    save: bool = False,
    model_facts: bool = False,
    horizon: int = 20,
    regret: int = 50,
    aux: int = FRESH,
    measure: Measure = chars4,
    cache: CacheState = "unknown",
) -> Mapping[str, Stage]:
    """Give the stages of a working memory by name, in their order, whatever the settings switch.

    Args: as in `working_memory`.

    >>> list(memory_stages())
    ['digest', 'compact', 'limit', 'fact', 'tag', 'forget']
    """
    check_type(settings, MemorySettings, "settings")
    for name, tools in (("shells", shells), ("retrieval", retrieval), ("writers", writers)):
        check_items(tools, str, name)
    for name, value in (("save", save), ("model_facts", model_facts)):
        check_type(value, bool, name)
    wait = _whole(settings.aux_timeout_ms)
    digest = partial(
        digest_output,
        tools=shells,
        over=_whole(settings.bash_min_tokens),
        longest=_whole(settings.bash_max_summary_tokens),
        fallback_bytes=_whole(settings.bash_fallback_bytes),
        measure=measure,
        deadline=wait,
    )
    limit = partial(limit_output, tools=(*shells, *retrieval), tail=shells, save=save, hold=True)
    limits = pipeline(
        partial(limit, passes=exact),
        partial(limit, max_bytes=_EXACT_BYTES, max_lines=_EXACT_LINES),
    )
    facts = partial(
        write_facts,
        tools=writers,
        over=_whole(settings.write_min_bytes),
        model=model_facts,
        longest=_whole(settings.write_fact_max_tokens),
        shown=_whole(settings.write_max_content_chars),
        deadline=wait,
    )
    tags = partial(
        tag_results,
        tools=(*retrieval, "find_capability"),
        over=_whole(settings.amnesia_min_tokens),
        longest=_whole(settings.tag_max_tokens),
        shown=_whole(settings.amnesia_max_input_chars),
        horizon=horizon,
        regret=regret,
        aux=aux,
        measure=measure,
        deadline=wait,
    )
    lets_go = partial(forget, horizon=horizon, regret=regret, aux=aux, measure=measure, cache=cache)
    return {
        "digest": digest,
        "compact": compact_output,
        "limit": limits,
        "fact": facts,
        "tag": tags,
        "forget": lets_go,
    }


def working_memory(
    settings: MemorySettings = MemorySettings(),  # noqa: B008 - a value, that can't change
    *,
    compact: bool = True,
    limit: bool = True,
    shells: tuple[str, ...] = ("bash",),
    retrieval: tuple[str, ...] = RETRIEVAL,
    writers: tuple[str, ...] = ("write", "edit"),
    save: bool = False,
    model_facts: bool = False,
    horizon: int = 20,
    regret: int = 50,
    aux: int = FRESH,
    measure: Measure = chars4,
    cache: CacheState = "unknown",
) -> Pipeline:
    """Compose the stages of a working memory (a pipeline, to be run by `drive`).

    Digests of command output, compacted views, limits, facts of writes, and what may go once it was
    read; `settings` says which and from which size on. Put `select` behind it, and give the tool
    `RETRIEVE` to the model where `compact` or `limit` is on: what either leaves out is held for it.
    Fractions in the settings are rounded up, and nothing is smaller than one; sizes in UTF-16 units
    count as characters.

    Limits are those of `limit_output`. What must be read word by word, which compaction passes (the
    output a program reads, files about to be edited, instructions), is cut over 204,800 bytes or
    20,000 lines only.

    Args:
        settings: see `MemorySettings`; `memory_settings` reads them from the environment. What is
            said of skills, tools and the log is not for this pipeline, and whom to ask
            (`aux_model`) is the adapter's: it performs the asks.
        compact: whether outputs are shown as compacted views.
        limit: whether results are limited in bytes and lines.
        shells, retrieval, writers: names of the tools that run commands, that read and search, and
            that write files, as the agent's head has them.
        save: whether the full text of what is limited is saved first, as in `limit_output`.
        model_facts: whether a model words the facts of writes; else they are found in the text.
        horizon, regret, aux: see `tag_results` and `forget`.
        measure: tokens of a message.
        cache: state of the provider's cache.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> len(working_memory().stages)
    6
    >>> working_memory(MemorySettings(enabled=False)).stages
    ()
    """
    stages = memory_stages(
        settings,
        shells=shells,
        retrieval=retrieval,
        writers=writers,
        save=save,
        model_facts=model_facts,
        horizon=horizon,
        regret=regret,
        aux=aux,
        measure=measure,
        cache=cache,
    )
    for name, value in (("compact", compact), ("limit", limit)):
        check_type(value, bool, name)
    wanted = {
        "digest": settings.bash,
        "compact": compact,
        "limit": limit,
        "fact": settings.write,
        "tag": settings.amnesia,
        "forget": settings.amnesia,
    }
    return pipeline(*(stages[name] for name in stages if settings.enabled and wanted[name]))


def _whole(number: Number) -> int:
    return max(1, ceil(number))
