"""Shorter descriptions of tools in the head of a session, decided once.

A description that is cut in each request anew is one more thing that may differ. Here the short
ones stand in the head, where they are recorded, compared and priced like the rest of it.
Parameters are never touched. Source: skills and saver, section 17.
"""

from __future__ import annotations

from attrs import evolve

from ctxalgebra.loading import is_whole
from ctxalgebra.model.checks import check_items, check_type
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Tool
from ctxalgebra.model.session import Session, check_session
from ctxalgebra.model.view import HEAD
from ctxalgebra.shaping.descriptions import LONGEST
from ctxalgebra.skills.texts import cut_line
from ctxalgebra.tokens import check_positive

__all__ = ["shorten_head", "shorten_tools"]


def shorten_tools(tools: tuple[Tool, ...], *, most: int = LONGEST) -> tuple[Tool, ...]:
    """Give tools with descriptions of at most so many units; the same tuple where all are short.

    Give the registry itself to it, once, where something else puts tools into the head
    (`resident_tools`): then both speak of the same tools. A tool that is defined by its schema
    alone, as server tools are, stays as it is.

    Args:
        tools: as they are registered.
        most: units of a description, the ellipsis at its end counted.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive `most`.

    >>> shorten_tools((Tool("a", "abcdefg hijk"),), most=9)
    (Tool(name='a', description='abcdefg…', schema='{}'),)
    """
    check_items(tools, Tool, "tools")
    check_positive(most=most)
    short: list[Tool] = []
    for tool in tools:
        text = cut_line(tool.description, most)
        same = text == tool.description or is_whole(tool)
        short.append(tool if same else evolve(tool, description=text))
    return tools if all(map(_is, tools, short)) else tuple(short)


def _is(one: Tool, other: Tool) -> bool:
    return one is other


def shorten_head(session: Session, *, most: int = LONGEST, breaks: bool = False) -> Session:
    """Shorten the descriptions of the head's tools where that costs nothing (a stage).

    That is before the first request, and where the next one breaks at its head anyway; else only
    where a break is asked for. While a request is in flight, and while the change would take the
    thinking of an open tool loop (rule V-A7), it waits. Where nothing is too long nothing is
    recorded.

    Args:
        most: units of a description.
        breaks: also where that is a break, which `dry_run` prices beforehand.

    Reads: the head, and whether it breaks. Records: a `Head`.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive `most`.

    >>> from ctxalgebra import Head, record, send, user
    >>> session = record(Session(), Head(tools=(Tool("a", "abcdefg hijk"),)), user("hi"))
    >>> shorten_head(session, most=9).head.tools[0].description
    'abcdefg…'
    >>> sent, _ = send(session)
    >>> shorten_head(sent, most=9) is sent
    True
    """
    check_session(session)
    check_type(breaks, bool, "breaks")
    view = session.view
    tools = shorten_tools(view.head.tools, most=most)
    if tools is view.head.tools or view.flight >= 0:
        return session
    if view.sent is not None:
        broken = view.broke is not None and view.broke.at == HEAD
        if not (broken or breaks) or view.holds_loop(HEAD):
            return session
    return record(session, evolve(view.head, tools=tools))
