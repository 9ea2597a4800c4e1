"""Translation of sentences: the catalogues hold translated templates, and the same values fill them.

A value that is a sentence is translated too. A list gets the separators of the language. Other values do not change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from documents.late_methods import dataclass
from documents.sentences import Sentence, plain, recognized, separators

FOLDER = Path(__file__).parent
HEADERS = "headers"  # heads of tables, and single words
HELPS = "help"  # texts of --help
FOREIGN = "foreign"  # messages of libraries, which come without their parts
_PLACE = re.compile(r"\{(\d+)\}")
_LETTER = re.compile(r"[A-Za-z]")
_MARKS = "，。；：、（）？！"
_MARK_OF = {"; ": "；", ": ": "：", ", ": "，", " (": "（", ")": "）", ". ": "。"}
_MARK = re.compile("|".join(map(re.escape, sorted(_MARK_OF, key=len, reverse=True))))
_BETWEEN = {
    ", ": "、",
    ", and ": "、",
    ", or ": "或",
    " and ": "和",
    " or ": "或",
    " with ": "且",
    " against ": "和",
    "; ": "；",
    ". ": "。",
}
_HINT = "；"


class _Piece(NamedTuple):
    """Part of a translation; blanks at the ends of one that is not ours stay."""

    text: str
    is_ours: bool


@dataclass(frozen=True)
class Translator:
    """The catalogues of one language: key of a template -> its translation."""

    catalogue: Mapping[str, str]
    headers: Mapping[str, str]
    helps: Mapping[str, str]
    foreign: Mapping[str, str]

    def __call__(self, text: str) -> str:
        """Translation of a sentence; a text without parts is returned unchanged."""
        return self._sentence(text) if isinstance(text, Sentence) else text

    def head(self, text: str) -> str:
        """The head of a column, known whole."""
        return self.headers.get(key_of(text)) or self.catalogue.get(key_of(text)) or text

    def hint(self, text: str) -> str | None:
        """The end of a message about input, behind its last semicolon; None where it has none."""
        for each in _from_its_end(text):
            if "; " not in each.template or separators(each.template) is not None:
                continue
            _, mark, end = self._translation(each.template).rpartition(_HINT)
            if mark:
                return _joined([*self._filled(end, each.values), *self._full_stop(each, end)])
        return None

    def _sentence(self, text: Sentence) -> str:
        between = separators(text.template)
        if between is not None:
            return self._list(text.values, *between)
        if not text.values and self._known(text.template) is None:
            text = self._parts(text)
        translation = self._translation(text.template)
        lead = text.template[: len(text.template) - len(text.template.lstrip())]
        return lead + _joined([*self._filled(translation, text.values), *self._full_stop(text, translation)])

    def _known(self, template: str) -> str | None:
        key = key_of(template)
        return self.headers.get(key) or self.catalogue.get(key) or self.foreign.get(key)

    def _parts(self, text: Sentence) -> Sentence:
        """Message of a library, split into template and values; any other message is returned unchanged."""
        found = recognized(plain(text).removesuffix("."), self._foreign_templates)
        return found if isinstance(found, Sentence) else text

    @cached_property
    def _foreign_templates(self) -> list[str]:
        """Templates of library messages, those with the most fixed text first."""
        return sorted((_PLACE.sub("{}", key) for key in self.foreign), key=lambda text: -len(text.replace("{}", "")))

    def _translation(self, template: str) -> str:
        """Translation of a template without its full stop.

        A template that the catalogues lack keeps its text. If it has no words, only its punctuation is translated.
        """
        known, key = self._known(template), key_of(template)
        if known is not None:
            return known
        return key if _LETTER.search(key) else _MARK.sub(lambda mark: _MARK_OF[mark[0]], key)

    def _filled(self, translation: str, values: Sequence[str]) -> Iterator[_Piece]:
        for number, piece in enumerate(_PLACE.split(translation)):
            if number % 2 == 0:
                yield _Piece(piece, True)
            else:
                value = values[int(piece)]
                yield _Piece(self(value), isinstance(value, Sentence))

    def _full_stop(self, text: Sentence, translation: str) -> Iterator[_Piece]:
        if key_of(text.template) != text.template.strip() and text.template.rstrip().endswith("."):
            yield _Piece("" if translation.endswith(("。", "？")) else "。", True)

    def _list(self, values: Sequence[str], separator: str, last: str) -> str:
        pieces: list[_Piece] = []
        for number, value in enumerate(values):
            if number:
                between = last if number == len(values) - 1 else separator
                pieces.append(_Piece(_BETWEEN.get(between, between), True))
            pieces.append(_Piece(self(value), isinstance(value, Sentence)))
        return _joined(pieces)


def key_of(template: str) -> str:
    """The name of a template in the catalogues: without blanks around it, the mark of a column of numbers, and the full stop."""
    bare = template.strip()
    return bare if bare.endswith("..") else bare.removeprefix(">").removesuffix(".")


def _from_its_end(text: str) -> Iterator[Sentence]:
    """The sentence, the one that ends it, and so on."""
    while isinstance(text, Sentence):
        yield text
        text = text.values[-1] if text.values else ""


def _joined(pieces: Sequence[_Piece]) -> str:
    """The pieces with a blank where Chinese meets letters or digits, and none inside Chinese."""
    said, is_ours = "", True
    for piece in pieces:
        if not said or not piece.text:
            said, is_ours = said + piece.text, piece.is_ours if piece.text else is_ours
            continue
        before = said.rstrip(" ") if is_ours else said
        after = piece.text.lstrip(" ") if piece.is_ours else piece.text
        last, first = before[-1:], after[:1]
        if not last or not first:
            said += piece.text
        elif (_is_chinese(last) and _is_chinese(first)) or last in _MARKS or first in _MARKS:
            said = before + after
        elif (_is_chinese(last) and _is_word(first)) or (_is_word(last) and _is_chinese(first)):
            said = f"{before} {after}"
        else:
            said += piece.text
        is_ours = piece.is_ours
    return said


def _is_chinese(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "%`'\"_-/")


@cache
def translator(language: str) -> Translator:
    """Translator for a language with a folder of catalogues next to this module."""
    rooms = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (FOLDER / language).glob("*.json")}
    headers, helps, foreign = (rooms.pop(name, {}) for name in (HEADERS, HELPS, FOREIGN))
    return Translator(
        {english: said for _, room in sorted(rooms.items()) for english, said in room.items()}, headers, helps, foreign
    )
