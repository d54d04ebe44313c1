"""A working memory as one pipeline, from its settings."""

from __future__ import annotations

from functools import partial
from math import ceil

from ctxalgebra.ledger import FRESH
from ctxalgebra.model.checks import check_type
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.compact import compact_output
from ctxalgebra.transforms.digest import digest_output
from ctxalgebra.transforms.limit import limit_output
from ctxalgebra.transforms.memory_settings import MemorySettings, Number
from ctxalgebra.transforms.pipeline import CacheState, Pipeline, Stage, pipeline
from ctxalgebra.transforms.tagging import RETRIEVAL, forget, tag_results
from ctxalgebra.transforms.writes import write_facts

__all__ = ["working_memory"]


def working_memory(
    settings: MemorySettings = MemorySettings(),  # noqa: B008 - a value, that can't change
    *,
    compact: bool = True,
    limit: bool = True,
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
    `RETRIEVE` to the model where `compact` is on. Fractions in the settings are rounded up, and
    nothing is smaller than one; sizes in UTF-16 units count as characters.

    Args:
        settings: see `MemorySettings`; `memory_settings` reads them from the environment. What is
            said of skills, tools and the log is not for this pipeline.
        compact: whether outputs are shown as compacted views.
        limit: whether results are limited in bytes and lines.
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
    check_type(settings, MemorySettings, "settings")
    for name, value in (("compact", compact), ("limit", limit), ("model_facts", model_facts)):
        check_type(value, bool, name)
    wait = _whole(settings.aux_timeout_ms)
    digest = partial(
        digest_output,
        over=_whole(settings.bash_min_tokens),
        longest=_whole(settings.bash_max_summary_tokens),
        fallback_bytes=_whole(settings.bash_fallback_bytes),
        measure=measure,
        deadline=wait,
    )
    facts = partial(
        write_facts, over=_whole(settings.write_min_bytes), model=model_facts, deadline=wait
    )
    tags = partial(
        tag_results,
        tools=(*RETRIEVAL, "find_capability"),
        over=_whole(settings.amnesia_min_tokens),
        longest=_whole(settings.amnesia_max_input_chars),
        horizon=horizon,
        regret=regret,
        aux=aux,
        measure=measure,
        deadline=wait,
    )
    lets_go = partial(forget, horizon=horizon, regret=regret, aux=aux, measure=measure, cache=cache)
    stages: tuple[tuple[bool, Stage], ...] = (
        (settings.bash, digest),
        (compact, compact_output),
        (limit, limit_output),
        (settings.write, facts),
        (settings.amnesia, tags),
        (settings.amnesia, lets_go),
    )
    return pipeline(*(stage for wanted, stage in stages if settings.enabled and wanted))


def _whole(number: Number) -> int:
    return max(1, ceil(number))
