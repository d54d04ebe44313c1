"""What a filter chose, as data.

A selection accounts for every line of its text: each is shown, counted by a mark, or blank. What
is shown of it is worded by `lines_render`; a mark can't say anything but the truth (W8, W13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from attrs import evolve, frozen

from ctxalgebra.compaction.lines_text import Lines
from ctxalgebra.compaction.signals import ERROR, fold, units

__all__ = [
    "Filter",
    "Kept",
    "Mark",
    "Selection",
    "bounded",
    "cut",
    "folded",
    "gaps",
    "omitted",
    "select",
    "untouched",
]

_NUMBER = len("    1 | ")
_HUGE, _ROOM = 2000, (1500, 300)
"""Beyond how many UTF-16 units a line is cut, and how many of its start and its end stay."""


def _fit(text: str, size: int) -> int:
    """Give how many characters at the start have at most `size` units."""
    used = 0
    for at, char in enumerate(text[:size]):
        used += 2 if char > "\uffff" else 1
        if used > size:
            return at
    return min(size, len(text))


def cut(text: str, head: int, tail: int) -> tuple[str, str, str]:
    r"""Part a text into its start, its middle and its end, and no character (W12).

    Args:
        text: a text of more than `head + tail` UTF-16 units.
        head: the most units of the start.
        tail: the most units of the end.

    >>> cut("ab\U0001f600cdef", 3, 2)
    ('ab', '😀cd', 'ef')
    """
    start = _fit(text, head)
    end = len(text) - _fit(text[: -tail - 1 : -1], tail)
    return text[:start], text[start:end], text[end:]


@frozen
class Kept:
    """Hold a line that is shown, and where it stood.

    Args:
        text: the line as it was, but for terminal sequences and white space at its end.
        at: the numbers of the lines that it stands for, from 1, ascending.
        room: how many UTF-16 units of its start and its end are shown; None for all.
        alike: whether the lines are alike only, and differ by time, number or name.
    """

    text: str
    at: tuple[int, ...]
    room: tuple[int, int] | None = None
    alike: bool = False

    @property
    def shown(self) -> str:
        """The text, with an ellipsis for what is cut out, and the number of repeats."""
        text = self.text
        if self.room:
            head, _, tail = cut(text, *self.room)
            text = f"{head}…{tail}"
        return f"{text}  ×{len(self.at)}" if len(self.at) > 1 else text

    @property
    def marked(self) -> str:
        """The text with how much is cut out, and the number of repeats."""
        text = self.text
        if self.room:
            head, middle, tail = cut(text, *self.room)
            words = ", error words among them" if ERROR.search(middle) else ""
            text = f"{head}…[{len(middle)} characters omitted{words}]…{tail}"
        if len(self.at) == 1:
            return text
        return f"{text}  ×{len(self.at)}{' alike' if self.alike else ''}"


@frozen
class Mark:
    """Count lines that are not shown.

    Args:
        before: the kept line in front of which the mark stands; their number at the end.
        lines: how many lines.
        errors: how many of them have a word of an error.
        kind: what they are; `lines` are those of one gap.
        of: how many patterns they are of, or how many lines the group has.
        name: of a group.
        instead: the lines of a gap, where they are no longer than the words of the mark.
    """

    before: int
    lines: int
    errors: int = 0
    kind: Literal["lines", "patterns", "progress", "group", "other"] = "lines"
    of: int = 0
    name: str = ""
    instead: tuple[Kept, ...] = ()


def omitted(lines: int, errors: int = 0) -> str:
    """Word the mark of a gap.

    >>> omitted(1), omitted(9, 2)
    ('… 1 line omitted …', '… 9 lines omitted, 2 with error words …')
    """
    words = f", {errors} with error words" if errors else ""
    return f"… {lines} {'line' if lines == 1 else 'lines'} omitted{words} …"


@frozen
class Selection:
    """Hold what a filter keeps of a text, and account for the rest.

    The lines that the kept ones stand for, those that marks count, and the blank ones are `total`.

    Args:
        strategy: the filter.
        total: how many lines the text has.
        kept: what is shown, in its order.
        marks: what is not, by place.
        blank: how many blank lines neither shows.
        passes: how many lines say that something passed, shown or not.
        progress: how many tell progress, shown or not.
        focused: whether it is the surroundings of errors.
        numbered: whether lines are shown with their numbers.
    """

    strategy: str
    total: int
    kept: tuple[Kept, ...]
    marks: tuple[Mark, ...]
    blank: int
    passes: int = 0
    progress: int = 0
    focused: bool = False
    numbered: bool = False

    @property
    def omitted(self) -> int:
        """How many lines the marks count."""
        return sum(mark.lines for mark in self.marks)


Filter = Callable[[str, str, int], Selection | None]
"""Takes a text, the query and the pressure; None where nothing is gained."""


def folded(lines: Lines, places: Iterable[int]) -> list[Kept]:
    r"""Show lines, equal neighbours once.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> from ctxalgebra.compaction.lines_text import read
    >>> [kept.shown for kept in folded(read("a\nb\nb", "", DEFAULT), [1, 2])]
    ['b  ×2']
    """
    chosen = list(places)
    runs = fold(lines.all[place] for place in chosen)
    return [Kept(run.text, tuple(chosen[at] + 1 for at in run.at)) for run in runs]


def gaps(lines: Lines, kept: Sequence[Kept], *, number: int = 0) -> tuple[list[Mark], int]:
    r"""Count what lies between kept lines: a mark for each gap, and blank lines that need none.

    Args:
        lines: of the text.
        kept: what is shown, ascending by the first line that each stands for.
        number: how long the number in front of a line is.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> from ctxalgebra.compaction.lines_text import read
    >>> marks, blank = gaps(read("a\n\nb\nerror\n", "", DEFAULT), [Kept("b", (3,))])
    >>> [(mark.before, mark.lines, mark.errors) for mark in marks], blank
    ([(0, 2, 0), (1, 2, 1)], 0)
    """
    shown = {number for item in kept for number in item.at}
    marks: list[Mark] = []
    start, silent = 0, 0
    for index, end in enumerate([*(item.at[0] for item in kept), len(lines.all) + 1]):
        left = [place for place in range(start, end - 1) if place + 1 not in shown]
        start = end
        if all(lines.blank[place] for place in left):
            silent += len(left)
        else:
            errors = sum(lines.errors[place] for place in left)
            instead = _instead(lines, left, len(omitted(len(left), errors)), number)
            marks.append(Mark(index, len(left), errors, instead=instead))
    return marks, silent


def _instead(lines: Lines, left: Sequence[int], room: int, number: int) -> tuple[Kept, ...]:
    """Give the lines of a gap that have no more units than the mark; none by the original's."""
    written = [place for place in left if not lines.blank[place]]
    size = sum(units(lines.all[place]) + number + 1 for place in written) - 1
    if lines.rules.small_gaps or size > room:
        return ()
    return tuple(Kept(lines.all[place], (place + 1,)) for place in written)


def bounded(lines: Lines, kept: Iterable[Kept]) -> tuple[Kept, ...]:
    """Cut what is huge and not cut yet, unless the rules want it whole (W20)."""
    if lines.rules.whole_lines:
        return tuple(kept)
    return tuple(
        evolve(item, room=_ROOM) if not item.room and units(item.text) > _HUGE else item
        for item in kept
    )


def untouched(strategy: str, lines: Lines) -> Selection | None:
    r"""Keep all lines, huge ones cut; None where that saves less than a tenth.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> from ctxalgebra.compaction.lines_text import read
    >>> found = untouched("code", read("a" * 9000 + "\nb", "", DEFAULT))
    >>> [units(kept.shown) for kept in found.kept]
    [1801, 1]
    """
    kept = bounded(lines, (Kept(line, (at,)) for at, line in enumerate(lines.all, 1)))
    cuts = sum(units(item.text) - sum(item.room) for item in kept if item.room)
    return select(strategy, lines, kept) if cuts * 10 > units(lines.low) else None


def select(
    strategy: str,
    lines: Lines,
    kept: Sequence[Kept],
    *,
    passes: int = 0,
    progress: int = 0,
    focused: bool = False,
    numbered: bool = False,
) -> Selection:
    r"""Account for all lines by gaps.

    Args:
        strategy: the filter.
        lines: of the text.
        kept: what is shown, ascending by the first line that each stands for.
        passes: as in `Selection`, and so the others.

    >>> from ctxalgebra.compaction.lines_rules import DEFAULT
    >>> from ctxalgebra.compaction.lines_text import read
    >>> select("tree", read("a\nb", "", DEFAULT), [Kept("b", (2,))]).omitted
    1
    """
    marks, blank = gaps(lines, kept, number=_NUMBER if numbered else 0)
    return Selection(
        strategy,
        len(lines.all),
        bounded(lines, kept),
        tuple(marks),
        blank,
        passes=passes,
        progress=progress,
        focused=focused,
        numbered=numbered,
    )
