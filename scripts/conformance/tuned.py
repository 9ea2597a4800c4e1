"""Tunes the scripts that frameworks ship, and asks the frameworks about each changed script and about the one before.

usage: python -m scripts.conformance.tuned CHECKOUT... [--scripts N] [--seconds S] [--only TEXT] [--json FILE]

CHECKOUT: as for `python -m scripts.conformance`. A proposal fails if the framework takes the shipped script and not the changed
one. Exit status: 0 none fails, 1 some do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.launch_scripts.service import tune_document
from documents.errors import InputError
from frameworks.framework import Framework
from frameworks.registry import FRAMEWORKS
from scripts.conformance.__main__ import _checkout
from scripts.conformance.asking import Answer, Question, ask
from scripts.conformance.checkouts import Checkouts
from scripts.conformance.launch_files import REPOSITORIES, Header
from scripts.conformance.shipped import IN_PART, PRICED, VOCABULARY, outcomes


@dataclass(frozen=True)
class Proposal:
    """A shipped script and the changed one, both as files."""

    name: str
    before: Path
    after: Path
    like: Header


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = (options.work or Path(temporary)).resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        checkouts = Checkouts(dict(map(_checkout, options.checkouts)), scratch)
        made: list[Proposal] = []
        kept = Counter[str]()
        for framework in FRAMEWORKS:
            repository = REPOSITORIES[framework.name][0]
            if repository in checkouts.given and framework.suffix == "sh":
                tree = checkouts.tree(repository, framework.release.commits[repository]).path
                made += _proposals(framework, tree, scratch / "tuned" / framework.target.label, options, kept)
        print(f"{sum(kept.values())} scripts tuned: {dict(kept)}", flush=True)
        files = [Question(file, VOCABULARY, like=each.like) for each in made for file in (each.before, each.after)]
        answers = ask(files, checkouts, options.processes)
    pairs = list(zip(made, answers[::2], answers[1::2], strict=True))
    for proposal, before, after in pairs:
        if after.verdict != "accept":
            print(f"{before.verdict} -> {after.verdict}: {proposal.name}: {after.stage}: {after.text[:300]} {after.place}")
    print(dict(Counter(f"{before.verdict} -> {after.verdict}" for _, before, after in pairs)))
    if options.json:
        options.json.write_text(json.dumps([_as_json(*pair) for pair in pairs], indent=1) + "\n", encoding="utf-8")
    return int(any(before.verdict == "accept" != after.verdict for _, before, after in pairs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", metavar="CHECKOUT")
    parser.add_argument("--scripts", type=int, default=1000, help="scripts of each release at most")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each search (default %(default)s)")
    parser.add_argument("--only", default="examples/", help="files whose path holds this text (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", type=Path, help="folder for scripts and source trees")
    parser.add_argument("--json", type=Path, help="file for the result")
    return parser.parse_args()


def _proposals(
    framework: Framework, tree: Path, folder: Path, options: argparse.Namespace, kept: Counter[str]
) -> Iterator[Proposal]:
    """The changed scripts of one release; ``kept`` counts the scripts by what became of them."""
    folder.mkdir(parents=True, exist_ok=True)
    like = Header(framework.name, framework.release.version, dict(framework.release.commits), True, ())
    sections = {"search": {"time_limit_s": options.seconds}}
    for number, (found, read) in enumerate(outcomes(tree, options.only, sections)):
        if number >= options.scripts:
            return
        if read is None or found.verdict not in (PRICED, IN_PART) or read.framework is not framework:
            continue
        try:
            document = tune_document(read)
        except InputError as error:
            kept[f"refused: {error}"] += 1
            continue
        kept["changed" if document.changes else "left as it is"] += 1
        if document.changes:
            after = folder / f"{number:04d}-{Path(found.file).name}"
            after.write_text(document.script, encoding="utf-8")
            yield Proposal(found.file, tree / found.file, after, like)


def _as_json(proposal: Proposal, before: Answer, after: Answer) -> dict[str, str]:
    return {"file": proposal.name, "before": before.verdict, "after": after.verdict, "stage": after.stage, "text": after.text}


if __name__ == "__main__":
    sys.exit(main())
