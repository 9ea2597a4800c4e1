"""Names of flags and of job fields that people know from frameworks and launchers."""

from __future__ import annotations

from collections.abc import Container, Mapping

# Name that people know from frameworks and launchers -> our flag. Underscores and capitals count as hyphens and small letters.
OTHER_NAMES: Mapping[str, str] = {
    other: name
    for name, others in {
        "devices": "gpus npus cards num-gpus num-npus num-devices n-gpus ngpus nproc world-size",
        "hardware": "gpu npu accelerator cluster",
        "global-batch-size": "gbs global-batch batch batch-size",
        "micro-batch-size": "mbs micro-batch",
        "seq-length": "seq-len seqlen sequence-length max-seq-length max-seq-len context-length seq",
        "train-tokens": "tokens num-tokens",
        "precision": "dtype",
        "adapter-rank": "lora-r lora-rank",
        "target": "framework",
        "tp": "tensor-model-parallel-size tensor-parallel-size tensor-parallel tp-size",
        "pp": "pipeline-model-parallel-size pipeline-parallel-size pipeline-parallel pp-size",
        "vpp": "virtual-pipeline-model-parallel-size vpp-size",
        "cp": "context-parallel-size context-parallel cp-size",
        "ep": "expert-model-parallel-size expert-parallel-size expert-parallel ep-size",
        "etp": "expert-tensor-parallel-size",
        "recompute": "recompute-granularity",
        "moe-dispatcher": "moe-token-dispatcher-type",
        "time-limit": "timeout",
    }.items()
    for other in others.split()
}


def usual_name(word: str) -> str:
    """Our name of a flag, without its hyphens, for the name that was written."""
    plain = word if len(word) == 1 else word.lower().replace("_", "-")
    return OTHER_NAMES.get(plain, plain)


# Flag of a framework whose value is another setting here -> that setting.
OTHER_SETTINGS: Mapping[str, str] = {
    "use-distributed-optimizer": "--zero-stage 1",
    "distributed-optimizer": "--zero-stage 1",
    "use-megatron-fsdp": "--zero-stage 3",
    "use-torch-fsdp2": "--zero-stage 3",
    "fsdp": "--zero-stage 3",
    "lora": "--task lora",
    "qlora": "--task qlora",
    "sft": "--task sft",
    "dpo": "--task dpo",
    **{name: f"--precision {name}" for name in ("bf16", "fp16", "fp32", "fp8", "mxfp8", "hif8", "nvfp4")},
    "fp8-format": "--precision fp8",
    "fp4-format": "--precision nvfp4",
    "recompute-activations": "--recompute core_attn",
    "num-layers-per-virtual-pipeline-stage": "--vpp",
    "nnodes": "--devices",
    "num-nodes": "--devices",
    "nodes": "--devices",
    "lang": "--language",
    "software": "--stack",
}


def usual_setting(flag: str, switches: Container[str]) -> str | None:
    """Our setting for the flag of a framework, with its hyphens, that has no flag of its own; ``switches`` are all of ours."""
    name = usual_name(flag.lstrip("-"))
    switch = name.removeprefix("use-").removeprefix("enable-").replace("-", "_")
    return OTHER_SETTINGS.get(name) or (f"--switch {switch}=true" if switch in switches else None)
