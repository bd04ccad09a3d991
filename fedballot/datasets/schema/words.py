"""Words that are nearly the same: classes and categories that somebody must decide about, and nearest words."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

_TRUTH = {"true": "1", "false": "0"}
_INTEGER = re.compile(r"[+-]?\d+")


def plain(word: str) -> str:
    """What is left of a word without case, spaces, a plus sign, leading zeros and Unicode form; true is 1."""
    text = "".join(unicodedata.normalize("NFKC", word).casefold().split())
    text = _TRUTH.get(text, text)
    return str(int(text)) if _INTEGER.fullmatch(text) and len(text) < 20 else text


def lookalikes(words: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of different words of which no more than case, spaces, sign, zeros or Unicode form differ."""
    groups: dict[str, list[str]] = defaultdict(list)
    for word in sorted(set(words)):
        groups[plain(word)].append(word)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def nearest(word: str, words: Iterable[str]) -> str:
    """ "; did you mean 'benign'?" where one of the words is near, else nothing."""
    by_plain = {plain(each): each for each in words}
    near = difflib.get_close_matches(plain(word), by_plain, n=1, cutoff=0.6)
    return f"; did you mean {by_plain[near[0]]!r}?" if near else ""


def listed(words: Iterable[str], most: int = 12) -> str:
    """Words for a sentence; many are cut, with their number."""
    every = [repr(word) for word in words]
    return ", ".join(every[:most]) + (f", … ({len(every)} in all)" if len(every) > most else "")
