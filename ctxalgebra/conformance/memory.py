"""The area `memory`: a working memory, by the original's own rules without their faults.

The rules stand in `ctxalgebra.compat.memory_*` and `ctxalgebra.transforms.facts`; what they do
otherwise than the original stands in the documentation (differences).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ctxalgebra.codecs.pi_weights import text_tokens
from ctxalgebra.compat import memory_config, memory_stats, memory_suffix
from ctxalgebra.compat.memory_capabilities import Capabilities, Match, find, tool_tokens
from ctxalgebra.compat.memory_capabilities import score as match
from ctxalgebra.compat.memory_replies import reply_text
from ctxalgebra.compat.memory_replies import resolve_model as chosen
from ctxalgebra.compat.memory_results import digested, fact_of, tagged
from ctxalgebra.compat.memory_texts import extract_text as text_of
from ctxalgebra.compat.memory_texts import message_tokens, short_number
from ctxalgebra.compat.memory_texts import shorten as shortened
from ctxalgebra.compat.memory_truncate import Truncation
from ctxalgebra.compat.memory_truncate import truncate_head as keep_head
from ctxalgebra.compat.memory_truncate import truncate_tail as keep_tail
from ctxalgebra.conformance.operations import collect
from ctxalgebra.conformance.paging_tokens import weigh
from ctxalgebra.conformance.values import InvalidInput
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.transforms.facts import count_lines as lines_of
from ctxalgebra.transforms.facts import heuristic_fact as worded
from ctxalgebra.transforms.facts import normalize_fact as brought
from ctxalgebra.transforms.facts import sanitize_output as sanitized
from ctxalgebra.transforms.facts import verdict
from ctxalgebra.transforms.memory_settings import flag, number

__all__ = ["OPERATIONS"]

# Configuration


def load_config(*, env: dict[str, str]) -> Any:
    """Load the configuration."""
    return memory_config.load_config(env)


def bool_(*, v: str | None = None, dflt: bool) -> Any:
    """Read a flag."""
    return flag(v, default=dflt)


def num(*, v: str | None = None, dflt: float) -> Any:
    """Read a number."""
    return number(v, dflt)


# Texts


def estimate_tokens_from_text(*, text: str) -> Any:
    """Weigh a text."""
    return text_tokens(text)


def extract_text(*, content: Any = None) -> Any:
    """Take the text out of content."""
    return text_of(content)


def _amount(value: float, where: str) -> float:
    if value < 0:
        raise InvalidInput(f"{where}: expected a number from 0 up")
    return value


def shorten(*, text: str, max_: float) -> Any:
    """Cut a text, and say so."""
    return shortened(text, _amount(max_, "input.max"))


def estimate_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message of the host."""
    return weigh(message)


def estimate_message_tokens(*, message: dict[str, Any]) -> Any:
    """Weigh a message; its texts alone where the host's function fails."""
    return message_tokens(message)


def sanitize_output(*, text: str) -> Any:
    """Take out notes that point at output which is not kept."""
    return sanitized(text)


def _limits(options: dict[str, Any]) -> tuple[float, float]:
    lines, size = options.get("maxLines", 2000), options.get("maxBytes", 51_200)
    for name, limit in (("maxLines", lines), ("maxBytes", size)):
        if type(limit) not in (int, float) or limit < 0:
            raise InvalidInput(f"input.options: {name} is a number from 0 up")
    return lines, size


def _truncation(found: Truncation, limits: tuple[float, float]) -> dict[str, Any]:
    return {
        "content": found.content,
        "truncated": found.by is not None,
        "truncatedBy": found.by,
        "totalLines": found.total_lines,
        "totalBytes": found.total_bytes,
        "outputLines": found.lines,
        "outputBytes": found.size,
        "lastLinePartial": found.partial,
        "firstLineExceedsLimit": found.first_too_long,
        "maxLines": limits[0],
        "maxBytes": limits[1],
    }


def truncate_tail(*, content: str, options: dict[str, Any]) -> Any:
    """Keep the last lines."""
    limits = _limits(options)
    return _truncation(keep_tail(content, *limits), limits)


def truncate_head(*, content: str, options: dict[str, Any]) -> Any:
    """Keep the first lines."""
    limits = _limits(options)
    return _truncation(keep_head(content, *limits), limits)


def fmt_tokens(*, n: float) -> Any:
    """Write a number of tokens."""
    return short_number(n)


# Replies and facts


def classify(*, reply: str | None = None) -> Any:
    """Read the tagger's reply."""
    return verdict(reply)


def run_aux_model(*, blocks: list[Any]) -> Any:
    """Give what an answer says."""
    return reply_text(blocks)


def resolve_model(
    *,
    aux_model: str | None = None,
    active: dict[str, Any] | None = None,
    registry: list[dict[str, Any]],
) -> Any:
    """Choose the auxiliary model."""
    return chosen(aux_model, active, registry)


def heuristic_fact(*, path: str, content: str) -> Any:
    """Word a fact about a file."""
    return worded(path, content)


def normalize_fact(*, raw: str, path: str, **_: Any) -> Any:
    """Bring a model's fact into form."""
    return brought(raw, path)


def count_lines(*, content: str) -> Any:
    """Count lines."""
    return lines_of(content)


# Counting


def _numbers(op: list[Any], least: int) -> list[Any]:
    """Give the arguments of a step that takes numbers."""
    given = op[1:]
    if len(given) < least or not all(type(value) in (int, float) for value in given):
        raise InvalidInput(f"input.ops: {op[0]!r} takes {least} numbers")
    return given[:least]


_COUNTING: Mapping[str, tuple[Callable[..., memory_stats.Counter], int]] = {
    "beginTurn": (memory_stats.begin_turn, 1),
    "recordBash": (memory_stats.record_bash, 2),
    "recordWrite": (memory_stats.record_write, 2),
    "recordAmnesia": (memory_stats.record_amnesia, 1),
    "setLazy": (memory_stats.set_lazy, 1),
}


def stats(*, ops: list[list[Any]]) -> Any:
    """Count what was saved."""
    counter = memory_stats.Counter()
    entries: list[Any] = []
    for op in ops:
        name = op[0] if op else None
        if name == "endTurn":
            counter = memory_stats.end_turn(counter)
            entries.append(counter.entry)
        elif name == "restore":
            counter = memory_stats.restore(counter, op[1] if len(op) > 1 else None)
        elif isinstance(name, str) and name in _COUNTING:
            step, least = _COUNTING[name]
            counter = step(counter, *_numbers(op, least))
        else:
            raise InvalidInput(f"input.ops: there is no operation {name!r}")
    return {
        "cumulative": dict(counter.cumulative),
        "turns": list(counter.turns),
        "entries": entries,
    }


# Requests

_ROLES = (
    "user",
    "assistant",
    "toolResult",
    "system",
    "custom",
    "bashExecution",
    "branchSummary",
    "compactionSummary",
)


def prune_messages(*, candidates: list[str], messages: list[dict[str, Any]]) -> Any:
    """Leave the droppable tail out of a request."""
    if not all(message.get("role") in _ROLES for message in messages):
        raise InvalidArgument("wrong-role", field="messages")
    pruned = memory_suffix.prune_messages(candidates, messages)
    removed = {
        "saved": pruned.saved,
        "messageCount": pruned.count,
        "droppedResultIds": list(pruned.dropped),
    }
    return {"messages": list(pruned.messages), "removed": removed if pruned.count else None}


def strip_write_content(*, ids: list[str], messages: list[dict[str, Any]]) -> Any:
    """Take the content out of the last writes."""
    return {"messages": list(memory_suffix.strip_write_content(ids, messages))}


# Results of tools


def bash_tool_result(
    *, config: dict[str, Any], event: dict[str, Any], reply: str | None = None
) -> Any:
    """Digest a command's output; the note behind a fallback goes out as a placeholder."""
    found = digested(memory_config.configured(config), event, reply, note="<note>")
    if found is None:
        return None
    details = {name: value for name, value in found.details.items() if name != "fallbackTokens"}
    told = {"content": [{"type": "text", "text": found.text}], "details": details}
    return {**told, "saved": found.saved} if details["summarized"] is True else told


def write_tool_result(
    *, config: dict[str, Any], event: dict[str, Any], reply: str | None = None
) -> Any:
    """Word a fact for a file that was written."""
    found = fact_of(memory_config.configured(config), event, reply)
    return None if found is None else {"fact": found.text, "savedTokens": found.saved}


def tag_tool_result(
    *, config: dict[str, Any], event: dict[str, Any], reply: str | None = None
) -> Any:
    """Say whether the tagger is asked, and whether a result may leave."""
    asked, candidate = tagged(memory_config.configured(config), event, reply)
    return {"asked": asked, "candidate": candidate}


# Capabilities


def score(*, query: str, haystack: str) -> Any:
    """Say how well a text matches a query."""
    return match(query, haystack)


def estimate_tool_spec_tokens(*, tool: dict[str, Any]) -> Any:
    """Weigh a tool's specification."""
    return tool_tokens(tool)


def _query(op: dict[str, Any]) -> dict[str, Any]:
    """Read a search."""
    query, kind, top = op.get("description"), op.get("kind"), op.get("top")
    if not isinstance(query, str):
        raise InvalidInput("input.ops: description is a text")
    if top is not None and type(top) not in (int, float):
        raise InvalidInput("input.ops: top is a number")
    return {"query": query, "kind": kind, "load": op.get("load") is not False, "top": top}


def _told(found: Match) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "name": found.name,
        "description": found.description,
        "score": found.score,
    }


def lazy_tools(
    *,
    tools: list[dict[str, Any]],
    skills: list[dict[str, Any]],
    active: list[str],
    config: dict[str, Any] | None = None,
    ops: list[dict[str, Any]],
) -> Any:
    """Search capabilities, and say which tools are active after each step."""
    settings = memory_config.configured(config or {})
    known = Capabilities(tuple(tools), tuple(skills), tuple(active), settings.lazy)
    results: list[Any] = []
    for op in ops:
        told: dict[str, Any] = {}
        if op.get("op") == "find":
            known, matches, best = find(known, **_query(op))
            loaded = None if best is None else {"kind": best.kind, "name": best.name}
            told = {"matches": list(map(_told, matches)), "loaded": loaded}
        elif op.get("op") != "task_boundary":
            raise InvalidInput(f"input.ops: there is no operation {op.get('op')!r}")
        results.append({**told, "active": list(known.active)})
    return results


_AREA = "memory"

OPERATIONS = {
    **collect(
        _AREA,
        load_config,
        num,
        estimate_tokens_from_text,
        extract_text,
        shorten,
        estimate_tokens,
        estimate_message_tokens,
        sanitize_output,
        truncate_tail,
        truncate_head,
        fmt_tokens,
        classify,
        run_aux_model,
        resolve_model,
        heuristic_fact,
        normalize_fact,
        count_lines,
        stats,
        prune_messages,
        strip_write_content,
        bash_tool_result,
        write_tool_result,
        tag_tool_result,
        score,
        estimate_tool_spec_tokens,
        lazy_tools,
    ),
    f"{_AREA}.bool": bool_,
}
