"""A finished sentence in another language: the template that it was made from is found again, and its values are kept.

Sentences are made in English, in f-strings all over the packages; ``write_sentences.py`` reads their templates from the
sources into catalogues, template -> translation, with the values as {0}, {1}, ... Here a sentence is held against them. Values
that are sentences or lists of such are translated in turn; names, numbers and what users gave stay as they are.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
HEADERS = "headers"  # heads of tables: single words, which elsewhere are names of fields
HELPS = "help"  # texts of --help, each known whole
MAX_LENGTH = 2000  # of a sentence; what is longer is none of ours
MAX_DEPTH = 16  # a sentence has fewer parts inside each other
KEPT = 20_000  # sentences whose translation is remembered
MAX_TRIED = 5500  # parts of a line that are looked at: our longest have 4,700, what a user gave may have any number (0.6 CPU s)
_PLACE = re.compile(r"\{(\d+)\}")
_WORD = re.compile(r"[a-z]{2,}")
_END = re.compile(r"(?<=[.?!]) (?=[A-Z0-9`'\"{(])|(?<=;) |(?<=:) ")
_VERBS = ("is ", "comes ", "does ")  # begin what is said of a field, behind its name and value
_STOP = re.compile(r"(?<=[.?!]) (?=[A-Z])")
_ROW, _PAIR = re.compile(r", and |, or |, "), re.compile(r" and | or ")
_BETWEEN = {", and ": "、", " and ": "和", ", or ": "或", " or ": "或", ", ": "、"}
_ENDS = {".": "。", "?": "？", ";": "；", ":": "："}
_UNITS = re.compile(r"(?<=\d) (?:%|d(?!\w))")  # which Chinese writes otherwise
_MARKS = "，。；：、（）？！"
_BREAKS = re.compile(r"[,;:.] ")
_CUT = re.compile(r" |(?<=\S)(?=[,;:(])")  # where one of two values side by side may end
_CUT_SHORT = re.compile(r"[,;:.] .*\d$")  # the number that follows a part of another sentence
_VERB = "would|is|are|was|makes?|needs?|takes?|leaves?|has|have|does|can|cannot|could|may|must"
# More of a sentence behind a number, or the name of a rule behind all of it.
_TAIL = re.compile(rf"[\d.,%]+ (?:{_VERB}) .*|.+ \([a-z]+(?:_[a-z0-9]+)+\)[;:.]?", re.DOTALL)
_QUOTE = re.compile(r"(?<!\w)['\"]|['\"](?!\w)")  # not an apostrophe
_QUOTED = re.compile(r"'[^']*'")
_MAX_CUTS = 40
_MAX_PARTS = 16  # of a sentence; ours have some five
_WEAK = 12  # characters of a template's own
_LEAST_OF_REMARK = 12
_LEAST_GAIN = 6  # of a sentence: less is some words of it
_WEAKEST = 5
_BREAK = 4  # what a value with several sentences weighs against its template
_PHRASE = re.compile(r"[a-z]{2,}(?: [a-z]{2,})+")
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

    @property
    def continues(self) -> bool:
        """Whether it is a part that is added to sentences."""
        return self.texts[0].startswith((", ", "; ", ": ", *_VERBS))

    @property
    def is_weak(self) -> bool:
        """Whether so little of it is its own that half of another sentence might pass for a value."""
        return bool(self.order) and self.weight < _WEAK and not any(mark in text for text in self.texts for mark in ";:")

    def values(self, sentence: str, lowered: str) -> dict[int, str] | None:
        """What fills the template to give the sentence, if anything does; values side by side are all in the last of them."""
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
        found_values = [sentence[left[1] : right[0]] for left, right in pairwise(edges)]
        return dict(zip(self.order, found_values, strict=True))


class Reading(NamedTuple):
    """A translation, how many characters of templates it rests on, and how many of a sentence it leaves as they are."""

    said: str
    gain: int
    left: int

    @property
    def worth(self) -> int:
        return self.gain - 3 * self.left


@dataclass
class Translator:
    """Translates by templates. ``by_word``: by the rarest of their words, so that few are held against a sentence."""

    by_word: dict[str, list[Template]]
    without_words: list[Template]
    headers: Mapping[str, str]
    helps: Mapping[str, str]
    whole: frozenset[str]  # what templates without values say
    known: dict[str, Reading] = field(default_factory=dict)
    _tried: threading.local = field(default_factory=threading.local)

    def __call__(self, text: str) -> str:
        """The text with each sentence that a template gives translated; the rest as it is."""
        return "\n".join(self._line(line) for line in text.split("\n")) if text else text

    def cell(self, text: str) -> str:
        """The head or a cell of a table, where single words are no names of fields."""
        return self.headers.get(text) or self(text)

    def remark(self, text: str) -> str:
        """A source or a remark of data: translated where all of it is understood, and a name or a citation otherwise."""
        found = self._read(text.strip())
        return _in_its_units(found.said) if " " in text and found.gain >= _LEAST_OF_REMARK and not found.left else text

    def left(self, text: str) -> int:
        """How many characters of sentences would stay as they are."""
        return sum(self._read(line.strip()).left for line in text.split("\n"))

    def _line(self, line: str) -> str:
        bare = line.strip()
        if len(line) > MAX_LENGTH or not bare:
            return line
        found = self._read(bare)
        is_understood = found.gain and (found.gain >= max(_LEAST_GAIN, found.left / 2) or not _PHRASE.search(bare))
        return line.replace(bare, _in_its_units(found.said)) if is_understood else line

    def _read(self, line: str) -> Reading:
        self._tried.number = 0
        return self._best(line, 0)

    def _best(self, text: str, depth: int) -> Reading:
        if text in self.known:
            return self.known[text]
        chosen = Reading(text, 0, sum(len(phrase) for phrase in _PHRASE.findall(text)))
        self._tried.number += 1
        if depth > MAX_DEPTH or self._tried.number > MAX_TRIED or not _WORD.search(text.lower()):
            return chosen
        for found in self._readings(text, depth):
            if found.worth > chosen.worth and found.gain:
                chosen = found
        if self._tried.number > MAX_TRIED:  # not all was looked at
            return chosen
        if len(self.known) >= KEPT:
            self.known.clear()
        self.known[text] = chosen
        return chosen

    def _readings(self, text: str, depth: int) -> Iterator[Reading]:
        ending = text[-1] if text[-1] in _ENDS and not text.endswith("..") else ""
        bare = text[: len(text) - len(ending)]
        yield from (found._replace(said=found.said + _ENDS.get(ending, "")) for found in self._matches(bare, depth))
        yield from self._matches(text, depth)
        for before, behind in _halves(text):
            one, other = self._best(before, depth + 1), self._best(behind, depth + 1)
            yield Reading(joined([_closed(one.said), other.said], " "), one.gain + other.gain, one.left + other.left)
        if ending:
            one = self._best(bare, depth + 1)
            yield one._replace(said=one.said + _ENDS[ending])
        in_brackets = _BRACKETS.fullmatch(bare)
        if in_brackets:
            one, other = self._best(in_brackets[1], depth + 1), self._bracketed(in_brackets[2], depth + 1)
            if one.gain + other.gain:
                said = joined([one.said, other.said]) + _ENDS.get(ending, "")
                yield Reading(said, one.gain + other.gain, one.left + other.left)
        yield from self._list(bare, ending, depth)

    def _bracketed(self, text: str, depth: int) -> Reading:
        """What stands in brackets, which may be a part that sentences are given with its brackets."""
        whole, inner = self._best(f"({text})", depth), self._best(text, depth)
        return whole if whole.gain else inner._replace(said=f"（{inner.said}）")

    def _matches(self, text: str, depth: int) -> Iterator[Reading]:
        lowered = text.lower()
        candidates = [each for word in dict.fromkeys(_WORD.findall(lowered)) for each in self.by_word.get(word, ())]
        for template in (*candidates, *self.without_words):
            values = template.values(text, lowered)
            if values is None:
                if template.continues:
                    yield from self._continued(template, text, lowered, depth)
                continue
            filled = self._filled(template, values, depth + 1)
            if filled is None:
                continue
            pieces = _PLACE.split(template.translation)
            said = joined([filled[int(piece)].said if number % 2 else piece for number, piece in enumerate(pieces)])
            gain = max(2 * template.weight - 1, 1) + sum(each.gain for each in filled.values())
            behind = dict(zip(template.order, template.texts[1:], strict=True))
            broken = sum(_broken(value, behind[number]) for number, value in values.items())
            yield Reading(said, gain - broken, sum(each.left for each in filled.values()))

    def _filled(self, template: Template, values: Mapping[int, str], depth: int) -> dict[int, Reading] | None:
        """The values in the language; None where half of another sentence seems to be one."""
        filled: dict[int, Reading] = {}
        row: list[int] = []
        for number, text in zip(template.order, template.texts[1:], strict=True):
            row.append(number)
            if text or number == template.order[-1]:
                filled.update(self._side_by_side(row, values[number], depth))
                row = []
        return None if template.is_weak and self._is_doubtful(template, values, filled) else filled

    def _is_pair(self, value: str) -> bool:
        """Whether two things stand in it, and not one whose name has an `and`."""
        return _PAIR.search(value) is not None and value.lower() not in self.whole

    def _is_doubtful(self, template: Template, values: Mapping[int, str], filled: Mapping[int, Reading]) -> bool:
        """Whether a template with little of its own has more in its values than names, numbers and what is understood."""
        outer = {template.order[0], template.order[-1]} if not template.texts[0] else set()
        unknown = [values[number] for number in outer if not filled[number].gain]
        is_long = template.weight < _WEAKEST and any(value.count(" ") > 1 for value in unknown)
        is_broken = any(
            "->" in values[number] or len(_split(_BREAKS, values[number])) > 1 or self._is_pair(values[number])
            for number in outer
        )
        return is_long or is_broken or any(each.left for each in filled.values())

    def _side_by_side(self, numbers: Sequence[int], text: str, depth: int) -> dict[int, Reading]:
        """The values that stand together as ``text``, cut where most of it is understood."""
        if len(numbers) == 1:
            return {numbers[0]: self._value(text, depth)}
        ends = [0, len(text), *(place.start() for place in _CUT.finditer(text))]
        best: dict[int, Reading] = {}
        for end in ends[:_MAX_CUTS]:
            found = {numbers[0]: self._value(text[:end], depth), **self._side_by_side(numbers[1:], text[end:], depth)}
            if not best or sum(each.worth for each in found.values()) > sum(each.worth for each in best.values()):
                best = found
        return best

    def _continued(self, template: Template, text: str, lowered: str, depth: int) -> Iterator[Reading]:
        """Sentences to which the template was added when they were made."""
        at, is_verb = lowered.find(template.texts[0], 1), template.texts[0].startswith(_VERBS)
        while at > 0:
            is_whole = not is_verb or lowered[at - 1] == " "
            if is_whole and template.values(text[at:], lowered[at:]) is not None:
                before, behind = self._best(text[:at].rstrip(), depth + 1), self._best(text[at:], depth + 1)
                yield Reading(joined([before.said, behind.said]), before.gain + behind.gain, before.left + behind.left)
            at = lowered.find(template.texts[0], at + 1)

    def _value(self, value: str, depth: int) -> Reading:
        """A value that is translated loses the blanks around it, which Chinese does without."""
        found = self._best(value.strip(), depth)
        return found if found.gain else found._replace(said=value)

    def _list(self, text: str, ending: str, depth: int) -> Iterator[Reading]:
        """Several names or sentences in a row."""
        rows, pairs = _split(_ROW, text), _split(_PAIR, text)
        if len(rows) > 1:
            yield from self._row(rows, ending, depth)
            return
        for number in range(1, min(len(pairs), _MAX_PARTS)):
            yield from self._row(["".join(pairs[:number]), "".join(pairs[number:])], ending, depth)

    def _row(self, parts: Sequence[str], ending: str, depth: int) -> Iterator[Reading]:
        names = [part.removeprefix(_separator(part)) for part in parts]
        found = [self._best(name, depth + 1) for name in names]
        said = found[0].said
        for part, each in zip(parts[1:], found[1:], strict=True):
            said = joined([said, _BETWEEN[_separator(part)], each.said])
        gain = sum(each.gain for each in found)
        are_pair = len(parts) == 2 and not any(" " in _QUOTED.sub("", name) for name in names)
        if gain or (are_pair and not parts[1].startswith(", ")):
            yield Reading(said + _ENDS.get(ending, ""), 1 + gain, sum(each.left for each in found))


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """The parts of a text between matches outside of brackets and quotes; what was matched begins the part behind it."""
    parts, begun = [], 0
    for match in pattern.finditer(text):
        before = text[: match.start()]
        is_outside = all(before.count(opened) <= before.count(closed) for opened, closed in ("()", "[]", "{}"))
        if match.start() > begun and is_outside and len(_QUOTE.findall(before)) % 2 == 0:
            parts.append(text[begun : match.start()])
            begun = match.start()
    return [part if pattern in (_ROW, _PAIR) else part.lstrip(" ") for part in (*parts, text[begun:])]


def _halves(text: str) -> Iterator[tuple[str, str]]:
    """The text cut at each end of a sentence or of a part of one, outside of brackets."""
    parts = _split(_END, text)
    for number in range(1, min(len(parts), _MAX_PARTS)):
        yield " ".join(parts[:number]), " ".join(parts[number:])


def _broken(value: str, behind: str) -> int:
    """What speaks against a value, before ``behind`` of its template: it looks like several, or like a part of another."""
    is_cut = behind[:1] == " " and _CUT_SHORT.search(value) is not None
    is_two = is_cut and len(_split(_STOP, value)) > 1
    is_unbalanced = value.count("(") != value.count(")") or -1 < value.find(")") < value.find("(")
    is_tail = not behind and _TAIL.fullmatch(value) is not None
    return _BREAK * ((is_cut or any(_halves(value))) + is_two + 2 * is_unbalanced) + is_tail


def _separator(part: str) -> str:
    return next((between for between in _BETWEEN if part.startswith(between)), "")


def _closed(said: str) -> str:
    """A part of a sentence whose head is a name, as fields have."""
    return f"{said[:-1]}：" if said.endswith(":") else said


def joined(pieces: Sequence[str], between: str = "") -> str:
    """The pieces with a blank where Chinese meets letters or digits, and none inside Chinese."""
    said = ""
    for piece in pieces:
        if not said or not piece:
            said += piece
            continue
        before, after = said.rstrip(" "), piece.lstrip(" ")
        last, first = before[-1:], after[:1]
        if not last or not first:
            said += piece
        elif (_is_chinese(last) and _is_chinese(first)) or last in _MARKS or first in _MARKS:
            said = before + after
        elif (_is_chinese(last) and _is_word(first)) or (_is_word(last) and _is_chinese(first)):
            said = f"{before} {after}"
        else:
            said += between + piece
    return said


def _in_its_units(said: str) -> str:
    return _UNITS.sub(lambda unit: "%" if unit[0] == " %" else " 天", said)


def _is_chinese(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "%`'\"_-/")


def _template(english: str, translation: str) -> Template:
    pieces = _PLACE.split(english.lower())
    words: set[str] = set()
    for number, text in enumerate(pieces[::2]):
        for word in _WORD.finditer(text):
            cut = (word.start() == 0 and number > 0) or (word.end() == len(text) and number < len(pieces) // 2)
            if not cut:
                words.add(word[0])
    return Template(tuple(pieces[::2]), tuple(map(int, pieces[1::2])), translation, frozenset(words))


def translator_of(
    catalogue: Mapping[str, str], headers: Mapping[str, str] | None = None, helps: Mapping[str, str] | None = None
) -> Translator:
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
    whole = frozenset(template.texts[0] for template in templates if not template.order)
    return Translator(by_word, without, headers or {}, helps or {}, whole)


@cache
def translator(language: str) -> Translator:
    """That of a language of the folder beside this module."""
    rooms = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (FOLDER / language).glob("*.json")}
    headers, helps = rooms.pop(HEADERS, {}), rooms.pop(HELPS, {})
    return translator_of({english: said for _, room in sorted(rooms.items()) for english, said in room.items()}, headers, helps)
