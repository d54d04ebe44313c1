"""Damage files of every format and decode them: a session with repairs, or one coded error.

`python benchmarks/fuzz.py --count 100000 --codec pi` decodes so many damaged files; `--from DIR`
takes real files as seeds, too. Each is made from its number alone, so that a finding can be made
again with `--first NUMBER --count 1`. What is asked of each:

* decoding gives `Decoded`, or a `DecodeError` with a code of `CODES` and the file's name;
* `detect` names a format, or says likewise why it can't; that format is decoded, too;
* what was decoded is written back byte for byte (a journal: as an equal one), and our journal
  carries it;
* of some, what memory decoding takes beside the file, in multiples of it.

The slowest and the hungriest are told. Ends with 1 when something was found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ctxalgebra import CODES, DecodeError
from ctxalgebra.codecs import CODECS, detect
from ctxalgebra.laws.playing import play

Draw = random.Random

VALUES: list[Any] = [
    None, True, -1, 0, 1.5, 10**30, "", " ", "x", "\x00\x1b[31m", "tool", "user", "assistant",
    [], {}, [[]], {"type": "text"}, {"role": "user"}, [{"type": "tool_use"}], "é" * 50, "2024",
]  # fmt: skip
KEYS = ["id", "parentId", "type", "role", "content", "call_id", "uuid", "parentUuid", "x", ""]
RAW = [
    b"\xff", b"\x00", b"\n", b"\r\n", b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"NaN", b"1e999",
    b"\\ud800", b"\xef\xbb\xbf", b"null", b"[" * 300, b"\xe2\x80\xa8", b"-", b" ",
]  # fmt: skip


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """List the places in a JSON value: holder and key."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                todo.append(holder[key])
    return found


def damage_value(draw: Draw, value: Any) -> Any:
    """Damage a JSON value at one or a few places."""
    if not isinstance(value, dict | list):
        return draw.choice(VALUES)
    for _ in range(draw.choice((1, 1, 2, 5))):
        places = nodes(value)
        if not places:
            return draw.choice(VALUES)
        holder, key = draw.choice(places)
        match draw.randrange(7):
            case 0 | 1:
                holder[key] = json.loads(json.dumps(draw.choice(VALUES)))
            case 2:
                del holder[key]
            case 3:
                other, at = draw.choice(places)
                holder[key] = json.loads(json.dumps(other[at]))
            case 4 if isinstance(holder, dict):
                holder[draw.choice(KEYS)] = holder.pop(key)
            case 5 if isinstance(holder, list):
                holder.insert(draw.randrange(len(holder) + 1), holder[key])
            case 6 if isinstance(holder, list):
                draw.shuffle(holder)
            case _:
                deep: Any = holder[key]
                for _ in range(draw.choice((1, 3, 400))):
                    deep = [deep]
                holder[key] = deep
    return value


def damage_json(draw: Draw, text: bytes) -> bytes:
    """Damage the structure of a JSON text; bytes where it is none."""
    try:
        value = damage_value(draw, json.loads(text))
        return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode()
    except (ValueError, RecursionError):
        return damage_bytes(draw, text)


def damage_bytes(draw: Draw, data: bytes) -> bytes:
    """Damage bytes: flip, cut, repeat, insert."""
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.choice((1, 2, 10, 200)))
        match draw.randrange(5):
            case 0:
                data = data[:at] + draw.randbytes(to - at) + data[to:]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:to] + data[at:]
            case 3:
                data = data[:at] + draw.choice(RAW) + data[at:]
            case _:
                data = data[:at]
    return data


def damage_lines(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Damage a file line by line: moved, repeated, left out, from another file, damaged within."""
    lines = data.split(b"\n")
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(lines))
        match draw.randrange(6):
            case 0:
                lines.insert(draw.randrange(len(lines)), lines.pop(at))
            case 1:
                lines.insert(draw.randrange(len(lines) + 1), lines[at])
            case 2 if len(lines) > 1:
                del lines[at]
            case 3:
                lines.insert(at, draw.choice(other.split(b"\n")))
            case _:
                lines[at] = damage_json(draw, lines[at])
    return b"\n".join(lines)


def damaged(draw: Draw, seeds: list[bytes]) -> bytes:
    """Make one damaged file."""
    data = draw.choice(seeds)
    match draw.randrange(4):
        case 0:
            return damage_bytes(draw, data)
        case 1 if data[:1] in (b"[", b"{") and b"\n{" not in data:
            return damage_json(draw, data)
        case _:
            return damage_lines(draw, data, draw.choice(seeds))


def seeds_of(name: str, folder: Path | None) -> list[bytes]:
    """Write some sessions in the format, and take the real files of up to 64 KiB."""
    draw = Draw(7)
    made = [play([draw.randbytes(40) for _ in range(draw.randrange(1, 6))]) for _ in range(40)]
    found = [CODECS[name].encode(session) for session in made]
    for path in sorted((folder / name).glob("*")) if folder is not None else ():
        data = path.read_bytes()
        found += [data] * 10 if len(data) <= 1 << 16 else []
    return [data for data in found if data]


def fault_of(name: str, data: bytes, *, thorough: bool) -> tuple[str | None, str]:
    """Say what is wrong with how a file is decoded, if anything, and what came of it."""
    try:
        detected = detect(data, file="f")
    except DecodeError as error:
        if error.code not in CODES or error.file != "f":
            return f"detect: an error without its place: {error!r}", "bug"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return f"detect raised {error!r}", "bug"
    else:
        if detected != name and (fault := fault_in(detected, data, thorough=thorough))[0]:
            return f"as {detected}: {fault[0]}", "bug"
    return fault_in(name, data, thorough=thorough)


def fault_in(name: str, data: bytes, *, thorough: bool) -> tuple[str | None, str]:
    """Say what is wrong with how a file is decoded in one format, and what came of it."""
    codec = CODECS[name]
    try:
        decoded = codec.decode(data, file="f")
    except DecodeError as error:
        known = error.code in CODES and error.file == "f"
        return (None, error.code) if known else (f"an error without its place: {error!r}", "bug")
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return f"decode raised {error!r}", "bug"
    try:
        journal = CODECS["journal"]
        # Of equal journals one is canonical; every other format gives back what was read.
        if codec is not journal and codec.encode(decoded.session) != data:
            return "written back, it is another file", "bug"
        if thorough or codec is journal:
            again = journal.decode(journal.encode(decoded.session)).session
            if again != decoded.session:
                return "the journal does not carry it", "bug"
    except Exception as error:  # noqa: BLE001 - likewise
        return f"encode raised {error!r}", "bug"
    return None, "session" if not decoded.repairs else "repaired"


def weigh(decode: Callable[[], object]) -> int:
    """Measure the most memory that decoding takes, in bytes."""
    tracemalloc.start()
    try:
        decode()
    except Exception:  # noqa: BLE001 - it is looked for elsewhere
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def fuzz(
    name: str, first: int, count: int, folder: Path | None = None
) -> tuple[Counter[str], list[str]]:
    """Decode `count` damaged files from number `first` on; give the outcomes and the findings."""
    seeds = seeds_of(name, folder)
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    slowest, hungriest = (0.0, 0), (0.0, 0)
    for number in range(first, first + count):
        data = damaged(Draw(f"{name} {number}"), seeds)
        began = time.process_time()
        fault, outcome = fault_of(name, data, thorough=number % 10 == 0)
        spent = (time.process_time() - began) * 1e9 / (len(data) + 2_000)
        slowest = max(slowest, (spent, number))
        if number % 200 == 0:
            taken = weigh(partial(CODECS[name].decode, data)) / (len(data) + 50_000)
            hungriest = max(hungriest, (taken, number))
        outcomes[outcome] += 1
        if fault is not None:
            findings.append(f"{name} {number}: {fault}")
    outcomes[f"slowest: {slowest[0]:.0f} ns a byte, number {slowest[1]}"] = 1
    outcomes[f"hungriest: {hungriest[0]:.1f} times the file, number {hungriest[1]}"] = 1
    return outcomes, findings


def main() -> int:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--codec", action="append", choices=sorted(CODECS))
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--from", dest="folder", type=Path)
    parser.add_argument("--write", type=Path, help="write the first damaged file here")
    options = parser.parse_args()
    found = 0
    for name in options.codec or sorted(CODECS):
        if options.write is not None:
            data = damaged(Draw(f"{name} {options.first}"), seeds_of(name, options.folder))
            options.write.write_bytes(data)
            return 0
        outcomes, findings = fuzz(name, options.first, options.count, options.folder)
        told = ", ".join(f"{what} {n}" if n > 1 else what for what, n in outcomes.most_common())
        print(f"{name}: {told}", flush=True)
        for finding in findings[:10]:
            print(f"  {finding[:300]}", flush=True)
        found += len(findings)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
