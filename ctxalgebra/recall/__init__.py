"""Recall: everything that left the window can be found, browsed, loaded and paged through."""

from ctxalgebra.recall.history import (
    History,
    find_model_turn,
    history,
    history_items,
    history_of,
    turn_with,
)
from ctxalgebra.recall.items import (
    RECALL_NAMES,
    Item,
    PublicItem,
    is_recall_turn,
    item_json,
    model_turn,
    public_item,
    public_part,
)
from ctxalgebra.recall.notice import Recoverable, default_words, recall_notice, recall_stub
from ctxalgebra.recall.pages import Page, page, read_output
from ctxalgebra.recall.report import Stats, stats
from ctxalgebra.recall.search import LIMITS, Direction, Limits, Reference, browse, load, search
from ctxalgebra.recall.texts import CODE_POINTS, Units, words
from ctxalgebra.recall.tools import RECALL_TOOLS, respond

__all__ = [
    "CODE_POINTS",
    "LIMITS",
    "RECALL_NAMES",
    "RECALL_TOOLS",
    "Direction",
    "History",
    "Item",
    "Limits",
    "Page",
    "PublicItem",
    "Recoverable",
    "Reference",
    "Stats",
    "Units",
    "browse",
    "default_words",
    "find_model_turn",
    "history",
    "history_items",
    "history_of",
    "is_recall_turn",
    "item_json",
    "load",
    "model_turn",
    "page",
    "public_item",
    "public_part",
    "read_output",
    "recall_notice",
    "recall_stub",
    "respond",
    "search",
    "stats",
    "turn_with",
    "words",
]
