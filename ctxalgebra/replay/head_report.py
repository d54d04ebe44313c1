"""What is told of heads: rows for programs, and a sentence on what holding tools back saves."""

from __future__ import annotations

from typing import Any

from attrs import asdict

from ctxalgebra.model.checks import check_type
from ctxalgebra.replay.holding import Held
from ctxalgebra.replay.resident import Residency, Resident
from ctxalgebra.tokens import ceil_div

__all__ = ["NO_HEAD", "NO_TOOLS", "head_rows", "head_verdict", "held_object", "what"]

NO_HEAD = "No request of the file holds a system text or tools: there is nothing to say of heads."
NO_TOOLS = "No head of the file names a tool: there is none to hold back."

_LONGEST = 80


def _same(now: Resident, before: Resident) -> bool:
    """Say whether nothing became of the head since the request before."""
    return now.kind == "no-op" and not now.changes and now.loaded == before.loaded


def head_rows(head: Residency) -> list[dict[str, Any]]:
    """Give the heads as JSON values: one for each run of requests that have the same.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> one = Resident(0, ("read",), 5, 20, 0, kind="initial")
    >>> two = Resident(1, ("read",), 5, 20, 0)
    >>> rows = head_rows(Residency((one, two), 0, 0))
    >>> [(row["first"], row["requests"], row["class"]) for row in rows]
    [(0, 2, 'initial')]
    """
    check_type(head, Residency, "head")
    found: list[dict[str, Any]] = []
    before: Resident | None = None
    for one in head.requests:
        if before is not None and _same(one, before):
            found[-1]["requests"] += 1
        else:
            found.append(
                {
                    "first": one.request,
                    "requests": 1,
                    "names": list(one.names),
                    "system_tokens": one.system,
                    "tool_tokens": one.tools,
                    "held_tokens": one.held,
                    "loaded": list(one.loaded),
                    "loaded_tokens": one.behind,
                    "class": one.kind,
                    "activated": list(one.activated),
                    "gone": list(one.gone),
                    "changes": [asdict(change) | {"says": str(change)} for change in one.changes],
                    "rebilled_tokens": one.rebilled,
                    "billed_tokens": one.billed,
                }
            )
        before = one
    return found


def what(row: dict[str, Any]) -> str:
    """Say in a few words what changed, of a row of `head_rows`.

    >>> what({"activated": ["web"], "gone": [], "changes": []})
    '+web'
    """
    said = [f"+{name}" for name in row["activated"]] + [f"-{name}" for name in row["gone"]]
    said += [one["says"] for one in row["changes"] if one["kind"] not in ("added", "removed")]
    text = ", ".join(said)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _net(held: Held) -> int:
    """Round to whole tokens at their full price."""
    return (held.net + 50) // 100


def held_object(held: Held) -> dict[str, Any]:
    """Give what a policy makes of the heads as JSON values; costs in whole tokens, rounded up."""
    return {
        "head": head_rows(held.under),
        "requests": len(held.under.requests),
        "resident_tokens": held.under.resident,
        "resident_tokens_without": held.without.resident,
        "input_tokens": held.under.input,
        "input_tokens_without": held.without.input,
        "cost": ceil_div(held.under.cost, 100),
        "cost_without": ceil_div(held.without.cost, 100),
        "net": _net(held),
        "unmet": dict(held.unmet),
    }


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _mean(head: Residency) -> int:
    return ceil_div(head.resident, len(head.requests)) if head.requests else 0


def head_verdict(held: Held) -> str:
    """Say what holding tools back would have saved, or cost.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> one, two = Resident(0, ("a", "b"), 0, 50, 0), Resident(0, ("a",), 0, 20, 30)
    >>> held = Held(Residency((one,), 60, 7500), Residency((two,), 30, 3750))
    >>> print(head_verdict(held))  # doctest: +ELLIPSIS
    Held back, tools are 20 tokens of a request instead of 50. ... of 75 (50.0%).
    """
    check_type(held, Held, "held")
    under, without = held.under, held.without
    said = (
        f"Held back, tools are {_mean(under):,} tokens of a request instead of {_mean(without):,}. "
    )
    came = under.activations
    if came:
        rebilled, billed = sum(one.rebilled for one in came), sum(one.billed for one in came)
        more = _count(len(under.requests) - len(without.requests), "request")
        said += (
            f"Activating {_count(sum(len(one.activated) for one in came), 'tool')} takes {more} "
            f"more, and {_count(rebilled, 'token')} re-billed, {billed:,} of them not cached. "
        )
    else:
        said += "No tool is activated. "
    net, cost = _net(held), ceil_div(without.cost, 100)
    share = f"{abs(held.net) / without.cost:.1%}" if without.cost else "0.0%"
    said += (
        f"It would have {'saved' if net >= 0 else 'cost'} {abs(net):,} tokens at their full price, "
        f"of {cost:,} ({share})."
    )
    if held.unmet:
        calls = ", ".join(f"{name} {count:,}" for name, count in held.unmet)
        said += f" Calls of tools that the request would not have had: {calls}."
    return said
