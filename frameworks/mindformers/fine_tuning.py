"""Fine-tuning with ``run_mindformer.py``: options, data, and how a start finds its weights.

Sources: [mindformers-1.8, base_trainer.py; mindformers-1.8, hf_dataloader.py; mindformers-1.8, load_checkpoint_utils.py].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence
from frameworks.launch_text import PLACEHOLDER, RESUMES
from frameworks.mindformers import adapters
from frameworks.mindformers.models import likest
from frameworks.mindformers.table import MODEL
from frameworks.options import Options

TASKS = (Task.PRETRAIN, Task.SFT, Task.LORA)
MODE = "finetune"
HANDLERS = "train_dataset.data_loader.handler"
COLUMNS = ("input_ids", "labels")


def is_fine_tune(workload: Workload) -> bool:
    """Whether the weights of a given model are trained on, or adapters beside them."""
    return workload.training.task.name in TASKS[1:]


def options(workload: Workload) -> Options:
    """The mode of a run. A fine-tune loads whole safetensors, which each rank cuts for its place in the plan."""
    if not is_fine_tune(workload):
        return {"run_mode": "train"}
    started: Options = {
        "run_mode": MODE,
        "load_ckpt_format": "safetensors",
        "auto_trans_ckpt": True,
        # The default 0 hides the word 0 from attention and loss; labels say what is padding, and it is last [mask_generate.py].
        f"{MODEL}.pad_token_id": -1,
        **adapters.options(workload),
    }
    # Weights of Hugging Face are joined to linear_qkv and linear_fc1 with it alone.
    return started | ({f"{MODEL}.qkv_concat": True} if likest(workload.model).converts else {})


def notes(workload: Workload) -> Iterator[str]:
    """Sentences on a fine-tune: its samples, its weights, and what a later start loads."""
    if not is_fine_tune(workload):
        return
    yield Sentence("Samples are padded to the sequence; prompts have no loss.")
    yield RESUMES
    if not likest(workload.model).converts:
        yield _conversion(workload)


def mispacked(workload: Workload) -> tuple[str, ...]:
    """A sentence where samples would be packed [mindformers-1.8, packing_handler.py, alpaca_handler.py]."""
    if not is_fine_tune(workload) or workload.training.mean_squared_length_fraction == 1.0:
        return ()
    return (Sentence("MindFormers' PackingHandler shifts labels twice, so that tokens learn the one after the next."),)


def padded_by(given: Mapping[str, Any]) -> str:
    """The key of the handlers that pad the samples of a file; empty where they are packed, or may be uneven."""
    handlers = given.get(HANDLERS)
    kinds = [handler for handler in handlers if isinstance(handler, dict)] if isinstance(handlers, list) else []
    packs = any(handler.get("type") == "PackingHandler" for handler in kinds)
    return HANDLERS if not packs and any(handler.get("padding") is True for handler in kinds) else ""


def _conversion(workload: Workload) -> str:
    """The command that converts a model whose class does not convert it [mindformers-1.8, convert_deepseekv3_hf_weight.py]."""
    model, moe = workload.model, workload.model.moe
    sizes: dict[str, int] = {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size,
        "num_nextn_predict_layers": model.mtp_num_layers,
    }
    if moe is not None:
        sizes |= {
            "moe_ffn_hidden_size": moe.expert_ffn_hidden_size,
            "num_routed_experts": moe.num_experts,
            "first_k_dense_replace": moe.num_leading_dense_layers,
        }
    return Sentence(
        "Convert the model first, since its class does not: python convert_weight.py --model deepseekv3 {} --dtype bf16 "
        "--input_path HF_FOLDER --output_path MODEL_PATH",
        " ".join(f"--{name} {size}" for name, size in sizes.items()),
    )


def commands(launch: Callable[[str], str]) -> tuple[str, ...]:
    """What a node runs. ``launch``: the command for given arguments of ``run_mindformer.py``."""
    return (
        "CHECKPOINTS=$(sed -n 's/^output_dir: *//p' THIS-FILE)/checkpoint",
        "RESUME=$(test -e $CHECKPOINTS/rank_0/meta.json && "
        "echo --load_checkpoint $CHECKPOINTS --resume_training True --auto_trans_ckpt False)",
        f"! grep -n '^[^#]*{PLACEHOLDER}' THIS-FILE && {launch('--config THIS-FILE $RESUME')}",
    )


def data(given: Mapping[str, Any], say: Callable[[str], str]) -> list[str]:
    """Lines on weights, checkpoints and data, with a placeholder for each path."""
    seq_length, columns = given[f"{MODEL}.seq_length"], ", ".join(f'"{name}"' for name in COLUMNS)

    def path(name: str, words: str) -> str:
        return f"# {name}: {say(words)}"

    model = Sentence("folder of the model, as safetensors")
    return [
        path("CHECKPOINT_PATH", Sentence("folder for checkpoints and logs, which all nodes share")),
        f"output_dir: {PLACEHOLDER}",
        f"load_checkpoint: {PLACEHOLDER}  {path('MODEL_PATH', model)}",
        "train_dataset: &train_dataset",
        "  data_loader:",
        "    type: HFDataLoader",
        "    load_func: load_dataset",
        "    path: json",
        f"    data_files: {PLACEHOLDER}  {path('DATA_PATH', Sentence('JSON file with instruction, input and output'))}",
        "    split: train",
        "    shuffle: false",
        "    handler:",
        "      - type: AlpacaInstructDataHandler",
        f"        seq_length: {seq_length}",
        "        padding: true",
        "        tokenizer:",
        f"          pretrained_model_dir: {PLACEHOLDER}  "
        f"{path('TOKENIZER_PATH', Sentence('folder of the tokenizer of the model'))}",
        "          padding_side: right",
        f"  input_columns: [{columns}]",
        f"  construct_args_key: [{columns}]",
        "  drop_remainder: true",
    ]


CHECKPOINTS = (
    "  - type: CheckpointMonitor",
    "    prefix: llm",
    "    save_checkpoint_steps: 500",
    "    keep_checkpoint_max: 2",
    "    integrated_save: false",
    "    async_save: false",
    "    checkpoint_format: safetensors",
)
