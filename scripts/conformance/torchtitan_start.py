"""The start of torchtitan for each file of a folder, in a Python that has PyTorch: config, degrees, model, parallel layers.

usage: PYTHON scripts/conformance/torchtitan_start.py TREE FILE...

config: ``ConfigManager.parse_args``. degrees: ``ParallelDims`` and its meshes over a fake process group of the file's devices.
model: the flavor on the meta device. batch: the checks of the trainer. parallel: stages and schedule of a pipeline, and
tensor parallelism, recompute, compilation and FSDP of the layers, on the first and the last rank of a pipeline. It ends
before the first allocation. One line of JSON a file.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import sys
import types
from pathlib import Path
from typing import Any

KERNELS = "torchtitan.models.moe.kernels"  # Triton's; the start calls none of them
DEGREES = {
    "dp_replicate": "data_parallel_replicate_degree",
    "dp_shard": "data_parallel_shard_degree",
    "cp": "context_parallel_degree",
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "ep": "expert_parallel_degree",
    "etp": "expert_tensor_parallel_degree",
}


def main() -> None:
    tree, *files = sys.argv[1:]
    sys.path.insert(0, tree)
    kernels: Any = types.ModuleType(KERNELS)
    kernels.generate_permute_indices = None
    kernels.fill_indices_cpu = None
    sys.modules[KERNELS] = kernels
    importlib.import_module("torch._utils")._get_available_device_type = lambda: "cpu"
    for file in files:
        stage = ["config"]
        said: dict[str, Any] = {"file": Path(file).name}
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                said |= _start(file, stage)
            said["verdict"] = "accept"
        except (Exception, SystemExit) as error:
            said |= {"verdict": "refuse", "stage": stage[0], "error": f"{type(error).__name__}: {error}"[:600]}
        finally:
            _end()
        print(json.dumps(said), flush=True)


def _start(file: str, stage: list[str]) -> dict[str, Any]:
    manager = importlib.import_module("torchtitan.config").ConfigManager()
    config = manager.parse_args([f"--job.config_file={file}"])
    degrees = {name: getattr(config.parallelism, key) for name, key in DEGREES.items()}
    world = math.prod(degrees[name] for name in ("dp_replicate", "dp_shard", "cp", "tp", "pp"))
    stage[0] = "degrees"
    ranks = []
    for place in sorted({0, degrees["pp"] - 1}):
        ranks.append(_rank(config, degrees, world, place * (world // degrees["pp"]), stage))
        _end()
    return {"world": world, "mode": config.activation_checkpoint.mode, "ranks": ranks}


def _rank(config: Any, degrees: dict[str, int], world: int, rank: int, stage: list[str]) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    importlib.import_module("torch.testing._internal.distributed.fake_pg")
    torch.distributed.init_process_group(
        "fake", rank=rank, world_size=world, store=torch.testing._internal.distributed.fake_pg.FakeStore()
    )
    importlib.import_module("torchtitan.distributed.activation_checkpoint")._layer_sac_count = 0  # as in a process of its own
    dims = importlib.import_module("torchtitan.distributed").ParallelDims(**degrees, world_size=world)
    dims.build_mesh()
    stage[0] = "model"
    spec = importlib.import_module("torchtitan.protocols.train_spec").get_train_spec(config.model.name)
    arguments = spec.model_args[config.model.flavor]
    arguments.update_from_config(config)
    with torch.device("meta"):
        model = spec.model_cls(arguments)
    parameters = sum(weight.numel() for weight in model.parameters())
    stage[0] = "batch"
    replicas = degrees["dp_replicate"] * degrees["dp_shard"]
    once = config.training.local_batch_size * replicas
    if config.training.global_batch_size % once:
        raise ValueError(f"global batch {config.training.global_batch_size} is no multiple of {once}")
    stage[0] = "parallel"
    if degrees["pp"] > 1:
        if spec.pipelining_fn is None:
            raise RuntimeError(f"{config.model.name} does not support pipelining")
        schedule, parts, _, _ = spec.pipelining_fn(
            model, dims, config, torch.device("cpu"), arguments, spec.parallelize_fn, print
        )
        made = type(schedule).__name__
        micro_batches = schedule._n_microbatches
    else:
        spec.parallelize_fn(model, dims, config)
        parts, made, micro_batches = [model], "", config.training.global_batch_size // once
    held = [len(part.layers) for part in parts]
    sharded = sum(
        weight.to_local().numel() if hasattr(weight, "to_local") else weight.numel()
        for part in parts
        for weight in part.parameters()
    )
    return {
        "parameters": parameters,
        "held": sharded,
        "schedule": made,
        "micro_batches": micro_batches,
        "layers": held,
        "recomputed": sum(_is_checkpointed(layer) for part in parts for layer in part.layers.values()),
    }


def _is_checkpointed(layer: Any) -> bool:
    return any("_checkpoint_wrapped_module" in name for name, _ in layer.named_modules())


def _end() -> None:
    torch = importlib.import_module("torch")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("torch.distributed.device_mesh")._mesh_resources.mesh_stack.clear()


if __name__ == "__main__":
    main()
