"""How far estimates are from what providers reported, on real sessions.

`python benchmarks/calibration.py [FILE ...]` reads pi session files with usage (by default those of
a folder `shared/sessions/pi` beside the project) and prints for each:

* next: after the first report, how far the estimate of each next request's input is from what is
  then reported for it.
* suffix: with every fifth report given and the others withheld, how far the estimate of what a cut
  would keep is from the truth, the difference of two withheld totals, for all suffixes of 20,000
  tokens or more within one epoch.

Texts that the host took out of a file later are filled to the length that it tells. Exits with 1
when our figures are over their limits without a known cause, with 2 when no file has enough
reports.

Beside the library's calibration, with two measures, stand a quarter of the characters and the rule
of the paging extension (`ctxalgebra.compat.paging_tokens`): one scale for all that was measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from attrs import evolve

from ctxalgebra import (
    Cut,
    Drop,
    Head,
    Image,
    Message,
    Replace,
    Reply,
    Sent,
    Session,
    Strip,
    Usage,
    UsageReport,
    chars4,
    claude_v1,
    costs,
    estimate,
    path,
)
from ctxalgebra.codecs import pi
from ctxalgebra.compat.paging_tokens import calibrate_response
from ctxalgebra.model.session import append

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "sessions" / "pi"
EVERY = 5
LEAST = 20_000
FEWEST = 20
"""A file with fewer requests that reported usage has no percentiles."""

FILLING = "some words that stand where a text was taken out; "

LIMITS = {"next": (0.3, 2.5), "suffix": (2.0, 6.0)}
"""Percent: the median and the 95th percentile of our errors."""

Measure = Callable[[Message | Head], int]


class Figure(NamedTuple):
    """Errors in percent: how many there are, the middle one, the 95th percentile."""

    count: int
    median: float
    most: float


def figure(errors: list[float]) -> Figure | None:
    """Sum up relative errors; None when there are too few."""
    if len(errors) < FEWEST:
        return None
    off = [abs(error) * 100 for error in errors]
    return Figure(len(off), median(off), quantiles(off, n=20)[-1])


def steps(session: Session, every: int = 1) -> Iterator[tuple[Session, Usage | None, bool]]:
    """Record a session anew, with every so-manieth report in it.

    Gives the session after each entry; after a reply that reported usage also that, and whether it
    was withheld.
    """
    new, count = Session(), 0
    for node in path(session):
        entry, usage, withheld = node.entry, None, False
        if type(entry) is UsageReport:
            continue
        if type(entry) is Reply and entry.outcome == "completed" and entry.usage is not None:
            if entry.usage.input:
                usage, withheld = entry.usage, bool(count % every)
                count += 1
            if withheld:
                entry = evolve(entry, usage=None)
        new = append(new, entry)
        yield new, usage, withheld


class Original:
    """The extension's rule: a total and one scale, from the last report."""

    def __init__(self) -> None:
        self.overhead: float | None = None
        self.scale = 1.0
        self.end = 0
        self.total = 0

    def told(self, session: Session, usage: Usage) -> None:
        view = session.view
        self.end, self.total = view.end, usage.input + usage.output
        head, measured = chars4(view.head), view.slots.total(chars4, view.end)
        fit = calibrate_response(head, measured, self.total, previous=self.overhead)
        self.overhead, self.scale = (0, 1) if fit is None else (fit.overhead, fit.scale)

    def next(self, session: Session) -> float:
        view = session.view
        if view.end < self.end:  # a cut: what stays is scaled
            return chars4(view.head) + self.scale * view.slots.total(chars4, view.end)
        behind = view.slots.total(chars4, view.end) - view.slots.total(chars4, self.end)
        return self.total + behind

    def suffix(self, session: Session, start: int, end: int) -> float:
        slots = session.view.slots
        known = max(min(end, self.end), start)
        measured = slots.total(chars4, known) - slots.total(chars4, start)
        return self.scale * measured + slots.total(chars4, end) - slots.total(chars4, known)


RULES = ("chars4 calibrated", "claude_v1 calibrated", "original's rule", "chars/4")
MEASURES: tuple[Measure, Measure] = (chars4, claude_v1)


def plain(session: Session) -> int:
    """Estimate a request as a quarter of its characters."""
    view = session.view
    return chars4(view.head) + view.slots.total(chars4, view.end)


def next_requests(session: Session) -> dict[str, list[float]]:
    """Compare the estimate of each request with its report."""
    errors: dict[str, list[float]] = {rule: [] for rule in RULES}
    original = Original()
    guesses: list[float] = []
    told = False
    for new, usage, _ in steps(session):
        if type(new.leaf.entry) is Sent and told:
            guesses = [*(estimate(new, measure=measure) for measure in MEASURES)]
            guesses += [original.next(new), plain(new)]
        if usage is not None:
            for rule, guess in zip(RULES, guesses, strict=False):
                errors[rule].append((guess - usage.input) / usage.input)
            original.told(new, usage)
            told = True
    return errors


def suffixes(session: Session) -> dict[str, list[float]]:
    """Compare what suffixes are estimated to cost with the difference of two withheld totals."""
    errors: dict[str, list[float]] = {rule: [] for rule in RULES}
    original = Original()
    totals: list[tuple[int, int]] = []
    for new, usage, withheld in steps(session, EVERY):
        if isinstance(new.leaf.entry, Cut | Drop | Replace | Strip | Head):
            totals.clear()
        if usage is None:
            continue
        end = new.view.sent.end
        if not withheld:
            original.told(new, usage)
            continue
        sums = [costs(new, measure=measure).sums for measure in MEASURES]
        slots = new.view.slots
        for start, total in totals:
            truth = usage.input - total
            if truth < LEAST:
                continue
            guesses: list[float] = [known[end] - known[start] for known in sums]
            guesses.append(original.suffix(new, start, end))
            guesses.append(slots.total(chars4, end) - slots.total(chars4, start))
            for rule, guess in zip(RULES, guesses, strict=True):
                errors[rule].append((guess - truth) / truth)
        totals.append((end, usage.input))
    return errors


def refilled(data: bytes) -> bytes:
    """Put words in the place of texts that the host took out of the file, as many as there were.

    What was sent had them, so that nothing could be measured without; their lengths are told.
    """
    lines: list[str] = []
    for line in data.decode(errors="replace").split("\n"):
        if '"evictedContent"' not in line:
            lines.append(line)
            continue
        entry = json.loads(line)
        for place, payload in entry["evictedContent"].get("payloads", {}).items():
            *steps, last = (int(step) if step.isdigit() else step for step in place.split("."))
            at = entry
            for step in steps:
                at = at[step]
            size = payload.get("originalChars", 0)
            text = (FILLING * (size // len(FILLING) + 1))[:size]
            at[last] = text if isinstance(at[last], str) else {"text": text}
        lines.append(json.dumps(entry))
    return "\n".join(lines).encode()


def causes(data: bytes, session: Session) -> list[str]:
    """Say why a file may be off: its routes, its images, its texts that are not there."""
    found: list[str] = []
    routes = {new.view.sent.head.route for new, told, _ in steps(session) if told}
    if len(routes) > 1:
        found.append(f"{len(routes)} routes")
    messages = [n.entry for n in path(session) if type(n.entry) in (Message, Reply)]
    shown = [getattr(entry, "message", entry) for entry in messages]
    images = sum(type(part) is Image for message in shown if message for part in message.parts)
    if images:
        found.append(f"{images} images")
    gone = sum('"evictedContent"' in line for line in data.decode(errors="replace").split("\n"))
    if gone:
        found.append(f"words for the texts of {gone} messages, which the host took out later")
    return found


def files(names: list[str]) -> list[Path]:
    """Give the files that were named, or those at hand."""
    return [Path(name) for name in names] or sorted(SHARED.glob("*.jsonl"))


def over(told: dict[str, dict[str, list[float]]], reasons: list[str]) -> list[tuple[str, bool]]:
    """Say what of ours is over its limit, and whether that is a failure.

    The 95th percentile is excepted where there is a reason for it.
    """
    found: list[tuple[str, bool]] = []
    for what, (middle, most) in LIMITS.items():
        for rule in RULES[: len(MEASURES)]:
            cell = figure(told[what][rule])
            if cell is not None and cell.median > middle:
                found.append((f"{rule}, {what}: the median is over {middle} %", True))
            if cell is not None and cell.most > most:
                excepted = "; excepted, see the causes" if reasons else ""
                text = f"{rule}, {what}: the 95th percentile is over {most} %{excepted}"
                found.append((text, not reasons))
    return found


def main(names: list[str]) -> int:
    """Print the figures of each file; return 1 when a limit is missed, 2 when there are none."""
    found = files(names)
    measured = failed = False
    if not found:
        print(f"no session files: {SHARED} is absent")
    for file in found:
        data = file.read_bytes()
        session = pi.decode(refilled(data)).session
        told = {"next": next_requests(session), "suffix": suffixes(session)}
        if figure(told["next"][RULES[0]]) is None:
            print(f"{file.name}: fewer than {FEWEST} requests that reported usage\n")
            continue
        measured = True
        print(file.name)
        print(f"  {'':22}{'next':>22}{'suffix of 20,000':>26}")
        for rule in RULES:
            cells = [figure(errors[rule]) for errors in told.values()]
            shown = ["-" if c is None else f"{c.median:.3f} % / {c.most:.2f} %" for c in cells]
            print(f"  {rule:22}{shown[0]:>22}{shown[1]:>26}")
        reasons = causes(data, session)
        print(f"  {'; '.join(reasons) or 'one route, no image'}")
        for text, fails in over(told, reasons):
            print(f"  {text}")
            failed = failed or fails
        print()
    print("median / 95th percentile of the error")
    return int(failed) if measured else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
