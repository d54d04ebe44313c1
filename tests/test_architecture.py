"""Imports go one way, the core is pure, and results depend on nothing but their input."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ctxalgebra

PACKAGE = Path(ctxalgebra.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [
    {"errors"},
    {"terminal"},
    {"compaction"},
    {"model.checks"},
    {"model.parts"},
    {"model.head"},
    {"model.entries"},
    {"model.exchange", "model.layers"},
    {"model.view"},
    {"model.session"},
    {"model.gate"},
    {"protocol", "profiles"},
    {"arguments", "tokens", "utf16"},
    {"skills"},
    {"shaping"},
    {"calibration", "measures"},
    {"bodies", "cache_profiles", "loading"},
    {"project", "account", "events", "explain"},
    {"breakpoints", "heads", "ledger", "shaping.heads"},
    {"transforms.facts", "transforms.memory_settings", "transforms.pipeline"},
    {"transforms.select", "transforms.prune", "transforms.thinking", "transforms.settings"},
    {"shaping.requests"},
    {"effects"},
    {"transforms.arguments", "transforms.unsent"},
    {"transforms.compact", "transforms.writes"},
    {"transforms.limit"},
    {"transforms.digest"},
    {"transforms.tagging"},
    {"transforms.memory"},
    {"recall"},
    {"delivery"},
    {"checkpoints"},
    {"usage"},
    {"timeline"},
    {"codecs"},
    {"compat"},
    {"resident"},
    {"skills.respond"},
    {"store"},
    {"laws"},
    {"replay"},
    {"conformance"},
    {"commands"},
    {"cli"},
    {"__main__", "conformance.__main__"},
]
FAMILIES = {
    "compaction",
    "codecs",
    "compat",
    "laws",
    "replay",
    "transforms",
    "commands",
    "conformance",
    "cli",
    "protocol",
    "recall",
    "skills",
    "shaping",
    "resident",
    "usage",
    "delivery",
    "checkpoints",
    "timeline",
}
IMPURE = {"asyncio", "logging", "os", "random", "secrets", "socket", "threading"}
IMPURE |= {"subprocess", "time", "uuid"}
EXTRAS = {
    "click": "cli",
    "rich": "cli",
    "yaml": "codecs",
    "filelock": "store",
    "hypothesis": "laws",
}
THIRD_PARTY = {"attr", "attrs", "cattr", "cattrs", "regex", *EXTRAS}


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def layer_of(name):
    """Give the level of the longest name in `LAYERS` that it is, or lies in."""
    found = [
        (len(n), level)
        for level, names in enumerate(LAYERS)
        for n in names
        if name == n or name.startswith(f"{n}.")
    ]
    return max(found)[1] if found else None


def imports_of(path):
    """Give (module, at top level) for everything that a module imports, wherever it does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node in top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path.name}"
            yield node.module, node in top


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_down_only(path):
    name = name_of(path)
    if name in {"", "model", "transforms"}:
        return
    level = layer_of(name)
    assert level is not None, f"{name} has no layer"
    for imported, _ in imports_of(path):
        if imported == "ctxalgebra" or not imported.startswith("ctxalgebra"):
            continue
        theirs = layer_of(imported.removeprefix("ctxalgebra."))
        assert theirs is not None, imported
        family = name.split(".")[0] in FAMILIES
        same = imported.split(".")[1] == name.split(".")[0]
        peers = {"protocol", "profiles", "project", "account", "events", "explain"}
        beside = theirs == level and ((family and same) or name in peers)
        assert theirs < level or beside, f"{name} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_core_touches_nothing_outside(path):
    name = name_of(path)
    if name.split(".")[0] in {"store", "cli", "__main__"} or name == "conformance.port":
        return
    for imported, _ in imports_of(path):
        assert imported.split(".")[0] not in IMPURE, f"{name} imports {imported}"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"now", "utcnow", "today"}, f"{name} reads the clock"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_extras_are_imported_only_where_they_are_used(path):
    name = name_of(path)
    for imported, at_top in imports_of(path):
        root = imported.split(".")[0]
        if root in EXTRAS:
            assert name.split(".")[0] == EXTRAS[root] or root in {"click", "rich"}, name
            lazy = name in {"laws.strategies", "laws.hypothesis_plugin", "terminal"}
            lazy = lazy or name.endswith(".command") or name.startswith("commands.")
            assert not at_top or lazy, f"{name} imports {imported}"
        elif root not in sys.stdlib_module_names:
            assert root in THIRD_PARTY | {"ctxalgebra"}, f"{name} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_hold_one_idea(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 600
    assert path.stem not in {"utils", "core", "common", "manager", "helpers"}


def test_the_public_names_are_listed_once_and_exist():
    assert len(set(ctxalgebra.__all__)) == len(ctxalgebra.__all__)
    for name in ctxalgebra.__all__:
        assert getattr(ctxalgebra, name) is not None
    public = {n for n in vars(ctxalgebra) if not n.startswith("_")} - {"TYPE_CHECKING"}
    modules = {n for n in public if type(getattr(ctxalgebra, n)) is type(sys)}
    assert public - modules == set(ctxalgebra.__all__)


def test_what_is_imported_late_is_there_and_nothing_else_is():
    script = (
        "import sys, ctxalgebra; before = 'ctxalgebra.profiles' in sys.modules; "
        "ctxalgebra.profile_for; print(before, 'ctxalgebra.profiles' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout == "False True\n"
    for name in ("nope", "frozen", "_nope"):
        with pytest.raises(AttributeError, match=name):
            getattr(ctxalgebra, name)


SCRIPT = """
from functools import partial
from ctxalgebra import *
session = record(Session(), Head(tools=(Tool("b"), Tool("a"))))
prune = partial(prune_suffix, stub_over=60, drop_over=40)
settle = pipeline(partial(select, budget=200, target=90), prune)
for n in range(40):
    session = record(session, user(f"u{n}" * 9))
    session, _ = send(settle(session))
    session = reply(session, "completed", assistant(ToolCall(f"x{n}", "r"), ToolCall(f"a{n}", "r")))
    session = record(session, tool_result(f"a{n}", "1" * 99), tool_result(f"x{n}", "2" * 300))
    session = label(session, n, f"l{n}")
print([n.entry for n in log(session)], project(session))
print(account(session), breaks(session), labels(session))
"""


def test_results_do_not_depend_on_hash_seeds():
    def run(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(PACKAGE.parent)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    first = run("1")
    assert len(first) > 10_000
    assert first == run("2")
