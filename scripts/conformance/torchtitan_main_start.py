"""The start of torchtitan's main for each Python configuration, in a Python that has PyTorch: config, degrees, model, layers.

usage: PYTHON scripts/conformance/torchtitan_main_start.py TREE FILE...

config: ``ConfigManager.parse_args`` of ``--module`` and ``--config``. degrees: ``ParallelDims`` and its meshes over a fake
process group of the file's devices. batch: the checks of ``Trainer``. model: the flavor on the meta device. parallel: loss,
stages and schedule of a pipeline, and tensor parallelism, recompute, compilation and FSDP of the layers, on the first and the
last rank of a pipeline. optimizer: the file's own. It ends before the first allocation. One line of JSON a file.

FSDP of PyTorch 2.13 does not read the annotations of spmd_types, the backend of main's files, which needs a newer build. So
meshes and model are checked with the file's own backend, and layers are sharded by main's other one (partial_dtensor).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import json
import math
import sys
from pathlib import Path
from typing import Any

FUNCTION = "plan"
OLDER = "partial_dtensor"
DEGREES = {
    "dp_replicate": "data_parallel_replicate_degree",
    "dp_shard": "data_parallel_shard_degree",
    "cp": "context_parallel_degree",
    "tp": "tensor_parallel_degree",
    "pp": "pipeline_parallel_degree",
}


def main() -> None:
    tree, *files = sys.argv[1:]
    sys.path.insert(0, tree)
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


def _config(file: str) -> Any:
    """The configuration that ``--module`` finds: the file, imported under a name of its own."""
    module = "plan_" + "".join(sign if sign.isalnum() else "_" for sign in Path(file).stem)
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])
    manager = importlib.import_module("torchtitan.config.manager").ConfigManager()
    return manager.parse_args(["--module", module, "--config", FUNCTION])


def _start(file: str, stage: list[str]) -> dict[str, Any]:
    config = _config(file)
    degrees = {name: getattr(config.parallelism, key) for name, key in DEGREES.items()}
    world = math.prod(degrees.values())
    checkpoints = config.activation_checkpoint
    ranks = []
    for place in sorted({0, degrees["pp"] - 1}):
        ranks.append(_rank(_config(file), world, place * (world // degrees["pp"]), stage))
        _end()
    mode = "None" if checkpoints is None else type(checkpoints).__qualname__.removesuffix(".Config")
    return {"world": world, "mode": mode, "loss": type(config.loss).__qualname__.removesuffix(".Config"), "ranks": ranks}


def _rank(config: Any, world: int, rank: int, stage: list[str]) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    importlib.import_module("torch.testing._internal.distributed.fake_pg")
    stage[0] = "degrees"
    torch.distributed.init_process_group(
        "fake", rank=rank, world_size=world, store=torch.testing._internal.distributed.fake_pg.FakeStore()
    )
    dims = importlib.import_module("torchtitan.distributed").ParallelDims.from_config(config.parallelism, world)
    dims.build_mesh()
    stage[0] = "batch"
    training, parallelism = config.training, config.parallelism
    divisor = (dims.tp if parallelism.enable_sequence_parallel else 1) * (2 * dims.cp if dims.cp > 1 else 1)
    if training.num_tokens_per_microbatch_per_dp_rank % divisor:
        raise ValueError(f"{training.num_tokens_per_microbatch_per_dp_rank} tokens do not divide by {divisor}")
    at_once = parallelism.num_pp_microbatches if dims.pp_enabled else 1
    once = training.num_tokens_per_microbatch_per_dp_rank * at_once * dims.dp_replicate * dims.dp_shard
    if training.num_tokens_per_train_step % once:
        raise ValueError(f"{training.num_tokens_per_train_step} tokens of a step are no multiple of {once}")
    importlib.import_module("torchtitan.distributed.utils").set_spmd_backend(parallelism.spmd_backend)
    stage[0] = "model"
    spec = config.model_spec
    spec.model.update_from_config(config=config)
    config._validate_cuda_graphs()
    with torch.device("meta"):
        model = spec.model.build()
    parameters = sum(weight.numel() for weight in model.parameters())
    stage[0] = "parallel"
    parallelism = dataclasses.replace(parallelism, spmd_backend=OLDER)
    importlib.import_module("torchtitan.distributed.utils").set_spmd_backend(OLDER)
    dims = importlib.import_module("torchtitan.distributed").ParallelDims.from_config(parallelism, world)
    dims.build_mesh()
    loss = config.loss.build(compile_config=config.compile)
    given = {
        "parallel_dims": dims,
        "training": training,
        "parallelism": parallelism,
        "compile_config": config.compile,
        "ac_config": config.activation_checkpoint,
        "dump_folder": "",
    }
    if dims.pp_enabled:
        schedule, parts, _, has_last = spec.pipelining_fn(
            model, device=torch.device("cpu"), model_config=spec.model, parallelize_fn=spec.parallelize_fn, loss_fn=loss, **given
        )
        made, micro_batches = type(schedule).__name__, schedule._n_microbatches
    else:
        parts, made, has_last = [spec.parallelize_fn(model, **given)], "", True
        micro_batches = training.num_tokens_per_train_step // once
    if has_last and hasattr(loss, "set_lm_head"):
        loss.set_lm_head(parts[-1].lm_head)
        tokens = training.num_tokens_per_microbatch_per_dp_rank // dims.cp
        if tokens % loss.num_chunks:
            raise ValueError(f"{tokens} tokens of a rank do not divide by {loss.num_chunks} chunks of the loss")
    stage[0] = "optimizer"
    config.optimizer.build(model_parts=parts)
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
        "layers": [len(part.layers) for part in parts],
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
