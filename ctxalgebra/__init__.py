"""ctxalgebra: what an LLM agent sends to its model, as a projection of a journal.

A session is an append-only journal of events and decisions. `project` turns it into a request;
stages look at it and append decisions; the gate refuses what would break the protocol or,
silently, the provider's prompt cache.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from ctxalgebra.account import Account, DryRun, PricedBreak, account, breaks, dry_run
from ctxalgebra.calibration import Calibration, Costs, calibrate, costs, estimate
from ctxalgebra.effects import (
    AsyncEffects,
    Effects,
    Pending,
    RecordedEffects,
    adrive,
    answer_to,
    ask,
    drive,
    pending,
)
from ctxalgebra.errors import (
    CODES,
    CtxError,
    DecodeError,
    IllegalDecision,
    InvalidArgument,
    LawViolation,
    ProtocolViolation,
    StoreError,
)
from ctxalgebra.events import abandon, label, labels, open_calls, travel
from ctxalgebra.explain import Explanation, explain
from ctxalgebra.model.entries import (
    DECISIONS,
    Answer,
    Ask,
    Cut,
    Decision,
    Drop,
    Entry,
    Event,
    Label,
    Note,
    Outcome,
    Replace,
    Reply,
    Sent,
    Strip,
    UsageReport,
)
from ctxalgebra.model.gate import RULES, Rule, record
from ctxalgebra.model.head import Head, Route, Tool, Usage
from ctxalgebra.model.parts import (
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    assistant,
    system,
    tool_result,
    user,
)
from ctxalgebra.model.session import Fold, Node, Session, at_leaf, find, fold, log, path, walk
from ctxalgebra.model.view import Break, View
from ctxalgebra.project import Request, project, reply, requests, send
from ctxalgebra.tokens import Measure, chars4
from ctxalgebra.transforms.pipeline import CacheState, Pipeline, Stage, pipeline
from ctxalgebra.transforms.prune import default_stub, drop_suffix, exchanges, pays, prune_suffix
from ctxalgebra.transforms.select import (
    Evicted,
    Pressure,
    default_notice,
    pressure,
    select,
    snap_frontier,
)
from ctxalgebra.transforms.thinking import strip_thinking

if TYPE_CHECKING:
    from ctxalgebra.breakpoints import Placed, default_breakpoints, plan_breakpoints
    from ctxalgebra.cache_profiles import CacheProfile, Prices, cache_profile
    from ctxalgebra.heads import ByteDrift, Change, Drift, byte_drift, drift, head_drift
    from ctxalgebra.ledger import Savings, Tally, Weighed, mechanism, savings, stake
    from ctxalgebra.measures import claude_v1, deepseek_v1, measure_of, o200k_v1, qwen_v1
    from ctxalgebra.profiles import PROFILES, Profile, Violation, profile_for, violations
    from ctxalgebra.protocol import DEFECTS, Defect, Repair, Repaired, defects, repair
    from ctxalgebra.recall import (
        RECALL_TOOLS,
        browse,
        recall_notice,
        recall_stub,
        respond,
        search,
        stats,
    )
    from ctxalgebra.transforms.compact import RETRIEVE, compact_output, retrieve_output
    from ctxalgebra.transforms.digest import default_digest_prompt, digest_output
    from ctxalgebra.transforms.limit import limit_output, limited
    from ctxalgebra.transforms.memory import working_memory
    from ctxalgebra.transforms.settings import PagingSettings, resolve_settings, warn_headroom
    from ctxalgebra.transforms.tagging import forget, tag_results
    from ctxalgebra.transforms.writes import write_facts
    from ctxalgebra.usage import (
        Breakdown,
        Reading,
        breakdown,
        gauge,
        pressure_of,
        remind,
        with_line,
    )
else:
    # Imported when asked for: most harnesses record only what is legal already.
    _LATER = {
        "breakpoints": "Placed default_breakpoints plan_breakpoints",
        "cache_profiles": "CacheProfile Prices cache_profile",
        "heads": "ByteDrift Change Drift byte_drift drift head_drift",
        "ledger": "Savings Tally Weighed mechanism savings stake",
        "measures": "claude_v1 deepseek_v1 measure_of o200k_v1 qwen_v1",
        "profiles": "PROFILES Profile Violation profile_for violations",
        "protocol": "DEFECTS Defect Repair Repaired defects repair",
        "recall": "RECALL_TOOLS browse recall_notice recall_stub respond search stats",
        "transforms.compact": "RETRIEVE compact_output retrieve_output",
        "transforms.digest": "default_digest_prompt digest_output",
        "transforms.limit": "limit_output limited",
        "transforms.memory": "working_memory",
        "transforms.settings": "PagingSettings resolve_settings warn_headroom",
        "transforms.tagging": "forget tag_results",
        "transforms.writes": "write_facts",
        "usage": "Breakdown Reading breakdown gauge pressure_of remind with_line",
    }
    _MODULES = {name: module for module, names in _LATER.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'ctxalgebra' has no attribute {name!r}")
        module = _import_module(f"ctxalgebra.{_MODULES[name]}")
        globals()[name] = getattr(module, name)
        return globals()[name]


__version__ = "0.1.0"
__all__ = [
    "CODES",
    "DECISIONS",
    "DEFECTS",
    "PROFILES",
    "RECALL_TOOLS",
    "RETRIEVE",
    "RULES",
    "Account",
    "Answer",
    "Ask",
    "AsyncEffects",
    "Break",
    "Breakdown",
    "ByteDrift",
    "CacheProfile",
    "CacheState",
    "Calibration",
    "Change",
    "Costs",
    "CtxError",
    "Cut",
    "Decision",
    "DecodeError",
    "Defect",
    "Drift",
    "Drop",
    "DryRun",
    "Effects",
    "Entry",
    "Event",
    "Evicted",
    "Explanation",
    "Fold",
    "Head",
    "IllegalDecision",
    "Image",
    "InvalidArgument",
    "Label",
    "LawViolation",
    "Measure",
    "Message",
    "Node",
    "Note",
    "Opaque",
    "Outcome",
    "PagingSettings",
    "Part",
    "Pending",
    "Pipeline",
    "Placed",
    "Pressure",
    "PricedBreak",
    "Prices",
    "Profile",
    "ProtocolViolation",
    "Reading",
    "RecordedEffects",
    "Repair",
    "Repaired",
    "Replace",
    "Reply",
    "Request",
    "Role",
    "Route",
    "Rule",
    "Savings",
    "Sent",
    "Session",
    "Stage",
    "StoreError",
    "Strip",
    "Tally",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "Usage",
    "UsageReport",
    "View",
    "Violation",
    "Weighed",
    "abandon",
    "account",
    "adrive",
    "answer_to",
    "ask",
    "assistant",
    "at_leaf",
    "breakdown",
    "breaks",
    "browse",
    "byte_drift",
    "cache_profile",
    "calibrate",
    "chars4",
    "claude_v1",
    "compact_output",
    "costs",
    "deepseek_v1",
    "default_breakpoints",
    "default_digest_prompt",
    "default_notice",
    "default_stub",
    "defects",
    "digest_output",
    "drift",
    "drive",
    "drop_suffix",
    "dry_run",
    "estimate",
    "exchanges",
    "explain",
    "find",
    "fold",
    "forget",
    "gauge",
    "head_drift",
    "label",
    "labels",
    "limit_output",
    "limited",
    "log",
    "measure_of",
    "mechanism",
    "o200k_v1",
    "open_calls",
    "path",
    "pays",
    "pending",
    "pipeline",
    "plan_breakpoints",
    "pressure",
    "pressure_of",
    "profile_for",
    "project",
    "prune_suffix",
    "qwen_v1",
    "recall_notice",
    "recall_stub",
    "record",
    "remind",
    "repair",
    "reply",
    "requests",
    "resolve_settings",
    "respond",
    "retrieve_output",
    "savings",
    "search",
    "select",
    "send",
    "snap_frontier",
    "stake",
    "stats",
    "strip_thinking",
    "system",
    "tag_results",
    "tool_result",
    "travel",
    "user",
    "violations",
    "walk",
    "warn_headroom",
    "with_line",
    "working_memory",
    "write_facts",
]
