"""Writes the table of docs/post-training.md and the page docs/case-studies/pangu-rl.md."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.rl.job import RlJob, parse_rl_job
from app.rl.schemas import RlDocument, RlValidationDocument, RlValidationRow
from app.rl.service import rl_document
from app.rl.validation import validation_document
from calibration.records.post_training import read_post_training_records
from documents.errors import InfeasibleError
from scripts.pages.text import table

RUNS = ROOT / "calibration/runs/post_training/rl.jsonl"
PAGE = ROOT / "docs/post-training.md"
CASE = ROOT / "docs/case-studies/pangu-rl.md"
START, END = "<!-- table:begin -->\n", "<!-- table:end -->"
SYSTEMS = {  # of the records, by the first part of their id
    "msrl": "MindSpeed-RL",
    "pangu": "Pangu on CloudMatrix384",
    "nemo": "NeMo RL",
    "verl": "verl",
    "areal": "AReaL",
}
SUPERNODE = 768  # dies
PROMPT_TOKENS = 512
SAMPLES = 16
PUBLISHED = 35_000.0  # tokens/s of a supernode [rl-fusion]


def with_table(page: str) -> str:
    """The page with the table of errors in place of the one that it has."""
    before, rest = page.split(START)
    return before + START + errors() + END + rest.split(END)[1]


def errors() -> str:
    """The table, priced anew."""
    return errors_of(validation_document(read_post_training_records(RUNS)))


def errors_of(document: RlValidationDocument) -> str:
    """Errors by kind and, of steps, by system; then every step."""
    kinds = [
        [
            kind.replace("_", " "),
            str(found.count),
            *_percents(found.median_abs_error_fraction, found.mean_abs_error_fraction, found.bias_fraction),
            str(found.num_pairs) if found.num_pairs else "-",
            "-" if found.pairs_in_order_fraction is None else f"{found.pairs_in_order_fraction:.0%}",
        ]
        for kind, found in document.summary.kinds.items()
        if found.count
    ]
    text = table(["kind", "predicted", "median error", "mean", "bias", "pairs", "in order"], kinds)
    text += "\nSteps by system, step times alone:\n\n" + table(
        ["system", "steps", "median error", "mean", "bias"], _by_system(document)
    )
    return (
        text
        + "\nEvery step with a measured time, in seconds:\n\n"
        + table(["record", "measured", "predicted", "error", "rollout", "update"], _steps(document))
    )


def _by_system(document: RlValidationDocument) -> list[list[str]]:
    systems: dict[str, list[float]] = defaultdict(list)
    for row in _timed(document):
        systems[system_of(row.id)].append(row.error_fraction or 0.0)
    found = []
    named = [(SYSTEMS[system], values) for system, values in systems.items()]
    for name, values in [*named, ("all", [value for _, listed in named for value in listed])]:
        listed = np.array(values)
        found.append(
            [
                name,
                str(len(listed)),
                *_percents(float(np.median(np.abs(listed))), float(np.mean(np.abs(listed))), float(np.median(listed))),
            ]
        )
    return found


def system_of(record_id: str) -> str:
    """The key of a record's system."""
    return record_id.split("-")[0]


def _timed(document: RlValidationDocument) -> list[RlValidationRow]:
    return [row for row in document.rows if row.kind == "rl_step" and row.unit == "s" and row.error_fraction is not None]


def _steps(document: RlValidationDocument) -> list[list[str]]:
    return [
        [
            row.id,
            f"{row.measured:,.0f}",
            f"{row.predicted:,.0f}",
            f"{row.error_fraction:+.0%}",
            f"{row.parts['rollout_s']:,.0f}",
            f"{row.parts['update_s']:,.0f}",
        ]
        for row in _timed(document)
    ]


def _percents(*values: float | None) -> list[str]:
    return ["-" if value is None else f"{value:.1%}" for value in values]


def job(
    mean: float,
    cap: int,
    prompts: int,
    samples: int,
    placement: str,
    devices: int,
    *,
    sigma: float = 0.7,
    precision: str = "bf16",
    ep: int = 128,
    **rest: Any,
) -> RlJob:
    """Pangu Ultra MoE on a supernode, training as published; an instance of the rollout on ``ep`` dies."""
    section = {
        "algorithm": "grpo",
        "prompts": prompts,
        "samples": samples,
        "prompt_tokens": PROMPT_TOKENS,
        "lengths": {"mean": mean, "cap": cap, "sigma": sigma},
        "placement": placement,
        **rest,
    }
    return parse_rl_job(
        {
            "model": "pangu-ultra-moe-718b",
            "cluster": {"hardware": "atlas-900-a3-superpod", "num_devices": devices},
            "post_training": section,
            "strategy": {"tp": 8, "pp": 16, "ep": 32, "vpp": 2, "recompute": True},
            "rollout": {
                "tp": ep // 64,
                "ep": ep,
                "max_requests": 256,
                "memory_fraction": 0.9,
                "execution": "graph",
                "precision": precision,
            },
        }
    )


APART = {"rollout_devices": 256, "train_devices": 512}
STALE = {"staleness": {"steps": 1, "partial": True}}


def case() -> str:
    """The page."""
    return HEAD + _layout() + _ladder() + _sensitivity() + _scaling() + TAIL


def _layout() -> str:
    rows = []
    for text, precision, ep in (
        ("a device is a die, bf16", "bf16", 64),
        ("a device is a die, 8 bits", "int8", 64),
        ("a device is a package of two dies, bf16", "bf16", 128),
    ):
        try:
            found = rl_document(job(2048, 4096, 256, 16, "separate", SUPERNODE, precision=precision, ep=ep, **APART))
            rows.append([text, "yes", f"{found.rollout.in_flight:,}", f"{found.tokens_per_s:,.0f}"])
        except InfeasibleError as error:
            rows.append([text, "no: " + str(error).split(": ", 1)[1], "-", "-"])
    return LAYOUT + table(["reading of EP64 TP1", "fits", "in flight in an instance", "tokens/s, synchronous"], rows)


def _ladder() -> str:
    base = (2048, 4096, 256, 16)
    apart = rl_document(job(*base, "separate", SUPERNODE, **APART))
    many = rl_document(job(2048, 4096, 1024, 16, "separate", SUPERNODE, **APART))
    rows = []
    for name, document, first in (
        ("separate: 256 dies roll out, 512 train, one after the other", apart, apart),
        ("the same with a queue (DistQueue)", rl_document(job(*base, "separate", SUPERNODE, queue=True, **APART)), apart),
        ("the same one step stale (StaleSync)", rl_document(job(*base, "separate", SUPERNODE, **APART, **STALE)), apart),
        ("fully colocated on 512 dies (RL Fusion)", rl_document(job(*base, "fully-colocated", 512)), apart),
        ("separate, four times the prompts", many, many),
        ("fully colocated, four times the prompts", rl_document(job(2048, 4096, 1024, 16, "fully-colocated", 512)), many),
    ):
        gain = document.tokens_per_s_per_device / first.tokens_per_s_per_device
        rows.append([name, f"{document.step_time_s:,.0f}", f"{document.tokens_per_s:,.0f}", f"{gain:.2f}", _busy(document)])
    return LADDER + table(
        ["256 prompts x 16, mean 2,048 of 4,096 tokens", "step [s]", "tokens/s", "a die, over separate", "busy"], rows
    )


def _busy(document: RlDocument) -> str:
    return ", ".join(f"{pool} {share:.0%}" for pool, share in document.utilisation.items())


def _sensitivity() -> str:
    rows, spread = [], []
    enough: dict[int, int] = {}
    gains: list[tuple[float, int, int]] = []
    synchronous_most = 0.0
    for prompts in (128, 256, 512, 1024):
        for mean, cap in ((1024, 2048), (2048, 4096), (4096, 16384), (8192, 32768)):
            stale = rl_document(job(mean, cap, prompts, SAMPLES, "separate", SUPERNODE, **APART, **STALE))
            synchronous = next(one for one in stale.variants if one.change == "synchronous").tokens_per_s
            gain = stale.tokens_per_s / synchronous - 1.0
            gains.append((gain, prompts, mean))
            synchronous_most = max(synchronous_most, synchronous)
            if stale.tokens_per_s >= PUBLISHED:
                enough.setdefault(mean, prompts)
            rows.append(
                [str(prompts), f"{mean:,}", f"{cap:,}", f"{synchronous:,.0f}", f"{stale.tokens_per_s:,.0f}", f"{gain:+.0%}"]
            )
    for sigma in (0.3, 0.7, 1.1):
        found = rl_document(job(4096, 16384, 256, SAMPLES, "separate", SUPERNODE, sigma=sigma, **APART, **STALE))
        rolled = found.rollout
        spread.append(
            [f"{sigma:g}", f"{rolled.longest_length:,}", f"{rolled.truncated_fraction:.1%}", f"{found.tokens_per_s:,.0f}"]
        )
    return (
        SENSITIVITY
        + table(["prompts x 16", "mean", "cap", "tokens/s, synchronous", "one step stale", "gain"], rows)
        + _reached(enough, synchronous_most, min(gains, key=lambda one: abs(one[0] - 0.5)))
        + "\nThe spread of lengths, at 256 prompts, mean 4,096 and cap 16,384, one step stale:\n\n"
        + table(["sigma", "longest", "cut off", "tokens/s"], spread)
    )


def _reached(enough: dict[int, int], synchronous_most: float, nearest: tuple[float, int, int]) -> str:
    """Paragraph that compares the table with the published figures."""
    needs = ", ".join(f"{prompts} x {SAMPLES} answers of {mean:,} tokens" for mean, prompts in sorted(enough.items()))
    return (
        f"\nOne version stale, 35K tokens/s need {needs}, or more;\nthe fastest synchronous batch of the table makes "
        f"{synchronous_most:,.0f}. The gain nearest to StaleSync's +50 % is {nearest[0]:+.0%}, with\n{nearest[1]} x {SAMPLES} "
        f"answers of {nearest[2]:,} tokens. Batch and lengths move the figure by as much as any placement: it says little\n"
        "without them.\n"
    )


def _scaling() -> str:
    rows = []
    for nodes in (1, 2, 4, 8, 11):
        pools = {name: devices * nodes for name, devices in APART.items()}
        found = [
            rl_document(job(2048, 4096, prompts, SAMPLES, "separate", SUPERNODE * nodes, **pools, **STALE))
            for prompts in (256 * nodes, 1024)
        ]
        each = [document.tokens_per_s / nodes for document in found]
        rows.append([str(nodes), f"{nodes * SUPERNODE // 2:,}", *(f"{value:,.0f}" for value in each)])
    return SCALING + table(
        ["supernodes", "packages", "tokens/s each, 256 prompts for each", "tokens/s each, 1,024 prompts in all"], rows
    )


HEAD = """# Case study: post-training Pangu Ultra MoE on one CloudMatrix384

<!-- Written by scripts/case_studies/write_post_training.py (`make docs`); do not edit. -->

Published [rl-fusion]: 35K tokens/s a supernode of 384 packages (91 a package, 46 a die), training on PP16
VPP2 EP32 TP8, inference on PP1 EP64 TP1, utilisation doubled by RL Fusion, throughput raised by half by
StaleSync, data blocking removed by DistQueue. Not published: prompts, samples, lengths, whether prompt tokens
count, whether a device is a die or a package, the precision of the rollout. Nothing is fitted here. The
question is which batches and lengths make the figure plausible, and what each mechanism contributes in [the
model](../post-training.md).

"""
LAYOUT = """## What the layouts say

Experts spread over 32 devices and 16 stages fill 512 dies, or any multiple: TP8 x PP16 x DP4. A supernode has
768, so 256 are left: four rollout instances of 64 dies or two of 64 packages. The published layouts fill a
supernode exactly, as separate pools of 512 and 256 dies. This is one reading; the sizes of the pools were not
published.

"""
LADDER = """
The rest of this page takes a device of the rollout as a package, in bf16, with captured graphs.

## What each mechanism contributes

"""
SENSITIVITY = """
- StaleSync's published +50 % is between no gain, where one side is far longer, and twice the throughput. It
  is twice where both sides are equal or the tail of the answers sets the pace, as here: an answer may be one
  version old, so that two steps pass while it is made.
- DistQueue no longer makes the tasks behind the rollout wait for its end. It gains most where these tasks
  have devices of their own, and nothing on shared devices.
- RL Fusion doubles the use of devices: all are busy all the time, where separate pools idle half of it. The
  yield of a die grows by less, since decode of few requests takes as long on twice the dies. More prompts
  help both. Its change of layout "in seconds" is priced [by part](../layout-switching.md).

## Which batches and lengths give 35K tokens/s

Separate pools of 256 and 512 dies:

"""
SCALING = """
## Beyond 4K cards

More supernodes with the same layouts have more replicas of training and more instances of rollout. The table
is for one step stale, mean 2,048 of 4,096 tokens; eleven supernodes have 4,224 packages.

"""
TAIL = """
If prompts grow with the supernodes, tokens a supernode stay nearly the same: instances do not depend on each
other, and weights reach them all at once. With a fixed batch they fall, since the tail of the answers keeps
its length. No figure was published to compare with.

## What this leaves open

- Decode on Ascend was compared with tables of a service in 8 bits. The seconds of a rollout in bf16 with
  changing weights were never published.
- The interval of a step is a factor of 1.6 either way ([post-training](../post-training.md#how-far-it-is-off)).
"""


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    CASE.write_text(case(), encoding="utf-8")
