"""Exports a matrix of plans, asks the frameworks themselves whether they take the files, and reads each file back for its price.

usage: python -m scripts.conformance CHECKOUT... [options]

CHECKOUT: a work tree or a git directory of NVIDIA/Megatron-LM, Ascend/MindSpeed-LLM, Ascend/MindSpeed or
mindspore-lab/mindformers, told apart by their folders, or REPOSITORY=PATH. Each file is checked at the commits that its first
lines name. Nothing is installed or fetched; accelerator libraries are replaced by stand-ins.
Exit status: 0 all accepted at their plans' prices, 1 not all, 2 some could not be asked about.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.jobs.job import parse_job
from cost_models.shapes.workload import ModelShape
from documents.reading import read_document
from frameworks.framework import Framework
from frameworks.registry import FRAMEWORKS
from scripts.conformance import cases, report, self_test
from scripts.conformance.asking import Answer, Question, ask
from scripts.conformance.checkouts import Checkouts, UncheckedError, repository_of
from scripts.conformance.comparison import differences
from scripts.conformance.exporting import Exported, exported, timed
from scripts.conformance.published import config_json
from scripts.conformance.read_back import other_prices
from scripts.conformance.report import Row

DOCUMENT = cases.ROOT / "docs" / "launch.md"


def main() -> int:
    options = _options()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = (options.work or Path(temporary)).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        checkouts = Checkouts(dict(map(_checkout, options.checkouts)), scratch)
        targets = [
            label for label in cases.targets(options.task) if not options.only or label.startswith(tuple(options.only.split(",")))
        ]
        chosen = cases.models(options.models.split(",") if options.models else None)
        matrix, without = cases.with_files(list(cases.cases(chosen, targets, options.sizes, options.task)), options.files)
        made = list(exported(matrix, scratch / "exports", options.processes))
        files = [each for each in made if each.file is not None][: options.limit]
        print(f"{len(matrix)} cases, {len(files)} files ({timed(started)})", flush=True)
        if options.self_test:
            return self_test.run(_questions(files), checkouts, options.processes)
        rows = _rows(files, checkouts, options.processes)
        without += [f"{each.case.folder}: {each.why}" for each in made if each.file is None]
    writable = {f"{each.name} {each.release.version}": frozenset(_set_by_plans(each)) for each in FRAMEWORKS}
    found = report.summaries(rows, writable)
    print(report.text_report(found, without))
    print(f"\n{timed(started)}")
    if options.json:
        result = {
            "releases": [each.to_mapping() for each in found],
            "files": [row.to_mapping() for row in rows],
            "without": without,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.write_docs:
        report.written_into(DOCUMENT, report.section(found, without))
    verdicts = {row.answer.verdict for row in rows}
    return 2 if "unchecked" in verdicts else int(verdicts != {"accept"} or any(each.prices for each in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument("--only", help="targets, with or without @release, separated by commas")
    parser.add_argument("--models", help="presets, and import:NAME for a config.json of the tests, separated by commas")
    parser.add_argument("--sizes", type=int, default=cases.NUM_SIZES, help="cluster sizes of each model (default %(default)s)")
    parser.add_argument("--task", choices=list(cases.TASKS), default="pretrain", help="what is trained (default %(default)s)")
    parser.add_argument("--files", type=int, default=450, help="files of each release, at least (default %(default)s)")
    parser.add_argument("--limit", type=int, help="files to ask about at most")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, help="folder for exports and source trees, which a later run takes again")
    parser.add_argument("--json", type=Path, help="file for the result")
    parser.add_argument("--write-docs", action="store_true", help="write the section of docs/launch.md")
    parser.add_argument("--self-test", action="store_true", help="sabotaged files must be refused, the frameworks' own accepted")
    return parser.parse_args()


def _checkout(text: str) -> tuple[str, Path]:
    repository, given, path = text.rpartition("=")
    try:
        return (repository, Path(path)) if given else (repository_of(Path(path)), Path(path))
    except UncheckedError as error:
        raise SystemExit(str(error)) from None


def _rows(files: Sequence[Exported], checkouts: Checkouts, processes: int) -> list[Row]:
    answers = ask(_questions(files), checkouts, processes)
    prices = other_prices([(each.file, each.job) for each in files if each.file and each.job], processes)
    return [_row(each, _model(each), answer, price) for each, answer, price in zip(files, answers, prices, strict=True)]


def _questions(files: Sequence[Exported]) -> list[Question]:
    asked = []
    for each in files:
        assert each.file is not None
        model = _model(each)
        asked.append(Question(each.file, model.vocab_size, config_json(each.case.model, model)))
    return asked


def _model(export: Exported) -> ModelShape:
    assert export.job is not None
    return parse_job(read_document(export.job), folder=export.job.parent).workload.model


def _row(export: Exported, model: ModelShape, answer: Answer, other_price: str) -> Row:
    case = export.case
    return Row(
        case.model.name,
        case.hardware,
        case.num_devices,
        export.origin,
        export.launchable,
        answer,
        tuple(differences(answer, model)),
        frozenset(_names(export.arguments)),
        other_price,
    )


def _set_by_plans(framework: Framework) -> Iterator[str]:
    """Arguments that a switch, a module of recompute, a degree or a choice of a plan is."""
    table = framework.table
    yield from table.columns.values()
    yield from table.module_switches.values()
    for switch in table.switches:
        yield from (switch.argument, *switch.beside)


def _names(arguments: Sequence[str]) -> list[str]:
    """Arguments as the table of the release names them."""
    return [each.removeprefix("--") if each.startswith("--") else each.partition("=")[0] for each in arguments
            if each.startswith("--") or "=" in each]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
