"""The docs name what the code has: no name, field, signature, code, rule or link drifts away."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import partial
from importlib import import_module
from pathlib import Path

import attrs
import pytest

import ctxalgebra
from ctxalgebra import (
    CODES,
    DECISIONS,
    DEFECTS,
    RULES,
    Node,
    Opaque,
    Session,
    Text,
    View,
    __version__,
    checkpoints,
    codecs,
    delivery,
    recall,
    replay,
    resident,
    timeline,
    usage,
    utf16,
)
from ctxalgebra.commands import explain, requests
from ctxalgebra.commands import timeline as timeline_command
from ctxalgebra.compat.paging_lifecycle import LIFECYCLE
from ctxalgebra.laws import check, strategies
from ctxalgebra.model.view import STEPS
from ctxalgebra.recall import report
from ctxalgebra.replay import command
from ctxalgebra.transforms import facts, memory_settings, settings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text("utf-8") for path in DOCS.rglob("*.md")}
REFERENCE = [
    f"reference/{name}.md"
    for name in ("entries", "gate", "errors", "transforms", "working-memory", "heads", "effects")
]
BESIDE = ["reference/recall.md", "reference/paging.md", "reference/usage.md"]
"""Pages of a part: they tell of public names, and of others."""
NAMES = {name: getattr(ctxalgebra, name) for name in ctxalgebra.__all__}
FUNCTIONS = {name: value for name, value in NAMES.items() if inspect.isfunction(value)}
COMPAT, COMPAT_MEMORY, COMPAT_TOOLS = (
    [
        f"ctxalgebra.compat.{path.stem}"
        for path in Path(ctxalgebra.__file__).parent.glob(f"compat/{profile}_*.py")
    ]
    for profile in ("paging", "memory", "toolpolicy")
)
CLASSES = {name: value for name, value in NAMES.items() if inspect.isclass(value)}
VALUES = {
    name: value for name, value in CLASSES.items() if attrs.has(value) and value is not Session
}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


def prose(page):
    """Give the text of a page without its code blocks."""
    return FENCE.sub("", PAGES[page])


def quoted(text):
    """List what stands between backticks, code blocks aside."""
    return CODE.findall(FENCE.sub("", text))


def sections(page, level=3):
    """Map headings of a level to what stands under them, code blocks included."""
    plain = FENCE.sub(lambda found: found[0].replace("#", "\0"), PAGES[page])
    found = [m for m in HEADING.finditer(plain) if len(m[1]) <= level]
    ends = [m.start() for m in found[1:]] + [len(plain)]
    return {
        m[2]: PAGES[page][m.end() : end]
        for m, end in zip(found, ends, strict=True)
        if len(m[1]) == level
    }


def tables(text):
    """Map the first header of each table to its rows."""
    found = {}
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [
            [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block.splitlines()
        ]
        found[rows[0][0]] = rows[2:]
    return found


SECTIONS = {
    heading: (page, text)
    for page in (*REFERENCE, *BESIDE)
    for heading, text in sections(page).items()
    if page in REFERENCE or heading in NAMES
}


# Names


def test_the_reference_has_a_heading_for_each_public_name_and_for_nothing_else():
    headings = [heading for page in REFERENCE for heading in sections(page)]
    headings += [name for page in BESIDE for name in sections(page) if name in NAMES]
    assert sorted(headings) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted({**CLASSES, **FUNCTIONS}))
def test_public_names_have_docstrings(name):
    assert inspect.getdoc(NAMES[name])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_public_functions_have_a_doctest(name):
    """In the docstring, or under a heading of the page that documents it."""
    page, _ = SECTIONS[name]
    blocks = [text for kind, text in FENCE.findall(PAGES[page]) if kind == "python"]
    examples = [inspect.getdoc(FUNCTIONS[name]), *blocks]
    call = re.compile(rf"^(?:>>>|\.\.\.).*\b{name}\(", re.MULTILINE)
    assert any(call.search(text) for text in examples)


def compare_signature(text, function):
    """Compare the first block of a section with the signature of a function."""
    kind, signature = FENCE.findall(text)[0]
    assert kind == "text"
    head, call = re.fullmatch(r"(async )?(.*)", signature.strip(), re.DOTALL).groups()
    (told,) = ast.parse(f"{head or ''}def {call}: ...").body
    (real,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert type(told) is type(real)
    assert ast.unparse(told.args) == ast.unparse(real.args)
    assert ast.unparse(told.returns) == ast.unparse(real.returns)


def compare_fields(text, value):
    """Compare the table of fields of a section with the fields of a class."""
    told = [(field, kind, default) for field, kind, default, _ in tables(text)["field"]]
    real = [field for field in attrs.fields(value) if field.init]
    kinds = inspect.get_annotations(value)  # attrs may have resolved its own
    assert [(f"`{f.name}`", f"`{kinds[f.name]}`") for f in real] == [
        (f, kind) for f, kind, _ in told
    ]
    for field, (_, _, default) in zip(real, told, strict=True):
        if default == "required":
            assert field.default is attrs.NOTHING
        else:
            assert eval(default.strip("`"), NAMES.copy()) == field.default


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_signatures_are_those_of_the_code(name):
    compare_signature(SECTIONS[name][1], FUNCTIONS[name])


@pytest.mark.parametrize("name", sorted(VALUES))
def test_fields_are_those_of_the_code(name):
    compare_fields(SECTIONS[name][1], VALUES[name])


# Packages with a page of their own: each name is told, and those with a heading in full


def test_every_name_around_the_working_memory_is_told_on_its_page():
    text = PAGES["reference/memory-rules.md"]
    told = {word for name in quoted(text) for word in re.findall(r"\w+", name)}
    modules = [facts, memory_settings, utf16, *map(import_module, COMPAT_MEMORY)]
    assert {name for module in modules for name in module.__all__} <= told
    assert {name.rpartition(".")[2] for name in COMPAT_MEMORY} <= told
    page = sections("reference/memory-rules.md", 2)
    rows = tables(page["Memory settings"])["field of `MemorySettings`"]
    fields = attrs.fields(memory_settings.MemorySettings)
    for field, (name, variable, default) in zip(fields, rows, strict=True):
        assert name.strip("`") == field.name
        assert quoted(variable)[0] == memory_settings.VARIABLES[field.name]
        assert eval(default.strip("`")) == field.default


def test_every_name_around_paging_is_told_on_its_page():
    text = PAGES["reference/paging.md"]
    told = {word for name in quoted(text) for word in re.findall(r"\w+", name)}
    modules = [settings, report, *map(import_module, COMPAT)]
    assert {name for module in modules for name in module.__all__} <= told
    assert {name.rpartition(".")[2] for name in COMPAT} <= told
    rows = tables(sections("reference/paging.md")["Lifecycle"])["event"]
    assert [tuple(row[1:]) for row in rows] == [row[:5] for row in LIFECYCLE.values()]
    assert [row[0].strip("`") for row in rows] == list(LIFECYCLE)


def test_every_name_around_the_tool_policy_is_told_on_its_page():
    told = {
        word for name in quoted(PAGES["reference/resident.md"]) for word in re.findall(r"\w+", name)
    }
    modules = [*map(import_module, COMPAT_TOOLS)]
    assert {name for module in modules for name in module.__all__} <= told
    assert {name.rpartition(".")[2] for name in COMPAT_TOOLS} <= told


PACKAGES = {
    "reference/checkpoints.md": checkpoints,
    "reference/codecs.md": codecs,
    "reference/delivery.md": delivery,
    "reference/recall.md": recall,
    "reference/replay.md": replay,
    "reference/resident.md": resident,
    "reference/timeline.md": timeline,
    "reference/usage.md": usage,
}


@pytest.mark.parametrize("page", PACKAGES)
def test_every_name_of_a_package_is_told_on_its_page(page):
    told = {word for text in quoted(PAGES[page]) for word in re.findall(r"\w+", text)}
    assert set(PACKAGES[page].__all__) <= told | set(sections(page))
    assert set(sections(page)) <= set(PACKAGES[page].__all__)


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page in PACKAGES for name in sections(page)]
)
def test_what_a_package_has_is_told_as_it_is(page, name):
    value, text = getattr(PACKAGES[page], name), sections(page)[name]
    if inspect.isfunction(value):
        compare_signature(text, value)
    elif inspect.isclass(value):
        compare_fields(text, value)
    else:
        assert text.strip()


@pytest.mark.parametrize(
    ("page", "title", "names"),
    [
        ("reference/codecs.md", "format", codecs.CODECS),
        ("reference/replay.md", "name", replay.PIPELINES),
        ("reference/replay.md", "name", replay.CACHES),
    ],
    ids=["formats", "pipelines", "caches"],
)
def test_tables_of_names_are_complete(page, title, names):
    found = [
        [row[0].strip("`") for row in tables(text).get(title, ())]
        for text in {**sections(page, 2), **sections(page)}.values()
    ]
    assert list(names) in found


@pytest.mark.parametrize(
    ("page", "title", "command"),
    [
        ("reference/replay.md", "The command", command.replay),
        ("reference/commands.md", "requests", requests.requests),
        ("reference/commands.md", "explain", explain.explain),
        ("reference/commands.md", "timeline", timeline_command.timeline),
    ],
    ids=["replay", "requests", "explain", "timeline"],
)
def test_the_options_of_commands_are_told(page, title, command):
    text = sections(page, 2)[title]
    rows = tables(text)["option"]
    known = [option.opts[0] for option in command.params if option.opts[0].startswith("--")]
    assert [row[0].strip("`") for row in rows] == known
    usage = FENCE.findall(text)[0][1]
    assert usage.startswith(f"$ ctxalgebra {command.name} ")
    assert re.findall(r"--\w+", usage) == known


def test_attributes_of_session_node_and_view_exist():
    session = Session()
    _, text = SECTIONS["Session"]
    for name, _ in tables(text)["attribute"]:
        assert hasattr(session, name.strip("`"))
    _, text = SECTIONS["View"]
    assert [name for name, _ in tables(text)["attribute"]] == [f"`{f}`" for f in View._fields]
    for name, _ in tables(text)["method"]:
        method, arguments = re.fullmatch(r"`(\w+)\((\w*)\)`", name).groups()
        names = list(inspect.signature(getattr(View, method)).parameters)[1:]
        assert names[:1] == [arguments][: len(names)]
    _, text = SECTIONS["Node"]
    named = quoted(text)
    assert named
    assert set(named) <= set(Node.__slots__)


EVERYWHERE = "wrong-type"


def test_the_code_that_all_functions_raise_is_told_once():
    rows = tables(sections("reference/errors.md", 2)["Where errors are raised"])["place"]
    (row,) = [row for row in rows if row[0] == "every public function and class"]
    assert quoted(row[2])[0] == EVERYWHERE


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_codes_of_docstrings_stand_in_the_reference(name):
    _, _, raises = inspect.getdoc(FUNCTIONS[name]).partition("Raises:")
    raises = raises.partition(">>>")[0]
    codes = set(quoted(raises)) & set(CODES) - {EVERYWHERE}
    assert codes <= set(quoted(SECTIONS[name][1])), f"{name} raises {sorted(codes)}"


# Entries, rules, codes


def test_the_table_of_entries_is_complete():
    rows = tables(PAGES["reference/entries.md"])["entry"]
    told = {(quoted(entry)[0], tag.strip("`"), what) for entry, tag, what, _, _ in rows}
    assert told == {
        (kind.__name__, kind.kind, "decision" if kind in DECISIONS else "event") for kind in STEPS
    }
    assert len(rows) == len(STEPS)


def test_the_table_of_rules_is_the_gate():
    rows = tables(PAGES["reference/gate.md"])["code"]
    told = [(code.strip("`"), quoted(kinds)) for code, kinds, refused, why in rows]
    assert told == [
        (rule.code, [getattr(kind, "__name__", kind) for kind in rule.kinds]) for rule in RULES
    ]
    assert all(refused and why for _, _, refused, why in rows)


def test_the_defects_are_named():
    _, text = SECTIONS["DEFECTS"]
    assert set(DEFECTS) <= set(quoted(text))


def test_the_table_of_codes_is_complete():
    rows = tables(SECTIONS["CODES"][1])["code"]
    assert [(code.strip("`"), meaning) for code, meaning in rows] == list(CODES.items())


def test_every_code_is_named_where_it_arises():
    """In a module, besides the list of codes."""
    named = [
        node.value
        for path in Path(ctxalgebra.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in CODES
    ]
    assert {code for code in CODES if named.count(code) < 2} == set()


def test_every_code_has_a_place_where_it_is_raised():
    rows = tables(sections("reference/errors.md", 2)["Where errors are raised"])["place"]
    codes = {code for row in rows for code in quoted(row[2])}
    assert codes | {rule.code for rule in RULES} == set(CODES)
    for _, classes, _ in rows:
        assert all(issubclass(NAMES[name], ctxalgebra.CtxError) for name in quoted(classes))


# Links and form


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page):
    return {slug(m[2]) for m in HEADING.finditer(prose(page))}


def links(page):
    return [
        link for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if not link.startswith("http")
    ]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_resolve(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (DOCS / page).parent / path if path else DOCS / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(DOCS).as_posix()), link


def test_every_page_is_reached_from_the_index():
    assert {link.partition("#")[0] for link in links("index.md")} >= set(PAGES) - {"index.md"}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_fences_are_closed_behind_a_blank_line_where_they_hold_doctests(page):
    """A closing fence right behind expected output counts as expected output."""
    assert len(re.findall(r"^```", PAGES[page], re.MULTILINE)) % 2 == 0
    for _, text in FENCE.findall(PAGES[page]):
        if ">>>" in text:
            assert text.endswith("\n\n")
            assert "+SKIP" not in text


@pytest.mark.parametrize("page", sorted(PAGES))
def test_lines_are_wrapped(page):
    for line in prose(page).splitlines():
        assert line.startswith("|") or len(line) <= 120, line


@pytest.mark.parametrize("page", sorted(PAGES))
def test_code_that_is_no_doctest_runs(page, monkeypatch):
    """Blocks for copying have no prompts; they run in order, and so do tests that they define."""
    search = strategies.search
    # The laws are asked in full elsewhere.
    monkeypatch.setattr(
        strategies, "search", lambda judge, on, examples: search(judge, on, min(examples, 30))
    )
    names = {"__name__": page}
    for kind, text in FENCE.findall(PAGES[page]):
        if kind == "python" and ">>>" not in text:
            exec(compile(text, page, "exec"), names)
    for name, value in names.copy().items():
        if name.startswith("test_"):
            value()


def test_the_skeleton_of_a_stage_is_a_legal_stage():
    names = {}
    text = sections("how-to/write-a-stage.md", 2)["The skeleton"]
    exec(FENCE.findall(text)[0][1], names)
    check(partial(names["shrink"], over=20), examples=25)

    def smaller(message):
        kept = [part for part in message.parts if isinstance(part, Opaque)]
        return attrs.evolve(message, parts=(Text("..."), *kept))

    names["smaller"] = smaller
    check(partial(names["shrink"], over=20), examples=25)


# Differences and changes


def defined_in(path):
    return {node.name for node in ast.parse(path.read_text("utf-8")).body if hasattr(node, "name")}


def test_each_difference_names_tests_that_exist():
    rows = tables(PAGES["differences.md"])["seed behaviour"]
    assert rows
    for row in rows:
        assert all(row)
        named = quoted(row[3])
        assert named
        for place in named:
            path, _, name = place.partition("::")
            assert name.startswith("test_")
            assert name in defined_in(ROOT / path), place


def test_the_changelog_begins_with_this_version():
    first = next(iter(sections("changelog.md", 2)))
    assert first.split()[0] == __version__
