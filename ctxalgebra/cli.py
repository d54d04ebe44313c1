"""The command line: replay, requests, explain, timeline, convert, skills, conformance.

Needs the extra `cli`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit code.

    Args:
        arguments: without the program's name; those of the process by default.

    Returns:
        0; 2 for bad input and 1 for an output that takes nothing, each with one line on stderr;
        130 when interrupted.
    """
    try:
        from ctxalgebra import __version__
        from ctxalgebra.codecs.command import convert
        from ctxalgebra.commands.explain import explain
        from ctxalgebra.commands.requests import requests
        from ctxalgebra.commands.skills import skills
        from ctxalgebra.commands.timeline import timeline
        from ctxalgebra.conformance.command import conformance
        from ctxalgebra.replay.command import replay
        from ctxalgebra.terminal import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("click", "rich"):
            raise
        sys.stderr.write("The command line needs click and rich: pip install 'ctxalgebra[cli]'\n")
        return 2
    commands = (replay, requests, explain, timeline, convert, skills, conformance)
    return run(commands, __version__, arguments)
