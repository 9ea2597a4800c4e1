"""Classes and functions in torchtitan's Python configurations: which build which field, and where they are imported from."""

from __future__ import annotations

from collections.abc import Mapping

ROOT, MODEL = "", "model_spec"
# Fields that one class builds. Other fields that are built have an option of their own, whose value is the name of the class.
BUILT_BY: Mapping[str, str] = {
    ROOT: "Trainer.Config",
    MODEL: "model_registry",
    "training": "TrainingConfig",
    "parallelism": "ParallelismConfig",
    "compile": "CompileConfig",
    "comm": "CommConfig",
    "debug": "DebugConfig",
    "override": "OverrideConfig",
}
FUNCTIONS = ("default_adamw", "ConcatThenSplitPackingConfig")
CONFIG = ".Config"
PACKAGE = "torchtitan"
FAMILIES = "torchtitan.models"  # each family's module has its ``model_registry``
IMPORTS: Mapping[str, str] = {
    "CheckpointManager": "torchtitan.components.checkpointer",
    "ConcatThenSplitPackingConfig": "torchtitan.components.data",
    "GrainDataLoader": "torchtitan.components.data",
    "ChunkedLossWrapper": "torchtitan.components.loss",
    "CrossEntropyLoss": "torchtitan.components.loss",
    "LRSchedulersContainer": "torchtitan.components.optimizer",
    "default_adamw": "torchtitan.components.optimizer",
    "CommConfig": "torchtitan.config",
    "CompileConfig": "torchtitan.config",
    "DebugConfig": "torchtitan.config",
    "OverrideConfig": "torchtitan.config",
    "ParallelismConfig": "torchtitan.config",
    "TrainingConfig": "torchtitan.config",
    "FullAC": "torchtitan.distributed.activation_checkpoint",
    "SelectiveAC": "torchtitan.distributed.activation_checkpoint",
    "DATASETS": "torchtitan.hf_datasets.text_datasets",
    "decoder_vocab_size": "torchtitan.models.common.config_utils",
    "Trainer": "torchtitan.trainer",
}


def called(field: str, value: str) -> str:
    """The expression that is called for a field whose option has a value."""
    if field in BUILT_BY:
        return BUILT_BY[field]
    return value if value in FUNCTIONS else value + CONFIG
