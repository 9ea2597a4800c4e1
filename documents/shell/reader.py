"""Finds the commands that a script would start, by following its control flow without running anything.

If a condition is undecidable, variables that its branches set differently become unknown. A command is assumed to succeed. A
branch that ends the script with an error is taken as a check and skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from documents.sentences import Sentence, joined
from documents.shell.arithmetic import Undecided
from documents.shell.conditions import decided, negated
from documents.shell.expansion import Expander, Value
from documents.shell.parser import parse
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
    Place,
    ShellError,
    Simple,
    Source,
    Test,
)
from documents.shell.text import (
    Command,
    Fragment,
    Remark,
    ShellScript,
    Text,
    Word,
    has_special,
    matched,
    shared_beginning,
    spaced,
    split,
    text_of,
    unknown_in,
)

MAX_STEPS = 20_000  # followed commands; those of loops and functions count each time
MAX_CALLS = 16
_SHELLS = ("bash", "sh", "sbatch")
_EXPORTING = ("export", "declare", "typeset")
_SETTING = {"read": 1, "mapfile": 1, "readarray": 1, "getopts": 2, "let": 1}

Ended = Literal["exit", "check", "return", "break", ""]  # the construct that a command ended; "check": the script, with an error
ASSUMED: Final = "assumed"  # outcome of a command that is not run
Outcome = bool | None | Literal["assumed"]


class Followed(NamedTuple):
    """Exit status of a command and whether it ended the script."""

    ended: Ended = ""
    outcome: Outcome = True


def read_script(text: str, *, name: str, given: Mapping[str, str], files: Mapping[str, str]) -> ShellScript:
    """The commands that the script would start. Raises ``ShellError``, with the line.

    ``given``: values from the environment or the command line; arguments of the script are named 1, 2, ...
    ``files``: texts of files that the script can ``source``, by name.
    """
    reader = _Reader(given, files)
    reader.file(Source(name, text), Place(0, 0, 0))
    environment = {
        name: Word(reader.expander.variables[name].first, 0) for name in reader.exported if name in reader.expander.variables
    }
    return ShellScript(tuple(reader.sources), tuple(reader.commands), tuple(reader.remarks), environment)


class _Reader:
    def __init__(self, given: Mapping[str, str], files: Mapping[str, str]) -> None:
        self.sources: list[Source] = []
        self.expander = Expander(self.sources, given)
        self.commands: list[Command] = []
        self.remarks: list[Remark] = []
        self.exported: dict[str, None] = {}
        self._files = files
        self._functions: dict[str, tuple[Node, ...]] = {}
        self._calls = self._steps = 0
        self._condition = ""
        self._in_front: list[Text] = []  # words of the command that starts the present shell
        self._written: dict[str, HereDocument] = {}
        name = Fragment("script", ())
        self.expander.variables |= {"0": Value([(name,)]), "BASH_SOURCE": Value([(name,)], is_array=True)}

    def file(self, source: Source, place: Place) -> Followed:
        """Follow a file that replaces a command at ``place``."""
        self.sources.append(source)
        nodes = parse(source, len(self.sources) - 1)
        return self._inside(place, nodes)

    def _inside(self, place: Place, nodes: Sequence[Node]) -> Followed:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise self.expander.error(place, Sentence("functions or files call each other more than {} deep", MAX_CALLS))
        followed = self._all(nodes)
        self._calls -= 1
        return followed

    def _all(self, nodes: Sequence[Node]) -> Followed:
        followed = Followed()
        for node in nodes:
            followed = self._node(node)
            if followed.ended:
                return followed
        return followed

    def _node(self, node: Node) -> Followed:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise self.expander.error(node.place, Sentence("more than {:,} commands are followed up to here", MAX_STEPS))
        match node:
            case Simple():
                return self._simple(node)
            case Test():
                return Followed(outcome=decided(self._test_words(node), self.expander.is_set))
            case Calculation():
                return Followed(outcome=self._calculated(node))
            case Not():
                followed = self._node(node.negated)
                if followed.outcome == ASSUMED:
                    return followed
                return Followed(followed.ended, negated(_known(followed.outcome)))
            case AndOr():
                return self._and_or(node)
            case If():
                return self._if(node)
            case Case():
                return self._case(node)
            case Loop():
                return self._loop(node)
            case Function():
                self._functions[node.name] = node.body
                return Followed()
            case Group():
                return self._group(node)

    def _test_words(self, node: Test) -> list[Text]:
        return [self.expander.text(word) for word in node.words]

    def _calculated(self, node: Calculation) -> bool | None:
        try:
            return self.expander.calculate(node.parts) != 0
        except Undecided:
            return None
        except ShellError:
            raise
        except ValueError as error:
            raise self.expander.error(node.place, Sentence("{} {}", self.expander.written(node.place)[:60], error)) from None

    def _and_or(self, node: AndOr) -> Followed:
        followed = self._node(node.first)
        for operator, other in node.others:
            if followed.ended:
                return followed
            outcome = True if followed.outcome == ASSUMED else _known(followed.outcome)
            if outcome is None:
                self._branches(node.place, [(other,), ()])
            elif outcome == (operator == "&&"):
                followed = self._node(other)
                if followed.ended == "check":
                    followed = Followed()
        return followed

    def _if(self, node: If) -> Followed:
        undecided: list[Sequence[Node]] = []
        for condition, body in node.branches:
            followed = self._all(condition)
            if followed.ended:
                return followed
            outcome = None if followed.outcome == ASSUMED else _known(followed.outcome)
            if outcome is None:
                undecided.append(body)
            elif outcome and not undecided:
                return self._taken(body)
            elif outcome:
                return Followed(self._branches(node.place, [*undecided, body]))
        if not undecided:
            return self._taken(node.otherwise)
        return Followed(self._branches(node.place, [*undecided, node.otherwise]))

    def _taken(self, body: Sequence[Node]) -> Followed:
        """Follow a branch that is known to be taken."""
        before = self._copy(body)
        followed = self._all(body)
        if followed.ended == "check":
            self.expander.variables = before
            return Followed()
        return followed

    def _copy(self, body: Sequence[Node]) -> dict[str, Value]:
        if body:
            self.expander.spend(body[0].place, 8 * len(self.expander.variables))
        return dict(self.expander.variables)

    def _branches(self, place: Place, bodies: Sequence[Sequence[Node]]) -> Ended:
        """Follow each branch, of which one is taken; variables that they set differently become unknown."""
        before, outer = self.expander.variables, self._condition
        source = self.sources[place.source]
        line = source.line_of(place.start)
        self._condition = outer or Sentence("line {}: the script does not decide this condition", line)
        left: list[dict[str, Value]] = []
        for body in bodies:
            self.expander.variables = dict(before)
            self.expander.spend(place, 8 * len(before))
            if not self._all(body).ended:
                left.append(self.expander.variables)
        self._condition = outer
        self.expander.variables = left[0] if left else before
        names = [name for name in {name: None for one in left for name in one} if self._differs(name, left)]
        for name in names:
            self.expander.variables[name] = self._merged(name, [one.get(name) for one in left], line)
        if names:
            text = source.text[place.start :].partition("\n")[0]
            reason = Sentence("a condition that the script does not decide; it sets {}", joined(", ", names[:6]))
            self.remarks.append(Remark(line, text[:120], reason))
        return ""

    def _differs(self, name: str, left: Sequence[dict[str, Value]]) -> bool:
        first = left[0].get(name)
        return any(one.get(name) is not first and (first is None or not first.same_as(one.get(name))) for one in left[1:])

    def _merged(self, name: str, values: Sequence[Value | None], line: int) -> Value:
        """The common beginning of all values, then an unknown part; or the user's value."""
        if name in self.expander.given:
            return Value([(Fragment(self.expander.given[name]),)])
        reason = Sentence(
            "a condition in line {} sets {}, which the script does not decide; --set {}=VALUE does", line, name, name
        )
        rest = Fragment(f"${{{name}}}", (), is_quoted=False, unknown=reason)
        present = [value for value in values if value is not None]
        first = present[0]
        if len(present) < len(values) or any(value.is_array != first.is_array for value in present):
            return Value([(rest,)])
        if first.is_array:
            shared = 0
            while all(len(v.texts) > shared and text_of(v.texts[shared]) == text_of(first.texts[shared]) for v in present):
                shared += 1
            rest = rest._replace(choices=tuple(" ".join(map(text_of, v.texts[shared:])) for v in present))
            return Value([*first.texts[:shared], (rest,)], is_array=True)
        return Value([shared_beginning(first.first, [text_of(value.first) for value in present], rest)])

    def _case(self, node: Case) -> Followed:
        subject = self.expander.text(node.subject)
        bodies: list[Sequence[Node]] = []
        falls_through = True
        for patterns, body in node.branches:
            matches = [matched(subject, pattern) for pattern in map(self.expander.text, patterns)]
            if True in matches:
                if not bodies:
                    return self._taken(body)
                bodies.append(body)
                falls_through = False
                break
            if None in matches:
                bodies.append(body)
        if falls_through:
            bodies.append(())
        return Followed(self._branches(node.place, bodies) if len(bodies) > 1 else "")

    def _loop(self, node: Loop) -> Followed:
        words = None if node.words is None else self.expander.words(node.words)
        if words is None or any(unknown_in(word) for word in words):
            return Followed(self._branches(node.place, [node.body, ()]))
        for word in words:
            self.expander.variables[node.name] = Value([word])
            followed = self._taken(node.body)
            if followed.ended == "break":
                return Followed()
            if followed.ended:
                return followed
        return Followed()

    def _group(self, node: Group) -> Followed:
        if not node.apart:
            return self._all(node.body)
        before = self._copy(node.body)
        self._all(node.body)
        self.expander.variables = before
        return Followed(outcome=ASSUMED)

    def _simple(self, node: Simple) -> Followed:
        words = self.expander.words(node.words)
        name = text_of(words[0]) if words else ""
        while name in ("exec", "command", "builtin") and len(words) > 1:
            words = words[1:]
            name = text_of(words[0])
        lasting = not words or node.words[0].bare in ("local", "readonly", *_EXPORTING)
        for assignment in node.assignments:
            if assignment.name == "IFS" and name != "read":
                raise self.expander.error(assignment.place, Sentence("IFS is set, and how words are split then is not followed"))
            if lasting:
                self._assign(assignment)
        if name in ("export", "declare", "typeset") and (name == "export" or any(text_of(w) == "-x" for w in words)):
            self.exported |= dict.fromkeys([*(a.name for a in node.assignments), *map(text_of, words[1:])])
        if not words:
            return Followed()
        return self._named(node, name, words)

    def _named(self, node: Simple, name: str, words: list[Text]) -> Followed:
        arguments = [text_of(word) for word in words[1:]]
        if name in self._functions:
            return self._call(node.place, self._functions[name], words[1:])
        if name == "eval":
            return self._text(node.place, spaced(words[1:]))
        if name in ("true", ":", "false"):
            return Followed(outcome=name != "false")
        if name in ("[", "test"):
            operands = words[1:-1] if name == "[" else words[1:]
            return Followed(outcome=decided(operands, self.expander.is_set))
        if name in ("exit", "return", "break", "continue"):
            failed = name == "exit" and bool(arguments) and arguments[0] != "0"
            ended: Ended = "check" if failed else {"exit": "exit", "return": "return"}.get(name, "break")  # type: ignore[assignment]
            return Followed("" if name == "continue" else ended)
        if name in ("source", "."):
            return self._source(node.place, words[1:])
        if name == "set" and "--" in arguments:
            self._positional(words[2 + arguments.index("--") :])
        elif name == "shift":
            self._shift(arguments)
        elif name == "unset":
            self.expander.variables |= {name: Value([()]) for name in arguments if not name.startswith("-")}
        elif name in _SETTING or (name == "printf" and "-v" in arguments):
            self._set_by_command(node.place, name, arguments)
        else:
            return self._started(node, words)
        return Followed()

    def _started(self, node: Simple, words: list[Text]) -> Followed:
        """Collect a command, or follow what it hands to a shell: a text, a file or a here-document."""
        texts = [text_of(word) for word in words]
        at = next((i for i, text in enumerate(texts) if text.rpartition("/")[2] in _SHELLS), None)
        if at is None:
            if node.document is not None and node.output is not None and texts[0] in ("cat", "tee"):
                self._written[text_of(self.expander.text(node.output)).rpartition("/")[2]] = node.document
            self._collect(node.place, words)
            return Followed(outcome=ASSUMED)
        outer, self._in_front = self._in_front, [*self._in_front, *words[: at + texts[at].endswith("sbatch")]]
        self._shell(node, words, texts, at)
        self._in_front = outer
        return Followed(outcome=ASSUMED)

    def _shell(self, node: Simple, words: list[Text], texts: list[str], at: int) -> None:
        """Follow what a shell reads, which starts at a word of the command."""
        first = at + 1
        while first < len(words) and texts[first][:1] in ("-", "+"):
            if texts[first][:1] == "-" and texts[first][1:2] != "-" and texts[first].endswith("c"):
                self._text(node.place, words[first + 1] if first + 1 < len(words) else ())
                return
            first += 1
        names = [text.rpartition("/")[2] for text in texts]
        known = {*self._written, *(given.rpartition("/")[2] for given in self._files)}
        index = next((i for i in range(first, len(words)) if names[i] in known), None)
        if index is not None:
            if texts[at].endswith("sbatch"):
                self._in_front += words[at + 1 : index]
            if names[index] in self._written:
                self._document(node.place, self._written[names[index]])
            else:
                self._source(node.place, words[index:])
            return
        inner = texts.index("--", first) + 1 if "--" in texts[first:-1] else first - 1
        if node.document is not None:
            self._document(node.place, node.document)
        elif inner >= first and names[inner] in _SHELLS:  # bash measure.sh -- bash -c TEXT
            self._shell(node, words, texts, inner)
        else:
            self._collect(node.place, words)

    def _text(self, place: Place, text: Text) -> Followed:
        """Follow a text that a shell reads as commands."""
        if not has_special(text):
            words = split(fragment._replace(is_quoted=False) for fragment in text)
            name = text_of(words[0]) if words else ""
            if words and "=" not in name and name != "eval":
                return self._named(Simple(place, (), ()), name, words)
        written = ""
        for fragment in text:  # a text that only a shell knows is a value, whatever it holds
            name = f"_unknown_{len(self.expander.variables)}"
            if fragment.unknown:
                self.expander.variables[name] = Value([(fragment,)])
            written += f"${{{name}}}" if fragment.unknown else fragment.text
        self.expander.spend(place, len(written))
        source = self.sources[place.source]
        return self.file(Source(source.name, written, source.line_of(place.start)), place)

    def _document(self, place: Place, document: HereDocument) -> None:
        """Follow a here-document that a shell reads."""
        if document.place is None:
            return
        number, start, end = document.place
        source = self.sources[number]
        body = source.text[start:end]
        if document.is_quoted or "\\" not in body:
            self._inside(place, parse(Source(source.name, source.text[:end], source.first_line), number, start))
        else:  # the outer shell takes a backslash off
            self.expander.spend(place, len(body))
            text = body.replace("\\$", "$").replace("\\`", "`")
            self.file(Source(source.name, text, source.line_of(start)), place)

    def _collect(self, place: Place, words: Sequence[Text]) -> None:
        source = self.sources[place.source]
        line = source.line_of(place.start)

        def line_of(word: Text) -> int:
            links = [link for fragment in word for link in fragment.links[-1:] if link.place.source == 0]
            return self.sources[0].line_of(links[0].place.start) if links else line

        found = tuple(Word(word, line_of(word)) for word in [*self._in_front, *words])
        self.commands.append(Command(found, place, line, self._condition))

    def _set_by_command(self, place: Place, command: str, arguments: Sequence[str]) -> None:
        """Mark variables that a command sets as unknown, unless the user gives their values."""
        line = self.sources[place.source].line_of(place.start)
        for name in (argument.partition("=")[0] for argument in arguments if not argument.startswith("-")):
            if name.isidentifier():
                reason = Sentence("{} in line {} sets {}, but is not executed; pass --set {}=VALUE", command, line, name, name)
                unknown = Fragment(f"${{{name}}}", (), is_quoted=False, unknown=reason)
                stated = self.expander.given.get(name)
                self.expander.variables[name] = Value([(unknown if stated is None else Fragment(stated),)])

    def _assign(self, assignment: Assignment) -> None:
        variables, name = self.expander.variables, assignment.name
        before = variables.get(name)
        if assignment.elements is not None:
            elements = self.expander.words(assignment.elements)
            if any(text_of(element).startswith("[") and "]=" in text_of(element) for element in elements):
                variables[name] = Value([self._unread(assignment, Sentence("elements with an index are not followed"))])
                return
            old = before.texts if before is not None and assignment.appends else ()
            self.expander.spend(assignment.place, len(old))
            variables[name] = Value([*old, *elements], is_array=True)
            return
        text = self.expander.text(assignment.value)
        if assignment.index:
            text = self._unread(assignment, Sentence("elements with an index are not followed"))
        elif assignment.appends and before is not None:
            if before.is_array:
                variables[name] = Value([(*before.first, *text), *before.texts[1:]], is_array=True)
                return
            text = (*before.first, *text)
        self.expander.spend(assignment.place, len(text_of(text)) + 8 * len(text))
        variables[name] = Value([text])

    def _unread(self, assignment: Assignment, reason: str) -> Text:
        return (Fragment(self.expander.written(assignment.place), (), is_quoted=True, unknown=reason),)

    def _positional(self, words: Sequence[Text]) -> None:
        """Set the positional arguments of a function, or of the script."""
        variables = self.expander.variables
        for name in [name for name in variables if name.isdecimal() and name != "0"]:
            variables[name] = Value([()])
        variables |= {str(index): Value([word]) for index, word in enumerate(words, 1)}
        variables["@"] = variables["*"] = Value(words, is_array=True)
        variables["#"] = Value([(Fragment(str(len(words))),)])

    def _shift(self, arguments: Sequence[str]) -> None:
        present = self.expander.variables.get("@")
        count = int(arguments[0]) if arguments and arguments[0].isdecimal() and len(arguments[0]) < 6 else 1
        if present is not None:
            self._positional(present.texts[count:])

    def _call(self, place: Place, body: Sequence[Node], words: Sequence[Text]) -> Followed:
        variables = self.expander.variables
        mine = {name: value for name, value in variables.items() if name.isdecimal() or name in "@*#"}
        self._positional(words)
        followed = self._inside(place, body)
        for name in [name for name in self.expander.variables if (name.isdecimal() and name != "0") or name in "@*#"]:
            del self.expander.variables[name]
        self.expander.variables |= mine
        return Followed("" if followed.ended == "return" else followed.ended, ASSUMED)

    def _source(self, place: Place, words: Sequence[Text]) -> Followed:
        path = text_of(words[0]) if words else ""
        name = path.rpartition("/")[2]
        for given, text in self._files.items():
            if given.rpartition("/")[2] == name:
                followed = self.file(Source(given, text), place)
                return Followed("" if followed.ended == "return" else followed.ended, ASSUMED)
        source = self.sources[place.source]
        reason = Sentence("the file is not given; --with {} reads it", name or "FILE")
        self.remarks.append(Remark(source.line_of(place.start), self.expander.written(place)[:120], reason))
        return Followed(outcome=ASSUMED)


def _known(outcome: Outcome) -> bool | None:
    return None if outcome is None else bool(outcome)
