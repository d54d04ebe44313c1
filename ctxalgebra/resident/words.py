"""Words of names, descriptions and queries: in any script, whole, and without their endings.

A run of letters and digits is a word; an identifier is the words it is made of (`camelCase`,
`snake_case`), and also itself. Scripts without blanks give pairs of characters. Words are compared
without case, compatibility forms and accents, and without the endings that English puts on them,
so `tests` is `test` and `running` is `run`. No word is found inside another.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from unicodedata import normalize

import regex

from ctxalgebra.compaction.shell import word_set

__all__ = ["LONGEST", "STOP", "fold_word", "stem", "words_of"]

_RUN = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_PACKED = (
    r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\u30fc"
)
_PARTS = regex.compile(
    rf"[{_PACKED}]+|\p{{Lu}}{{2,}}s(?!\p{{Ll}})|\p{{Lu}}+(?!\p{{Ll}})\p{{N}}*"
    rf"|\p{{Lu}}?[\p{{Ll}}\p{{M}}]+\p{{N}}*|\p{{N}}+|[^\p{{Lu}}\p{{Ll}}\p{{N}}{_PACKED}]+"
)
_IS_PACKED = regex.compile(f"[{_PACKED}]")
_ACCENTS = regex.compile("[\u0300-\u036f]+")
_VOWELS = frozenset("aeiouy")
LONGEST: Final = 64
"""The longest word, in characters."""

STOP = word_set(
    # English
    "a about all am an and any are as at be by can could do does for from get give have help how i "
    "if in into is it its let like me my need of on one or our please should show so some "
    "something that the their them there these this those to up us use using want was we what "
    "when where which who will with would you your tool tools skill skills capability "
    # German, French, Spanish, Portuguese, Italian
    "der die das den dem des ein eine einen einem einer und oder ich mir mich mein meine wie was "
    "im in auf aus zu zum zur von vom mit fur bitte kann soll will man "
    "le la les un une des du de et ou je mon ma mes dans sur pour avec par que qui veux "
    "el los las una unos y o en con por para mi quiero como "
    "os as um uma da do dos das em no na com meu minha quero "
    "il lo gli uno di del della nel sul per mio mia voglio "
    # Russian
    "и в на с по для как я мне мой из к у о"
)
"""Words that say nothing about what is looked for."""


def fold_word(word: str) -> str:
    """Write a word without case, compatibility forms and accents.

    >>> fold_word("Caf\u00e9"), fold_word("\uff21\uff22")
    ('cafe', 'ab')
    """
    if word.isascii():
        return word.lower()
    folded = normalize("NFKC", normalize("NFKC", word).casefold())
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", folded)))


def _undoubled(word: str) -> str:
    """Take off the letter that an ending doubled, then a silent `e`."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Take the usual English endings off a folded word.

    >>> [stem(word) for word in ("tests", "running", "queries", "creating", "created", "create")]
    ['test', 'run', 'query', 'creat', 'creat', 'creat']
    >>> stem("bus"), stem("process"), stem("deletion"), stem("delete"), stem("ring"), stem("files")
    ('bus', 'process', 'delet', 'delet', 'ring', 'fil')
    """
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed", "er", "ion"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and not _VOWELS.isdisjoint(rest):
            if ending == "ion" and rest[-1] != "t":
                break
            word = _undoubled(rest)
            break
    word = word[:-1] if len(word) > 3 and word.endswith("e") else word
    for ending in ("lysis", "lys"):
        word = f"{word[: -len(ending)]}lyz" if word.endswith(ending) else word
    return word


def _pairs(run: str) -> tuple[str, ...]:
    return tuple(run[at : at + 2] for at in range(len(run) - 1)) or (run,)


def words_of(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """List the words of a text: each run as one word, and the words that it is made of.

    A run of a packed script is made of its pairs; what stands alone is made of itself. Words of
    more than 64 characters are cut.

    >>> words_of("readFile of GitHub_v2")
    ... # doctest: +NORMALIZE_WHITESPACE
    [('readfile', ('read', 'file')), ('of', ('of',)), ('github', ('git', 'hub')),
     ('v2', ('v2',))]
    >>> words_of("\u753b\u50cf\u691c\u7d22")
    [('画像検索', ('画像', '像検', '検索'))]
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    for run in _RUN.findall(text):
        if run.isascii() and (run.islower() or run.isdigit()):
            word = run[:LONGEST]
            found.append((word, (word,)))
            continue
        parts: list[str] = []
        for part in _PARTS.findall(run):
            folded = fold_word(part)
            parts += _pairs(folded) if _IS_PACKED.match(part) else (folded[:LONGEST],)
        found.append((fold_word(run)[:LONGEST], tuple(parts)))
    return found
