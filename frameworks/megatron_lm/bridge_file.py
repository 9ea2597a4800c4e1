"""Python files that start Megatron-Bridge, from an entry of ``launch_block`` with its fields [megatron-bridge-0.6, finetune.py].

``PLAN`` is set on the configuration and ``MODEL`` is compared with it, field by field, so that a release without a field, or
another model, does not start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import lcm
from typing import Any

from documents.sentences import Sentence, joined
from frameworks.framework import Start
from frameworks.launch_text import PLACEHOLDER, comment, heading
from frameworks.megatron_lm.bridge import COMMIT, FACT_PATHS, REPOSITORY
from frameworks.megatron_lm.script import MODEL
from frameworks.options import Options, options_of
from frameworks.release import Release

SUFFIX = "py"
YOURS = {
    "HF_MODEL": Sentence("folder of the Hugging Face model, with its tokenizer"),
    **MODEL,
    "DATA_PATH": Sentence("folder with training.jsonl, whose lines have a list of messages"),
    "CHECKPOINT_PATH": Sentence("folder for checkpoints"),
}
TITLES = {
    "model": Sentence("Parallelism, experts, recompute, kernels"),
    "train": Sentence("Batch"),
    "ddp": Sentence("Data parallelism"),
    "optimizer": Sentence("Optimizer"),
    "mixed_precision": Sentence("Precision"),
    "dataset": Sentence("Sequences, and whether they hold several samples"),
    "peft": Sentence("Adapters"),
}
CONFIGURATION = """\
def configuration():
    import torch
    from megatron.bridge import AutoBridge
    from megatron.bridge.data.builders import ChatSFTPreprocessingConfig, GPTSFTDatasetConfig
    from megatron.bridge.data.packing import PackedSequenceSpecs
    from megatron.bridge.peft.lora import LoRA
    from megatron.bridge.training import config as parts
    from megatron.bridge.training.mixed_precision import MixedPrecisionConfig
    from megatron.core.transformer.enums import AttnBackend

    seq_length, packs = PLAN["dataset.seq_length"], PLAN["dataset.enable_offline_packing"]
    packing = PackedSequenceSpecs(packed_sequence_size=seq_length, pad_seq_to_mult={multiple})
    dtype = torch.{dtype}
    config = parts.ConfigContainer(
        model=AutoBridge.from_hf_pretrained(HF_MODEL).to_megatron_provider(load_weights=False),
        peft=LoRA(),
        mixed_precision=MixedPrecisionConfig({fp32}params_dtype=dtype, pipeline_dtype=dtype),
        ddp=parts.DistributedDataParallelConfig(check_for_nan_in_grad=True, average_in_collective=False),
        dataset=GPTSFTDatasetConfig(
            seq_length=seq_length,
            dataset_root=DATA_PATH,
            preprocessing=ChatSFTPreprocessingConfig(),
            dataset_kwargs={{"pad_to_max_length": True}},
            enable_offline_packing=packs,
            offline_packing_specs=packing if packs else None,
            do_validation=False,
            do_test=False,
        ),
        tokenizer=parts.TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=HF_MODEL),
        checkpoint=parts.CheckpointConfig(
            pretrained_checkpoint=MODEL_PATH,
            load=CHECKPOINT_PATH,
            save=CHECKPOINT_PATH,
            save_interval=1000,
            ckpt_format="torch_dist",
        ),
        train=parts.TrainingConfig(train_iters=1000),
        validation=parts.ValidationConfig(eval_iters=0),
        optimizer=parts.OptimizerConfig(
            optimizer="adam", lr=1.0e-4, min_lr=1.0e-5, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95, clip_grad=1.0
        ),
        scheduler=parts.SchedulerConfig(lr_decay_style="cosine", lr_warmup_fraction=0.01),
        logger=parts.LoggerConfig(log_interval=1),
    )
    config.model.should_pad_vocab = True
    config.model.calculate_per_token_loss = {per_token}
    for path, value in PLAN.items():
        section, field = path.split(".")
        part = getattr(config, section)
        if not hasattr(part, field):
            refuse(f"{no_field}")
        if path == "model.attention_backend":
            value = AttnBackend[value]
        if isinstance(value, str) and value.startswith("torch."):
            value = getattr(torch, value.removeprefix("torch."))
        setattr(part, field, value)
    for path, value in MODEL.items():
        field = path.split(".")[1]
        found = getattr(config.model, field, None)
        if field == "moe_layer_freq" and isinstance(found, int):
            found = [int(layer % found == 0) for layer in range(config.model.num_layers)]
        if found is None:
            setattr(config.model, field, value)
        elif found != value:
            refuse(f"{other_model}")
    return config
"""
MAIN = """\
if __name__ == "__main__":
    if "{placeholder}" in ({names}):
        refuse("{set_first}")
    if int(os.environ.get("WORLD_SIZE", "1")) != {processes}:
        refuse("{world}")
    from megatron.bridge.training.finetune import finetune
    from megatron.bridge.training.gpt_step import forward_step

    finetune(configuration(), forward_step)
"""


def python_file(release: Release, purposes: Mapping[str, str], launch: Mapping[str, Any], start: Start) -> str:
    """The file."""
    say, options = start.say, options_of(launch["arguments"])
    here = _with_bridge(release)
    lines = ["#!/usr/bin/env python3", *heading(here, launch, start)]
    command = (
        f"torchrun --nproc-per-node {start.processes_per_node} --nnodes {start.num_nodes} --node-rank NODE_RANK "
        "--master-addr MASTER_ADDR --master-port 6000 THIS-FILE"
    )
    lines += ["#", *comment(say, Sentence("On every node:")), f"#   {command}", "", "import os", "import sys", ""]
    for name, value in launch["environment"].items():
        lines += [*comment(say, Sentence("{}: {}", name, purposes[name])), f'os.environ["{name}"] = "{value}"', ""]
    lines += comment(say, Sentence("Yours: {} marks what is missing; edit it, or set the variable before.", PLACEHOLDER))
    lines += [f'{name} = os.environ.get("{name}", "{PLACEHOLDER}")  # {say(words)}' for name, words in YOURS.items()]
    lines += ["", "PLAN = {", *_plan(options, say), "}", ""]
    lines += comment(say, Sentence("The model that was priced; the Hugging Face model is compared with it."))
    lines += ["MODEL = {", *(f'    "{path}": {_literal(options[path])},' for path in options if path in FACT_PATHS), "}", "", ""]
    lines += ["def refuse(why):", "    print(why, file=sys.stderr)", "    sys.exit(2)", "", ""]
    lines += comment(say, Sentence("Yours as well: data, schedule, checkpoints; the values are placeholders."))
    return "\n".join(lines) + "\n" + _configuration(options, say) + "\n\n" + _main(start)


def _with_bridge(release: Release) -> Release:
    """The release with the commit of Megatron-Bridge, for the first lines of the file."""
    return replace(release, commits={REPOSITORY: COMMIT, **release.commits})


def _plan(options: Options, say: Callable[[str], str]) -> Iterator[str]:
    title = None
    for path, value in options.items():
        section = path.partition(".")[0]
        if path in FACT_PATHS:
            continue
        if section != title:
            yield f"    # {say(TITLES[section])}"
            title = section
        yield f'    "{path}": {_literal(value)},'


def _literal(value: Any) -> str:
    return repr(value).replace("'", '"')  # no value has a quotation mark


def _configuration(options: Options, say: Callable[[str], str]) -> str:
    tp, cp = options["model.tensor_model_parallel_size"], options["model.context_parallel_size"]
    shards = cp * tp if options["model.sequence_parallel"] else 1
    kind = next((name for name in ("bf16", "fp16") if options[f"mixed_precision.{name}"]), "fp32")
    no_field = Sentence("Megatron-Bridge has no {}: this file is for commit {}.", "{path}", COMMIT)
    other = Sentence("HF_MODEL is another model: {} is {}, and the plan was priced for {}.", "{path}", "{found}", "{value}")
    return CONFIGURATION.format(
        dtype={"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[kind],
        fp32="fp32=True, " if kind == "fp32" else "",
        multiple=lcm(2 * cp if cp > 1 else 1, shards),
        per_token=cp > 1,
        no_field=say(no_field),
        other_model=say(other),
    )


def _main(start: Start) -> str:
    world = Sentence("The plan is of {} processes; start it with torchrun as in the first lines.", start.num_devices)
    return MAIN.format(
        placeholder=PLACEHOLDER,
        names=", ".join(YOURS),
        set_first=start.say(Sentence("Set {} first.", joined(", ", list(YOURS)))),
        processes=start.num_devices,
        world=start.say(world),
    )
