"""Programs that launch scripts start: those whose arguments are read, and what others do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from documents.sentences import Sentence
from frameworks.post_training.verl_reader import PROGRAMS

# Programs that are read, and the frameworks that ship them.
READ: Mapping[str, tuple[str, ...]] = {
    "pretrain_gpt.py": ("megatron-lm", "mindspeed-llm"),
    "posttrain_gpt.py": ("mindspeed-llm",),
    "train_fsdp2.py": ("mindspeed-llm-fsdp2",),
    "pretrain_hybrid.py": ("megatron-lm",),
    "pretrain_mamba.py": ("megatron-lm", "mindspeed-llm"),
}
# Of these, the programs that read the symbols of layers; others accept the argument and build usual layers [megatron-0.19,
# gpt_builders.py, hybrid_builders.py].
HYBRID = ("pretrain_hybrid.py", "pretrain_mamba.py")
_VISION = Sentence("a model of pictures and text, of which parts can be frozen")
_REINFORCED = Sentence("by reinforcement learning; `meshplan rl` prices that")
# Programs that train something else, by the end of their path.
OTHERS: Mapping[str, str] = {
    "pretrain_bert.py": Sentence("BERT"),
    "pretrain_t5.py": Sentence("T5, which has an encoder"),
    "pretrain_ict.py": Sentence("a retriever of two encoders"),
    "pretrain_retro.py": Sentence("a model with a retriever"),
    "pretrain_vlm.py": _VISION,
    "pretrain_vision_classify.py": Sentence("a classifier of pictures"),
    "pretrain_vision_dino.py": Sentence("a model of pictures"),
    "pretrain_vision_inpaint.py": Sentence("a model of pictures"),
    "pretrain_deepseek4.py": Sentence("DeepSeek-V4, whose attention is not priced"),
    "posttrain_deepseek4.py": Sentence("DeepSeek-V4, whose attention is not priced"),
    "multimodal/train.py": _VISION,
    "mimo/train.py": _VISION,
    "megatron_fsdp/train.py": Sentence("by fully sharded data parallelism with its own arguments"),
    "post_training/modelopt/finetune.py": Sentence("a compressed or distilled model"),
    "train_rl.py": _REINFORCED,
    "rlhf_gpt.py": _REINFORCED,
    "ray_gpt.py": _REINFORCED,
    "train_grpo.py": _REINFORCED,
    "pretrain_llama.py": Sentence("with arguments of its own"),
}
# Modules behind ``python -m`` and commands that start trainings without a program of their own.
MODULES: Mapping[str, str] = {
    **dict.fromkeys(PROGRAMS, _REINFORCED),
    "torchtitan.train": Sentence("by torchtitan from a TOML file or its own arguments"),
    "llamafactory-cli": Sentence("by LLaMA-Factory from a YAML file"),
    "swift": Sentence("by ms-swift with its own arguments"),
    "megatron": Sentence("by Megatron-SWIFT with its own arguments"),
}
# Words behind such commands with which they train; with others they use a model.
TRAINING_WORDS = ("train", "pt", "sft", "rlhf", "rollout")
# Arguments of forks of Megatron-LM, which starts the same programs with them.
FORKS: Mapping[str, tuple[str, ...]] = {
    "Megatron-DeepSpeed": ("deepspeed", "deepspeed_config", "deepspeed-config", "zero-stage", "num-key-value-heads"),
    "Pai-Megatron-Patch": ("patch-tokenizer-type", "transformer-type", "extra-vocab-size"),
    "Megatron-LLaMA": ("use-flash-attn-cutlass", "overlapped-distributed-optimizer"),
    "NeMo": ("trainer.num_nodes",),
    "epfLLM's Megatron-LLM": ("num_layers", "micro_batch_size"),
}
# Top-level keys of files that are not MindFormers', by who reads such files.
FILES: Mapping[str, tuple[str, ...]] = {
    "LLaMA-Factory": ("finetuning_type", "dist_config", "init_config"),
    "NeMo": ("exp_manager", "trainer"),
    "FlagScale": ("system", "experiment"),
    "Primus": ("modules", "work_group"),
    "ms-swift": ("rlhf_type", "train_type", "tuner_type"),
    "verl": ("actor_rollout_ref",),
}
# Top-level keys that MindFormers has and none of the others.
MINDFORMERS = (
    *("run_mode", "use_parallel", "parallel_config", "recompute_config", "runner_config", "runner_wrapper", "moe_config"),
    *("train_dataset_task", "pretrained_model_dir", "swap_config", "use_legacy"),
)
# Beginnings of programs that prepare or use a model.
TOOLS = (
    *("convert", "checkpoint", "preprocess", "tools", "evaluation", "inference", "generate", "merge", "run_text_generation"),
    *("run_hybrid_text_generation", "run_mamba_text_generation", "mmlu", "export", "quantize", "prune", "validate", "download"),
    *("evaluate", "eval_", "analyze_", "hf2mcore", "hf2megablocks"),
    *("hf2te", "offline_feature", "static_benchmark", "combine_state_dicts", "text_generation", "deepseekv4_ckpt", "setup"),
)


def is_tool(path: str) -> bool:
    """Whether a program prepares or uses a model, and trains none."""
    return path.rpartition("/")[2].startswith(TOOLS)


def trains(module: str, words: Sequence[str]) -> bool:
    """Whether a module or command trains with the words behind it."""
    return module not in ("swift", "megatron", "llamafactory-cli") or (bool(words) and words[0] in TRAINING_WORDS)


def other_training(path: str) -> str:
    """What a program other than those that are read trains; empty if that is not known."""
    return next((what for end, what in OTHERS.items() if f"/{path}".endswith(f"/{end}")), "")


def fork_of(names: Mapping[str, object]) -> str:
    """The fork of Megatron-LM that has one of the arguments by name; empty if none has."""
    return next((fork for fork, own in FORKS.items() if any(name in names for name in own)), "")


def other_file(keys: Collection[str]) -> str | None:
    """Who reads a file with these top-level keys, empty if that is not known; ``None`` if MindFormers does."""
    if any(key in keys for key in MINDFORMERS):
        return None
    return next((name for name, own in FILES.items() if any(key in keys for key in own)), "")
