"""A test of the check: broken copies of accepted files must be refused, scripts that the frameworks ship must be accepted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.conformance.asking import Answer, Question, ask
from scripts.conformance.checkouts import Checkouts
from scripts.conformance.launch_files import REPOSITORIES, Header, header


@dataclass(frozen=True)
class Sabotage:
    """One fault, inserted into files where it matches."""

    what: str
    pattern: str
    replacement: str


OF_SCRIPTS = (
    Sabotage("an argument that does not exist", r"^ARGUMENTS=\($", "ARGUMENTS=(\n  --no-such-argument 1"),
    Sabotage("a number that is none", r"--num-layers \d+", "--num-layers many"),
    Sabotage("a value that is no choice", r"^ARGUMENTS=\($", "ARGUMENTS=(\n  --recompute-granularity some"),
    Sabotage("a batch that the ranks do not divide", r"--global-batch-size \d+", "--global-batch-size 7"),
    Sabotage("a degree that the devices do not divide", r"--tensor-model-parallel-size \d+", "--tensor-model-parallel-size 3"),
    Sabotage("full recompute without a method", r"^ARGUMENTS=\($", "ARGUMENTS=(\n  --recompute-granularity full"),
    Sabotage("two precisions", r"--bf16$", "--bf16\n  --fp16"),
    Sabotage("positions that are too few", r"--max-position-embeddings \d+", "--max-position-embeddings 16"),
)
OF_YAML = (
    Sabotage("a section that does not exist", r"^parallel_config:$", "no_such_section: 1\nparallel_config:"),
    Sabotage("a key of the model that does not exist", r"^    num_hidden_layers:", "    no_such_key: 1\n    num_hidden_layers:"),
    Sabotage("a mode that is no choice", r'^run_mode: "train"$', 'run_mode: "sometimes"'),
    Sabotage("degrees that are not the devices", r"^  data_parallel: \d+", "  data_parallel: 7"),
    Sabotage("a name given twice", r"^    num_hidden_layers: (\d+)", r"    num_layers: \1\n    num_hidden_layers: \1"),
)
# Pretraining scripts and templates that a repository ships, without those that also prepare data.
SHIPPED = {
    "megatron-lm": ("examples/gpt3/train_gpt3_*.sh", "examples/mixtral/train_*.sh", "examples/llama/train_*.sh"),
    "mindspeed-llm": ("examples/mcore/*/pretrain_*_ptd.sh", "examples/mcore/*/pretrain_*_a3_ptd.sh"),
    "mindformers": ("configs/*/pretrain_*.yaml",),
}
MOST_SHIPPED = 12


def run(questions: Sequence[Question], checkouts: Checkouts, processes: int) -> int:
    """Print both results; 0 if every sabotage was refused and no shipped file that resembles an export was."""
    accepted = _accepted(questions, checkouts, processes)
    missed, own = 0, Counter[str]()
    for release, question in accepted.items():
        broken = _broken(question.file, checkouts.scratch / "sabotage" / release.replace(" ", "-"))
        asked = [replace(question, file=path) for path in broken.values()]
        for what, answer in zip(broken, ask(asked, checkouts, processes), strict=True):
            missed += answer.verdict != "refuse"
            print(f"{release}: {what}: {answer.verdict}, {answer.stage}: {answer.text[:120]}")
        for answer in _shipped(header(question.file), checkouts, processes):
            own[answer.verdict] += 1
            if answer.verdict != "accept":
                print(f"{release}: the framework's own {answer.file.name}: {answer.verdict}, {answer.stage}: {answer.text[:160]}")
    print(f"sabotages that were not refused: {missed}; the frameworks' own files: {dict(own)}")
    return int(missed > 0 or not own["accept"])


def _accepted(questions: Sequence[Question], checkouts: Checkouts, processes: int) -> dict[str, Question]:
    """One accepted file of each release."""
    found: dict[str, Question] = {}
    for question, answer in zip(questions, ask(questions, checkouts, processes), strict=True):
        if answer.verdict == "accept":
            found.setdefault(answer.release, question)
    return found


def _broken(path: Path, folder: Path) -> dict[str, Path]:
    """Copies of a file, each with one fault."""
    folder.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf-8")
    made = {}
    for index, sabotage in enumerate(OF_YAML if path.suffix == ".yaml" else OF_SCRIPTS):
        changed, times = re.subn(sabotage.pattern, sabotage.replacement, text, count=1, flags=re.MULTILINE)
        if times:
            copy = made[sabotage.what] = folder / f"{index}-{path.name}"
            copy.write_text(changed, encoding="utf-8")
    return made


def _shipped(like: Header, checkouts: Checkouts, processes: int) -> list[Answer]:
    repository = REPOSITORIES[like.target][0]
    tree = checkouts.tree(repository, like.commits[repository]).path
    found = sorted({path for pattern in SHIPPED[like.target] for path in tree.glob(pattern)})
    step = max(1, len(found) // MOST_SHIPPED)
    answers = ask([Question(path, like=like) for path in found[::step]], checkouts, processes)
    return [answer for answer in answers if answer.verdict != "unchecked"]  # unchecked files are for another entry point
