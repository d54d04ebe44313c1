"""Compose stages, and the words that stages share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.session import Session

__all__ = ["CacheState", "Pipeline", "Stage", "check_cache", "pipeline"]

Stage = Callable[[Session], Session]
"""Looks at a session and records decisions (or asks); returns the same object when it has none."""

CacheState = Literal["warm", "cold", "unknown"]
"""What the adapter knows of the provider's cache; in a cold cache breaks are free."""


@frozen
class Pipeline:
    """Run stages from left to right: itself a stage, a value, and equal by its stages."""

    stages: tuple[Stage, ...]

    def __call__(self, session: Session) -> Session:
        """Settle the session: give it to each stage in turn."""
        for stage in self.stages:
            given = cast("object", stage(session))
            # Whatever its type says: a stage without a return is the commonest slip.
            if not isinstance(given, Session):
                raise InvalidArgument(
                    "wrong-type", f"{stage!r} gave {type(given).__name__}, not a session"
                )
            session = given
        return session


def pipeline(*stages: Stage) -> Pipeline:
    """Compose stages into one; parameters are bound with `functools.partial`.

    Each stage sees what the ones before it decided. When one raises, nothing of the run is
    recorded in the session that was passed in, which can still be sent.

    Raises:
        InvalidArgument: `wrong-type`, a stage can't be called.

    >>> from functools import partial
    >>> from ctxalgebra import Session, record, select, user
    >>> settle = pipeline(partial(select, budget=64_000))
    >>> session = record(Session(), user("hi"))
    >>> settle(session) is session
    True
    """
    for stage in stages:
        if not callable(stage):
            raise InvalidArgument("wrong-type", f"{stage!r} is no stage", field="stages")
    return Pipeline(stages)


def check_cache(cache: CacheState) -> None:
    """Refuse a state of the cache that does not exist."""
    if cache not in ("warm", "cold", "unknown"):
        raise InvalidArgument("invalid-argument", "a cache is warm, cold or unknown", field="cache")
