"""What teaches a model to keep checkpoints and to travel: one source for every text.

The prompt gives the judgement, the tools say what to call at the moment of calling, and reminders
name one step. Nothing here commands: what the user's task needs comes first. The texts are part of
cached prefixes, so they stay as they are. Source: travel, sections 15, 17 and 18.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ctxalgebra.checkpoints.handoff import LABELS
from ctxalgebra.errors import InvalidArgument, escaped
from ctxalgebra.model.checks import check_text, check_type

__all__ = [
    "CUES",
    "GUIDANCE",
    "GUIDANCE_MARKER",
    "REMINDERS",
    "SLOT_CUES",
    "instructions_for_summary",
    "reminder",
    "with_guidance",
]

GUIDANCE_MARKER = "<!-- ctxalgebra:travel:v1 -->"
"""The first line of the guidance, by which it is found."""

SLOT_CUES: Mapping[str, str] = MappingProxyType(
    {
        "goal": "What the user wants, in full: what is asked, how it is judged, what is ruled out",
        "state": "What is known and done now, and what is uncertain, in order of weight",
        "evidence": "Where that can be checked: files with lines, commands, results; or none",
        "external": "What was changed outside of the conversation, and must not be done twice; "
        "or none",
        "exclusions": "What was tried or ruled out, and why; or none",
        "recover": "Where the rest can be found: checkpoints, files; or none",
        "next": "The first step after the journey, which can be done at once",
    }
)
"""What each slot of a handoff holds."""

CUES: Mapping[str, str] = MappingProxyType(
    {
        "checkpoint": "Name a place in this conversation to come back to. Call it before work "
        "whose course is open: a search, an experiment, a long reading. It costs nothing and "
        "changes nothing. Name it after what is about to begin.",
        "checked": "When what you begin here has come to a result, call travel with this name and "
        "a handoff: the result stays, the way to it goes.",
        "travel": "Go to a checkpoint and carry on from there with a handoff: what you did since "
        "is left behind, and kept under a ticket to which you can travel, too. Call it alone in "
        "its message, when the way to a result is no longer needed, or when something that was "
        "left behind is. Files and everything else outside stay as they are.",
    }
)
"""What the tools say: in their descriptions, and when a checkpoint was made."""

_SLOTS = "\n".join(f"{LABELS[slot]}: {cue}" for slot, cue in SLOT_CUES.items())

_PLAIN = f"""Write a handoff: what the one who goes on from here has to know. One line for each
slot, in this order, each with its label at the start of the line; `none` where there is nothing to
say.
{_SLOTS}"""

GUIDANCE = f"""{GUIDANCE_MARKER}
## Your working set

What you see is a working set, and not a log. Four things earn a place in it: what is settled, what
is honestly uncertain, what you are working with right now, and where the rest can be found. The
way that led to a result earns none once the result stands. A small set makes each step better and
cheaper; about a third of the budget is a comfortable size. Whether the task can go on with less
is for you to weigh: correctness, the user's request and a way back come first, and a long task may
need a large set.

Checkpoint: before work whose course is open, call `checkpoint` with a name for what begins. One
for each piece of work is enough.

Travel, when one of these is so:
- a piece of work has come to a result, and only the result matters: `travel` to the checkpoint in
  front of it (fold);
- an attempt has failed: `travel` to the checkpoint in front of it, with what it has taught under
  Exclusions (fork);
- you need what you left behind: `travel` to its ticket, and come back with what you looked for
  (rehydrate).
Don't travel between two steps that belong together, nor again right after you have travelled.

Whoever goes on after a journey knows the conversation up to the target, and your handoff; nothing
else. It has seven slots, of which goal, state and next must say something:
{_SLOTS}
If the handoff would not let a stranger go on, don't travel yet. Call `travel` alone in its
message: calls beside it would lose their results."""
"""The guidance for a system prompt, with its marker."""

REMINDERS: Mapping[int, str] = MappingProxyType(
    {
        30: "Nearly a third of the working budget is in use. If a piece of work has come to its "
        "result, `travel` to the checkpoint in front of it leaves the way behind; if not, go on.",
        50: "Half of the working budget is in use. Look for the next safe place to fold: name the "
        "oldest checkpoint whose work is settled, and `travel` there with a full handoff.",
        70: "Most of the working budget is in use, and this is the last reminder. If a complete "
        "handoff can be written now, `travel` to the earliest checkpoint that it can go on from; "
        "if the task needs all that is here, go on with it.",
    }
)
"""What is said when so many percent of the working budget are in use."""


def reminder(level: int) -> str:
    """Word the reminder of a level, which says who it comes from.

    Raises:
        InvalidArgument: `invalid-argument`, there is none for this level; `wrong-type`.

    >>> reminder(30)[:54]
    '[Context reminder, not from the user] Nearly a third o'
    """
    check_type(level, int, "level")
    if level not in REMINDERS:
        text = f"reminders are for {', '.join(map(str, REMINDERS))} percent"
        raise InvalidArgument("invalid-argument", text, field="level")
    return f"[Context reminder, not from the user] {REMINDERS[level]}"


def with_guidance(system: str) -> str:
    r"""Add the guidance to a system text, once.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`.

    >>> once = with_guidance("You are a coding agent.")
    >>> once == with_guidance(once), once.startswith("You are a coding agent.\n\n<!--")
    (True, True)
    """
    check_text(system, "system")
    if GUIDANCE_MARKER in system:
        return system
    return f"{system}\n\n{GUIDANCE}" if system else GUIDANCE


def instructions_for_summary(given: str | None, *, tip: str = "") -> str:
    """Give the instructions for a summary of a branch that the user leaves by hand.

    Who wrote instructions gets what they asked for; a plain request gets the seven slots.

    Args:
        given: what the user wrote; None or white space for nothing.
        tip: how the end of the branch can be found, where that is known.

    Raises:
        InvalidArgument: `wrong-type`, `lone-surrogate`.

    >>> instructions_for_summary("Only the file names.")
    'Only the file names.'
    >>> instructions_for_summary(" ", tip="#41").splitlines()[-1]
    'Under Recover, name #41: the end of the branch that is left.'
    """
    check_text("" if given is None else given, "given")
    check_text(tip, "tip")
    if given is not None and given.strip():
        return given
    if not tip:
        return _PLAIN
    return f"{_PLAIN}\nUnder Recover, name {escaped(tip)}: the end of the branch that is left."
