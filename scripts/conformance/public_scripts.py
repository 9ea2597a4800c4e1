"""Counts how launch scripts and recipes of public repositories are answered: read, asked about, or refused, by reason.

usage: python -m scripts.conformance.public_scripts REPOSITORY@COMMIT=FOLDER... [--list] [--record FILE] [--facts FILE]

Each folder holds the files of a repository at a commit. Files are read and never run. All shell scripts count, and the YAML and
TOML files that are taken for launch files. Devices and rows of the vocabulary that a file leaves to its user are stated for it.
What is read of a file with known facts is compared with them. The table of docs/tune.md comes from here. Exit status: 0 no
fact is read wrongly, 1 some are.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from app.launch_scripts.files import load_script
from app.launch_scripts.forms import is_launch_script
from app.launch_scripts.reading import ReadScript
from documents.errors import InputError
from frameworks.legality import violations
from frameworks.target import ANY
from scripts.conformance.shipped import DEVICES, REPLICA, REPLICAS, VALUES, VOCABULARY, hardware_of
from search.plans.plan import strategy_to_mapping

READ, ASKED, ARGUMENT, MODEL, PROGRAM, RULE, SCRIPT, NO_TRAINING = ANSWERS = (
    *("read", "asked", "argument", "model", "program", "rule", "script", "none"),
)
# What a message holds that belongs to an answer; the first that fits.
MARKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (NO_TRAINING, ("no command in it starts", "trains nothing")),
    (PROGRAM, ("are read.", "is a program of", "scripts are not read", "files are not read", "whose it is, is not known")),
    (ARGUMENT, ("--assume ", "no plan says it")),
    (MODEL, ("has no price", "is no flavor", "names layers that are not known")),
    (ASKED, ("--set", "--vocab-size", "--devices", "--with", "give the script that starts the file")),
)
SUFFIXES = ("", ".sh", ".bash", ".slurm", ".sbatch", ".txt", ".yaml", ".yml", ".toml")
ASCEND = ("Ascend", "mindspore-lab")
MOST_BYTES = 2**18
FACTS = Path(__file__).resolve().parents[2] / "tests/fixtures/public_scripts.json"


class Answer(NamedTuple):
    """How a file is answered: one of ``ANSWERS``, the message, the facts that were stated for it, and what was read."""

    kind: str
    message: str
    stated: tuple[str, ...] = ()
    read: ReadScript | None = None


@dataclass
class Found:
    """Answers of a repository by path, and the files that are read otherwise than their known facts."""

    repository: str
    commit: str
    answers: dict[str, Answer] = field(default_factory=dict)
    known: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, Any]:
        """The record: paths by answer, without those of no training, which are counted."""
        paths = {kind: [path for path, answer in self.answers.items() if answer.kind == kind] for kind in ANSWERS}
        counted = {kind: found if kind != NO_TRAINING else len(found) for kind, found in paths.items()}
        stated = {path: list(answer.stated) for path, answer in self.answers.items() if answer.kind == READ and answer.stated}
        return {"commit": self.commit, **counted, "stated": stated}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=_folder, metavar="REPOSITORY@COMMIT=FOLDER")
    parser.add_argument("--list", action="store_true", help="one line for each file")
    parser.add_argument("--facts", type=Path, default=FACTS, help="known facts of files (default: those of the tests)")
    parser.add_argument("--record", type=Path, help="file whose answers are replaced by these")
    given = parser.parse_args(arguments)
    recorded = json.loads(given.facts.read_text(encoding="utf-8")) if given.facts.is_file() else {}
    found = [counted(name, commit, folder, recorded.get(name, {}).get("facts", {})) for name, commit, folder in given.folders]
    if given.list:
        for each in found:
            for path, answer in each.answers.items():
                print(each.repository, answer.kind, path, answer.message, sep="\t", file=sys.stderr)
    print("\n".join(table([{each.repository: each.to_mapping()} for each in found])))
    for each in found:
        for path, differences in each.wrong.items():
            print(f"wrong: {each.repository}: {path}: {'; '.join(differences)}")
    if given.record:
        made = {
            each.repository: {**each.to_mapping(), "facts": recorded.get(each.repository, {}).get("facts", {})} for each in found
        }
        given.record.write_text(written(made), encoding="utf-8")
    return int(any(each.wrong for each in found))


def _folder(text: str) -> tuple[str, str, Path]:
    name, _, path = text.partition("=")
    repository, _, commit = name.partition("@")
    if not path or not commit:
        raise argparse.ArgumentTypeError(f"{text}: give REPOSITORY@COMMIT=FOLDER")
    return repository, commit, Path(path)


def written(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Records as JSON with one line for each path, so that another answer to a file is another line."""

    def block(value: Any, depth: int) -> str:
        if depth < 2 and isinstance(value, dict):
            inside = (f"{json.dumps(key)}: {block(each, depth + 1)}" for key, each in value.items())
        elif depth == 2 and value and isinstance(value, dict | list):
            inside = (
                (f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())
                if isinstance(value, dict)
                else map(json.dumps, value)
            )
        else:
            return json.dumps(value)
        left, right = "{}" if isinstance(value, dict) else "[]"
        lead = "\n" + " " * (depth + 1)
        return f"{left}{lead}{f',{lead}'.join(inside)}\n{' ' * depth}{right}"

    return block(records, 0) + "\n"


def table(records: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """The counts of records as lines of a table, with their sum."""
    head = ("repository", "files", *ANSWERS)
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    total: Counter[str] = Counter()
    for record in records:
        for repository, answers in record.items():
            counts = {kind: answers[kind] if isinstance(answers[kind], int) else len(answers[kind]) for kind in ANSWERS}
            total.update(counts)
            lines.append(_line(f"{repository} {answers['commit']}", counts))
    return [*lines, _line("together", total)]


def _line(name: str, counts: Mapping[str, int]) -> str:
    files = sum(counts.values())
    return f"| {name} | {' | '.join(f'{count:,}' for count in (files, *(counts[kind] for kind in ANSWERS)))} |"


def counted(repository: str, commit: str, folder: Path, facts: Mapping[str, Mapping[str, Any]]) -> Found:
    """The answers to all files of a repository."""
    found = Found(repository, commit)
    framework = "mindspeed-llm" if repository.startswith(ASCEND) else "megatron-lm"
    for path in files_in(folder):
        name = str(path.relative_to(folder))
        answer = found.answers[name] = answered(path, hardware_of(framework, path.name))
        if name in facts:
            found.known += 1
            differences = differing(facts[name], answer)
            if differences:
                found.wrong[name] = differences
    return found


def files_in(folder: Path) -> list[Path]:
    """Launch files of a checkout, in the order of their paths."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    plain = (path for path in files if path.suffix in SUFFIXES and ".git" not in path.parts)
    return [path for path in plain if path.stat().st_size < MOST_BYTES and _is_script(path)]


def _is_script(path: Path) -> bool:
    try:
        return is_launch_script(str(path))
    except InputError:
        return False


def answered(path: Path, hardware: str) -> Answer:
    """How a file is answered. Devices and rows of the vocabulary are stated where they are asked for."""
    devices, vocabulary, stated = None, None, list[str]()
    while True:
        try:
            read = load_script(path, hardware, devices=devices, vocab_size=vocabulary, values=VALUES)
        except InputError as error:
            message = str(error).removeprefix(f"{path}: ").replace(str(path), path.name)
            if vocabulary is None and "--vocab-size" in message:
                vocabulary = VOCABULARY
                stated.append("rows of the vocabulary")
            elif devices is None and "--devices" in message:
                replica = REPLICA.search(message)
                devices = REPLICAS * int(replica[1]) if replica else DEVICES
                stated.append("devices")
            else:
                return Answer(_kind(message), message, tuple(stated))
            continue
        strategy = read.job.strategy
        assert strategy is not None
        broken = violations(read.job.workload, strategy) or violations(read.job.workload, strategy, ANY)
        message = "; ".join(f"{each.rule}: {each.sentence}" for each in broken)
        return Answer(RULE if broken else READ, message, tuple(stated), read)


def _kind(message: str) -> str:
    found = (kind for kind, marks in MARKS if any(mark in message for mark in marks))
    return next(found, RULE if re.search(r"\(\w+\)\.$", message) else SCRIPT)


def differing(facts: Mapping[str, Any], answer: Answer) -> list[str]:
    """The known facts that are read otherwise."""
    if answer.read is None:
        return [f"{answer.kind}: {answer.message}"]
    read = facts_of(answer.read)
    return [f"{name}: {read[name]}, known as {value}" for name, value in facts.items() if read[name] != value]


def facts_of(read: ReadScript) -> dict[str, Any]:
    """What a script trains and how, in plain numbers; ``recomputed_layers`` of each pipeline rank are recomputed whole."""
    workload, strategy = read.job.workload, read.job.strategy
    assert strategy is not None
    model, training, plan = workload.model, workload.training, strategy_to_mapping(workload, strategy)
    moe, mla = model.moe, model.mla
    return {
        "target": read.framework.name,
        "devices": workload.cluster.num_devices,
        "precision": training.precision,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_query_groups": model.num_query_groups,
        "kv_channels": model.kv_channels,
        "latent_ranks": [mla.q_lora_rank, mla.kv_lora_rank] if mla else None,
        "num_experts": moe.num_experts if moe else None,
        "top_k": moe.top_k if moe else None,
        "expert_ffn_hidden_size": moe.expert_ffn_hidden_size if moe else None,
        "leading_dense_layers": moe.num_leading_dense_layers if moe else None,
        "mtp_num_layers": model.mtp_num_layers,
        "vocab_size": model.vocab_size,
        "tied_embeddings": model.tied_embeddings,
        "qk_layernorm": model.qk_layernorm,
        "seq_length": training.seq_length,
        "global_batch_size": training.global_batch_size,
        **{
            name: plan[name] for name in ("micro_batch_size", "tp", "pp", "vpp", "cp", "cp_algo", "ep", "etp", "dp", "zero_stage")
        },
        "sequence_parallel": plan["sequence_parallel"],
        "recomputed_layers": _recomputed_layers(plan),
        "recompute_modules": plan["recompute"]["modules"],
        "layer_layout": plan["layer_layout"],
    }


def _recomputed_layers(plan: Mapping[str, Any]) -> list[int]:
    recompute, layout = plan["recompute"], plan["layer_layout"]
    if recompute["granularity"] != "full":
        return [0] * plan["pp"]
    if recompute["layers_per_stage"]:
        return list(recompute["layers_per_stage"])
    ranks = zip(*layout, strict=True)
    most = recompute["num_layers"] if recompute["method"] == "block" else max(map(max, layout))
    return [sum(min(most, layers) for layers in rank) for rank in ranks]


if __name__ == "__main__":
    sys.exit(main())
