"""Parser for the part of Bash's grammar that launch scripts use. Unbalanced input is rejected with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from documents.sentences import Sentence
from documents.shell.syntax import (
    AndOr,
    Assignment,
    Calculation,
    Case,
    Function,
    Group,
    HereDocument,
    If,
    Loop,
    Node,
    Not,
    Opaque,
    Place,
    Simple,
    Source,
    Test,
    WordNode,
)
from documents.shell.words import WordParser

DECLARATIONS = ("export", "local", "declare", "typeset", "readonly")
_RESERVED = re.compile(r"[A-Za-z{}!]+(?=[\s;&|()<>]|$)|\[\[(?=\s)")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]\s]*)\])?(\+?)=")
_FUNCTION = re.compile(r"([^\s()<>|&;$'\"`=]+)[ \t]*\(\s*\)")
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:<<<|<<-|<<|<>|<&|<|>>|>&|>\||>)|&>>|&>")
_PLACEHOLDER = re.compile(r"<[A-Za-z_][^<>\n|&;]*>(?=[ \t\r]*(?:#[^\n]*)?(?:\n|$))")
_CLOSING = ("then", "elif", "else", "fi", "do", "done", "esac", "}")
MAX_DEPTH = 40


class Parser(WordParser):
    """Parses one file."""

    def __init__(self, source: Source, number: int) -> None:
        super().__init__(source, number)
        self._heredocs: list[HereDocument] = []
        self._depth = 0

    def script(self) -> tuple[Node, ...]:
        """All commands of the file."""
        nodes = self._body()
        if self.position < len(self.text):
            raise self.error(Sentence("{!r} closes nothing", self.text[self.position : self.position + 10].split()[0]))
        if self._heredocs:
            raise self.error(Sentence("the text up to {!r} has no end", self._heredocs[0].end))
        return nodes

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(Sentence("commands are nested deeper than {} levels", MAX_DEPTH))
        yield
        self._depth -= 1

    def _body(self) -> tuple[Node, ...]:
        """Commands up to a word or an operator that closes a block."""
        nodes: list[Node] = []
        while True:
            self._lines()
            if self.position >= len(self.text) or self.text.startswith((")", ";;"), self.position):
                return tuple(nodes)
            if self._reserved() in _CLOSING:
                return tuple(nodes)
            nodes.append(self._list())
            self.blanks()
            if self.text.startswith(";;", self.position):
                return tuple(nodes)
            if self.text[self.position : self.position + 1] in (";", "&"):
                self.position += 1

    def _lines(self) -> None:
        """Skip empty lines, and here-documents after their line."""
        while True:
            self.blanks()
            if self.text[self.position : self.position + 1] != "\n":
                return
            self.position += 1
            for document in self._heredocs:
                self._skip_heredoc(document)
            self._heredocs.clear()

    def _skip_heredoc(self, document: HereDocument) -> None:
        begin, end = self.position, document.end
        while self.position < len(self.text):
            start = self.position
            stop = self.text.find("\n", self.position)
            line = self.text[self.position : stop if stop >= 0 else len(self.text)]
            self.position = stop + 1 if stop >= 0 else len(self.text)
            if (line.lstrip("\t") if document.is_indented else line).rstrip("\r") == end:
                document.place = Place(self.number, begin, start)
                return
        raise self.error(Sentence("the text up to {!r} has no end", end[:40]), begin)

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.position)
        return match[0] if match else ""

    def _take(self, word: str, opened: int) -> None:
        self._lines()
        if self._reserved() != word:
            what = self._reserved_at(opened)
            raise self.error(Sentence("{!r} has no {!r}", what, word), opened)
        self.position += len(word)

    def _reserved_at(self, position: int) -> str:
        match = _RESERVED.match(self.text, position)
        return match[0] if match else self.text[position : position + 10]

    def _list(self) -> Node:
        """Pipelines joined by && and ||, which have equal precedence and associate to the left."""
        first = self._pipeline()
        others: list[tuple[str, Node]] = []
        while True:
            self.blanks()
            operator = self.text[self.position : self.position + 2]
            if operator not in ("&&", "||"):
                return AndOr(self.place(first.place.start), first, tuple(others)) if others else first
            self.position += 2
            self._lines()
            others.append((operator, self._pipeline()))

    def _pipeline(self) -> Node:
        begin = self.position
        if self._reserved() == "!":
            self.position += 1
            self.blanks()
            with self._nested():
                return Not(self.place(begin), self._pipeline())
        nodes = [self._command()]
        while True:
            self.blanks()
            if not re.match(r"\|&?(?!\|)", self.text[self.position : self.position + 2]):
                break
            self.position += 2 if self.text.startswith("|&", self.position) else 1
            self._lines()
            nodes.append(self._command())
        return nodes[0] if len(nodes) == 1 else Group(self.place(begin), tuple(nodes), apart=True)

    def _command(self) -> Node:
        with self._nested():
            begin, word = self.position, self._reserved()
            compound = {
                "if": self._if, "for": self._for, "select": self._for, "while": self._while, "until": self._while,
                "case": self._case, "function": self._function, "{": self._group, "[[": self._test, "time": self._timed,
            }.get(word)  # fmt: skip
            if compound is not None:
                self.position += len(word)
                node = compound(begin)
            elif self.text.startswith("((", begin):
                node = self._calculation(begin)
            elif self.text.startswith("(", begin):
                self.position += 1
                body = self._body()
                self._sign(")", begin)
                node = Group(self.place(begin), body, apart=True)
            elif match := _FUNCTION.match(self.text, begin):
                self.position = match.end()
                node = self._defined(begin, match[1])
            else:
                return self._simple(begin)
            self._redirections()
            return node

    def _timed(self, _begin: int) -> Node:
        self.blanks()
        return self._command()

    def _sign(self, sign: str, opened: int) -> None:
        self._lines()
        if not self.text.startswith(sign, self.position):
            raise self.error(Sentence("{!r} is never closed", self.text[opened]), opened)
        self.position += len(sign)

    def _if(self, begin: int) -> Node:
        branches: list[tuple[tuple[Node, ...], tuple[Node, ...]]] = []
        otherwise: tuple[Node, ...] = ()
        while True:
            condition = self._body()
            self._take("then", begin)
            branches.append((condition, self._body()))
            word = self._reserved()
            if word == "elif":
                self.position += 4
                continue
            if word == "else":
                self.position += 4
                otherwise = self._body()
            self._take("fi", begin)
            return If(self.place(begin), tuple(branches), otherwise)

    def _for(self, begin: int) -> Node:
        self.blanks()
        name, words = "", None
        if self.text.startswith("((", self.position):
            self._calculation(self.position)
        else:
            match = re.compile(r"[A-Za-z_]\w*").match(self.text, self.position)
            if match is None:
                raise self.error(Sentence("'for' has no name"), begin)
            name, self.position = match[0], match.end()
            self._lines()
            if self._reserved() == "in":
                self.position += 2
                words = self._words()
        self.blanks()
        if self.text[self.position : self.position + 1] == ";":
            self.position += 1
        return Loop(self.place(begin), name, words, self._do(begin))

    def _while(self, begin: int) -> Node:
        condition = self._body()
        return Loop(self.place(begin), "", None, (*condition, *self._do(begin)))

    def _do(self, begin: int) -> tuple[Node, ...]:
        self._take("do", begin)
        body = self._body()
        self._take("done", begin)
        return body

    def _case(self, begin: int) -> Node:
        self.blanks()
        subject = self.word()
        self._take("in", begin)
        branches: list[tuple[tuple[WordNode, ...], tuple[Node, ...]]] = []
        while True:
            self._lines()
            if self._reserved() == "esac":
                self.position += 4
                return Case(self.place(begin), subject, tuple(branches))
            if self.position >= len(self.text):
                raise self.error(Sentence("'case' has no 'esac'"), begin)
            if self.text.startswith("(", self.position):
                self.position += 1
            patterns = []
            while True:
                self.blanks()
                patterns.append(self.word())
                self.blanks()
                if not self.text.startswith("|", self.position):
                    break
                self.position += 1
            self._sign(")", begin)
            branches.append((tuple(patterns), self._body()))
            if match := re.compile(r";;&?|;&").match(self.text, self.position):
                self.position = match.end()

    def _function(self, begin: int) -> Node:
        self.blanks()
        match = re.compile(r"([^\s()]+)[ \t]*(?:\(\s*\))?").match(self.text, self.position)
        if match is None:
            raise self.error(Sentence("'function' has no name"), begin)
        self.position = match.end()
        return self._defined(begin, match[1])

    def _defined(self, begin: int, name: str) -> Node:
        self._lines()
        return Function(self.place(begin), name, (self._command(),))

    def _group(self, begin: int) -> Node:
        body = self._body()
        self._take("}", begin)
        return Group(self.place(begin), body, apart=False)

    def _calculation(self, begin: int) -> Node:
        self.position += 2
        parts = self.arithmetic(begin)
        return Calculation(self.place(begin), parts)

    def _test(self, begin: int) -> Node:
        words: list[WordNode] = []
        while True:
            self._lines()
            if self.position >= len(self.text):
                raise self.error(Sentence("'[[' has no ']]'"), begin)
            if re.compile(r"\]\](?=[\s;&|)]|$)").match(self.text, self.position):
                self.position += 2
                return Test(self.place(begin), tuple(words))
            match = re.compile(r"&&|\|\||[()<>|]").match(self.text, self.position)
            words.append(self.sign(match[0]) if match else self.word())

    def _words(self) -> tuple[WordNode, ...]:
        words: list[WordNode] = []
        while True:
            self.blanks()
            if self.position >= len(self.text) or self.text[self.position] in "\n;&|()<>":
                return tuple(words)
            words.append(self.word())

    def _redirections(self) -> tuple[HereDocument | None, WordNode | None]:
        """The here-document and the output file of the redirections at this position."""
        document, output = None, None
        while True:
            self.blanks()
            match = _REDIRECTION.match(self.text, self.position)
            if match is None or self.text.startswith(("<(", ">("), self.position):
                return document, output
            self.position = match.end()
            self.blanks()
            target = self.word()
            if match[0].endswith(("<<", "<<-")) and not match[0].endswith("<<<"):
                end = "".join(getattr(part, "text", "") for part in target.parts)
                document = HereDocument(end, match[0].endswith("-"), target.bare is None)
                self._heredocs.append(document)
            elif match[0] in (">", ">>", ">|"):
                output = target

    def _simple(self, begin: int) -> Node:
        assignments: list[Assignment] = []
        words: list[WordNode] = []
        document: HereDocument | None = None
        output: WordNode | None = None
        while True:
            read, written = self._redirections()
            document, output = read or document, written or output
            if self.position >= len(self.text) or self.text[self.position] in "\n;&|)":
                break
            declares = bool(words) and words[0].bare in DECLARATIONS
            match = _ASSIGNED.match(self.text, self.position) if not words or declares else None
            if match is not None:
                assignments.append(self._assignment(match))
            elif self.text[self.position] == "(":
                raise self.error(Sentence("'(' is not expected here"))
            else:
                words.append(self.word())
        if not assignments and not words and self.position == begin:
            raise self.error(Sentence("{!r} is not expected here", self.text[begin : begin + 1]))
        return Simple(self.place(begin), tuple(assignments), tuple(words), document, output)

    def _assignment(self, match: re.Match[str]) -> Assignment:
        begin = self.position
        self.position = match.end()
        elements = None
        value = WordNode(self.place(self.position), ())
        if self.text.startswith("(", self.position):
            opened = self.position
            self.position += 1
            found: list[WordNode] = []
            while True:
                self._lines()
                if self.position >= len(self.text):
                    raise self.error(Sentence("'(' is never closed"), opened)
                if self.text[self.position] == ")":
                    self.position += 1
                    break
                if self.text[self.position] in ";&|(":
                    raise self.error(Sentence("{!r} is not expected in an array", self.text[self.position]))
                found.append(self.word())
            elements = tuple(found)
        elif placeholder := _PLACEHOLDER.match(self.text, self.position):
            start, self.position = self.position, placeholder.end()
            value = WordNode(self.place(start), (Opaque(self.place(start), Sentence("a placeholder"), quoted=True),))
        elif self.position < len(self.text) and self.text[self.position] not in " \t\r\n;&|)<>":
            value = self.word()
        return Assignment(self.place(begin), match[1], bool(match[3]), value, elements, match[2] or "")


def parse(source: Source, number: int, start: int = 0) -> tuple[Node, ...]:
    """The commands of a file from a position on. Raises ``ShellError``."""
    parser = Parser(source, number)
    parser.position = start
    return parser.script()
