"""Show large outputs of commands as digests that a model made, before they are first sent."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import evolve

from ctxalgebra.explain import carried
from ctxalgebra.model.checks import check_callable, check_items, check_text
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import Message, Part, Text
from ctxalgebra.model.session import Session, check_session, find
from ctxalgebra.model.view import Measure
from ctxalgebra.tokens import chars4, check_positive
from ctxalgebra.transforms.arguments import text_member
from ctxalgebra.transforms.facts import DISCARDED, replied, sanitize_output
from ctxalgebra.transforms.limit import limited, texts_of
from ctxalgebra.transforms.unsent import check_deadline, consult, replacement, results_unsent

__all__ = ["default_digest_prompt", "digest_output"]

_STAGE = "digest"
_FALLBACK_LINES = 120
_LAST_BYTES, _LAST_LINES = 600, 3
_MOST_CHARACTERS = 2_000
_AT_NOTE = re.compile(rf"(?:\A|(?<=[^\n]\n))\n*+{re.escape(DISCARDED)}(?:\n|\Z)")


def default_digest_prompt(command: str, output: str, longest: int) -> str:
    """Word the question for a digest: the output stands in it whole.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, `longest` is not positive.

    >>> print(default_digest_prompt("make", "ok", 1024))
    You digest what a shell command wrote, for an agent that goes on from your digest alone.
    Keep exit codes, errors word by word, paths, numbers, versions and what they come to.
    Leave out boilerplate, progress and repetition. Short facts, one a line, each with a dash.
    At most 2000 characters.
    Command: make
    <output>
    ok
    </output>
    Digest:
    """
    check_text(command, "command")
    check_text(output, "output")
    check_positive(longest=longest)
    return (
        "You digest what a shell command wrote, for an agent that goes on from your digest alone.\n"
        "Keep exit codes, errors word by word, paths, numbers, versions and what they come to.\n"
        "Leave out boilerplate, progress and repetition. Short facts, one a line, each with a "
        "dash.\n"
        f"At most {min(longest * 4, _MOST_CHARACTERS)} characters.\n"
        f"Command: {command}\n<output>\n{output}\n</output>\nDigest:"
    )


def digest_output(
    session: Session,
    *,
    tools: tuple[str, ...] = ("bash",),
    over: int = 2_000,
    longest: int = 1_024,
    fallback_bytes: int = 3_000,
    measure: Measure = chars4,
    deadline: int = 20_000,
    prompt: Callable[[str, str, int], str] = default_digest_prompt,
) -> Session:
    """Show large outputs of commands as digests, from the first request on (a stage).

    An output of `over` tokens or more is asked about with an `Ask` of the topic `digest`: the
    question is JSON with `longest` (tokens of the reply) and `prompt`. Failed commands are
    digested, too: they stay marked as failed, and their last lines, where the exit code is, stand
    behind the digest as they were. Images stay. Notes that point at a saved copy are taken out
    before anyone reads the output (`sanitize_output`), and out of the answer, with its control
    characters (`replied`).

    * Answered: the digest, and a line that says what it is and how large the output was.
    * Failed, expired or empty, or a digest that is no smaller than the output: the last
      `fallback_bytes` of the output, at most 120 lines, with how much that is of how much.
    * No answer yet: nothing. A request that leaves before the answer shows the output whole, and so
      do all later ones; an answer that comes then is recorded, and no more. With `drive` the
      answers come before the request leaves, and the output is in none.

    What is digested is the output as it was recorded: stages that shape it meanwhile, since they
    need not wait for an answer, are overruled by the digest. In `working_memory` it stands
    in front of them all; a stage in front of it that spends what was saved, as `forget` does, sees
    what a digest saved one call later.

    Args:
        tools: names of the tools that run commands.
        over: tokens of the smallest output that is digested.
        longest: tokens of the reply.
        fallback_bytes: in UTF-8.
        measure: tokens of a message.
        deadline: milliseconds that the adapter may take.
        prompt: words the question, from the command (its `command` argument), the output and
            `longest`.

    Reads: what was not sent, answers. Records: `Ask` and `Replace`, or nothing.

    Raises:
        InvalidArgument: `wrong-type`; `invalid-argument`, no positive numbers.

    >>> from ctxalgebra import RecordedEffects, ToolCall, answer_to, assistant, drive, project
    >>> from ctxalgebra import Answer, tool_result
    >>> session = record(Session(), assistant(ToolCall("c1", "bash")))
    >>> session = record(session, tool_result("c1", "progress " * 2000))
    >>> def effects(asks):
    ...     return tuple(Answer(p.number, "answered", "- all done") for p in asks)
    >>> print(project(drive(session, digest_output, effects)).messages[-1].parts[0].text)
    - all done
    [This is a digest: the output has 18000 characters in 1 lines, and is not shown.]
    """
    check_session(session)
    check_items(tools, str, "tools")
    check_positive(over=over, longest=longest, fallback_bytes=fallback_bytes)
    check_callable(measure, "measure")
    check_callable(prompt, "prompt")
    check_deadline(deadline)
    for call, number, result in results_unsent(session, _STAGE, tools):
        original = carried(find(session, number)) or result
        if measure(original) < over:
            continue
        output = sanitize_output("\n".join(texts_of(original)))
        tokens = measure(evolve(result, parts=(Text(output),)))
        if tokens < over or not output.strip():
            continue
        said = prompt(text_member(call.arguments, "command"), output, longest)
        check_text(said, "prompt")
        question: dict[str, str | int] = {"longest": longest, "prompt": said}
        session, answer = consult(session, "digest", said, question, deadline)
        if answer is None:
            continue
        digest = replied(answer.value) if answer.outcome == "answered" else ""
        whole = _with_text(result, output)
        shown = _with_text(result, _told(digest, output, last=result.error))
        if not digest or measure(shown) >= measure(whole):
            shown = limited(whole, tail=True, max_bytes=fallback_bytes, max_lines=_FALLBACK_LINES)
            shown = min(shown, whole, key=lambda message: message.characters)
        if texts_of(shown) not in (texts_of(result), texts_of(original)):
            why = f"{tokens} tokens of output"
            session = record(session, replacement(_STAGE, number, shown, why))
    return session


def _told(digest: str, output: str, *, last: bool) -> str:
    lines = output.count("\n") + (not output.endswith("\n"))
    told = (
        f"{digest}\n[This is a digest: the output has {len(output)} characters in {lines} lines, "
        "and is not shown"
    )
    if not last:
        return f"{told}.]"
    said = _AT_NOTE.sub("", output).rstrip() or output.rstrip()
    whole = Message("user", said)
    (*_, end) = texts_of(limited(whole, tail=True, max_bytes=_LAST_BYTES, max_lines=_LAST_LINES))
    return f"{told} but for its end.]\n{end}"


def _with_text(message: Message, text: str) -> Message:
    """Put one text for all that a message has, where its first stands."""
    parts: list[Part] = []
    told = False
    for part in message.parts:
        if not isinstance(part, Text):
            parts.append(part)
        elif not told:
            parts.append(Text(text))
            told = True
    return evolve(message, parts=tuple(parts), origin="")
