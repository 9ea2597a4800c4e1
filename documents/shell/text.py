"""Expanded text with the places that each piece came through, the innermost last."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from documents.late_methods import dataclass
from documents.shell.syntax import Place, Source

MAX_LINKS = 16
SPECIAL = "'\"\\$`;&|<>()#{}"  # without them a text is one command of plain words


class Link(NamedTuple):
    """A place in a file, and the whole text that it expanded to."""

    place: Place
    text: str

    @property
    def is_verbatim(self) -> bool:
        """Whether the file has the same text at this place, character by character."""
        return self.place.end - self.place.start == len(self.text)


class Fragment(NamedTuple):
    """Text from one place. ``unknown`` says why only a shell could determine it; ``text`` is then the source text.

    ``is_unset``: it is unknown because nothing sets the variable, which then is empty unless the user's environment has it.
    ``choices``: all texts that undecided branches give it.
    """

    text: str
    links: tuple[Link, ...] = ()
    is_quoted: bool = False
    unknown: str = ""
    is_unset: bool = False
    choices: tuple[str, ...] = ()

    def through(self, link: Link) -> Fragment:
        """Copy of the fragment with one more place."""
        return self._replace(links=(link, *self.links)[-MAX_LINKS:])

    def part(self, start: int, end: int) -> Fragment:
        """A range of its characters."""
        links = self.links
        if links and links[-1].is_verbatim:
            place = links[-1].place
            inner = Link(Place(place.source, place.start + start, place.start + end), self.text[start:end])
            links = (*links[:-1], inner)
        return self._replace(text=self.text[start:end], links=links)


Text = tuple[Fragment, ...]


def text_of(fragments: Iterable[Fragment]) -> str:
    """All fragments as one string."""
    return "".join(fragment.text for fragment in fragments)


def unknown_in(fragments: Iterable[Fragment]) -> str:
    """Why a fragment is unknown; empty if all are known."""
    return next((fragment.unknown for fragment in fragments if fragment.unknown), "")


def split(fragments: Iterable[Fragment]) -> list[Text]:
    """Split text into words at unquoted blanks."""
    words: list[Text] = []
    word: list[Fragment] = []
    started = False
    for fragment in fragments:
        if fragment.is_quoted or fragment.unknown:
            word.append(fragment)
            started = True
            continue
        end = 0
        for match in re.finditer(r"\s+|\S+", fragment.text):
            if not match[0][0].isspace():
                word.append(fragment.part(match.start(), match.end()))
                started = True
            elif started:
                words.append(tuple(word))
                word, started = [], False
            end = match.end()
        assert end == len(fragment.text)
    return [*words, tuple(word)] if started else words


@dataclass(frozen=True)
class Word:
    """A word of a command, as the program would receive it."""

    fragments: Text
    line: int

    @property
    def text(self) -> str:
        """The text that the program receives, if ``unknown`` is empty."""
        return text_of(self.fragments)

    @property
    def unknown(self) -> str:
        """Why a part of the word is unknown; empty if all is known."""
        return unknown_in(self.fragments)

    @property
    def is_unset(self) -> bool:
        """Whether the word is empty unless the user's environment has its variables."""
        return all(fragment.is_unset for fragment in self.fragments)

    def places(self) -> list[Place]:
        """Places where the whole word could be rewritten, the innermost first."""
        fragments = [fragment for fragment in self.fragments if fragment.text]
        if not fragments:
            return []
        text = self.text
        found: dict[Place, None] = {}
        if all(f.links and f.links[-1].is_verbatim for f in fragments):
            first, last = fragments[0].links[-1].place, fragments[-1].links[-1].place
            length = sum(f.links[-1].place.end - f.links[-1].place.start for f in fragments)
            if first.source == last.source and last.end - first.start == length:
                found[Place(first.source, first.start, last.end)] = None
        for link in reversed(fragments[0].links):
            if link.text.strip() == text and all(link in fragment.links for fragment in fragments):
                found[link.place] = None
        return list(found)


@dataclass(frozen=True)
class Command:
    """A command that the script would start. ``condition``: why it may not run; empty if it is certain."""

    words: tuple[Word, ...]
    place: Place
    line: int
    condition: str


@dataclass(frozen=True)
class Remark:
    """A skipped part of the script: its place, its text, and the reason."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True)
class ShellScript:
    """The commands that a script would start, in order; ``environment`` are its exported variables."""

    sources: tuple[Source, ...]
    commands: tuple[Command, ...]
    remarks: tuple[Remark, ...]
    environment: dict[str, Word]


def joined(texts: Sequence[Text], fill: Fragment) -> Text:
    """The elements of an array as one text."""
    found: list[Fragment] = []
    for index, text in enumerate(texts):
        found += [fill] if index else []
        found += text
    return tuple(found)


def has_special(text: Text) -> bool:
    """Whether the known part of a text has characters that a shell acts on."""
    return any(set(SPECIAL) & set(fragment.text) for fragment in text if not fragment.unknown)


def spaced(words: Sequence[Text]) -> Text:
    """Words as one text."""
    return joined(words, Fragment(" "))


def shared_beginning(first: Text, texts: Sequence[str], rest: Fragment) -> Text:
    """The common first words of all texts, then the rest."""
    shortest = min(texts, key=len)
    length = next((i for i, letter in enumerate(shortest) if any(text[i] != letter for text in texts)), len(shortest))
    if any(len(text) > length and not text[length].isspace() for text in texts):
        while length and not shortest[length - 1].isspace():
            length -= 1
    kept: list[Fragment] = []
    for fragment in first:
        taken = min(len(fragment.text), length)
        if taken:
            kept.append(fragment.part(0, taken) if taken < len(fragment.text) else fragment)
        length -= taken
    rest = rest._replace(choices=tuple(text[sum(len(fragment.text) for fragment in kept) :] for text in texts))
    return (*kept, Fragment(" "), rest) if kept else (rest,)


def matched(subject: Text, pattern: Text) -> bool | None:
    """Whether a text matches a pattern of ``case``; ``None`` if only a shell could tell."""
    text = text_of(pattern)
    if text == "*":
        return True
    if unknown_in(subject) or unknown_in(pattern):
        return None
    if any(not fragment.is_quoted and set("*?[") & set(fragment.text) for fragment in pattern):
        return None
    return text_of(subject) == text
