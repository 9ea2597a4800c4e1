"""Results of a matrix: counts and reasons by release, as JSON, on the terminal, and as the section of ``docs/launch.md``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from documents.errors import InputError
from scripts.conformance.asking import Answer
from scripts.conformance.comparison import Difference

BEGIN, END = "<!-- conformance: made by scripts/conformance -->", "<!-- conformance: end -->"
LONGEST_REASON = 320


@dataclass(frozen=True)
class Row:
    """One file: its origin, its answer, and the differences from its model."""

    model: str
    hardware: str
    num_devices: int
    origin: str
    launchable: bool
    answer: Answer
    differences: tuple[Difference, ...] = ()
    arguments: frozenset[str] = frozenset()
    other_price: str = ""  # what the file costs when it is read back, if its plan costs another price

    def to_mapping(self) -> dict[str, Any]:
        answer = self.answer
        return {
            "file": str(answer.file), "release": answer.release, "trees": list(answer.trees), "model": self.model,
            "hardware": self.hardware, "num_devices": self.num_devices, "origin": self.origin, "launchable": self.launchable,
            "verdict": answer.verdict, "stage": answer.stage, "error": answer.error, "text": answer.text, "place": answer.place,
            "build": answer.found.get("build"), "warned": list(answer.warned), "other_price": self.other_price,
            "differences": [{**vars(difference)} for difference in self.differences],
        }  # fmt: skip


@dataclass
class Summary:
    """Counts of one release: files whose header says that the plan runs unchanged, and the ``others`` by verdict.

    ``reasons``: refusals and crashes by text; ``prices``: files that cost another price than their plans, by text;
    ``unwritten``: arguments that plans set and no file has.
    """

    release: str
    trees: tuple[str, ...]
    verdicts: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    models: set[str] = field(default_factory=set)
    reasons: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    named: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unnamed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    prices: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    arguments: set[str] = field(default_factory=set)
    writable: frozenset[str] = frozenset()

    @property
    def files(self) -> int:
        return sum(self.verdicts.values())

    @property
    def unwritten(self) -> list[str]:
        return sorted(self.writable - self.arguments)

    def to_mapping(self) -> dict[str, Any]:
        return {
            "release": self.release, "commits": list(self.trees), "files": self.files, "origins": dict(self.origins),
            **{verdict: self.verdicts[verdict] for verdict in ("accept", "refuse", "crash", "unchecked")},
            "others": dict(self.others), "models": sorted(self.models),
            "reasons": {reason: len(files) for reason, files in self.reasons.items()},
            "other_prices": {text: len(files) for text, files in self.prices.items()},
            "constants_named": {fact: sorted(models) for fact, models in self.named.items()},
            "constants_unnamed": {text: len(files) for text, files in self.unnamed.items()},
            "arguments": len(self.arguments), "arguments_unwritten": self.unwritten,
        }  # fmt: skip


def reason(answer: Answer) -> str:
    """Why a file was not accepted, without details that differ between files."""
    text = " ".join(answer.text.split())
    text = re.sub(r"/\S+/\S+", "PATH", text)
    text = re.sub(r"\d+(\.\d+)?", "N", text)
    text = re.sub(r"(\bN\b[,\s]*){3,}", "N.. ", text)
    place = re.sub(r":\d+", "", answer.place)
    return f"{answer.stage or '-'}: {answer.error} {text[:LONGEST_REASON]}".rstrip() + (f" [{place}]" if place else "")


def summaries(rows: Iterable[Row], writable: dict[str, frozenset[str]]) -> list[Summary]:
    """One summary for each release, in order of appearance; ``writable``: arguments that its writer can give."""
    found: dict[str, Summary] = {}
    for row in rows:
        answer = row.answer
        summary = found.setdefault(answer.release, Summary(answer.release, answer.trees))
        summary.trees = summary.trees or answer.trees
        summary.writable = writable.get(answer.release, frozenset())
        if not row.launchable:
            summary.others[answer.verdict] += 1
            continue
        summary.verdicts[answer.verdict] += 1
        summary.origins[row.origin] += 1
        summary.models.add(row.model)
        summary.arguments |= row.arguments
        if answer.verdict != "accept":
            summary.reasons[f"{answer.verdict}: {reason(answer)}"].append(f"{row.model} {answer.file}")
        if row.other_price:
            summary.prices[re.sub(r"\d\S*", "N", row.other_price)].append(f"{row.model} {answer.file}: {row.other_price}")
        for difference in row.differences:
            if difference.named:
                summary.named[difference.fact].add(row.model)
            else:
                summary.unnamed[f"{difference} ({row.model})"].append(str(answer.file))
    return list(found.values())


def text_report(made: Sequence[Summary], without: Sequence[str]) -> str:
    """Text for the terminal, with the first file of each reason."""
    lines = []
    for each in made:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in each.verdicts.most_common())
        lines += [
            f"\n{each.release} ({', '.join(each.trees)}): {each.files} files of {len(each.models)} models: {verdicts}",
            f"  beside these, not announced to run as they are: {dict(each.others)}",
            f"  {len(each.arguments)} arguments occur; of those that a plan sets, never: {', '.join(each.unwritten) or '-'}",
        ]
        for why, files in sorted(each.reasons.items(), key=lambda item: -len(item[1])):
            models = sorted({file.split(" ")[0] for file in files})
            lines += [f"  {len(files):4d}  {why}", f"        {', '.join(models)}; first {files[0].split(' ')[1]}"]
        lines += [f"  {len(files):4d}  read back {text}; first {files[0]}" for text, files in sorted(each.prices.items())]
        lines += [f"  {len(files):4d}  differs unnamed: {text}; first {files[0]}" for text, files in sorted(each.unnamed.items())]
        lines += [
            f"        differs, as the file says: {fact} ({', '.join(sorted(of))})" for fact, of in sorted(each.named.items())
        ]
    if without:
        lines += ["", f"{len(without)} models or cases without a file:", *(f"  {each}" for each in without)]
    return "\n".join(lines)


COLUMNS = (
    "release",
    "commits",
    "files",
    "models",
    "accepted",
    "refused",
    "crashed",
    "unnamed differences",
    "other prices",
    "arguments",
    "not announced",
)


def section(made: Sequence[Summary], without: Sequence[str]) -> str:
    """The section between the markers of ``docs/launch.md``."""
    rows = [_row(each) for each in made]
    first, others = (sum(each.origins[origin] for each in made) for origin in ("first", "drawn"))
    lines = [BEGIN, *_table(COLUMNS, rows), ""]
    lines += [
        f"Of the files {first} are what a search returns first, {others} are drawn from the legal plans, so that switches,",
        "modules and schedules that are rarely best occur too.",
        "Files that are not announced to run as they are (their first lines say why) are counted in the last column alone.",
    ]
    refusals = [(f"`{each.release}`", len(files), why) for each in made for why, files in each.reasons.items()]
    if refusals:
        lines += ["", *_table(("release", "files", "not accepted because"), refusals)]
    named = [
        (f"`{each.release}`", f"`{fact}`", ", ".join(sorted(models)))
        for each in made
        for fact, models in sorted(each.named.items())
    ]
    if named:
        lines += ["", "Constants that differ, as the first lines of the files say:", ""]
        lines += _table(("release", "constant", "models"), named)
    if without:
        lines += ["", "No file is made of these:", "", *_table(("model", "because"), [_shortened(each) for each in without])]
    return "\n".join([*lines, END])


def _shortened(text: str) -> tuple[str, str]:
    model, _, why = text.partition(": ")
    return model, why if len(why) <= LONGEST_REASON else f"{why[:LONGEST_REASON]}..."


def _row(each: Summary) -> tuple[Any, ...]:
    crashed = each.verdicts["crash"] + each.verdicts["unchecked"]
    unnamed = sum(len(files) for files in each.unnamed.values())
    counts = (
        each.files,
        len(each.models),
        each.verdicts["accept"],
        each.verdicts["refuse"],
        crashed,
        unnamed,
        sum(len(files) for files in each.prices.values()),
        len(each.arguments),
    )
    others = f"{sum(each.others.values())}, {each.others['accept']} of them accepted"
    return f"`{each.release}`", ", ".join(each.trees), *counts, others


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [_cells(names), "|".join(["", *["---"] * len(names), ""]), *(_cells(row) for row in rows)]


def _cells(values: Sequence[Any]) -> str:
    return f"| {' | '.join(str(value).replace('|', chr(92) + '|') for value in values)} |"


def written_into(document: Path, text: str) -> None:
    """The page with the section between its markers replaced."""
    whole = document.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{document}: has no markers {BEGIN} and {END}.")
    document.write_text(f"{before}{text}{after}", encoding="utf-8")
