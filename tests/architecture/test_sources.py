"""House rules that a reader of the sources relies on: size, names, what files never mention, and citations that resolve."""

import ast
import io
import re
import shutil
import subprocess
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from cost_models.shapes.strategy import ParallelStrategy
from cost_models.step.result import Estimate

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["packages"])
MAX_LINES = 500
MAX_FUNCTION_LINES = 60
VAGUE_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
# Spelt in parts, so that this file passes its own test.
NEVER_MENTIONED = tuple(
    "".join(parts) for parts in (("/wo", "rk/"), ("/ro", "ot/"), ("py", "pi.org"), ("files.python", "hosted"))
)

KEY = re.compile(r"[a-z0-9][a-z0-9]*(?:[-.][a-z0-9]+)*")
BRACKETS = re.compile(r"\[([^\[\]]+)\]")
CITATIONS_ONLY = re.compile(r"\[[^\[\]]+\](?:[;,]? *\[[^\[\]]+\])*")
KEY_ONLY = re.compile(r"[a-z].*[-0-9]")
LOCATOR = re.compile(r"section|table|figure|eq\.|appendix|chapter|page|\w\.[a-z]{1,4}\b", re.IGNORECASE)


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is tracked or about to be; without git, all that is not hidden."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return tuple(p for p in sorted(ROOT.rglob("*")) if p.is_file() and not p.relative_to(ROOT).parts[0].startswith("."))
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return tuple(path for name in names if name and (path := ROOT / name).is_file())


def test_no_tracked_file_is_one_that_git_ignores() -> None:
    """A link to an environment in place of a folder of one would delete that folder where it is merged."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    ignored = subprocess.run(
        [git, "ls-files", "--cached", "--ignored", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ignored.stdout == ""


def texts() -> Iterator[tuple[str, str]]:
    """Name and content of every text file."""
    for path in project_files():
        try:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


@cache
def reference_keys() -> tuple[str, ...]:
    """First column of the tables in docs/references.md."""
    return tuple(re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/references.md").read_text(encoding="utf-8"), flags=re.MULTILINE))


def cited_keys(text: str) -> Iterator[str]:
    """Keys in ``[key, locator; other-key]``.

    Prose also brackets array shapes (``[stage, n]``), so a word counts as a key if it is one, or has a hyphen or a digit
    in it, or is followed by something that looks like a place in a source.
    """
    for bracketed in BRACKETS.findall(text):
        for item in bracketed.split(";"):
            first, _, place = item.strip().partition(",")
            if KEY.fullmatch(first) and (
                first in reference_keys() or re.search(r"[a-z].*[-0-9]", first) or LOCATOR.search(place)
            ):
                yield first


def python_citations(source: str) -> Iterator[str]:
    """Keys in docstrings, comments, and strings that hold nothing but citations."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from cited_keys(ast.get_docstring(node) or "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and CITATIONS_ONLY.fullmatch(node.value):
            yield from cited_keys(node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa")):
            yield from cited_keys(token.string)


def profile_citations(source: str) -> Iterator[str]:
    """Keys of the ``source:`` entries of a hardware profile: ``key, place; other-key``, with or without brackets."""
    for entry in re.findall(r"\bsource: *(\"[^\"\n]*\"|'[^'\n]*'|[^,}\n]+)", source):
        for item in entry.strip("\"' []").split(";"):
            yield item.partition(",")[0].strip(" []")


def test_no_python_file_outgrows_its_noun() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def function_lengths(source: str) -> dict[str, int]:
    """Lines of every function by name, its docstring not counted."""
    lengths = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            lengths[node.name] = lines
    return lengths


def test_the_length_of_a_function_leaves_its_docstring_out() -> None:
    assert function_lengths('def f() -> None:\n    """One.\n\n    Two.\n    """\n    return\n') == {"f": 2}


def test_no_function_of_the_physics_is_longer_than_a_page() -> None:
    lengths = {
        f"{path.relative_to(ROOT).as_posix()}: {name}": length
        for path in (ROOT / "cost_models").rglob("*.py")
        for name, length in function_lengths(path.read_text(encoding="utf-8")).items()
    }
    assert lengths
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = {path.relative_to(ROOT).as_posix(): {*path.relative_to(ROOT).parts[:-1], path.stem} for path in python_files()}
    assert [name for name, parts in named.items() if parts & VAGUE_NAMES] == []


def test_no_file_mentions_a_machine_or_a_registry_host() -> None:
    found = {(name, word) for name, text in texts() for word in NEVER_MENTIONED if word in text}
    assert found == set()


def test_every_module_says_what_it_is_for() -> None:
    paths = [p for p in python_files() if p.relative_to(ROOT).parts[0] in PACKAGES and p.read_text(encoding="utf-8").strip()]
    assert paths
    silent = [p.relative_to(ROOT).as_posix() for p in paths if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))]
    assert silent == []


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Ring all-reduce [thakur2005, section 4; megatron-0.12].", ["thakur2005", "megatron-0.12"]),
        ("Shapes [n], [stage, n] and [chunk][stage]; units [bytes].", []),
        ("A misspelt [megatronn-0.12, arguments.py] or [mindsped, noop_layers.py].", ["megatronn-0.12", "mindsped"]),
        ("Half of it [mindspeed, swap-optimizer], see [1] and a[0-9].", ["mindspeed"]),
    ],
)
def test_citations_are_told_from_shapes(text: str, keys: list[str]) -> None:
    assert list(cited_keys(text)) == keys


def test_citations_are_found_in_docstrings_comments_and_source_strings() -> None:
    source = '"""Doc [korthikanti2022]."""\nx = (1.0, "[hcomm]; [runs-fit]")  # why [mindspeed]\ny = "[a-z0-9]+"\n'
    assert Counter(python_citations(source)) == Counter(["korthikanti2022", "hcomm", "runs-fit", "mindspeed"])
    profile = 'a: {value: 1, unit: s, source: hcomm, basis: vendor}\nb:\n  source: "[flagperf, README.md; cann]"\n'
    assert list(profile_citations(profile)) == ["hcomm", "flagperf", "cann"]


def test_every_cited_key_is_a_reference() -> None:
    unknown: set[tuple[str, str]] = set()
    for path in project_files():
        name, *_ = parts = path.relative_to(ROOT).parts
        if name not in PACKAGES:
            continue
        if path.suffix == ".py":
            cited = python_citations(path.read_text(encoding="utf-8"))
        elif name == "hardware_profiles" and path.suffix == ".yaml":
            cited = profile_citations(path.read_text(encoding="utf-8"))
        elif name == "frameworks" and path.suffix == ".json":
            cited = cited_keys(path.read_text(encoding="utf-8"))
        else:
            continue
        unknown |= {("/".join(parts), key) for key in cited if key not in reference_keys()}
    assert unknown == set()


def test_reference_keys_are_unique_and_well_formed() -> None:
    counts = Counter(reference_keys())
    assert counts
    assert [key for key, count in counts.items() if count > 1 or not KEY.fullmatch(key)] == []


def test_every_reference_can_be_found_and_says_how_it_was_read() -> None:
    text = (ROOT / "docs/references.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    assert [key for key, *_ in rows] == list(reference_keys())
    for key, citation, read in rows:
        assert re.search(r"<https?://[^ >]+>|`calibration/", citation), key
        assert read in {"full", "part", "second-hand"}, key


def test_the_glossary_explains_every_field_of_a_strategy_and_an_estimate() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    public = [f.name for cls in (ParallelStrategy, Estimate) for f in fields(cls) if not f.name.startswith("stage_")]
    assert [name for name in public if name != "breakdown" and f"`{name}`" not in glossary] == []


def test_links_between_documents_resolve() -> None:
    broken = []
    for name, text in texts():
        if not name.endswith(".md"):
            continue
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in link and not (ROOT / name).parent.joinpath(link).exists():
                broken.append((name, link))
    assert broken == []


def test_every_environment_variable_of_ours_is_documented() -> None:
    documents = "".join(text for name, text in texts() if name.endswith(".md"))
    sources = "".join(text for name, text in texts() if name.startswith("app/") and name.endswith(".py"))
    read = set(re.findall(r"\bMESHPLAN_[A-Z_]+\b", sources))
    assert {word for word in read if word not in documents} == set()


def test_make_offers_and_explains_the_documented_targets() -> None:
    explained = re.findall(r"^([a-z]+):.*## \S", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"setup", "format", "lint", "test", "golden", "bench", "docs", "check"} <= set(explained)


def test_the_readme_and_ci_run_the_same_check() -> None:
    assert re.search(r"^exec make check SLOW=1\b", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)
    assert "make check" in (ROOT / "README.md").read_text(encoding="utf-8")
