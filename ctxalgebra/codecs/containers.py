"""Containers of a provider's elements, taken apart and put together: the same for every API.

| container | told by | written back as |
| --- | --- | --- |
| a JSON list of elements | `[` | the same text, new elements behind the last |
| an object with the API's key: a request body, an export | that key | likewise |
| a body whose key holds a text | likewise | a list, once something was added |
| a trace with `observations` | that key | likewise; the longest list of elements in it is read |
| JSON Lines, one element a line | a first line that is an object by itself | likewise, new lines |
| a cassette of HTTP calls (YAML; the extra `yaml`) | `interactions:` | the same text; once \
something was added, the body of its longest request with all elements, as JSON |

A cassette tells more than a list: each recorded request whose elements begin the longest one gives
its own head, and the usage of its answer. The answer of the longest is the last element.

A path in front of all that was said is written as an empty list, in an object by itself where the
container can't hold one; so is a trace whose list would not be its longest any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TypeAlias

from attrs import evolve, field, frozen

from ctxalgebra.codecs.cassette import Interaction, interactions
from ctxalgebra.codecs.giveback import Given, Said
from ctxalgebra.codecs.intake import FRAME, Repair
from ctxalgebra.codecs.lines import (
    BOM,
    Json,
    Number,
    blank,
    compact,
    drain,
    filled,
    integer,
    kept,
    parse,
    quote,
    span,
    spans,
    split,
    string,
)
from ctxalgebra.errors import DecodeError
from ctxalgebra.model.entries import Note
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head, Usage
from ctxalgebra.model.session import Session

__all__ = ["Api", "Body", "Element", "Found", "merge", "pack", "start", "unpack"]

Body = dict[str, Json]
Element: TypeAlias = "tuple[str, Json | DecodeError]"
"""The text of an element, and its value or the error that reading it gave."""


def _itself(element: Json) -> Json:
    return element


@frozen
class Api:
    """Say what an API's bodies are like.

    Args:
        name: the codec's.
        key: what a request body calls its list of elements.
        addresses: an address of a call holds one of these.
        speaks: says whether a value is an element.
        read_head: reads what stands beside the elements: of a body, and the call's address.
        write_head: gives the fields of a body for a head, with what the body at hand has already.
        owned: all fields that `write_head` may give; one that a change of head does not change
            stays as it is.
        read_answer: reads the elements and the usage of an answer.
        same: gives what counts of an element when histories are compared.
    """

    name: str
    key: str
    addresses: tuple[str, ...]
    speaks: Callable[[Json], bool]
    read_head: Callable[[Body, str], Head]
    write_head: Callable[[Head, Body], Body]
    owned: tuple[str, ...]
    read_answer: Callable[[Interaction], tuple[list[Json], Usage | None]]
    same: Callable[[Json], Json] = _itself


@frozen
class Found:
    """Hold a container taken apart.

    Args:
        frame: what stands around the elements: `{"container": ..., ...}`.
        elements: in order, to be taken once: each is let go of, and lines are read as they come.
        head: what the container says beside them.
        heads, usages: of the request that the element with this index answers.
        repairs: what was left out.
        ended: the last line has its LF, or it is no list of lines.
    """

    frame: Body
    elements: Iterator[Element]
    head: Head
    heads: dict[int, Head] = field(factory=dict)
    usages: dict[int, Usage] = field(factory=dict)
    repairs: list[Repair] = field(factory=list)
    ended: bool = True


# Taking apart


def _frame(text: str, where: tuple[str | int, ...]) -> tuple[Body, list[str]]:
    begin, _, elements = spans(text, where)
    outside = (elements[0][0], elements[-1][1]) if elements else (begin + 1, begin + 1)
    gaps = [text[one[1] : two[0]] for one, two in pairwise(elements)]
    return {
        "container": "document",
        "before": text[: outside[0]],
        "between": [*gaps] if len(set(gaps)) > 1 else gaps[0] if gaps else ",",
        "after": text[outside[1] :],
    }, [text[one:two] for one, two in elements]


@frozen
class _Where:
    """A list of elements in a document: its place, itself, and the object that it stands in."""

    place: tuple[str | int, ...]
    held: list[Json]
    beside: Body


def _trace(value: Json, api: Api) -> _Where | None:
    """Find the longest list of elements in the observations of a trace."""
    best: _Where | None = None
    for index, observation in enumerate(value if isinstance(value, list) else ()):
        for side in ("output", "input"):
            held = observation.get(side) if isinstance(observation, dict) else None
            place: tuple[str | int, ...] = ("observations", index, side)
            beside: Body = {}
            if isinstance(held, dict):
                beside, place = held, (*place, api.key)
                held = beside.get(api.key)
            longest = len(best.held) if best else 0
            if isinstance(held, list) and len(held) > longest and all(map(api.speaks, held)):
                best = _Where(place, held, beside)
    return best


def _text(text: str, beside: Body, api: Api) -> Found:
    """Take a body apart whose elements are one text, which stands for a message of the user."""
    begin, end = span(text, (api.key,))
    raw = text[begin:end]
    element = _alone(raw)
    frame: Body = {
        "container": "document",
        "before": f"{text[:begin]}[",
        "between": ",",
        "after": f"]{text[end:]}",
        "text": raw,
    }
    alone: list[Element] = [(element, parse(element, limit=len(element)))]
    return Found(frame, drain(alone), api.read_head(beside, ""))


def _document(text: str, value: Json, api: Api, file: str | None) -> Found:
    found: _Where | None = None
    if isinstance(value, list):
        found = _Where((), value, {})
    elif isinstance(value, dict):
        held = value.get(api.key)
        if isinstance(held, str):
            return _text(text, value, api)
        if isinstance(held, list):
            found = _Where((api.key,), held, value)
        else:
            found = _trace(value.get("observations"), api)
    else:
        raise DecodeError("wrong-type", "neither a list nor an object", file=file, line=1)
    if found is None:
        raise DecodeError("missing-field", f"no {api.key}", file=file, line=1, field=api.key)
    frame, texts = _frame(text, found.place)
    if len(found.place) > 1:
        frame["longest"] = Number(str(len(texts)))
    elements: list[Element] = [*zip(texts, found.held, strict=True)]
    return Found(frame, drain(elements), api.read_head(found.beside, ""))


def _lines(lines: list[str], api: Api, file: str | None, limit: int) -> Found:
    frame: Body = {"container": "lines"}
    ended = not lines[-1]
    if ended:
        lines.pop()
    if lines[0].startswith(BOM):
        # It belongs to the file, whatever its first line will be.
        frame["bom"] = True
        lines[0] = lines[0].removeprefix(BOM)
    return Found(frame, _parsed(lines, file, limit), api.read_head({}, ""), ended=ended)


def _parsed(lines: list[str], file: str | None, limit: int) -> Iterator[Element]:
    for number, raw in enumerate(drain(lines), 1):
        value: Json | DecodeError = None
        try:
            value = None if blank(raw) else parse(raw, file=file, line=number, limit=limit)
        except DecodeError as error:
            value = kept(error)
        yield raw, value


@frozen
class _Call:
    """A recorded request: its place in the cassette, and its elements as they are compared."""

    line: int
    interaction: Interaction
    elements: list[Json]
    texts: list[str]


def _calls(
    recorded: Sequence[Interaction], api: Api, file: str | None
) -> tuple[list[_Call], list[Repair]]:
    calls: list[_Call] = []
    repairs: list[Repair] = []
    for line, interaction in enumerate(recorded, 1):
        address, held = interaction.address, interaction.body.get(api.key)
        ours = not address or any(part in address for part in api.addresses)
        if isinstance(held, str):
            held = [parse(_alone(quote(held)))]
        if ours and isinstance(held, list):
            texts = [compact(api.same(element)) for element in held]
            calls.append(_Call(line, interaction, held, texts))
        else:
            text = f"left out: a request without {api.key}"
            repairs.append(Repair("missing-field", line, text))
    if not calls:
        raise DecodeError("missing-field", f"no {api.key}", file=file, line=1, field=api.key)
    return calls, repairs


def merge(source: str, recorded: Sequence[Interaction], api: Api, file: str | None) -> Found:
    """Make one list of recorded calls: the longest request, and its answer.

    Args:
        source: the text of the file; it comes back while nothing was added.
        recorded: the calls in it.
        api: what to look for.
        file: its name, for errors.

    Raises:
        DecodeError: `missing-field`, no call is one of the API.
    """
    calls, repairs = _calls(recorded, api, file)
    longest = max(calls, key=lambda call: (len(call.texts), call.line))
    answer, _ = api.read_answer(longest.interaction)
    held: Body = {api.key: [*longest.elements, *answer]}
    body = compact({**longest.interaction.body, **held})
    found = _document(body, parse(body, limit=len(body)), api, file)
    for call in calls:
        count = len(call.texts)
        if longest.texts[:count] == call.texts:
            found.heads[count] = api.read_head(call.interaction.body, call.interaction.address)
            _, usage = api.read_answer(call.interaction)
            if usage is not None:
                found.usages[count] = usage
        else:
            text = "left out: a request with another history"
            repairs.append(Repair("unknown-request", call.line, text))
    first = min(found.heads)
    digest = sha256(body.encode()).hexdigest()
    frame: Body = {**found.frame, "source": source, "digest": digest}
    return evolve(found, frame=frame, head=found.heads[first], repairs=repairs)


def unpack(data: bytes, api: Api, *, file: str | None, limit: int) -> Found:
    """Tell the container of a file, and take it apart.

    Args:
        data: the whole file.
        api: what to look for.
        file: its name, for errors.
        limit: the longest JSON text that is read, in characters; of JSON Lines a longer line is
            an element with its error.

    Raises:
        DecodeError: `empty-file`, `invalid-utf8`; `wrong-type`, `missing-field`, there is no list
            of elements; what is wrong with a document's JSON or YAML.
    """
    lines = split(data, file=file, limit=limit)
    said = filled(lines)
    if not said:
        raise DecodeError("empty-file", file=file)
    first = said[0][0]
    if first not in "[{" and any(line.startswith("interactions:") for line in lines):
        source = "\n".join(lines)
        return merge(source, interactions(source, file=file), api, file)
    # A line that is an object by itself is no line of a document, unless it is the only one.
    if len(said) > 1 and first != "[" and any(_stands_alone(line, limit) for line in said[:2]):
        return _lines(lines, api, file, limit)
    text = "\n".join(lines)
    value = parse(text, file=file, limit=limit)
    if len(said) == 1 and isinstance(value, dict):
        # A body may have a role beside its elements, but no type.
        body = isinstance(value.get(api.key), list) and "type" not in value
        if api.speaks(value) and not body:
            return _lines(lines, api, file, limit)
    return _document(text, value, api, file)


def _stands_alone(line: str, limit: int) -> bool:
    """Say whether a line is an object by itself."""
    try:
        return isinstance(parse(line, limit=limit), dict)
    except DecodeError:
        return False


def start(found: Found, api: Api) -> Session:
    """Begin the session of a file: its frame, and its head."""
    return record(Session(), Note(api.name + FRAME, compact(found.frame)), found.head)


# Putting together


def _around(frame: Body, head: Head, api: Api) -> Body:
    """Bring the fields around the elements up to date."""
    text = string(frame.get("before")) + string(frame.get("after"))
    value = parse(text, limit=len(text))
    if not isinstance(value, dict) or not isinstance(value.get(api.key), list):
        return frame
    known, fields = api.write_head(api.read_head(value, ""), value), api.write_head(head, value)
    changed = [key for key in api.owned if known.get(key) != fields.get(key)]
    if not changed:
        return frame
    put = {key: fields[key] for key in changed if key in fields}
    rest = {
        key: put.get(key, item) for key, item in value.items() if key not in {*changed} - {*put}
    }
    return _frame(compact({**rest, **put}), (api.key,))[0]


def _fits(frame: Body, texts: Sequence[str]) -> bool:
    """Say whether a container with these elements would be read as the same again."""
    if frame.get("container") == "lines":
        return bool(texts)
    return len(texts) >= (integer(frame.get("longest")) or 0)


def _join(frame: Body, texts: Sequence[str]) -> str:
    gaps = frame.get("between", ",")
    between = [string(gap) for gap in gaps] if isinstance(gaps, list) else [string(gaps)]
    out = [string(frame.get("before"))]
    for index, raw in enumerate(texts):
        if index:
            out.append(between[min(index, len(between)) - 1])
        out.append(raw)
    return "".join([*out, string(frame.get("after"))])


def _alone(raw: Json) -> str:
    """Give the element that a text in place of a list stands for."""
    return f'{{"role":"user","content":{string(raw)}}}'


Write = Callable[[Body, list[Said]], list[str]]
"""Gives the texts of elements for a frame, which is empty for a new body, and for what is said."""


def pack(given: Given, write: Write, head: Head, api: Api) -> bytes:
    """Put what a path says into the container that it came from; into a body if it had none.

    Args:
        given: what the path says.
        write: gives the elements.
        head: is written where the container has a place for it.
        api: the format's.
    """
    frame: Body = given.frame
    said = given.said
    if not (given.whole or given.speaks):
        # What stands in front of all that was said is no list of messages by itself.
        said = []
    texts = write(frame, said)
    if not _fits(frame, texts):
        frame = {}
        texts = write(frame, said)
    if not frame:
        frame, _ = _frame(compact({api.key: [], **api.write_head(head, {})}), (api.key,))
        return _join(frame, texts).encode()
    if frame.get("container") == "lines":
        texts = [raw if "\n" not in raw else compact(parse(raw, limit=len(raw))) for raw in texts]
        bom = BOM if frame.get("bom") is True else ""
        return (bom + "\n".join(texts) + ("\n" if given.ended else "")).encode()
    now = frame if given.settled else _around(frame, head, api)
    text = _join(now, texts)
    if now is not frame:
        return text.encode()
    single = frame.get("text")
    if single is not None and texts == [_alone(single)]:
        before, after = string(frame.get("before")), string(frame.get("after"))
        return f"{before[:-1]}{string(single)}{after[1:]}".encode()
    data = text.encode()
    same = frame.get("digest") == sha256(data).hexdigest()
    return string(frame.get("source")).encode() if same else data
