"""The start of ``run_mindformer.py``: the file against template and rules, then the configuration of its training model.

yaml, context, parallel, rules: the file's keys and their validators, in the trainer's order. model: the class of the model
type. transformer: the file and config.json become the configuration of the layers, with its checks. The start ends there.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from scripts.conformance.stages import Stages

LAYERS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2", "output_layer", "word_embeddings")


class Converted(BaseException):
    """Raised when the configuration is complete: further steps need a device."""


def run(question: dict[str, Any], stages: Stages) -> None:
    """All stages of one file."""
    stages.enter("yaml")
    config = importlib.import_module("mindformers.tools.register").MindFormerConfig(question["yaml"])
    stages.enter("context")
    importlib.import_module("mindformers.core.context.validators").execute_validator(config)
    stages.enter("parallel")
    importlib.import_module("mindformers.core.parallel_config").build_parallel_config(config)
    stages.enter("rules")
    rules = importlib.import_module("mindformers.tools.check_rules")
    for name in ("get_device_num", "get_real_group_size"):
        if hasattr(rules, name):
            setattr(rules, name, lambda: question["num_processes"])
    rules.check_rules(config, mode="train", dataset=object())  # a real start has built its data set by then
    reads_config_json = bool(config.get("pretrained_model_dir"))
    if not reads_config_json or question.get("config_json") is not None:
        _model(question, stages, config, reads_config_json=reads_config_json)


def _model(question: dict[str, Any], stages: Stages, config: Any, *, reads_config_json: bool) -> None:
    stages.enter("model")
    if reads_config_json:
        folder = Path(question["folder"]) / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(question["config_json"]))
        config.model.pretrained_model_dir = str(folder)
    build = importlib.import_module("mindformers.models.build_model").build_network
    for module in _framework_modules("is_legacy_model"):
        module.is_legacy_model = lambda: bool(config.use_legacy)
    _stop_at_conversion(stages)
    os.environ["RUN_MODE"] = "train"
    beside = {
        "parallel_config": config.parallel_config,
        "moe_config": config.moe_config,
        "dataset_config": config.train_dataset,
        "calculate_per_token_loss": config.get("calculate_per_token_loss", False),
        "batch_size": config.runner_config.batch_size,
    }
    try:
        network = build(config.model, default_args=beside)
    except Converted:
        adapters = config.model.model_config.get("pet_config")
        if adapters:
            _adapters(adapters, stages)
        return
    raise RuntimeError(f"{type(network).__name__} has no configuration for training: the framework trains no model of this name")


def _adapters(given: Any, stages: Stages) -> None:
    """The framework's own configuration of adapters, and the names of layers that its adapter matches."""
    stages.enter("adapters")
    model = importlib.import_module("mindformers.pet.pet_model")
    pairs = dict(given)
    made = model.PET_TYPE_TO_CONFIG_MAPPING[pairs.pop("pet_type")](**pairs)
    adapter = importlib.import_module("mindformers.pet.tuners.lora_adapter")
    names = [name for name in LAYERS if adapter.re.match(made.target_modules, name)]
    if not names:
        raise RuntimeError(f"no layer of {LAYERS} matches {made.target_modules}")
    stages.keep("adapters", {**made, "layers": names})


def _framework_modules(name: str) -> list[Any]:
    """Modules of the framework that define or import the name."""
    return [
        module
        for at, module in list(sys.modules.items())
        if at.startswith("mindformers.") and hasattr(module, "__dict__") and name in vars(module)
    ]


def _stop_at_conversion(stages: Stages) -> None:
    name = "convert_to_transformer_config"
    real = importlib.import_module("mindformers.parallel_core.transformer_config_utils").convert_to_transformer_config
    importlib.import_module("mindformers.parallel_core.utils.model_mixin")

    def converted(model_config: Any, *values: Any, **keywords: Any) -> Any:
        stages.enter("transformer")
        made = real(model_config, *values, **keywords)
        stages.keep("config", vars(made))
        stages.keep("model", vars(model_config) if hasattr(model_config, "to_dict") else dict(model_config))
        raise Converted

    for module in _framework_modules(name):
        if getattr(module, name) is real:
            setattr(module, name, converted)
