"""Parser for words: quotes, escapes, and all that starts with a dollar sign."""

from __future__ import annotations

import re

from documents.sentences import Sentence
from documents.shell.syntax import Arithmetic, Literal, Opaque, Parameter, Part, Place, ShellError, Source, WordNode

_BLANKS = re.compile(r"(?:[ \t\r]+|\\\r?\n)+")
_PLAIN = re.compile(r"[^\s\\'\"$`;&|()<>]+")
_PLAIN_IN_QUOTES = re.compile(r"[^\\\"$`]+")
_PLAIN_IN_BRACES = re.compile(r"[^\\'\"$`}]+")
_PLAIN_IN_ARITHMETIC = re.compile(r"[^\\'\"$`()]+")
_NAME = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!_-]")
_BARE_NAME = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!_-]")
_OPERATOR = re.compile(r":[-=+?]|[-=+?]")
MAX_NESTED = 40


class WordParser:
    """The part of a parser that parses words."""

    def __init__(self, source: Source, number: int) -> None:
        self.source, self.number, self.text, self.position = source, number, source.text, 0
        self._nesting = 0

    def error(self, sentence: str, position: int | None = None) -> ShellError:
        """The error for a position, by default the current one."""
        return self.source.error(self.position if position is None else position, sentence)

    def place(self, start: int) -> Place:
        """The range from ``start`` to the current position."""
        return Place(self.number, start, self.position)

    def blanks(self) -> None:
        """Skip spaces, continued lines and a comment."""
        match = _BLANKS.match(self.text, self.position)
        if match:
            self.position = match.end()
        if self.text.startswith("#", self.position):
            end = self.text.find("\n", self.position)
            self.position = end if end >= 0 else len(self.text)

    def sign(self, text: str) -> WordNode:
        """An operator as a word."""
        start = self.position
        self.position += len(text)
        return WordNode(self.place(start), (Literal(self.place(start), text, quoted=False),))

    def word(self) -> WordNode:
        """The word at the current position."""
        start = self.position
        parts: list[Part] = []
        while self.position < len(self.text):
            begin, letter = self.position, self.text[self.position]
            if match := _PLAIN.match(self.text, begin):
                self.position = match.end()
                parts.append(Literal(self.place(begin), match[0], quoted=False))
            elif letter == "\\":
                self.position = min(begin + 2, len(self.text))
                escaped = self.text[begin + 1 : begin + 2]
                if escaped == "\n":
                    if parts:
                        continue
                    break
                parts.append(Literal(self.place(begin), escaped, quoted=True))
            elif letter == "'":
                parts.append(self._single(begin))
            elif letter == '"':
                parts += self._double(begin)
            elif letter in "$`":
                parts.append(self._dollar(quoted=False))
            elif self.text.startswith(("<(", ">("), begin):
                self.position += 2
                self._skip_parentheses(begin, 1)
                parts.append(Opaque(self.place(begin), Sentence("a process"), quoted=False))
            else:
                break
        if self.position == start:
            shown = self.text[start : start + 1] or Sentence("the end of the file")
            raise self.error(Sentence("{!r} is not expected here", shown))
        return WordNode(self.place(start), tuple(parts))

    def _single(self, begin: int) -> Literal:
        end = self.text.find("'", begin + 1)
        if end < 0:
            raise self.error(Sentence("the quote ' is never closed"), begin)
        self.position = end + 1
        return Literal(Place(self.number, begin + 1, end), self.text[begin + 1 : end], quoted=True)

    def _double(self, begin: int) -> list[Part]:
        self.position += 1
        parts: list[Part] = [Literal(Place(self.number, begin + 1, begin + 1), "", quoted=True)]
        while True:
            at = self.position
            if at >= len(self.text):
                raise self.error(Sentence('the quote " is never closed'), begin)
            if match := _PLAIN_IN_QUOTES.match(self.text, at):
                self.position = match.end()
                parts.append(Literal(self.place(at), match[0], quoted=True))
            elif self.text[at] == '"':
                self.position += 1
                if any(isinstance(part, Parameter) and part.index == "@" for part in parts):
                    return parts[1:]  # an array without elements leaves nothing, not even an empty word
                return parts
            elif self.text[at] == "\\":
                parts += self._escaped_in_quotes()
            else:
                parts.append(self._dollar(quoted=True))

    def _escaped_in_quotes(self) -> list[Part]:
        at, escaped = self.position, self.text[self.position + 1 : self.position + 2]
        self.position += 2 if escaped in ('$`"\\\n') and escaped else 1
        if escaped == "\n":
            return []
        return [Literal(self.place(at), escaped if self.position - at == 2 else "\\", quoted=True)]

    def _dollar(self, *, quoted: bool) -> Part:
        """An expansion that starts with a dollar sign or a backtick."""
        self._nesting += 1
        if self._nesting > MAX_NESTED:
            raise self.error(Sentence("expansions are nested deeper than {} levels", MAX_NESTED))
        begin = self.position
        try:
            if self.text[begin] == "`":
                end = begin + 1
                while end < len(self.text) and self.text[end] != "`":
                    end += 2 if self.text[end] == "\\" else 1
                if end >= len(self.text):
                    raise self.error(Sentence("the quote ` is never closed"), begin)
                self.position = end + 1
                return Opaque(self.place(begin), Sentence("a command's output"), quoted)
            if self.text.startswith("$((", begin):
                self.position += 3
                parts = self.arithmetic(begin)
                return Arithmetic(self.place(begin), parts, quoted)
            if self.text.startswith("$(", begin):
                self.position += 2
                self._skip_parentheses(begin, 1)
                return Opaque(self.place(begin), Sentence("a command's output"), quoted)
            if self.text.startswith("${", begin):
                return self._braced(begin, quoted=quoted)
            if self.text.startswith("$'", begin) and not quoted:
                self.position += 1
                literal = self._single(begin + 1)
                return literal if "\\" not in literal.text else Opaque(self.place(begin), Sentence("escaped text"), quoted=True)
            self.position += 1
            match = _BARE_NAME.match(self.text, self.position)
            if match is None:
                return Literal(self.place(begin), "$", quoted)
            self.position = match.end()
            index = match[0] if match[0] in "@*" else ""
            return Parameter(self.place(begin), match[0], quoted, index)
        finally:
            self._nesting -= 1

    def _braced(self, begin: int, *, quoted: bool) -> Part:
        self.position += 2
        counts = self.text.startswith("#", self.position) and not self.text.startswith("#}", self.position)
        self.position += counts
        match = _NAME.match(self.text, self.position)
        if match is None:
            return self._edited(begin, quoted=quoted)
        name, self.position = match[0], match.end()
        index = name if name in "@*" else ""
        if bracket := re.compile(r"\[([^\]\s]*)\]").match(self.text, self.position):
            index, self.position = bracket[1], bracket.end()
        if self.text.startswith("}", self.position):
            self.position += 1
            return Parameter(self.place(begin), name, quoted, index, "#" if counts else "")
        operator = _OPERATOR.match(self.text, self.position)
        if operator is None or counts:
            return self._edited(begin, quoted=quoted)
        self.position = operator.end()
        operand = self._until_brace(begin, quoted=quoted)
        return Parameter(self.place(begin), name, quoted, index, operator[0], operand)

    def _until_brace(self, begin: int, *, quoted: bool) -> tuple[Part, ...]:
        parts: list[Part] = []
        while True:
            at = self.position
            if at >= len(self.text):
                raise self.error(Sentence("'${{' is never closed"), begin)
            letter = self.text[at]
            if letter == "}":
                self.position += 1
                return tuple(parts)
            if match := _PLAIN_IN_BRACES.match(self.text, at):
                self.position = match.end()
                parts.append(Literal(self.place(at), match[0], quoted))
            elif letter == "'" and not quoted:
                parts.append(self._single(at))
            elif letter == "'":
                self.position += 1
                parts.append(Literal(self.place(at), "'", quoted))
            elif letter == '"':
                parts += self._double(at)
            elif letter == "\\":
                parts += self._escaped_in_quotes()
            else:
                parts.append(self._dollar(quoted=quoted))

    def _edited(self, begin: int, *, quoted: bool) -> Part:
        """An expansion that edits text (``%``, ``/``, ``^``) or uses a name in a variable."""
        self._until_brace(begin, quoted=False)
        return Opaque(self.place(begin), Sentence("an expansion that edits text"), quoted)

    def arithmetic(self, begin: int) -> tuple[Part, ...]:
        """The parts up to ``))``."""
        parts: list[Part] = []
        depth = 0
        while True:
            at = self.position
            if at >= len(self.text):
                raise self.error(Sentence("'((' is never closed"), begin)
            letter = self.text[at]
            if letter == ")" and depth == 0:
                if not self.text.startswith("))", at):
                    raise self.error(Sentence("'((' is never closed"), begin)
                self.position += 2
                return tuple(parts)
            if match := _PLAIN_IN_ARITHMETIC.match(self.text, at):
                self.position = match.end()
                parts.append(Literal(self.place(at), match[0], quoted=True))
            elif letter in "()":
                depth += 1 if letter == "(" else -1
                self.position += 1
                parts.append(Literal(self.place(at), letter, quoted=True))
            elif letter == "$":
                parts.append(self._dollar(quoted=True))
            elif letter == "`":
                parts.append(self._dollar(quoted=True))
            else:  # quotes say nothing here
                self.position += 1

    def _skip_parentheses(self, begin: int, depth: int) -> None:
        """Skip to after the matching closing parenthesis; the text inside is never read."""
        interesting = re.compile(r"[\\'\"`()]")
        while depth:
            match = interesting.search(self.text, self.position)
            if match is None:
                raise self.error(Sentence("'$(' is never closed"), begin)
            at, letter = match.start(), match[0]
            self.position = at + 1
            if letter == "\\":
                self.position += 1
            elif letter == "'":
                self._single(at)
            elif letter == '"':
                self._skip_quoted(at)
            elif letter != "`":
                depth += 1 if letter == "(" else -1

    def _skip_quoted(self, begin: int) -> None:
        """Skip to after the closing double quote; a command inside can have its own quotes."""
        self._nesting += 1
        if self._nesting > MAX_NESTED:
            raise self.error(Sentence("expansions are nested deeper than {} levels", MAX_NESTED))
        interesting = re.compile(r"[\\\"]|\$\(")
        while True:
            match = interesting.search(self.text, self.position)
            if match is None:
                raise self.error(Sentence('the quote " is never closed'), begin)
            self.position = match.end()
            if match[0] == '"':
                self._nesting -= 1
                return
            if match[0] == "\\":
                self.position += 1
            else:
                self._skip_parentheses(match.start(), 1)
