"""Python configurations of torchtitan: their options by path, from a syntax tree that is never run, and edits of the text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from app.launch_scripts.launch import Given, Launch, Passed, named_values
from documents.errors import InputError, show
from documents.sentences import Sentence
from frameworks.document import MAX_DEPTH, MAX_OPTIONS, MAX_VALUE
from frameworks.framework import ReadingError
from frameworks.release import Release
from frameworks.torchtitan.classes import BUILT_BY, CONFIG, FAMILIES, IMPORTS, MODEL, PACKAGE, ROOT, called

VOCABULARY = "decoder_vocab_size"  # a function of the model that the file builds
DATASETS = "DATASETS"
NOTHING = "None"
_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")  # of Python; str.splitlines knows others
_BEHIND_A_VALUE = re.compile(r"#[^\r\n]*|[),]")
_NUMBERS = {ast.Mult: int.__mul__, ast.Add: int.__add__, ast.Sub: int.__sub__}


class _Place(NamedTuple):
    """The call that has a keyword, and the keyword's value; the value is the call's first argument without ``keyword``."""

    call: ast.Call
    value: ast.expr
    keyword: ast.keyword | None


class PythonLaunch:
    """A file with one function that returns ``Trainer.Config(...)`` of literal values, read with the options of a release."""

    def __init__(self, text: str, given: Given, release: Release) -> None:
        self.text, self._given, self._release = text, given, release
        self._options: dict[str, Any] = {}
        self._places: dict[str, _Place] = {}
        self._calls: dict[str, ast.Call] = {}
        try:
            self._starts = [0, *accumulate(len(line.encode()) for line in _LINE_END.split(text))]
            parsed = ast.parse(text)
            compile(parsed, given.name, "exec")  # finds what the parser lets pass, as keywords given twice; nothing is run
            function, self._modules = _one_function(parsed)
            self._names, self._root = _body(function)
            for name in {function.name, *self._names} & self._modules.keys():
                raise ReadingError(Sentence("line {}: {} has two meanings", function.lineno, name[:80]))
            self._read(ROOT, self._root, None, 0)
        except ReadingError as error:
            raise InputError(Sentence("{}: {}.", given.name, error)) from None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(Sentence("{}: not valid Python.", given.name)) from None
        self.arguments = [f"{name}={json.dumps(value)}" for name, value in self._options.items()]
        self._said = named_values(release, self.arguments)
        self.num_devices: int | None = None  # the parallel degrees determine it
        self.entry = ""

    def said(self) -> dict[str, tuple[str, ...]]:
        return dict(self._said)

    def line_of(self, name: str) -> int | None:
        place = self._places.get(name)
        return None if place is None else (place.keyword or place.value).lineno

    def again(self, text: str) -> Launch:
        return PythonLaunch(text, self._given, self._release)

    @property
    def not_understood(self) -> tuple[Passed, ...]:
        """Nothing: the framework's reader names the options that it does not know."""
        return ()

    @property
    def environment(self) -> Mapping[str, str]:
        return {}

    def with_variable(self, name: str, value: str | None) -> Iterator[str]:
        yield from ()

    def with_values(self, name: str, values: tuple[str, ...]) -> Iterator[str]:
        written = self._written(name, values)
        place = self._places.get(name)
        if place is not None:
            start, end = self._span(place.value)
            yield self._with_import(written, self.text[:start] + written + self.text[end:])
            return
        field, _, key = name.rpartition(".")
        call = self._calls.get(field)
        if call is not None:
            yield self._with_import(written, self._with_keyword(call, f"{key}={written}"))
        elif field in BUILT_BY:
            built = f"{field}={BUILT_BY[field]}({key}={written})"
            yield self._with_import(built, self._with_keyword(self._root, built))

    def without(self, name: str) -> Iterator[str]:
        place = self._places.get(name)
        if place is None or place.keyword is None:
            return
        keyword = place.keyword
        start = self._at(keyword.lineno, keyword.col_offset)
        end, comma = self._ends(place.call, place.value)
        if comma is not None and (line := re.compile(r"[ \t]*(?:\r\n?|\n)?[ \t]*").match(self.text, comma)) is not None:
            end = line.end()
        yield self.text[:start] + self.text[end:]

    def _read(self, path: str, node: ast.expr, place: _Place | None, depth: int) -> None:
        """Adds the options of a value. Raises ``ReadingError``."""
        node = self._value(node)
        if place is not None:
            self._places[path] = place
        if depth > MAX_DEPTH or len(self._options) >= MAX_OPTIONS:
            raise ReadingError(Sentence("{} is nested deeper than {} levels, or the file is too long", path[:80], MAX_DEPTH))
        if not isinstance(node, ast.Call) or _name_of(node.func) == VOCABULARY:
            self._options[path] = self._literal(path, node)
            return
        made = _name_of(node.func)
        option = made.removesuffix(CONFIG)
        own = called(path, option) if path in BUILT_BY or option in IMPORTS else made
        if made != own:
            raise ReadingError(Sentence("line {}: {} is built by {}, and {} is not read", node.lineno, path[:80], own, made[:80]))
        if path not in BUILT_BY:
            self._options[path] = option
        self._calls[path] = node
        if path == MODEL:
            self._read_model(node)
        elif node.args:
            raise ReadingError(Sentence("line {}: {} has a value without a name", node.lineno, made[:80]))
        else:
            self._check_import(made.partition(".")[0], node)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ReadingError(Sentence("line {}: {} has ** values, which are not read", node.lineno, made[:80]))
            below = f"{path}.{keyword.arg}" if path else keyword.arg
            if below in self._options:
                raise ReadingError(Sentence("{} is given twice", below[:80]))
            self._read(below, keyword.value, _Place(node, keyword.value, keyword), depth + 1)

    def _read_model(self, node: ast.Call) -> None:
        """The family is the module that ``model_registry`` is imported from; the flavor has no name in most files."""
        parent, _, family = self._modules.get(BUILT_BY[MODEL], "").rpartition(".")
        if parent != FAMILIES:
            raise ReadingError(Sentence("line {}: {} is not imported from {}", node.lineno, BUILT_BY[MODEL], f"{FAMILIES}.*"))
        self._options[f"{MODEL}.name"] = family
        if len(node.args) > 1:
            raise ReadingError(Sentence("line {}: {} has values without names", node.lineno, BUILT_BY[MODEL]))
        for argument in node.args:
            self._read(f"{MODEL}.flavor", argument, _Place(node, argument, None), 1)

    def _value(self, node: ast.expr) -> ast.expr:
        """What a name of the function stands for."""
        return self._names.get(node.id, node) if isinstance(node, ast.Name) else node

    def _literal(self, path: str, node: ast.expr) -> Any:
        """The value of an option; ``None`` for the vocabulary of the file's own model. Raises ``ReadingError``."""
        if isinstance(node, ast.Call):
            self._check_import(VOCABULARY, node)
            models = [self._value(keyword.value) for keyword in self._root.keywords if keyword.arg == MODEL]
            if [self._value(each) for each in node.args] == models and not node.keywords:
                return None
        value = _literal(path, node)
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                self._check_import(each.id, node)
        if (length := len(json.dumps(value))) > MAX_VALUE:
            raise ReadingError(Sentence("{} is {} characters long; at most {} are allowed", path[:80], length, MAX_VALUE))
        return value

    def _check_import(self, name: str, node: ast.expr) -> None:
        """Raises ``ReadingError`` for a name that is not torchtitan's own."""
        module, own = self._modules.get(name, ""), IMPORTS.get(name, PACKAGE)
        if not f"{module}.".startswith(f"{own}."):
            raise ReadingError(Sentence("line {}: {} is not imported from {}", node.lineno, name[:80], own))

    def _at(self, line: int, column: int) -> int:
        """The character at a line and a column in bytes, as the syntax tree has them."""
        return len(self.text.encode()[: self._starts[line - 1] + column].decode())

    def _span(self, node: ast.expr) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(*_end(node))

    def _with_keyword(self, call: ast.Call, written: str) -> str:
        """The text with one more keyword of a call."""
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        if values:
            end, _ = self._ends(call, max(values, key=_end))
            return f"{self.text[:end]}, {written}{self.text[end:]}"
        end = self._span(call)[1] - 1
        return self.text[:end] + written + self.text[end:]

    def _ends(self, call: ast.Call, value: ast.expr) -> tuple[int, int | None]:
        """Where a value of a call ends with the parentheses around it, and where the comma behind it ends, if there is one."""
        end, until = self._span(value)[1], self._span(call)[1] - 1
        for piece in _BEHIND_A_VALUE.finditer(self.text, end, until):
            if piece[0] == ",":
                return end, piece.end()
            if piece[0] == ")":
                end = piece.end()
        return end, None

    def _with_import(self, written: str, text: str) -> str:
        """The text with the import of a class that the written value needs."""
        for name, module in IMPORTS.items():
            if name not in self._modules and re.match(rf"(?:\w+=)?{name}\b", written):
                return _before_imports(text, f"from {module} import {name}\n")
        return text

    def _written(self, name: str, values: tuple[str, ...]) -> str:
        (value,) = values
        try:
            parsed = json.loads(value)
        except ValueError:
            raise InputError(Sentence("{} is no value of an option.", show(value))) from None
        if parsed == NOTHING or parsed is None:
            return NOTHING
        if isinstance(parsed, str) and parsed in IMPORTS:
            return f"{called(name, parsed)}()"
        return json.dumps(parsed, ensure_ascii=False) if isinstance(parsed, str) else repr(parsed).replace("'", '"')


def _end(value: ast.expr) -> tuple[int, int]:
    assert value.end_lineno is not None
    assert value.end_col_offset is not None
    return value.end_lineno, value.end_col_offset


def _before_imports(text: str, line: str) -> str:
    found = re.search(r"^from torchtitan\.", text, re.M)
    at = found.start() if found else 0
    return text[:at] + line + text[at:]


def _one_function(module: ast.Module) -> tuple[ast.FunctionDef, dict[str, str]]:
    """The only function, and the modules of imported names. Raises ``ReadingError``."""
    functions = []
    modules: dict[str, str] = {}
    for each in module.body:
        if isinstance(each, ast.FunctionDef):
            functions.append(each)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            _add_imports(modules, each)
        elif not _is_docstring(each):
            raise ReadingError(Sentence("line {}: only imports and one function are read", each.lineno))
    if len(functions) != 1:
        names = [function.name for function in functions]
        raise ReadingError(Sentence("the file has {} functions, and one is read", len(names)))
    return functions[0], modules


def _add_imports(modules: dict[str, str], node: ast.Import | ast.ImportFrom) -> None:
    """Adds the module of each name; that of a module itself is empty. Raises ``ReadingError``."""
    module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        name = alias.name.partition(".")[0]
        if alias.asname:
            raise ReadingError(Sentence("line {}: a name is imported as another one, which is not read", node.lineno))
        if name == "*":
            raise ReadingError(Sentence("line {}: all names of a module are imported, which is not read", node.lineno))
        if modules.setdefault(name, module) != module:
            raise ReadingError(Sentence("line {}: {} has two meanings", node.lineno, name[:80]))


def _body(function: ast.FunctionDef) -> tuple[dict[str, ast.expr], ast.Call]:
    """Values by the names that a function gives them, and what it returns. Raises ``ReadingError``."""
    names: dict[str, ast.expr] = {}
    if function.decorator_list or ast.unparse(function.args):
        raise ReadingError(Sentence("line {}: a function with arguments or decorators is not read", function.lineno))
    for each in function.body:
        if isinstance(each, ast.Return) and each.value is not None and each is function.body[-1]:
            if not isinstance(each.value, ast.Call):
                raise ReadingError(Sentence("line {}: the function returns no {}(...)", each.lineno, BUILT_BY[ROOT]))
            return names, each.value
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            if each.targets[0].id in names:
                raise ReadingError(Sentence("line {}: {} is set twice", each.lineno, each.targets[0].id[:80]))
            names[each.targets[0].id] = each.value
        elif not _is_docstring(each):
            raise ReadingError(
                Sentence("line {}: only names with a value, and the value that is returned, are read", each.lineno)
            )
    raise ReadingError(Sentence("line {}: the function returns no {}(...)", function.lineno, BUILT_BY[ROOT]))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _name_of(node: ast.expr) -> str:
    """The name of what is called; ``.`` for what is no name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else "."


def _literal(path: str, node: ast.expr) -> Any:
    """A literal, a product of whole numbers, or the name of a data set. Raises ``ReadingError``."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return NOTHING
        if isinstance(node.value, bool | int | float | str) and len(str(node.value)) <= MAX_VALUE:
            return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(path, each) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    if isinstance(node, ast.BinOp) and (of := _NUMBERS.get(type(node.op))):
        left, right = _literal(path, node.left), _literal(path, node.right)
        if type(left) is int and type(right) is int and max(abs(left), abs(right)) < 1 << 40:
            return of(left, right)
    if isinstance(node, ast.Subscript) and _name_of(node.value) == DATASETS and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    raise ReadingError(Sentence("line {}: {} is computed; give a number, a text or a list", node.lineno, path[:80]))
