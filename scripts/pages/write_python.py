"""Writes the reference of docs/python.md from the docstrings and signatures of ``meshplan``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("meshplan/local.py", "meshplan/errors.py", "meshplan/server_records.py", "meshplan/client.py")
PARTS = ("meshplan/check_methods.py",)  # files with base classes of those
BLOCK = re.compile(r"(<!-- reference: [^\n]*-->\n).*?(<!-- /reference -->)", re.DOTALL)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference(source: str, *parts: str) -> str:
    """Every public function of a module, then every public class with its fields, properties and methods, in order."""
    body = ast.parse(source).body
    bases = {node.name: node for node in body if isinstance(node, ast.ClassDef) and node.name.startswith("_")}
    bases |= {node.name: node for part in parts for node in ast.parse(part).body if isinstance(node, ast.ClassDef)}
    public = [node for node in body if not getattr(node, "name", "_").startswith("_")]
    functions = [line for node in public if isinstance(node, Function) for line in _of_function(node)]
    return "\n".join(
        [*functions, *(line for node in public if isinstance(node, ast.ClassDef) for line in _of_class(node, bases))]
    )


def _of_function(node: Function) -> Iterator[str]:
    yield f"## {node.name}\n\n{_text(node)}\n\n- `{_signature(node.name, node)}`\n"


def _of_class(node: ast.ClassDef, bases: dict[str, ast.ClassDef]) -> Iterator[str]:
    """Lines of a class; methods of a base are listed at the first class that inherits them."""
    yield f"## {node.name}\n\n{_text(node)}\n"
    inherited = list(_bases(node, bases))
    for member in (*node.body, *(member for base in inherited for member in base.body)):
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            yield f"- `{ast.unparse(member.target)}: {ast.unparse(member.annotation)}`"
        elif isinstance(member, Function) and member.name == "__init__":
            yield f"- `{_signature(node.name, member)}`"
        elif isinstance(member, Function) and not member.name.startswith("_"):
            said = _text(member).replace("\n\n", "\n").replace("\n", "\n  ")
            yield f"- `{_signature(member.name, member)}`: {said}"
    yield ""


def _bases(node: ast.ClassDef, bases: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """Base classes, direct and indirect, each once."""
    for name in map(ast.unparse, node.bases):
        base = bases.pop(name, None)
        if base is not None:
            yield base
            yield from _bases(base, bases)


def _signature(name: str, member: Function) -> str:
    """The signature as a caller writes it: without ``self``, and without brackets for a property."""
    told = "" if member.returns is None else ast.unparse(member.returns)
    told = re.sub(r"^Pages\[", "Iterator[", re.sub(r"^Flow\[(.*)\]$", r"\1", told))
    returned = f" -> {told}" if told and member.name != "__init__" else ""
    if any(ast.unparse(decorator) == "property" for decorator in member.decorator_list):
        return name + returned
    for arguments in (member.args.posonlyargs, member.args.args):
        arguments[:] = [argument for argument in arguments if argument.arg != "self"]
    return f"{name}({ast.unparse(member.args).replace('=', ' = ')}){returned}"


def _text(node: ast.ClassDef | Function) -> str:
    """The docstring as Markdown, with literals in single ticks."""
    text = ast.get_docstring(node)
    assert text is not None, f"{node.name} is public and says nothing of itself"
    return text.replace("``", "`")


def page(current: str) -> str:
    """The page with its reference as the sources have it now."""
    parts = [(ROOT / part).read_text(encoding="utf-8") for part in PARTS]
    made = "\n".join(reference((ROOT / source).read_text(encoding="utf-8"), *parts) for source in SOURCES)
    return BLOCK.sub(lambda found: f"{found[1]}{made}{found[2]}", current)


if __name__ == "__main__":
    path = ROOT / "docs/python.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
