"""Bash scripts that start programs of the Megatron family, from an entry of ``launch_block``.

The release's groups are the blocks of ``ARGUMENTS``. Settings that a plan does not decide (data, tokenizer, learning rate,
checkpoints) are outside them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from documents.late_methods import dataclass
from documents.sentences import Sentence, joined
from frameworks.framework import Start
from frameworks.launch_text import PLACEHOLDER, comment, heading
from frameworks.megatron_lm import hybrid
from frameworks.megatron_lm.table import SFT
from frameworks.release import Release

ENTRY_POINT = "pretrain_gpt.py"
STAGE, PAIRS = "stage", "is-pairwise-dataset"  # arguments of fine-tuning
LOSS, FORCE = "--moe-router-load-balancing-type", "--moe-router-force-load-balancing"
PLACEHOLDERS = {
    "DATA_PATH": Sentence("prefix of the preprocessed data set"),
    "TOKENIZER_PATH": Sentence("tokenizer of the model"),
    "CHECKPOINT_PATH": Sentence("folder for checkpoints"),
}
MODEL = {"MODEL_PATH": Sentence("the model to fine-tune, as a checkpoint of the framework")}


@dataclass(frozen=True)
class Tuning:
    """How a framework fine-tunes: program, own placeholders, the argument for prompts, and the tokenizer if it has one."""

    program: str
    placeholders: dict[str, Sentence]
    prompts: str
    tokenizer: tuple[str, ...] = ()


TUNINGS = {  # by the argument that says so
    STAGE: Tuning(
        "posttrain_gpt.py",
        {"PROMPT_TYPE": Sentence("template of its prompts, a name of configs/finetune/templates.json")},
        '--prompt-type "${PROMPT_TYPE}"',
    ),
    SFT: Tuning(
        ENTRY_POINT,
        {
            "DATA_PATH": Sentence("JSON lines with messages"),
            "PROMPT_TYPE": Sentence("form of its prompts: default is the tokenizer's own, and trains on the prompts too"),
        },
        '--sft-tokenizer-prompt-format "${PROMPT_TYPE}"',
        ("--tokenizer-type SFTTokenizer", '--tokenizer-model "${TOKENIZER_PATH}"'),
    ),
}


def script(
    release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start, *, tokenizer: Sequence[str]
) -> str:
    """The script; ``tokenizer`` are the arguments that use ``TOKENIZER_PATH``."""
    lines = ["#!/usr/bin/env bash", *heading(release, launch, start)]
    say = start.say
    lines += ["", *comment(say, Sentence("Run it on every node; sourced, it only sets ARGUMENTS."))]
    if launch["environment"]:
        lines += ["", *comment(say, Sentence("Environment"))]
        for name, value in launch["environment"].items():
            purpose = Sentence("{}: {}", name, purposes[name])
            lines += [*comment(say, purpose), f"export {name}={shlex.quote(str(value))}"]
    lines += ["", *comment(say, Sentence("Yours: {} marks what is missing; edit it, or set the variable before.", PLACEHOLDER))]
    for name, meaning in _placeholders(launch["arguments"]).items():
        lines += [f'{name}="${{{name}:-{PLACEHOLDER}}}"  # {say(meaning)}']
    lines += ["", "ARGUMENTS=(", *_grouped(release, launch["arguments"], say), ")", ""]
    lines += [*comment(say, Sentence("Yours as well: data, tokenizer, schedule; the values are placeholders.")), "YOURS=("]
    lines += [f"  {line}" for line in _yours(tokenizer, launch["arguments"])] + [")", ""]
    lines += _first_or_resumed(launch["arguments"], say)
    lines += _torchrun(launch["arguments"], start)
    return "\n".join(lines) + "\n"


def _tuning(arguments: Sequence[str]) -> Tuning | None:
    """How the arguments fine-tune a model that exists; ``None`` where they train a new one."""
    return next((tuning for name, tuning in TUNINGS.items() if f"--{name}" in arguments), None)


def _placeholders(arguments: Sequence[str]) -> Mapping[str, str]:
    """Variables that the user must set, with their purpose."""
    tuning = _tuning(arguments)
    return PLACEHOLDERS if tuning is None else PLACEHOLDERS | MODEL | tuning.placeholders


def _first_or_resumed(arguments: Sequence[str], say: Callable[[str], str]) -> list[str]:
    """The checkpoint that a fine-tune starts from: its own last one, or the model with new optimizer states."""
    if _tuning(arguments) is None:
        return []
    return [
        *comment(say, Sentence("The first start loads the model; a later one resumes from the last checkpoint.")),
        'if [[ -f "${CHECKPOINT_PATH}/latest_checkpointed_iteration.txt" ]]; then',
        '  FROM=(--load "${CHECKPOINT_PATH}")',
        "else",
        '  FROM=(--load "${MODEL_PATH}" --finetune --no-load-optim --no-load-rng)',
        "fi",
        "",
    ]


def _grouped(release: Release, arguments: list[str], say: Callable[[str], str]) -> list[str]:
    """The arguments in their order, with a comment at the start of each group."""
    lines: list[str] = []
    group = None
    for argument in arguments:
        if not argument.startswith("--"):
            lines[-1] += f" {shlex.quote(argument)}"
            continue
        title = release.group_of(argument.removeprefix("--"))
        if title is not None and title != group:
            lines.append(f"  # {say(Sentence.whole(title))}")
            group = title
        lines.append(f"  {shlex.quote(argument)}")
    return lines


def _has_balance_loss(arguments: Sequence[str]) -> bool:
    """Whether a router has a loss, whose weight is 0 unless it is given; the plan is priced with a balanced router."""
    loss = arguments[arguments.index(LOSS) + 1] if LOSS in arguments else "aux_loss"
    return "--num-experts" in arguments and loss.endswith("aux_loss") and FORCE not in arguments


def _yours(tokenizer: Sequence[str], arguments: Sequence[str]) -> list[str]:
    tuning = _tuning(arguments)
    return [
        '--data-path "${DATA_PATH}"',
        "--split 100,0,0",
        *((tuning and tuning.tokenizer) or tokenizer),
        *([tuning.prompts] if tuning else []),
        *(['--ref-model "${MODEL_PATH}"'] if f"--{PAIRS}" in arguments else []),
        '--save "${CHECKPOINT_PATH}"',
        *([] if tuning else ['--load "${CHECKPOINT_PATH}"']),  # an empty folder starts a new training
        "--save-interval 1000",
        "--train-iters 1000",
        "--lr 1.0e-5",
        "--min-lr 1.0e-6",
        "--lr-decay-style cosine",
        "--lr-warmup-fraction 0.01",
        "--weight-decay 0.1",
        "--adam-beta1 0.9",
        "--adam-beta2 0.95",
        "--clip-grad 1.0",
        "--init-method-std 0.02",
        *(["--moe-aux-loss-coeff 1.0e-3"] if _has_balance_loss(arguments) else []),
        "--log-interval 1",
        "--eval-iters 0",
    ]


def _rendezvous(say: Callable[[str], str]) -> list[str]:
    """Without them every node would start as the first, on its own."""
    missing = Sentence("Set MASTER_ADDR to the first node and NODE_RANK to the number of this one.")
    return [
        '  if [[ -z "${MASTER_ADDR:-}" || -z "${NODE_RANK:-}" ]]; then',
        f'    echo "{say(missing)}" >&2',
        "    exit 2",
        "  fi",
    ]


def _torchrun(arguments: Sequence[str], start: Start) -> list[str]:
    names = list(_placeholders(arguments))
    missing = " ".join(f'"${{{name}}}"' for name in names)
    tuning = _tuning(arguments)
    alone = hybrid.ENTRY_POINT if f"--{hybrid.PATTERN}" in arguments else ENTRY_POINT
    program, more = (tuning.program, ' "${FROM[@]}"') if tuning else (alone, "")
    return [
        'if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then',
        "  set -euo pipefail",
        f"  for given in {missing}; do",
        f'    if [[ "${{given}}" == "{PLACEHOLDER}" ]]; then',
        f'      echo "{start.say(Sentence("Set {} first.", joined(", ", names)))}" >&2',
        "      exit 2",
        "    fi",
        "  done",
        *(_rendezvous(start.say) if start.num_nodes > 1 else []),
        "  torchrun \\",
        f'    --nproc-per-node {start.processes_per_node} --nnodes {start.num_nodes} --node-rank "${{NODE_RANK:-0}}" \\',
        '    --master-addr "${MASTER_ADDR:-localhost}" --master-port "${MASTER_PORT:-6000}" \\',
        f'    {program} "${{ARGUMENTS[@]}}" "${{YOURS[@]}}"{more}',
        "fi",
    ]
