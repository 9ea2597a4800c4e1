"""Variables and the expansion of words. Text that only a shell could determine stays as written, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from documents.sentences import Sentence
from documents.shell.arithmetic import Undecided, calculated
from documents.shell.syntax import Arithmetic, Literal, Opaque, Parameter, Part, Place, ShellError, Source, WordNode
from documents.shell.text import Fragment, Link, Text, joined, split, text_of, unknown_in

MAX_EXPANDED = 1_000_000  # total characters, plus eight for each piece; a launch script needs some ten thousand
_BETWEEN: None = None  # between two elements of an array


class Value:
    """Value of a variable: one text, or the elements of an array."""

    __slots__ = ("is_array", "texts")

    def __init__(self, texts: Sequence[Text], *, is_array: bool = False) -> None:
        self.texts, self.is_array = tuple(texts), is_array

    @property
    def first(self) -> Text:
        """The text of the bare name."""
        return self.texts[0] if self.texts else ()

    def same_as(self, other: Value | None) -> bool:
        """Whether both values are equal; their places do not count."""
        if other is None or self.is_array != other.is_array or len(self.texts) != len(other.texts):
            return False
        pairs = zip(self.texts, other.texts, strict=True)
        return all(text_of(a) == text_of(b) and unknown_in(a) == unknown_in(b) for a, b in pairs)


class Expander:
    """Expands words of the files ``sources`` with the current ``variables``; ``given`` are values from the user."""

    def __init__(self, sources: list[Source], given: Mapping[str, str]) -> None:
        self.sources, self.given = sources, given
        self.variables: dict[str, Value] = {}
        self._spent = 0

    def spend(self, place: Place, amount: int) -> None:
        """Count work, and reject a script that needs too much."""
        self._spent += amount
        if self._spent > MAX_EXPANDED:
            raise self.error(place, Sentence("its variables expand to more than a launch script ever does"))

    def error(self, place: Place, sentence: str) -> ShellError:
        """The error for text at a place."""
        return self.sources[place.source].error(place.start, sentence)

    def written(self, place: Place) -> str:
        """The source text at a place."""
        return self.sources[place.source].text[place.start : place.end]

    def words(self, nodes: Sequence[WordNode]) -> list[Text]:
        """The expanded words of a command or an array."""
        return [text for node in nodes for text in self._split(node)]

    def text(self, node: WordNode) -> Text:
        """The expanded text of a value, without word splitting."""
        return tuple(self._known(node.parts))

    def _split(self, node: WordNode) -> list[Text]:
        if _has_braces(node):
            reason = Sentence("a shell makes several words of the braces")
            return [(Fragment(self.written(node.place), (), is_quoted=True, unknown=reason),)]
        words: list[Text] = []
        run: list[Fragment] = []
        for fragment in (*self._pieces(node.parts), _BETWEEN):
            if fragment is not None:
                run.append(fragment)
            else:
                words += split(run)
                run = []
        return words

    def _pieces(self, parts: Sequence[Part]) -> Iterator[Fragment | None]:
        for part in parts:
            if isinstance(part, Literal):
                self.spend(part.place, len(part.text) + 8)
                yield Fragment(part.text, (Link(part.place, part.text),), part.quoted)
            elif isinstance(part, Parameter):
                yield from self._parameter(part)
            elif isinstance(part, Arithmetic):
                yield self._arithmetic(part)
            else:
                yield self._unknown(part, Sentence("{} is not evaluated, because scripts are not executed", part.what))

    def _unknown(self, part: Parameter | Arithmetic | Opaque, reason: str) -> Fragment:
        text = self.written(part.place)
        return Fragment(text, (Link(part.place, text),), part.quoted, reason)

    def _arithmetic(self, part: Arithmetic) -> Fragment:
        try:
            number = self.calculate(part.parts)
        except Undecided as undecided:
            return self._unknown(part, str(undecided))
        except ShellError:
            raise
        except ValueError as error:
            raise self.error(part.place, Sentence("{} {}", self.written(part.place)[:60], error)) from None
        return Fragment(str(number), (Link(part.place, str(number)),), part.quoted)

    def calculate(self, parts: Sequence[Part]) -> int:
        """The value of an expression. Raises ``Undecided``, or ``ValueError`` for an invalid expression."""
        fragments = list(self._known(parts))
        reason = unknown_in(fragments)
        if reason:
            raise Undecided(reason)

        def value_of(name: str) -> str:
            value = self._value(name)
            if value is None:
                raise Undecided(_unset(name))
            reason = unknown_in(value.first)
            if reason:
                raise Undecided(reason)
            return text_of(value.first)

        return calculated(text_of(fragments), value_of)

    def _value(self, name: str) -> Value | None:
        if name in self.variables:
            return self.variables[name]
        return Value([(Fragment(self.given[name]),)]) if name in self.given else None

    def is_set(self, name: str) -> bool:
        """Whether the script or the user sets a variable."""
        return self._value(name) is not None

    def _parameter(self, part: Parameter) -> Iterator[Fragment | None]:
        value = self._value(part.name)
        operator = part.operator.removeprefix(":")
        empty = value is None or (part.operator.startswith(":") and not text_of(value.first))
        if part.operator == "#":
            yield self._length(part, value)
            return
        if operator == "+":
            yield from () if empty else self._wrapped(part, [tuple(self._known(part.operand))])
            return
        if operator in ("-", "=") and empty:
            default = tuple(self._known(part.operand))
            if operator == "=":
                self.variables[part.name] = Value([default])
            yield from self._wrapped(part, [default])
            return
        if value is None:
            yield self._unknown(part, _unset(part.name))._replace(is_unset=True)
            return
        yield from self._wrapped(part, self._elements(part, value))

    def _known(self, parts: Sequence[Part]) -> Iterator[Fragment]:
        """Elements of an array as one text."""
        return (Fragment(" ") if fragment is None else fragment for fragment in self._pieces(parts))

    def _length(self, part: Parameter, value: Value | None) -> Fragment:
        if value is None:
            return self._unknown(part, _unset(part.name))
        if part.index in ("@", "*"):
            length = len(value.texts)
        elif reason := unknown_in(value.first):
            return self._unknown(part, reason)
        else:
            length = len(text_of(value.first))
        return Fragment(str(length), (Link(part.place, str(length)),), part.quoted)

    def _elements(self, part: Parameter, value: Value) -> Sequence[Text]:
        if part.index in ("@", "*"):
            return value.texts
        if not part.index:
            return [value.first]
        if part.index.isdecimal() and len(part.index) < 7 and (value.is_array or int(part.index) == 0):
            return value.texts[int(part.index) : int(part.index) + 1]
        return [(self._unknown(part, Sentence("the index {} is not followed", part.index[:40])),)]

    def _wrapped(self, part: Parameter, texts: Sequence[Text]) -> Iterator[Fragment | None]:
        """The texts, with the place of the reference added."""
        whole = " ".join(map(text_of, texts))
        self.spend(part.place, len(whole) + 8 * sum(map(len, texts)) + 8)
        link = Link(part.place, whole)
        fill = Fragment(" ", (), part.quoted)
        if part.index == "*" and part.quoted:
            texts = [joined(texts, fill)]
        for index, text in enumerate(texts):
            if index:
                yield _BETWEEN
            for fragment in text:
                yield fragment.through(link)._replace(is_quoted=part.quoted)


def _unset(name: str) -> str:
    what = Sentence("argument {} of the script", name) if name.isdecimal() or name in "@*" else name
    return Sentence("the script does not set {}; --set {}=VALUE does", what, "1" if name in "@*" else name)


def _has_braces(node: WordNode) -> bool:
    text = "".join(part.text if isinstance(part, Literal) and not part.quoted else "x" for part in node.parts)
    inside = text.partition("{")[2].rpartition("}")[0]
    return "," in inside or ".." in inside
