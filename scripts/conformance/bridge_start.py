"""The start of Megatron-Bridge for files of adapters, in a Python that has PyTorch and transformers, up to the model.

usage: PYTHON scripts/conformance/bridge_start.py BRIDGE MEGATRON QUESTIONS

BRIDGE, MEGATRON: trees of NVIDIA-NeMo/Megatron-Bridge and NVIDIA/Megatron-LM. QUESTIONS: a JSON file with a list of files, each
with the folder of its Hugging Face model and its processes. configuration: the file's own, which builds the model's provider
from the Hugging Face configuration. validate: what a start does with it (``runtime_config_update``: precision, communication,
``ConfigContainer.validate``). model: process groups, layers and adapters of the first and of the last pipeline rank, on tensors
without data. Transformer Engine's layers are those of ``execution``; packages that this touches no further are stand-ins. One
line of JSON a file: fields that the container has otherwise than the file, and the counts of both ranks, which are empty
where a layer of the model has no stand-in, as in 8 bits.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import os
import re
import runpy
import sys
import typing
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENERGON = "megatron.energon"
STAND_INS = (
    *("nvidia_resiliency_ext", "modelopt", "wandb", "PIL", "torchvision"),
    *("torch.utils.tensorboard", "torch.utils.tensorboard.writer", ENERGON),
    *(f"{ENERGON}.{name}" for name in ("epathlib", "epathlib.epath", "flavors", "flavors.base_dataset", "flavors.webdataset")),
    *(f"{ENERGON}.{name}" for name in ("flavors.webdataset.base_webdataset", "task_encoder", "task_encoder.base")),
    f"{ENERGON}.task_encoder.cooking",
)
HOPPER = "NVIDIA H100 80GB HBM3"
DEGREES = (
    *("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size"),
    *("context_parallel_size", "hierarchical_context_parallel_sizes", "expert_model_parallel_size"),
    "expert_tensor_parallel_size",
)


class _FusedAdam:
    """Transformer Engine's FusedAdam; the core looks at its parameters before it keeps moments in 16 bits."""

    def __init__(
        self,
        params: Any,
        *,
        master_weight_dtype: Any,
        exp_avg_dtype: Any,
        exp_avg_sq_dtype: Any,
        use_decoupled_grad: bool,
        store_param_remainders: bool,
    ) -> None:
        """Nothing is trained."""


def main() -> None:
    bridge, megatron, questions = sys.argv[1:]
    _prepare(Path(bridge), Path(megatron))
    for question in json.loads(Path(questions).read_text(encoding="utf-8")):
        said: dict[str, Any] = {"file": question["file"]}
        stage = ["configuration"]
        errors = io.StringIO()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
                said |= _start(question, stage)
            said["verdict"] = "accept"
        except (Exception, SystemExit) as error:
            text = errors.getvalue().strip().splitlines()[-1:] if isinstance(error, SystemExit) else [str(error)]
            said |= {"verdict": "refuse", "stage": stage[0], "error": f"{type(error).__name__}: {' '.join(text)}"[:600]}
        print(json.dumps(said), flush=True)


def _prepare(bridge: Path, megatron: Path) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.path[:0] = [str(bridge / "src"), str(megatron), str(ROOT)]
    if not hasattr(typing, "override"):  # Megatron-LM 0.19 is written for Python 3.12
        typing.override = lambda method: method  # type: ignore[attr-defined]
    devices, kernels, packages, experts, triton = (
        importlib.import_module(f"execution.{name}")
        for name in ("devices", "transformer_engine", "packages", "experts", "triton_kernels")
    )
    for name in ("torch._dynamo", "torch._inductor.runtime.hints"):
        importlib.import_module(name)
    devices.install(lambda: None)
    devices._Properties.name = HOPPER  # for DeepEP
    importlib.import_module("scripts.conformance.stand_ins").replace_packages(STAND_INS, {})
    modules = kernels.modules() | experts.modules() | triton.modules()
    modules["transformer_engine.pytorch.optimizers"]["FusedAdam"] = _FusedAdam
    packages.provide(modules, dict(kernels.ABSENT))
    importlib.import_module("megatron.bridge")
    importlib.import_module("megatron.bridge.peft.utils").version = lambda _name: kernels.VERSION
    random = importlib.import_module("megatron.core.tensor_parallel.random")
    state = importlib.import_module("torch").zeros(1, dtype=importlib.import_module("torch").uint8)
    random._set_cuda_rng_state = lambda *_values, **_given: None
    random._get_cuda_rng_state = lambda *_values, **_given: state
    random.initialize_rng_tracker(True)
    names = (random.get_data_parallel_rng_tracker_name(), random.get_expert_parallel_rng_tracker_name(), "model-parallel-rng")
    for seed, name in enumerate(names):
        random.get_cuda_rng_tracker().add(name, seed)


def _start(question: dict[str, Any], stage: list[str]) -> dict[str, Any]:
    for name in [name for name in os.environ if name.startswith("NVTE_")]:
        del os.environ[name]  # of the file before
    given = dict.fromkeys(("MODEL_PATH", "DATA_PATH", "CHECKPOINT_PATH"), question["model"])  # a folder that exists
    os.environ.update({**given, "HF_MODEL": question["model"], "WORLD_SIZE": str(question["processes"]), "RANK": "0"})
    with importlib.import_module("execution.devices").OnProcessor():
        stage[0] = "configuration"
        file = runpy.run_path(question["file"], run_name="plan")
        config = file["configuration"]()
        stage[0] = "validate"
        importlib.import_module("megatron.bridge.training.config").runtime_config_update(config)
        fields = {path: _plain(config, path) for path in (*file["PLAN"], *file["MODEL"])}
        wanted = file["PLAN"] | file["MODEL"]
        other = {path: value for path, value in fields.items() if value != wanted[path]}
        stage[0] = "model"
        world = question["processes"]
        try:
            ranks = [] if config.mixed_precision.fp8 else [_rank(config, rank, world) for rank in (0, world - 1)]
        except importlib.import_module("execution.running").UnknownKernelError:
            ranks = []
    return {"fields": len(fields), "other": other, "ranks": ranks}


def _plain(config: Any, path: str) -> Any:
    """A field's value as the file has it: an enumeration by its member, every n-th layer as a list, a layout as its text."""
    section, field = path.split(".")
    value = getattr(getattr(config, section), field)
    if field == "moe_layer_freq" and isinstance(value, int):
        return [int(layer % value == 0) for layer in range(config.model.num_layers)]
    if isinstance(value, list | tuple):
        return list(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "input_data"):
        return value.input_data
    return re.sub(r"^\w+\.(?=\w+$)", "", str(value)) if hasattr(value, "name") else str(value)


def _rank(config: Any, rank: int, world: int) -> dict[str, Any]:
    """Layers, trained and frozen parameters of each chunk of a rank, as Megatron-Bridge builds them before a step."""
    torch, model = importlib.import_module("torch"), config.model
    distributed = importlib.import_module("torch.distributed")
    fake, tensors = (
        importlib.import_module(name) for name in ("torch.testing._internal.distributed.fake_pg", "torch._subclasses.fake_tensor")
    )
    groups = importlib.import_module("megatron.core.parallel_state")
    distributed.init_process_group("fake", rank=rank, world_size=world, store=fake.FakeStore())
    try:
        groups.initialize_model_parallel(create_gloo_process_groups=False, **{name: getattr(model, name) for name in DEGREES})
        model.perform_initialization = False
        collection = importlib.import_module("megatron.core.process_groups_config").ProcessGroupCollection
        model._pg_collection = collection.use_mpu_process_groups()
        chunks = model.virtual_pipeline_model_parallel_size
        with tensors.FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            parts = [model.provide(vp_stage=chunk if chunks else None) for chunk in range(chunks or 1)]
            parts = config.peft(parts, training=True)
        return {
            "layers": [len(part.decoder.layers) for part in parts],
            "trained": [sum(each.numel() for each in part.parameters() if each.requires_grad) for part in parts],
            "frozen": [sum(each.numel() for each in part.parameters() if not each.requires_grad) for part in parts],
        }
    finally:
        groups.destroy_model_parallel()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
