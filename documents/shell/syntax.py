"""Syntax tree of a script: words of parts, and commands of words; each has its place."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from documents.errors import InputError
from documents.late_methods import dataclass
from documents.sentences import Sentence


class ShellError(InputError):
    """A script that cannot be read; the message names file and line."""


@dataclass(frozen=True)
class Source:
    """One source file, or a text that a shell reads in line ``first_line`` of one."""

    name: str
    text: str
    first_line: int = 1

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(index + 1 for index, letter in enumerate(self.text) if letter == "\n")]

    def line_of(self, position: int) -> int:
        """Line number of a position, from 1."""
        return self.first_line - 1 + bisect_right(self._starts, position)

    def error(self, position: int, sentence: str) -> ShellError:
        """The error for a position."""
        return ShellError(Sentence("{}: line {}: {}.", self.name, self.line_of(position), sentence))


class Place(NamedTuple):
    """A range of text: number of the file (0: the script itself), first character, and the one after the last."""

    source: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Literal:
    """Literal text without its quotes."""

    place: Place
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$NAME``, ``${NAME[index]operator operand}``; ``operator`` is "" or one of :- - := = :+ + :? ? #."""

    place: Place
    name: str
    quoted: bool
    index: str = ""
    operator: str = ""
    operand: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``$((...))``; its parts are expanded before it is evaluated."""

    place: Place
    parts: tuple[Part, ...]
    quoted: bool


@dataclass(frozen=True, slots=True)
class Opaque:
    """Text that only a shell could determine: a command substitution, an expansion that edits text."""

    place: Place
    what: str
    quoted: bool


Part = Literal | Parameter | Arithmetic | Opaque


@dataclass(frozen=True, slots=True)
class WordNode:
    """A word: parts without a space between them."""

    place: Place
    parts: tuple[Part, ...]

    @property
    def bare(self) -> str | None:
        """The text of an unquoted word without expansions, else ``None``."""
        if all(isinstance(part, Literal) and not part.quoted for part in self.parts):
            return "".join(part.text for part in self.parts if isinstance(part, Literal))
        return None


@dataclass(frozen=True, slots=True)
class Assignment:
    """``NAME=value``, ``NAME+=value``; an array has ``elements``."""

    place: Place
    name: str
    appends: bool
    value: WordNode
    elements: tuple[WordNode, ...] | None = None
    index: str = ""


@dataclass(slots=True)
class HereDocument:
    """Text that a command reads, up to a line ``end``. A quoted end keeps ``$NAME`` in it. Its place is known after its line."""

    end: str
    is_indented: bool
    is_quoted: bool
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command of assignments and words; without words the assignments persist. ``output``: the file that it writes."""

    place: Place
    assignments: tuple[Assignment, ...]
    words: tuple[WordNode, ...]
    document: HereDocument | None = None
    output: WordNode | None = None


@dataclass(frozen=True, slots=True)
class Test:
    """``[[ ... ]]``, with its words and operators as words."""

    place: Place
    words: tuple[WordNode, ...]


@dataclass(frozen=True, slots=True)
class Calculation:
    """``(( ... ))``."""

    place: Place
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with their bodies; ``otherwise`` may be empty."""

    place: Place
    branches: tuple[tuple[tuple[Node, ...], tuple[Node, ...]], ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Patterns with their bodies."""

    place: Place
    subject: WordNode
    branches: tuple[tuple[tuple[WordNode, ...], tuple[Node, ...]], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: ``for`` over ``words``; ``while``, ``until`` and ``for ((...))`` have no words."""

    place: Place
    name: str
    words: tuple[WordNode, ...] | None
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function definition."""

    place: Place
    name: str
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """``{ ...; }``, or commands in a subshell: ``( ... )`` and the parts of a pipe."""

    place: Place
    body: tuple[Node, ...]
    apart: bool


@dataclass(frozen=True, slots=True)
class AndOr:
    """``first && second || third``, from left to right; ``others`` have the operator before each."""

    place: Place
    first: Node
    others: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``! command``."""

    place: Place
    negated: Node


Node = Simple | Test | Calculation | If | Case | Loop | Function | Group | AndOr | Not
