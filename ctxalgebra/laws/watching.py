"""Watch a stage while laws ask it: what it raises, and whether it gives two answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ctxalgebra.errors import LawViolation

__all__ = ["Watched"]


class Watched:
    """Hand on to a function, and remember what no other law may be blamed for.

    A law that asks the function on values of its own making can't tell that it raised there, or
    that it answered otherwise before. A watched one tells, by `blame`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        wrong: Callable[[Any], str | None],
        place: Callable[[Any], str],
        differ: Callable[[Any, Any, Any], str],
    ) -> None:
        """Take a function, and three that find words.

        Args:
            function: of one value, a session or an array.
            wrong: says of an answer why it is none.
            place: names the function on a value, as the subject of a sentence.
            differ: says of a value and two answers how these differ.
        """
        self._function = function
        self._wrong = wrong
        self._place = place
        self._differ = differ
        self._failed: tuple[Any, str, BaseException | None] | None = None
        self._moody: tuple[Any, Any, Any] | None = None
        # By identity: the value is kept, so that no other gets its place.
        self._answers: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        """Ask the function; whatever goes wrong comes out as an `Exception`."""
        answer, fault, error = self._asked(value)
        if fault is not None:
            self._failed = self._failed or (value, fault, error)
            raise RuntimeError(fault) from error
        _, first = self._answers.setdefault(id(value), (value, answer))
        if self._moody is None and first != answer:
            self._moody = value, first, answer
        return answer

    def _asked(self, value: Any) -> tuple[Any, str | None, BaseException | None]:
        try:
            answer = self._function(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a stage may not end the process either
            return None, f"raises {type(error).__name__}: {error}", error
        return answer, self._wrong(answer), None

    def blame(self) -> None:
        """Raise what was seen so far: `determinism` if it gave two answers, `totality` if none."""
        if self._failed is not None:
            value, fault, error = self._failed
            if self._asked(value)[1] is None:
                raise LawViolation(
                    "determinism", f"{self._place(value)} {fault}, and asked again it does not",
                    value,
                ) from error  # fmt: skip
            raise LawViolation("totality", f"{self._place(value)} {fault}", value) from error
        if self._moody is not None:
            value, first, again = self._moody
            raise LawViolation("determinism", self._differ(value, first, again), value, again)
