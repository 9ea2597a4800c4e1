"""Reads every launch script and template that a framework ships, and lists those that the reader or the rules refuse.

usage: python -m scripts.conformance.shipped CHECKOUT... [--only TEXT] [--json FILE]

CHECKOUT: a work tree of NVIDIA/Megatron-LM, Ascend/MindSpeed-LLM, mindspore-lab/mindformers or NVIDIA-NeMo/Megatron-Bridge.
Scripts and templates are read and never run; recipes of Megatron-Bridge are Python, and run with stand-ins for all that they
import. What a file leaves to its user (devices, rows of the vocabulary) is stated for it.
Exit status: 0 each file that starts a training can run, 1 some cannot, 2 some are not understood.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from app.catalogue.models.presets import names as preset_names
from app.jobs.job import parse_job
from app.launch_scripts.files import load_script
from app.launch_scripts.reading import ReadScript, Sections
from documents.errors import InputError
from frameworks.legality import violations
from frameworks.target import ANY
from scripts.conformance.bridge_recipes import Recipe, recipes
from scripts.conformance.cases import IMPORTED, ROOT

VOCABULARY = 131_072  # rows where the tokenizer says them: none of these files holds one
DEVICES, REPLICAS = 64, 8  # where the launcher says none, and where it says fewer than a replica has
BRIDGE, NEWEST = "src/megatron/bridge", "megatron-lm@0.19"
MODELS = {
    "llama3_8b": "llama-3.1-8b", "llama3_70b": "llama-3.1-70b", "llama31_405b": "llama-3.1-405b", "deepseek_v3": "deepseek-v3",
    "qwen3_30b_a3b": "qwen3-30b-a3b", "qwen3_235b_a22b": "qwen3-235b-a22b", "gpt_oss_120b": "gpt-oss-120b",
    "kimi_k2": "kimi-k2", "qwen3_next_80b_a3b": "qwen3-next-80b-a3b",
}  # fmt: skip
RECIPE_HARDWARE = {
    "h100": "h100-sxm-80gb", "b200": "b200-sxm-180gb", "b300": "b300-sxm-288gb", "gb200": "gb200-nvl72", "gb300": "gb300-nvl72"
}  # fmt: skip
VALUES = ("MASTER_ADDR=localhost", "NODE_RANK=0")
PRICED, IN_PART, CANNOT_RUN, REFUSED = "priced", "priced without some arguments", "cannot run", "not understood"
NO_TRAINING = "another training, or none"
MOST_TRIES = 40
HARDWARE = {"mindspeed-llm": "atlas-800t-a2", "mindformers": "atlas-800t-a2", "megatron-lm": "h100-sxm-80gb"}
NEWER = (("A5", "atlas-950-superpod"), ("950", "atlas-950-superpod"), ("A3", "atlas-900-a3-superpod"))
MARKS = {"megatron/core": "megatron-lm", "mindspeed_llm": "mindspeed-llm", "mindformers": "mindformers"}
PLACES = ("examples/**/*.sh", "configs/**/*.yaml", "tests/**/*.sh")
REPLICA = re.compile(r"= (\d+) devices of a replica")
UNPRICED = re.compile(r"--assume ([\w.-]+)=ignored")
NOT_READ = re.compile(r"scripts that start|trains nothing|no command in it starts|no entry that is read")
OF_TRAINING = re.compile(r"pretrain_|posttrain_|parallel_config|train_.*\.py|/train\.py")


@dataclass
class Outcome:
    """What became of one file: its verdict, the sentences that say why, and the arguments that have no price."""

    file: str
    verdict: str
    why: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    target: str = ""


def outcomes(checkout: Path, only: str = "", sections: Sections | None = None) -> Iterator[tuple[Outcome, ReadScript | None]]:
    """The verdict on each file of a checkout, with the job that was read."""
    if (checkout / BRIDGE).is_dir():
        yield from ((recipe_outcome(recipe), None) for recipe in recipes(checkout) if only in recipe.path)
        return
    framework = next(name for mark, name in MARKS.items() if (checkout / mark).is_dir())
    for path in sorted(path for place in PLACES for path in checkout.glob(place)):
        name = str(path.relative_to(checkout))
        if only in name and OF_TRAINING.search(path.read_text(encoding="utf-8", errors="replace")):
            yield outcome(path, name, hardware_of(framework, path.name), sections)


def recipe_outcome(recipe: Recipe) -> Outcome:
    """The verdict on a recipe of Megatron-Bridge: the rules of Megatron-LM's newest release on its plan and job."""
    name = f"{recipe.path}: {recipe.name}"
    model, hardware = MODELS.get(recipe.model), RECIPE_HARDWARE.get(recipe.hardware)
    if model is None or hardware is None or recipe.seq_length is None:
        return Outcome(name, NO_TRAINING, [f"no preset, import or profile of {recipe.model} on {recipe.hardware}"])
    document = {
        "model": str(IMPORTED / f"{model}.json") if model not in preset_names() else model,
        "cluster": {"hardware": hardware, "num_devices": recipe.num_devices},
        "training": {
            "seq_length": recipe.seq_length,
            "global_batch_size": recipe.global_batch_size,
            "precision": recipe.precision,
            "fp8_recipe": recipe.fp8_recipe,
        },
        "software": {"target": NEWEST, "stack": "megatron-lm"},
        "strategy": {key: value for key, value in recipe.strategy.items() if value is not None},
    }
    try:
        job = parse_job(document, folder=ROOT)
    except InputError as error:
        return Outcome(name, REFUSED, [str(error)])
    assert job.strategy is not None
    broken = violations(job.workload, job.strategy)
    return Outcome(name, CANNOT_RUN if broken else PRICED, [f"{each.rule}: {each.sentence}" for each in broken], target=NEWEST)


def hardware_of(framework: str, name: str) -> str:
    """The profile of the devices that a file's name states, or the framework's usual one."""
    named = (profile for mark, profile in NEWER if framework == "mindspeed-llm" and mark in re.split(r"[_.\-]", name.upper()))
    return next(named, HARDWARE[framework])


def outcome(path: Path, name: str, hardware: str, sections: Sections | None = None) -> tuple[Outcome, ReadScript | None]:
    """The verdict on one file. What its user must state is stated here; arguments without a price are left out, and named."""
    devices, vocabulary, ignored = None, None, list[str]()
    for _ in range(MOST_TRIES):
        assume = [f"{each}=ignored" for each in ignored]
        try:
            read = load_script(
                path, hardware, devices=devices, vocab_size=vocabulary, values=VALUES, assume=assume, sections=sections
            )
        except InputError as error:
            said, more = str(error), UNPRICED.search(str(error))
            if vocabulary is None and "--vocab-size" in said:
                vocabulary = VOCABULARY
            elif devices is None and ("give --devices" in said or "--devices states another number" in said):
                replica = REPLICA.search(said)
                devices = REPLICAS * int(replica[1]) if replica else DEVICES
            elif more and more[1] not in ignored:
                ignored.append(more[1])
            else:
                return Outcome(name, NO_TRAINING if NOT_READ.search(said) else REFUSED, [said]), None
            continue
        strategy = read.job.strategy
        assert strategy is not None
        broken = violations(read.job.workload, strategy) or violations(read.job.workload, strategy, ANY)
        why = [f"{each.rule}: {each.sentence}" for each in broken]
        verdict = CANNOT_RUN if broken else IN_PART if ignored else PRICED
        return Outcome(name, verdict, why, ignored, read.framework.target.label), read
    raise AssertionError(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--only", default="", help="files whose path holds this text")
    parser.add_argument("--json", type=Path, help="file for the result")
    options = parser.parse_args()
    found = [each for checkout in options.checkouts for each, _ in outcomes(checkout, options.only)]
    for each in found:
        if each.verdict in (CANNOT_RUN, REFUSED):
            print(f"{each.verdict}: {each.file}: {' | '.join(each.why)}")
    print(dict(Counter(each.verdict for each in found)))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    verdicts = {each.verdict for each in found}
    return 1 if CANNOT_RUN in verdicts else 2 if REFUSED in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
