"""The pipeline `full`: working memory in front of paging, of stages that can be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ctxalgebra.effects import Pending, drive
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_each
from ctxalgebra.model.entries import Answer
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import ceil_div
from ctxalgebra.transforms.memory import memory_stages
from ctxalgebra.transforms.pipeline import Pipeline, Stage, pipeline
from ctxalgebra.transforms.prune import prune_suffix
from ctxalgebra.transforms.select import select
from ctxalgebra.transforms.tagging import RETRIEVAL

__all__ = ["PAGING", "STAGES", "full", "heuristic_tagger"]

STAGES = ("compact", "limit", "fact", "tag", "prune", "select")
"""The stages of `full`, by name, in the order in which they run.

A replay has no model to ask: nothing is digested, facts are found in the text, and what may go is
told by `heuristic_tagger`.
"""

PAGING = ("prune", "select")
"""Those of them that `paging` has."""

# Agents name the same tools differently.
_WRITES = ("write", "edit", "Write", "Edit", "MultiEdit")
_RETRIEVAL = (*RETRIEVAL, "Read", "Grep", "Glob", "LS")
_SHELLS = ("bash", "Bash", "shell", "exec_command")

_KEPT = ("AGENTS.md", "CLAUDE.md", "README", "SKILL.md")


def heuristic_tagger(asks: tuple[Pending, ...], /) -> tuple[Answer, ...]:
    """Answer what an auxiliary model would be asked, by a rule: retrieval may go once it was read.

    What is an instruction by its name stays. Its answers are free.

    >>> from ctxalgebra import Ask
    >>> ask = Ask("tag:3", "tag", '{"longest":24,"prompt":"Tool: read src/a.py"}')
    >>> heuristic_tagger((Pending(4, ask),))[0].value
    '{"decision":"DROP"}'
    """

    def decision(question: str) -> str:
        return "RETAIN" if any(name in question for name in _KEPT) else "DROP"

    return tuple(
        Answer(p.number, "answered", f'{{"decision":"{decision(p.ask.question)}"}}')
        if p.ask.topic == "tag"
        else Answer(p.number, "failed", "a replay has no model to ask")
        for p in asks
    )


def full(stages: Sequence[str] = STAGES, *, budget: int, target: int, measure: Measure) -> Pipeline:
    """Compose the chosen stages, in their order.

    Raises:
        InvalidArgument: `invalid-argument`, no stage of this name; `wrong-type`.

    >>> from ctxalgebra import chars4
    >>> len(full(("limit", "select"), budget=1000, target=500, measure=chars4).stages)
    2
    """
    check_each(stages, str, "stages")
    for name in stages:
        if name not in STAGES:
            text = f"there is no stage {name!r}: {', '.join(STAGES)}"
            raise InvalidArgument("invalid-argument", text, field="stages")
    # Views are shorter than what they stand for: smaller exchanges are worth dropping, too.
    share = 8 if "compact" in stages else 4
    memory = memory_stages(
        shells=_SHELLS, retrieval=_RETRIEVAL, writers=_WRITES, aux=0, measure=measure
    )
    steps: tuple[tuple[str, Stage], ...] = (
        ("compact", memory["compact"]),
        ("limit", memory["limit"]),
        ("fact", memory["fact"]),
        ("tag", partial(drive, stage=memory["tag"], effects=heuristic_tagger)),
        (
            "prune",
            partial(
                prune_suffix, stub_over=target, drop_over=ceil_div(target, share), measure=measure
            ),
        ),
        ("select", partial(select, budget=budget, target=target, measure=measure)),
        ("tag", memory["forget"]),
    )
    return pipeline(*(stage for name, stage in steps if name in stages))
