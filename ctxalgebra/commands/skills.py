"""The command `skills`: what a folder of skills holds, what each costs, and what is wrong."""

from __future__ import annotations

import json
from typing import Any

import click
from attrs import frozen

from ctxalgebra.codecs.skill_files import read_skills, skill_text
from ctxalgebra.errors import CtxError, DecodeError
from ctxalgebra.skills.loading import strip_frontmatter
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.references import Names, references
from ctxalgebra.skills.texts import cut_line, one_line
from ctxalgebra.terminal import aligned, counted, say
from ctxalgebra.tokens import ceil_div

__all__ = ["skills"]

_ABOUT, _NEEDS = 60, 40


@frozen
class _Row:
    """A skill, how long its text is, and the skills that it refers to."""

    skill: Skill
    tokens: int
    needs: tuple[str, ...]


@click.command()
@click.argument("folder")
@click.option("--follow", is_flag=True, help="Follow links below the folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def skills(*, folder: str, follow: bool, as_json: bool) -> None:
    """List the skills below a folder, and what is wrong with their files.

    FOLDER is looked through for files SKILL.md.
    """
    found = read_skills(folder, follow=follow)
    problems = list(found.problems)
    texts: dict[str, str] = {}
    for skill in found.skills:
        try:
            texts[skill.name] = strip_frontmatter(skill_text(skill))
        except DecodeError as error:  # it went since
            problems.append(error)
    known = [skill for skill in found.skills if skill.name in texts]
    names = Names(skill.name for skill in known if skill.visible)
    rows = [
        _Row(
            skill,
            ceil_div(len(texts[skill.name]), 4),
            references(texts[skill.name], names, skill.name),
        )
        for skill in known
    ]
    if as_json:
        click.echo(json.dumps(_object(folder, rows, problems)))
    else:
        _show(folder, rows, problems)


def _listed(rows: list[_Row]) -> int:
    """Count the tokens that names, descriptions and places would take in a system text."""
    shown = (row.skill for row in rows if row.skill.visible)
    return ceil_div(sum(len(s.name) + len(s.description) + len(s.path) for s in shown), 4)


def _object(folder: str, rows: list[_Row], problems: list[CtxError]) -> dict[str, Any]:
    return {
        "folder": folder,
        "listed_tokens": _listed(rows),
        "skills": [
            {
                "name": row.skill.name,
                "description": row.skill.description,
                "path": row.skill.path,
                "for_model": row.skill.visible,
                "tokens": row.tokens,
                "needs": list(row.needs),
            }
            for row in rows
        ],
        "problems": [
            {
                "code": problem.code,
                "message": problem.message,
                "file": problem.file,
                "line": problem.line,
                "field": problem.field,
            }
            for problem in problems
        ],
    }


def _show(folder: str, rows: list[_Row], problems: list[CtxError]) -> None:
    say(
        f"{folder}: {counted(len(rows), 'skill')}, {counted(len(problems), 'problem')}; "
        f"a list of them takes {counted(_listed(rows), 'token')} of every request"
    )
    if rows:
        say()
        aligned(
            ("name", "for", "tokens", "needs", "description"),
            [
                (
                    row.skill.name,
                    "the model" if row.skill.visible else "a person",
                    f"{row.tokens:,}",
                    cut_line(one_line(", ".join(row.needs)), _NEEDS),
                    cut_line(row.skill.description, _ABOUT),
                )
                for row in rows
            ],
            left=("for", "needs", "description"),
        )
    if problems:
        say()
        for problem in problems:
            say(str(problem))
