"""Strict readers of YAML and JSON from outside: ambiguous input is rejected, never guessed."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import yaml

from documents.bounds import DOCUMENT_BYTES
from documents.errors import InputError, cause_of, show
from documents.late_methods import dataclass
from documents.sentences import Sentence, joined

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same result, ten times slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_DIGITS = 1_000


@dataclass(frozen=True)
class Limits:
    """Limits on the size of a document. JSON is read fast and has no aliases, so only its bytes limit its values.

    ``aliases``: a YAML document can name a part (``&name``) and refer to it (``*name``); each use counts its values. ``entries``:
    maximum length of lists at the top of a JSON document, by name. Reading stops at the first entry beyond it.
    """

    num_bytes: int = DOCUMENT_BYTES
    depth: int = 32
    values: int = 40_000  # 60 layers of 384 counted experts
    aliases: bool = False
    entries: Mapping[str, int] = field(default_factory=dict)


LIMITS = Limits()


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(Sentence("an integer of {:,} digits is too long", len(digits)))
    return int(digits.replace("_", ""))


_READERS: Mapping[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:null": lambda text: None,
    "tag:yaml.org,2002:bool": lambda text: {"true": True, "false": False}[text.lower()],
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": lambda text: float(re.sub(r"\.(?=inf|Inf|nan|NaN)", "", text)),
}
# The scalars of YAML 1.2: under 1.1, `1e12` is text, `off` is false, `1:30` is ninety and `010` is eight.
_SCALARS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "bool": ("true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    "null": ("null|Null|NULL|~|", ("n", "N", "~", "")),
    "int": (r"[-+]?[0-9][0-9_]*", tuple("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.(?:nan|NaN)",
        tuple("-+.0123456789"),
    ),
}


def _strict(base: Any) -> Any:
    """A loader with the scalar types of YAML 1.2 that constructs no objects."""
    loader: Any = type("StrictLoader", (base,), {"yaml_implicit_resolvers": {}})
    for kind, (pattern, first) in _SCALARS.items():
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), list(first))
    return loader


_LOADER = _strict(_Loader)


def _refused(problem: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)


def _check_events(text: str, limits: Limits) -> None:
    depth = num_values = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if not limits.aliases and (isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None):
            raise _refused(Sentence("anchors and aliases (*name) are not allowed; write the value out"), event)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        num_values += isinstance(event, yaml.NodeEvent)
        if depth > limits.depth:
            raise _refused(Sentence("it is nested deeper than {} levels", limits.depth), event)
        if num_values > limits.values:
            raise _refused(Sentence("it holds more than {:,} values", limits.values), event)


def _constructed(node: yaml.Node, values_left: Iterator[int]) -> Any:
    if next(values_left, None) is None:
        raise _refused(Sentence("its aliases expand to more values than a document of this kind may have"), node)
    if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused(Sentence("a key must be plain text"), key)
            if key.value in mapping:
                raise _refused(Sentence("the key {} occurs twice", show(key.value)), key)
            mapping[key.value] = _constructed(value, values_left)
        return mapping
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        return [_constructed(item, values_left) for item in node.value]
    if isinstance(node, yaml.ScalarNode) and node.tag in _READERS:
        try:
            return _READERS[node.tag](node.value)
        except (KeyError, ValueError) as error:
            raise _refused(Sentence("{} cannot be read ({})", show(node.value), error), node) from None
    raise _refused(Sentence("the tag {} is not allowed; write plain values", show(node.tag)), node)


def _parse_yaml(text: str, limits: Limits) -> Any:
    text.encode()  # a lone surrogate would fail only later, when the text is printed
    _check_events(text, limits)
    node = yaml.compose(text, Loader=_LOADER)
    return None if node is None else _constructed(node, iter(range(limits.values)))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(Sentence("{} is not a finite number", name))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(Sentence("the key {} occurs twice", show(key)))
        mapping[key] = value
    return mapping


_JSON = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_int=_integer, parse_constant=_refuse_constant)
_SPACE = re.compile(r"[ \t\n\r]*")


def _parse_json(text: str, limits: Limits) -> Any:
    begin = _after_space(text, 0)
    document = _bounded_object(text, begin, limits.entries) if limits.entries and text[begin : begin + 1] == "{" else None
    document = _JSON.decode(text) if document is None else document
    level = [document]
    for _ in range(limits.depth):
        level = [item for value in level if isinstance(value, dict | list) for item in _items(value)]
        if not level:
            return document
    raise RecursionError


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _opened(text: str, begin: int, end: str) -> tuple[int, bool]:
    """Position of the first part of the list or mapping at ``begin``, or of the text after it, and whether it is empty."""
    position = _after_space(text, begin + 1)
    is_done = text[position : position + 1] == end
    return position + is_done, is_done


def _next_part(text: str, position: int, end: str) -> tuple[int, bool]:
    """Position of the part after the one that ended at ``position``, and whether that one was the last.

    After the last part it is the position of the text after the whole.
    """
    position = _after_space(text, position)
    mark = text[position : position + 1]
    if mark == end:
        return position + 1, True
    if mark != ",":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
    return _after_space(text, position + 1), False


def _bounded_object(text: str, begin: int, entries: Mapping[str, int]) -> dict[str, Any]:
    """The whole document; lists with a limit are read entry by entry."""
    pairs: list[tuple[str, Any]] = []
    position, is_done = _opened(text, begin, "}")
    while not is_done:
        if text[position : position + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, position)
        key, position = _JSON.raw_decode(text, position)
        position = _after_space(text, position)
        if text[position : position + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
        position = _after_space(text, position + 1)
        is_bounded = key in entries and text[position : position + 1] == "["
        value, position = _bounded_list(text, position, key, entries[key]) if is_bounded else _JSON.raw_decode(text, position)
        pairs.append((key, value))
        position, is_done = _next_part(text, position, "}")
    if _after_space(text, position) != len(text):
        raise json.JSONDecodeError("Extra data", text, position)
    return _unique_keys(pairs)


def _bounded_list(text: str, begin: int, name: str, limit: int) -> tuple[list[Any], int]:
    values: list[Any] = []
    position, is_done = _opened(text, begin, "]")
    while not is_done:
        if len(values) == limit:
            raise InputError(Sentence("{}: a list of more than {:,} is not allowed; send fewer at a time.", name, limit))
        value, position = _JSON.raw_decode(text, position)
        values.append(value)
        position, is_done = _next_part(text, position, "]")
    return values, position


def _items(value: dict[str, Any] | list[Any]) -> list[Any]:
    return value if isinstance(value, list) else list(value.values())


def shown_path(path: Path) -> str:
    """The path for a message; quoted if it holds characters that a terminal would act on."""
    return str(path) if str(path).isprintable() else show(str(path))


def _no_file(path: Path, what: Sentence) -> InputError:
    return InputError(Sentence("{}: is {}; give a file.", shown_path(path), what))


class _Present(io.FileIO):
    """A file whose bytes are all there; ``InputError`` where a read would wait for more, as in ``/proc/kmsg``."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, closefd=False)
        self._path = path

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        count = super().readinto(buffer)
        if count is None:
            raise _no_file(self._path, Sentence("not a regular file"))
        return count

    def readall(self) -> bytes:
        return io.RawIOBase.readall(self)

    def read(self, size: int | None = -1, /) -> bytes:
        return io.RawIOBase.read(self, -1 if size is None else size)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, opened for reading.

    ``InputError`` for devices, pipes, sockets and directories, and for files of the kernel that wait for more: reading one may
    never end. ``OSError`` as of ``open``.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)  # without O_NONBLOCK a pipe waits for its writer
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            what = Sentence("a directory") if stat.S_ISDIR(kind) else Sentence("not a regular file")
            raise _no_file(path, what)
        with io.BufferedReader(_Present(descriptor, path)) as file:
            yield file
    finally:
        os.close(descriptor)


def check_present(path: Path, num_bytes: int) -> None:
    """``InputError`` if its first bytes are not there, for a file that another reader opens; that one meets an ``OSError``."""
    with suppress(OSError), opened(path) as file:
        file.read(num_bytes)


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a regular file of at most that size; ``InputError`` otherwise."""
    name = shown_path(path)
    try:
        with opened(path) as file:
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise InputError(Sentence("{}: no such file.", name)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(Sentence("{}: cannot be read ({}).", name, cause_of(error))) from None
    if len(content) > max_bytes:
        raise InputError(Sentence("{}: larger than {} KiB; a file of this kind never is.", name, max_bytes // 1024))
    return content


def read_text(path: Path, max_bytes: int = DOCUMENT_BYTES) -> str:
    """The file's text; ``InputError`` if it is not a readable text file of at most that size."""
    name, content = shown_path(path), read_bytes(path, max_bytes)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(Sentence("{}: not a text file in UTF-8.", name)) from None
    if "\0" in text:
        raise InputError(Sentence("{}: not a text file in UTF-8.", name))
    return text


def parse_document(text: str, name: str, *, is_json: bool = False, limits: Limits = LIMITS) -> dict[str, Any]:
    """The mapping in ``text``; ``name`` is its name in messages."""
    try:
        if len(text) > limits.num_bytes:
            raise ValueError(Sentence("larger than {} KiB; a document of this kind never is", limits.num_bytes // 1024))
        document = _parse_json(text, limits) if is_json else _parse_yaml(text, limits)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = Sentence(" line {}:", mark.line + 1) if mark else ""
        raise InputError(Sentence("{}:{} {}.", name, line, Sentence.whole(error.problem or error.context or ""))) from None
    except json.JSONDecodeError as error:
        raise InputError(Sentence("{}: line {}: not valid JSON: {}.", name, error.lineno, Sentence.whole(error.msg))) from None
    except RecursionError:
        raise InputError(Sentence("{}: it is nested deeper than {} levels.", name, limits.depth)) from None
    except InputError:
        raise
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(Sentence("{}: {}.", name, joined(" ", str(error).split()))) from None
    if not isinstance(document, dict):
        kind = {list: Sentence("a list"), str: "text", type(None): "nothing"}.get(type(document), f"{show(document)}")
        raise InputError(Sentence("{}: holds {} where a mapping of names to values belongs.", name, kind))
    return document


def read_document(path: Path, limits: Limits = LIMITS, *, is_json: bool | None = None) -> dict[str, Any]:
    """The mapping in a YAML or JSON file; without ``is_json`` the file name decides."""
    is_json = path.suffix.lower() == ".json" if is_json is None else is_json
    return parse_document(read_text(path, limits.num_bytes), str(path), is_json=is_json, limits=limits)
