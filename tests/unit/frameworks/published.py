"""Published runs as the arguments that their launch files held: recorded degrees and lengths, raw recompute and raw flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RUNS = ROOT / "calibration/runs/ascend.jsonl"
DISPATCHER_FLAG = "moe-token-dispatcher-type"


def rows(framework: str) -> list[dict[str, Any]]:
    """Rows of MindSpeed-LLM's scripts under all of its names, or of MindFormers."""
    words = ("MindSpeed",) if framework == "mindspeed-llm" else ("MindFormers", "MindSpore")
    read = [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()]
    launched = [row for row in read if "verl" not in row["software"]["framework"] and "FSDP2" not in row["software"]["backend"]]
    return [row for row in launched if any(word in row["software"]["framework"] for word in words)]


def megatron_arguments(row: dict[str, Any]) -> list[str]:
    """A MindSpeed-LLM row as its script's arguments."""
    model, strategy, training = row["model"], row["strategy"], row["training"]
    layers = model["num_layers"] + (model["num_noop_layers"] or 0)
    written: dict[str, Any] = {
        "num-layers": layers,
        "hidden-size": model["hidden_size"],
        "num-attention-heads": model["num_attention_heads"],
        "seq-length": training["seq_length"],
        "micro-batch-size": strategy["micro_batch_size"],
        "global-batch-size": training["global_batch_size"],
        "tensor-model-parallel-size": strategy["tp"],
        "pipeline-model-parallel-size": strategy["pp"],
        "context-parallel-size": strategy["cp"],
    }
    if training["precision"] in ("bf16", "fp16"):
        written[training["precision"]] = None
    if strategy["sequence_parallel"]:
        written["sequence-parallel"] = None
    if strategy["vpp"] and strategy["vpp"] > 1:
        written["num-layers-per-virtual-pipeline-stage"] = layers // strategy["pp"] // strategy["vpp"]
    if strategy["cp_algo"]:
        names = {"ring": "megatron_cp_algo", "ulysses": "ulysses_cp_algo", "hybrid": "hybrid_cp_algo"}
        written["context-parallel-algo"] = names[strategy["cp_algo"]]
    if strategy["noop_layers"]:
        noops = strategy["noop_layers"]
        written["noop-layers"] = noops if isinstance(noops, str) else ",".join(map(str, noops))
    if model["moe"]:
        written |= {"num-experts": model["moe"]["num_experts"], "moe-router-topk": model["moe"]["top_k"]}
        written |= {"expert-model-parallel-size": strategy["ep"], "expert-tensor-parallel-size": strategy["etp"]}
    if model["gated_linear_unit"]:
        written["swiglu"] = None
    recompute = strategy["recompute"]["raw"] or {}
    written |= {name: None if value is True else value for name, value in recompute.items()}
    arguments = {f"--{name}": [] if value is None else [str(value)] for name, value in written.items()}
    for flag in row["software"]["raw_flags"]:
        name, equals, value = flag.partition("=")
        arguments[f"--{name}"] = [value] if equals else []
    return [word for name, values in arguments.items() for word in (name, *values)]


def mindformers_options(row: dict[str, Any]) -> list[str]:
    """A MindFormers row as the options of its YAML."""
    model, strategy, training = row["model"], row["strategy"], row["training"]
    raw = dict(flag.partition("=")[::2] for flag in row["software"]["raw_flags"])
    halves = int(raw.get("micro_batch_interleave_num", "1"))
    pp = strategy["pp"]
    micro_batches = strategy["num_microbatches"] or 1
    options: dict[str, Any] = {
        "model.model_config.num_hidden_layers": model["num_layers"],
        "model.model_config.seq_length": training["seq_length"],
        "parallel_config.data_parallel": strategy["dp"],
        "parallel_config.model_parallel": strategy["tp"],
        "parallel_config.pipeline_stage": pp,
        "parallel_config.context_parallel": strategy["cp"],
        "parallel_config.use_seq_parallel": strategy["sequence_parallel"],
        "parallel_config.micro_batch_num": micro_batches if pp > 1 else 1,
        "runner_config.gradient_accumulation_steps": micro_batches if pp == 1 else 1,
        "runner_config.batch_size": strategy["micro_batch_size"],
        "micro_batch_interleave_num": halves,
        "parallel_config.vocab_emb_dp": "vocab_emb_dp" in raw,
        "parallel.enable_parallel_optimizer": strategy["distributed_optimizer"],
        "parallel.parallel_optimizer_config.gradient_accumulation_shard": False,
        "model.model_config.use_flash_attention": raw.get("use_flash_attention") == "True",
        "model.model_config.compute_dtype": {"bf16": "bfloat16", "fp16": "float16"}[training["precision"]],
    }
    if strategy["vpp"] and strategy["vpp"] > 1:
        options["model.model_config.pp_interleave_num"] = strategy["vpp"]
        options["parallel.pipeline_config.pipeline_interleave"] = True
    if "offset" in raw:
        options["model.model_config.offset"] = json.loads(raw["offset"])
    if model["moe"]:
        options["model.model_config.num_experts"] = model["moe"]["num_experts"]
        options["parallel_config.expert_parallel"] = strategy["ep"]
    recompute = strategy["recompute"]["raw"] or {}
    options |= {f"recompute_config.{name}": value for name, value in recompute.items()}
    return [f"{name}={json.dumps(value)}" for name, value in options.items()]
