"""A finished sentence in another language: the template that it was made from is found again, and its values are kept.

Sentences are made in English, in f-strings all over the packages; ``scripts/write_sentences.py`` reads their templates from the sources
into catalogues, template -> translation, with the values as {0}, {1}, ... Here a sentence is held against those templates. Values that
are sentences, names or lists of such are translated in turn; names, numbers and what users gave stay as they are.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

MAX_LENGTH = 4000  # of a sentence; what is longer is none of ours
MAX_DEPTH = 6
KEPT = 20_000  # sentences whose translation is remembered
_PLACE = re.compile(r"\{(\d+)\}")
_WORD = re.compile(r"[a-z]{2,}")
_END = re.compile(r"(?<=[.?!]) (?=[A-Z0-9`'\"{(])|(?<=;) |(?<=:) ")
_LIST = re.compile(r"(, and | and |, or | or |, )")
_BETWEEN = {", and ": "、", " and ": "和", ", or ": "或", " or ": "或", ", ": "、"}
_ENDS = {".": "。", "?": "？", ";": "；", ":": "："}
_BRACKETS = re.compile(r"(.*\S) \(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.DOTALL)


@dataclass(frozen=True)
class Template:
    """``texts`` with the value ``order[i]`` between the i-th and the next of them, and the translation."""

    texts: tuple[str, ...]
    order: tuple[int, ...]
    translation: str
    words: frozenset[str]

    @property
    def weight(self) -> int:
        return sum(len(text.strip()) for text in self.texts)

    def values(self, sentence: str, lowered: str) -> dict[int, str] | None:
        """What fills the template to give the sentence, if anything does."""
        first, last = self.texts[0], self.texts[-1]
        if not lowered.startswith(first):
            return None
        if len(self.texts) == 1:
            return {} if lowered == first else None
        end = len(lowered) - len(last)
        if end < len(first) or not lowered.endswith(last):
            return None
        starts, at = [], len(first)
        for text in self.texts[1:-1]:
            found = lowered.find(text, at, end)
            if found < 0:
                return None
            starts.append((found, found + len(text)))
            at = found + len(text)
        edges = [(0, len(first)), *starts, (end, len(lowered))]
        found_values = [sentence[left[1] : right[0]] for left, right in zip(edges, edges[1:], strict=False)]
        return dict(zip(self.order, found_values, strict=True))


@dataclass
class Translator:
    """Translates by templates. ``templates`` by the rarest of their words, so that few are held against a sentence."""

    by_word: dict[str, list[Template]]
    without_words: list[Template]
    known: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """The text with each sentence that a template gives translated; the rest as it is."""
        return "\n".join(self._line(line) for line in text.split("\n")) if text else text

    def knows(self, text: str) -> bool:
        """Whether any of it is translated."""
        return self(text) != text

    def _line(self, line: str) -> str:
        if len(line) > MAX_LENGTH or not line.strip():
            return line
        bare = line.strip()
        translated, gain = self._best(bare, 0)
        return line.replace(bare, translated) if gain else line

    def _best(self, text: str, depth: int) -> tuple[str, int]:
        """The translation, and how many characters of it came from templates."""
        if text in self.known:
            return self.known[text]
        if depth > MAX_DEPTH or not _WORD.search(text):
            return text, 0
        chosen, gain = text, 0
        for found in self._readings(text, depth):
            if found[1] > gain:
                chosen, gain = found
        if len(self.known) >= KEPT:
            self.known.clear()
        self.known[text] = chosen, gain
        return chosen, gain

    def _readings(self, text: str, depth: int) -> Iterator[tuple[str, int]]:
        ending = text[-1] if text[-1] in ".;:" and not text.endswith("..") else ""
        bare = text[: len(text) - len(ending)]
        yield from ((f"{said}{_ENDS.get(ending, '')}", gain) for said, gain in self._matches(bare, depth))
        parts = _END.split(text)
        if len(parts) > 1:
            # One template over all of it is better than its parts under others.
            yield self._joined([self._best(part, depth + 1) for part in parts])
        elif ending:
            said, gain = self._best(bare, depth + 1)
            yield f"{said}{_ENDS[ending]}", gain
        in_brackets = _BRACKETS.fullmatch(bare)
        if in_brackets:
            (said, one), (beside, other) = (self._best(part, depth + 1) for part in in_brackets.groups())
            yield f"{said}（{beside}）{_ENDS.get(ending, '')}", one + other
        yield from self._list(bare, ending, depth)

    def _matches(self, text: str, depth: int) -> Iterator[tuple[str, int]]:
        lowered = text.lower()
        candidates = [each for word in dict.fromkeys(_WORD.findall(lowered)) for each in self.by_word.get(word, ())]
        for template in (*candidates, *self.without_words):
            values = template.values(text, lowered)
            if values is None:
                continue
            filled = {number: self._value(value, depth + 1) for number, value in values.items()}
            said = _PLACE.sub(lambda place, by=filled: by[int(place[1])][0], template.translation)  # type: ignore[misc]
            yield said, 2 * template.weight + 1 + sum(gain for _, gain in filled.values())

    def _value(self, value: str, depth: int) -> tuple[str, int]:
        """A value that is translated loses the blanks around it, which Chinese does without."""
        bare = value.strip()
        said, gain = self._best(bare, depth) if bare else (bare, 0)
        return (said, gain) if gain else (value, 0)

    @staticmethod
    def _joined(parts: list[tuple[str, int]]) -> tuple[str, int]:
        said = ""
        for text, _ in parts:
            said += f"{' ' if said and said[-1].isascii() else ''}{text}"
            if said[-1:] == ":" and said != text:
                said = f"{said[:-1]}："
        return said, sum(gain for _, gain in parts)

    def _list(self, text: str, ending: str, depth: int) -> Iterator[tuple[str, int]]:
        """Several names or sentences in a row; the names that have no translation are single words."""
        parts = _LIST.split(text)
        if len(parts) < 3:
            return
        named = [self._best(part, depth + 1) for part in parts[::2]]
        if all(gain or " " not in part for (_, gain), part in zip(named, parts[::2], strict=True)):
            said = named[0][0]
            for between, (name, _) in zip(parts[1::2], named[1:], strict=True):
                said += f"{_spaced(said, _BETWEEN[between], name)}{name}"
            yield f"{said}{_ENDS.get(ending, ending)}", 1 + sum(gain for _, gain in named)


def _spaced(before: str, between: str, after: str) -> str:
    if between == "、":
        return between
    return f"{' ' * before[-1:].isascii()}{between}{' ' * after[:1].isascii()}"


def _template(english: str, translation: str) -> Template:
    pieces = _PLACE.split(english.lower())
    words: set[str] = set()
    for number, text in enumerate(pieces[::2]):
        for word in _WORD.finditer(text):
            cut = (word.start() == 0 and number > 0) or (word.end() == len(text) and number < len(pieces) // 2)
            if not cut:
                words.add(word[0])
    return Template(tuple(pieces[::2]), tuple(map(int, pieces[1::2])), translation, frozenset(words))


def translator_of(catalogue: Mapping[str, str]) -> Translator:
    """By templates as they stand in the catalogue; those without a translation are passed over."""
    templates = [_template(english, said) for english, said in catalogue.items() if said]
    used = Counter(word for template in templates for word in template.words)
    by_word: dict[str, list[Template]] = {}
    without = []
    for template in templates:
        if template.words:
            by_word.setdefault(min(template.words, key=lambda word: (used[word], word)), []).append(template)
        else:
            without.append(template)
    return Translator(by_word, without)


@cache
def translator(language: str) -> Translator:
    """That of a language of the folder beside this module."""
    catalogue: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / language).glob("*.json")):
        catalogue.update(json.loads(path.read_text(encoding="utf-8")))
    return translator_of(catalogue)
