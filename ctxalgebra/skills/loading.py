r"""Loading skills: their files without front matter, and the one text in which a model gets them.

Front matter is what stands between two fences `---` and begins like a mapping; a document that
begins with a rule loses nothing, and neither a byte order mark nor the kind of line ends matters
(W35). A text can't close what it stands in (W36). Source: skills and saver, sections 4 and 11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from attrs import frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.skills.config import Config
from ctxalgebra.skills.dependencies import Graph, effective, graph
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.references import Names, references
from ctxalgebra.skills.texts import one_line, quoted
from ctxalgebra.utf16 import SPACE, trim

__all__ = [
    "INTRO",
    "Loaded",
    "bundle",
    "folder",
    "frontmatter",
    "load",
    "section",
    "skill_graph",
    "strip_frontmatter",
]

INTRO: Final = (
    "Follow these instructions for the task. Those that others need come first. A relative path is "
    "one in the source directory of its skill."
)

_NONE: Mapping[str, str] = MappingProxyType({})
_LINE = re.compile(r"\r\n|[\r\n]")
_KEY = re.compile(
    r"(?:\"[^\"]*+\"[ \t]*+|'[^']*+'[ \t]*+|[^\s:#\-\[{\"'][^:]*+|-[^\s:][^:]*+):(?:\s|\Z)"
)
_FILE = re.compile(r"[/\\]SKILL\.md\Z", re.ASCII | re.IGNORECASE)
_BREAK: Final = r"[\n\r\u2028\u2029]"
_SOURCE: Final = r"(S)(?=ource[ \t]++directory[ \t]*+:)"
_HEAD = re.compile(
    rf"\A{_SOURCE}|(?:\A|(?<={_BREAK}))([ \t]{{0,3}})#(#{{0,5}}[ \t]++Loaded[ \t]++skill[ \t]*+:"
    rf"(?:(?!{_BREAK}).)*+)(?:((?:\r\n|{_BREAK})[ \t]{{0,3}}){_SOURCE})?",
    re.ASCII | re.DOTALL | re.IGNORECASE,
)
"""What looks as only the head of a skill does: its line, and the folder behind it or in front."""

_TAG = re.compile(rf"<(?=[{SPACE}]*+(?:/[{SPACE}]*+)?skill-orchestrator)", re.ASCII | re.IGNORECASE)


def _after_fences(text: str) -> int:
    """Give where the text behind front matter starts; 0 where there is none."""
    opened = said = mapping = False
    start = 0
    while start < len(text):
        end = _LINE.search(text, start)
        line = text[start : end.start() if end else len(text)].strip(SPACE)
        fence = text.startswith("---", start) and line == "---"
        start = end.end() if end else len(text)
        if not opened:
            if not fence:
                return 0
            opened = True
        elif fence:
            return start if mapping or not said else 0
        elif line and not mapping:
            if not line.startswith("#"):
                mapping = _KEY.match(line) is not None
                if not mapping:
                    return 0
            said = True
    return 0


def frontmatter(text: str) -> tuple[str, str]:
    r"""Part a skill's file into its front matter, fences included, and what stands behind it.

    Args:
        text: the file; a byte order mark goes.

    Returns:
        Two texts; the first is empty where there is no front matter.

    >>> frontmatter("\ufeff---\nname: x\n---\nBody\n")
    ('---\nname: x\n---\n', 'Body\n')
    """
    plain = text.removeprefix("\ufeff")
    at = _after_fences(plain)
    return plain[:at], plain[at:]


def strip_frontmatter(text: str) -> str:
    r"""Take the front matter off a skill's file, and trim.

    >>> strip_frontmatter("\ufeff---\nname: x\n---\nBody\n")
    'Body'
    >>> strip_frontmatter("---\n\n# Title\n\n---\n\nstep two")
    '---\n\n# Title\n\n---\n\nstep two'
    """
    return trim(frontmatter(text)[1])


def folder(path: str) -> str:
    """Give the folder of a skill's file.

    >>> folder("/s/tdd/SKILL.md"), folder("/s/tdd.md")
    ('/s/tdd', '/s/tdd.md')
    """
    return _FILE.sub("", path)


@frozen
class Loaded:
    """Hold skills with their texts, in the order in which they are to be read.

    Args:
        roots: what was asked for.
        bodies: names and texts, without front matter.
        missing: names that no skill has.
        cycles: as in `Graph`, each once.
    """

    roots: tuple[str, ...]
    bodies: tuple[tuple[Skill, str], ...] = ()
    missing: tuple[str, ...] = ()
    cycles: tuple[tuple[str, ...], ...] = ()


def skill_graph(
    root: str, skills: Iterable[Skill], config: Config, read: Callable[[Skill], str]
) -> Graph:
    """Walk what a skill needs, by its text and the configuration.

    Args:
        root: its name.
        skills: all that there are; a text refers only to those that a model may load.
        config: what is loaded along, and what is ignored.
        read: gives the text of a skill, without front matter; what it raises passes.

    >>> found = skill_graph("a", [Skill("a"), Skill("b")], Config(), lambda s: "Use the b skill.")
    >>> found.order
    ('b', 'a')
    """
    known = {skill.name: skill for skill in skills}
    names = Names(skill.name for skill in known.values() if skill.visible)

    def needs(name: str) -> tuple[str, ...]:
        found = references(read(known[name]), names, name)
        return effective(name, found, config)

    return graph(root, known, needs)


def load(
    roots: Iterable[str], skills: Iterable[Skill], config: Config, read: Callable[[Skill], str]
) -> Loaded:
    """Load skills and what they need, each once.

    Args:
        roots: names.
        skills: all that there are.
        config: what is loaded along, and what is ignored.
        read: gives the text of a skill's file; what it raises passes.

    Raises:
        InvalidArgument: `unknown-item`, there is no skill of a name; `invalid-argument`, a file
            has no text.

    >>> load(["a"], [Skill("a")], Config(), lambda s: "Do it").bodies[0][1]
    'Do it'
    """
    known = {skill.name: skill for skill in skills}
    bodies: dict[str, str] = {}

    def body(skill: Skill) -> str:
        if skill.name not in bodies:
            text = strip_frontmatter(read(skill))
            if not text:
                raise InvalidArgument(
                    "invalid-argument", f"{skill.name} says nothing", field="body"
                )
            bodies[skill.name] = text
        return bodies[skill.name]

    asked = tuple(dict.fromkeys(roots))
    order: dict[str, None] = {}
    missing: dict[str, None] = {}
    cycles: dict[tuple[str, ...], None] = {}
    for root in asked:
        if root not in known:
            raise InvalidArgument("unknown-item", f"there is no skill {root}", field="name")
        found = skill_graph(root, known.values(), config, body)
        order |= dict.fromkeys(found.order)
        missing |= dict.fromkeys(found.missing)
        cycles |= dict.fromkeys(found.cycles)
    texts = tuple((known[name], body(known[name])) for name in order)
    return Loaded(asked, texts, tuple(missing), tuple(cycles))


def _listed(words: Sequence[str]) -> str:
    return ", ".join(map(one_line, words))


def section(skill: Skill, text: str) -> str:
    r"""Write one skill as it stands among others: its name, its folder, its text.

    A tag that would close what it stands in is escaped (W36), and so is what would pass for the
    head of another skill, or for the folder of this one; any other text stays word for word.

    >>> section(Skill("a", path="/s/a/SKILL.md"), "Do it")
    '## Loaded skill: a\nSource directory: /s/a\n\nDo it'
    """
    where = one_line(folder(skill.path))
    body = _HEAD.sub(_escaped, _TAG.sub("&lt;", text))
    return f"## Loaded skill: {one_line(skill.name)}\nSource directory: {where}\n\n{body}"


def _escaped(head: re.Match[str]) -> str:
    first, indent, line, gap, source = head.groups()
    if first:
        return f"&#{ord(first)};"
    return f"{indent}&#35;{line}" + (f"{gap}&#{ord(source)};" if source else "")


def bundle(
    loaded: Loaded, words: Mapping[str, str] | None = None, *, shown: Mapping[str, str] = _NONE
) -> str:
    r"""Write skills as one text for a model.

    Args:
        loaded: what was loaded.
        words: other wording for `intro`, and for `missing`, `cycles` and `shown` with `{}` for what
            it is.
        shown: names of skills that the model sees already, with the one that they came with; of
            these the text does not come again.

    >>> loaded = Loaded(("a",), ((Skill("a", path="/s/a/SKILL.md"), "Do </skill-orchestrator>"),))
    >>> print(bundle(loaded, {"intro": "Follow these."}).replace("\n\n", "\n"))
    <skill-orchestrator roots="a">
    Selected root skill: a
    Follow these.
    <BLANKLINE>
    ## Loaded skill: a
    Source directory: /s/a
    Do &lt;/skill-orchestrator>
    </skill-orchestrator>
    """
    told = {"intro": INTRO, "missing": "Missing: {}", "cycles": "Need one another: {}"}
    told |= {"shown": "Loaded before, in full further above, and still in force: {}"}
    told |= words or {}
    roots = _listed(loaded.roots)
    plural = "" if len(loaded.roots) == 1 else "s"
    again = [skill.name for skill, _ in loaded.bodies if skill.name in shown]
    warnings: list[str] = []
    if again:
        placed = [name if shown[name] == name else f"{name} (with {shown[name]})" for name in again]
        warnings.append(told["shown"].replace("{}", _listed(placed)))
    if loaded.missing:
        warnings.append(told["missing"].replace("{}", _listed(loaded.missing)))
    if loaded.cycles:
        rings = "; ".join(" -> ".join(map(one_line, cycle)) for cycle in loaded.cycles)
        warnings.append(told["cycles"].replace("{}", rings))
    parts = [
        f'<skill-orchestrator roots="{quoted(roots)}">',
        f"Selected root skill{plural}: {roots}",
        told["intro"],
        *(["\n".join(warnings)] if warnings else []),
        "",
        *(section(skill, text) for skill, text in loaded.bodies if skill.name not in shown),
    ]
    return "\n\n".join([*parts, "</skill-orchestrator>"])
