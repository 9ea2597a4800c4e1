"""Bash scripts that start ``pretrain_gpt.py``: the training command, its arguments, and edits of the script's text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from app.launch_scripts.entries import MODULES, READ, fork_of, is_tool, other_training, trains
from app.launch_scripts.launch import Given, Launch, Passed
from app.launch_scripts.launcher import num_processes, slurm_variables
from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from documents.shell.reader import read_script
from documents.shell.syntax import Place, ShellError
from documents.shell.text import Command, Fragment, Link, ShellScript, Text, Word, split
from frameworks.release import Kind, Release
from frameworks.unread import UNUSED_GROUP, matters

_TELLING = ("--num-layers", "--hidden-size", "--tensor-model-parallel-size", "--micro-batch-size")
# Commands that name files and modules, and do not start them.
_SAYING = (
    "echo",
    "printf",
    "cat",
    "ls",
    "cp",
    "mv",
    "rm",
    "ln",
    "grep",
    "sed",
    "find",
    "tar",
    "cd",
    "mkdir",
    "touch",
    "git",
    "pip",
)
_FLAG = re.compile(r"--?[A-Za-z]")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)


@dataclass(frozen=True)
class ShellArgument:
    """One argument: its flag, and its values."""

    name: str
    flag: Word
    values: tuple[Word, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(value.text for value in self.values)


class ShellLaunch:
    """A script, read with the arguments of a release."""

    def __init__(self, text: str, given: Given, release: Release) -> None:
        self.text, self._given, self._release = text, given, release
        values = {**slurm_variables(text), **given.values}
        self.script: ShellScript = read_script(text, name=given.name, given=values, files=given.files)
        self._command, self._words, entry = _training(self.script, given.name)
        self._launcher, self._entry = self._words[:entry], self._words[entry - 1] if entry else None
        self._stray: list[Word] = []
        self._repeated: list[ShellArgument] = []
        self._by_name = self._grouped(self._words[entry:])
        if fork := fork_of(self._by_name):
            name = next(name for name in self._by_name if fork_of({name: ()}))
            line = self._by_name[name].flag.line
            raise InputError(
                Sentence("{}: line {}: --{} is an argument of {}, whose scripts are not read.", given.name, line, name, fork)
            )
        self._refuse_unknown_words()

    def _refuse_unknown_words(self) -> None:
        """Refuse a word that only a shell knows and that may add arguments on which the price depends.

        An unset variable adds none.
        """
        for word in self._stray:
            if word.unknown and not word.is_unset and self._may_matter(word):
                sentence = Sentence("{} may hold arguments, and {}", show(word.text), word.unknown)
                raise ShellError(Sentence("{}: line {}: {}.", self._given.name, word.line, sentence))

    def _may_matter(self, word: Word) -> bool:
        """Whether a choice of undecided branches has an argument that matters, or the word has no such choices."""
        unknown = [fragment for fragment in word.fragments if fragment.unknown]
        names = [name for f in unknown for text in f.choices for name in re.findall(r"(?<!\S)--?([A-Za-z][\w.-]*)", text)]
        return any(not f.choices for f in unknown) or any(matters(self._release, name) for name in names)

    @property
    def entry(self) -> str:
        """The name of the program that the script starts; empty for a bare list of arguments."""
        return self._entry.text.rpartition("/")[2] if self._entry else ""

    def _grouped(self, words: Sequence[Word]) -> dict[str, ShellArgument]:
        found: dict[str, ShellArgument] = {}
        name = ""
        for word in words:
            if _FLAG.match(word.text) and not word.fragments[0].unknown:
                flag, value = _cut(word)
                written = flag.text.lstrip("-")
                name = self._release.former.get(written, written)
                if name in found:
                    self._repeated.append(found[name])
                found[name] = ShellArgument(name, flag, () if value is None else (value,))
            elif not name or (word.unknown and self._is_full(found[name])):
                self._stray.append(word)
            else:
                found[name] = ShellArgument(name, found[name].flag, (*found[name].values, word))
        return found

    def _is_full(self, argument: ShellArgument) -> bool:
        """Whether the argument takes no further value."""
        known = self._release.arguments.get(argument.name)
        if known is None:
            return bool(argument.values)
        return known.kind is Kind.SWITCH or (bool(argument.values) and not known.many)

    def said(self) -> dict[str, tuple[str, ...]]:
        launcher = tuple(word.text for word in self._launcher)
        stray = tuple(word.text for word in self._stray)
        return {**{name: argument.texts for name, argument in self._by_name.items()}, " launcher": launcher, " stray": stray}

    def line_of(self, name: str) -> int | None:
        argument = self._by_name.get(name)
        return argument.flag.line if argument else None

    def again(self, text: str) -> Launch:
        return ShellLaunch(text, self._given, self._release)

    @property
    def arguments(self) -> list[str]:
        return [token for argument in self._by_name.values() for token in (f"--{argument.name}", *argument.texts)]

    @cached_property
    def num_devices(self) -> int | None:
        """Number of processes that the launcher starts; None if the script does not decide it."""
        return num_processes([None if word.unknown else word.text for word in self._launcher], self.text)

    @property
    def not_understood(self) -> tuple[Passed, ...]:
        found = [Passed(remark.line, remark.text, remark.reason) for remark in self.script.remarks]
        if self._command.condition:
            found.append(Passed(self._command.line, self._shown(self._command.place), self._command.condition))
        for word in self._stray:
            reason = word.unknown or Sentence("it belongs to no argument")
            found.append(Passed(word.line, word.text[:120], reason))
        for argument in (a for a in self._repeated if a.texts != self._by_name[a.name].texts):
            found.append(
                Passed(argument.flag.line, _written(argument), Sentence("the argument is given again, and the later holds"))
            )
        for argument in self._by_name.values():
            self._refuse_unknown_value(argument)
        return tuple(found)

    def _refuse_unknown_value(self, argument: ShellArgument) -> None:
        """Refuse a value that only a shell could decide and that the price depends on."""
        if argument.name not in self._release.arguments:
            return  # the reader refuses the argument itself
        for value in argument.values:
            if value.unknown and matters(self._release, argument.name):
                sentence = Sentence("{}: {}", _written(argument), value.unknown)
                raise ShellError(Sentence("{}: line {}: {}.", self._given.name, argument.flag.line, sentence))

    def _shown(self, place: Place) -> str:
        return self.script.sources[place.source].text[place.start : place.end].partition("\n")[0][:120]

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        argument = self._by_name.get(name)
        if argument is None:
            yield from self._added(name, values)
            return
        if len(values) == len(argument.values):
            yield from self._replaced(argument, values)
        for text in self.without(name):
            try:
                launch = type(self)(text, self._given, self._release)
            except InputError:
                continue
            yield from launch._added(name, values, near=self._before(name))

    def _before(self, name: str) -> str | None:
        """The argument in front of another."""
        names = list(self._by_name)
        index = names.index(name)
        return names[index - 1] if index else None

    def _replaced(self, argument: ShellArgument, values: tuple[str, ...]) -> Iterator[str]:
        changed = [(old, new) for old, new in zip(argument.values, values, strict=True) if old.text != new]
        options = [[place for place in word.places() if place.source == 0] for word, _ in changed]
        if not all(options):
            return
        for depth in range(max(map(len, options), default=0)):
            chosen = [places[min(depth, len(places) - 1)] for places in options]
            for quote in (str, shlex.quote):
                text = self.text
                for place, (_, new) in sorted(zip(chosen, changed, strict=True), reverse=True):
                    text = text[: place.start] + quote(new) + text[place.end :]
                yield text

    @cached_property
    def environment(self) -> Mapping[str, str]:
        exported = {name: word.text for name, word in self.script.environment.items() if not word.unknown}
        place = self._command.place
        return exported | dict(_in_front(self.script.sources[place.source].text[place.start : place.end]))

    def with_variable(self, name: str, value: str | None) -> Iterator[str]:
        """Edit the export of the variable, or add a line above the first that is no comment."""
        text = self.text
        word = self.script.environment.get(name)
        if value is None:
            yield re.sub(rf"^[ \t]*export[ \t]+{re.escape(name)}=\S*[ \t]*(?:#[^\n]*)?(?:\n|\Z)", "", text, flags=re.M)
            return
        for place in word.places() if word else ():
            if place.source == 0:
                yield text[: place.start] + shlex.quote(value) + text[place.end :]
        head = re.match(r"(?:[ \t]*#[^\n]*\n)*", text)
        start = head.end() if head else 0
        yield f"{text[:start]}export {name}={shlex.quote(value)}\n{text[start:]}"

    def without(self, name: str) -> Iterator[str]:
        argument = self._by_name.get(name)
        span = None if argument is None else self._span(argument)
        if span is None:
            return
        text = self.text
        start, end = span
        while start > 0 and end < len(text) and text[start - 1] in "\"'" and text[end] == text[start - 1]:
            start, end = start - 1, end + 1
        line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        rest = text[end:line_end].strip()
        if not text[line_start:start].strip() and (rest in ("", "\\") or rest.startswith("#")):
            yield text[:line_start] + text[line_end + 1 :]
        before = text[:start].rstrip(" \t") if text[end : end + 1].isspace() else text[:start]
        yield before + text[end:]
        yield text[:start] + text[end:]

    def _span(self, argument: ShellArgument) -> tuple[int, int] | None:
        """Range from the flag's first character to the end of its last value, if it is in the script itself."""
        flag = next((place for place in argument.flag.places() if place.source == 0), None)
        if flag is None:
            return None
        start, end = flag.start, flag.end
        for value in argument.values:
            behind = [link.place for fragment in value.fragments for link in fragment.links]
            ends = [(place.start, place.end) for place in behind if place.source == 0 and place.start >= end]
            if not ends:
                return None
            nearest = min(ends)[0]
            end = max(last for first, last in ends if first <= nearest + len(value.text) + 2)
            if self.text[end : end + 1] in ('"', "'") and self.text[nearest - 1] == self.text[end]:
                end += 1
        return start, end

    def _added(self, name: str, values: tuple[str, ...], near: str | None = None) -> Iterator[str]:
        """Add the argument after the last of its group, otherwise after any, otherwise after the program's name."""
        for quote in (str, shlex.quote):
            piece = " ".join([f"--{name}", *map(quote, values)])
            for anchor in self._anchors(name, near):
                span = self._span(anchor)
                if span is not None:
                    yield from self._inserted(span, piece)
            links = [link.place for f in (self._entry.fragments if self._entry else ()) for link in f.links[:1]]
            if links and links[0].source == 0:
                end = links[0].end
                end += self.text[end : end + 1] in ('"', "'")
                yield f"{self.text[:end]} {piece}{self.text[end:]}"

    def _anchors(self, name: str, near: str | None) -> list[ShellArgument]:
        """Arguments after which a new one may be added: ``near``, the nearest of its group in the release, or the first."""
        group = self._release.groups.get(self._release.group_of(name) or "", ())
        order = {argument.name: index for index, argument in enumerate(group)}
        present = list(self._by_name.values())
        siblings = [argument for argument in present if argument.name in order]
        siblings.sort(key=lambda argument: abs(order[argument.name] - order.get(name, 0)))
        first = [self._by_name[near]] if near in self._by_name else []
        return [*first, *(siblings[:1] or self._of_next_group(name)), *present[:1]]

    def _of_next_group(self, name: str) -> list[ShellArgument]:
        """The last argument of the nearest group before it, in the order of launch files, otherwise of the nearest after it."""
        titles = [title for title in self._release.groups if title != UNUSED_GROUP]
        own = self._release.group_of(name)
        at = titles.index(own) if own in titles else len(titles)
        by_place = sorted(self._by_name.values(), key=self._begins_a_line)
        last = {self._release.group_of(argument.name): argument for argument in by_place}
        return [last[title] for title in (*reversed(titles[:at]), *titles[at:]) if title in last][:1]

    def _begins_a_line(self, argument: ShellArgument) -> bool:
        span = self._span(argument)
        return span is not None and not self.text[self.text.rfind("\n", 0, span[0]) + 1 : span[0]].strip()

    def _inserted(self, span: tuple[int, int], piece: str) -> Iterator[str]:
        text = self.text
        start, end = span
        line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        rest = text[end:line_end].strip()
        lead = text[line_start:start]
        indent = lead[: len(lead) - len(lead.lstrip())]
        if rest == "\\":
            yield f"{text[:line_end]}\n{indent}{piece} \\{text[line_end:]}"
        elif not lead.strip() and (not rest or rest.startswith("#")):
            yield f"{text[:line_end]}\n{indent}{piece}{text[line_end:]}"
        yield f"{text[:end]} {piece}{text[end:]}"


def _in_front(command: str) -> Iterator[tuple[str, str]]:
    """Variables that stand in front of a command and hold for it alone, without those that only a shell knows."""
    words = shlex.shlex(command.replace("\\\n", ""), posix=True)
    words.whitespace_split, words.commenters = True, ""
    for index, word in enumerate(words):
        assigned = _ASSIGNED.fullmatch(word)
        if assigned is None and (index or word != "env"):
            return
        if assigned is not None and not set("$`") & set(assigned[2]):
            yield assigned[1], assigned[2]


def _training(script: ShellScript, name: str) -> tuple[Command, list[Word], int]:
    """The training command, its words, and the index of the first argument."""
    found: list[tuple[Command, list[Word], int]] = []
    other: list[tuple[int, str, str]] = []  # lines of programs that are not read, the program, and what it trains
    has_program = False
    for command in script.commands:
        words = [word for whole in command.words for word in _unpacked(whole)]
        texts = [word.text for word in words]
        if not texts or texts[0] in _SAYING:
            continue
        entry = _entry(texts)
        has_program |= bool(entry)
        telling = any(text.partition("=")[0] in _TELLING for text in texts[entry or 0 :])
        if entry is None:
            at = next((at for at, text in enumerate(texts[:4]) if text in MODULES), None)
            if at is not None:
                if trains(texts[at], texts[at + 1 :]):
                    other.append((command.line, texts[at], MODULES[texts[at]]))
            elif telling and not is_tool(" ".join(texts[:3])):
                other.append((command.line, _module(texts), ""))
            continue
        program = texts[entry - 1] if entry else ""
        if not entry or program.rpartition("/")[2] in READ:
            found.append((command, words, entry))
        elif not is_tool(program) and (telling or other_training(program)):
            other.append((command.line, program, other_training(program)))
    if has_program:  # a list of arguments behind a program is what a broken line leaves of it
        found = [each for each in found if each[2]]
    if not found:
        raise InputError(_without_training(script, name, other))
    if len({tuple(word.text for word in words) for _, words, _ in found}) > 1:
        lines = joined(" and ", (str(command.line) for command, _, _ in found[:3]))
        raise InputError(
            Sentence("{}: lines {} each start a training, and the script does not decide which; leave one of them.", name, lines)
        )
    return found[-1]


def _without_training(script: ShellScript, name: str, other: Sequence[tuple[int, str, str]]) -> Sentence:
    """Why no training of a script is read: the program of the first other one, or a command that may start one, or none."""
    known = joined(" or ", READ)
    for line, program, what in other[:1]:
        if what:
            return Sentence("{}: line {}: {} trains {}; scripts that start {} are read.", name, line, show(program), what, known)
        return Sentence(
            "{}: line {}: what {} does is not known; scripts that start {} are read.", name, line, show(program), known
        )
    for command in script.commands:
        if not command.words or command.words[0].text in _SAYING:
            continue
        for fragment in command.words[0].fragments:
            if any(program in text for text in fragment.choices for program in READ):
                start = Sentence("{} may start a training, and {}", show(fragment.text), fragment.unknown)
                return Sentence("{}: line {}: {}.", name, command.line, start)
    return Sentence("{}: no command in it starts {}; give the script that does, or its arguments.", name, next(iter(READ)))


def _module(texts: Sequence[str]) -> str:
    """The module that a command starts, or its first word."""
    modules = (name for flag, name in pairwise(texts) if flag in ("-m", "--module"))
    return next((name for name in modules if not name.startswith("torch.distributed")), texts[0])


def _entry(texts: Sequence[str]) -> int | None:
    """The index behind the program that a command starts; 0 for a bare list of arguments, ``None`` without a program."""
    programs = [index for index, text in enumerate(texts) if text.endswith(".py")]
    read = [index for index in programs if texts[index].rpartition("/")[2] in READ]
    if read or programs:
        return (read or programs)[0] + 1
    return 0 if texts[0].startswith("--") else None


def _unpacked(word: Word) -> list[Word]:
    """The words of a command in one word, as for ``bash -c``."""
    if not re.search(r"\.py\s", word.text):
        return [word]
    texts: list[Text] = split(fragment._replace(is_quoted=False) for fragment in word.fragments)
    return [Word(text, word.line) for text in texts]


def _cut(word: Word) -> tuple[Word, Word | None]:
    """A flag, and the value after its equals sign."""
    flag: list[Fragment] = []
    for index, fragment in enumerate(word.fragments):
        at = -1 if fragment.unknown else fragment.text.find("=")
        if at < 0:
            flag.append(fragment)
            continue
        flag.append(fragment.part(0, at))
        rest = [fragment.part(at + 1, len(fragment.text)), *word.fragments[index + 1 :]]
        value = tuple(piece for piece in rest if piece.text)
        return Word(tuple(flag), word.line), Word(value or (Fragment("", _end(fragment)),), word.line)
    return word, None


def _end(fragment: Fragment) -> tuple[Link, ...]:
    return fragment.links[:-1]


def _written(argument: ShellArgument) -> str:
    return " ".join([argument.flag.text, *argument.texts])[:120]
