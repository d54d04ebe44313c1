"""The timeline: where a conversation stands, what can be gone back to, what was said anywhere."""

from ctxalgebra.timeline.render import render, to_terminal
from ctxalgebra.timeline.search import search
from ctxalgebra.timeline.tool import TIMELINE, respond_timeline
from ctxalgebra.timeline.tree import tree
from ctxalgebra.timeline.values import (
    ActiveView,
    Budget,
    Checkpoint,
    CheckpointView,
    NodeView,
    Row,
    SearchView,
    Shape,
    TreeView,
    budget,
)
from ctxalgebra.timeline.views import active, checkpoints, node

__all__ = [
    "TIMELINE",
    "ActiveView",
    "Budget",
    "Checkpoint",
    "CheckpointView",
    "NodeView",
    "Row",
    "SearchView",
    "Shape",
    "TreeView",
    "active",
    "budget",
    "checkpoints",
    "node",
    "render",
    "respond_timeline",
    "search",
    "to_terminal",
    "tree",
]
