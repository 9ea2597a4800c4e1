"""What MindSpeed-LLM's FSDP2 backend itself makes of files, in a Python that has PyTorch and transformers.

usage: PYTHON scripts/conformance/fsdp2_start.py TREE MINDSPEED FILE...

TREE: the files of MindSpeed-LLM; MINDSPEED: those of MindSpeed, whose names of modules and configurations stand for those of
FSDPTurbo, which is not public. FILE: JSON with ``words``, the command line behind ``train_fsdp2.py``, and ``devices``, ``layers``
and ``model_type``. parse: ``fsdp2_parse_args`` with all five dataclasses. degrees: ``ParallelState`` and its meshes over a
fake process group. plan: ``ParallelEngineConfig``, the names of modules, the table of context parallelism. It ends before the
first layer is made. One line of JSON a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

BACKEND = "mindspeed_llm.fsdp2"
GROUPS = ("dp", "fsdp", "tp", "edp", "efsdp", "ep", "dp_fsdp", "cp")


def main() -> None:
    tree, mindspeed, *files = sys.argv[1:]
    _stand_in(Path(tree), Path(mindspeed))
    torch = importlib.import_module("torch")
    torch.accelerator.current_accelerator = lambda *_: torch.device("cpu")
    for file in files:
        case = json.loads(Path(file).read_text(encoding="utf-8"))
        stage = ["parse"]
        said: dict[str, Any] = {"file": Path(file).name}
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                said |= _start(case, stage)
            said["verdict"] = "accept"
        except (Exception, SystemExit) as error:
            said |= {"verdict": "refuse", "stage": stage[0], "error": f"{type(error).__name__}: {error}"[:600]}
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
        print(json.dumps(said), flush=True)


def _stand_in(tree: Path, mindspeed: Path) -> None:
    """Packages whose ``__init__`` needs devices, by their folders alone; FSDPTurbo by MindSpeed's modules of the same names."""
    for name, folder in (
        ("mindspeed_llm", tree / "mindspeed_llm"),
        (BACKEND, tree / "mindspeed_llm" / "fsdp2"),
        ("mindspeed", mindspeed / "mindspeed"),
        ("mindspeed.fsdp", mindspeed / "mindspeed" / "fsdp"),
    ):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    configs: Any = types.ModuleType("fsdp_turbo.fsdp_turbo_config")
    older = importlib.import_module("mindspeed.fsdp.parallel_engine_config")
    configs.FSDPPlanConfig, configs.TPPlanConfig = older.FSDPPlanConfig, older.TPPlanConfig
    configs.ChunkBatchPlanConfig = dataclasses.make_dataclass("ChunkBatchPlanConfig", [])
    log: Any = types.ModuleType("fsdp_turbo.utils.log")
    log.print_rank = lambda *_: None
    sys.modules |= {"fsdp_turbo.fsdp_turbo_config": configs, "fsdp_turbo.utils.log": log}
    for name in ("fsdp_turbo", "fsdp_turbo.utils"):
        sys.modules[name] = types.ModuleType(name)


def _start(case: dict[str, Any], stage: list[str]) -> dict[str, Any]:
    arguments = importlib.import_module(f"{BACKEND}.utils.arguments")
    sections = {name: getattr(arguments, f"{name.title()}Arguments") for name in ("model", "data", "parallel", "training")}
    sections["optimization"] = arguments.OptimizationArguments
    root = dataclasses.make_dataclass(
        "Arguments", [(name, kind, dataclasses.field(default_factory=kind)) for name, kind in sections.items()]
    )
    sys.argv = ["train_fsdp2.py", *case["words"]]
    parsed = arguments.fsdp2_parse_args(root)
    values = {f"{name}.{key}": value for name in sections for key, value in dataclasses.asdict(getattr(parsed, name)).items()}
    if "devices" not in case:
        return {"values": values}
    stage[0] = "degrees"
    torch = importlib.import_module("torch")
    importlib.import_module("torch.testing._internal.distributed.fake_pg")
    store = torch.testing._internal.distributed.fake_pg.FakeStore()
    torch.distributed.init_process_group("fake", rank=0, world_size=case["devices"], store=store)
    states = importlib.import_module(f"{BACKEND}.distributed.parallel_state")
    engine = importlib.import_module(f"{BACKEND}.distributed.parallel_engine_config")
    parallel = parsed.parallel
    states.Singleton._instances.clear()
    state = states.ParallelState(
        fully_shard_parallel_size=parallel.fsdp_size,
        tensor_parallel_size=parallel.tp_size,
        context_parallel_size=parallel.cp_size,
        expert_parallel_size=parallel.ep_size,
        expert_fully_shard_parallel_size=parallel.ep_fsdp_size,
    )
    groups = {name: state.get_group_size(name) for name in GROUPS}
    stage[0] = "plan"
    engine.ParallelEngineConfig(
        fully_shard_parallel_size=parallel.fsdp_size,
        fsdp_plan=engine.FSDPPlanConfig(ignored_modules=[]),
        expert_parallel_size=parallel.ep_size,
        ep_plan=engine.EPPlanConfig(apply_modules=parallel.ep_modules, apply_efsdp_modules=parallel.ep_fsdp_modules),
        context_parallel_size=parallel.cp_size,
        context_parallel_type=parallel.cp_type,
    )
    match = importlib.import_module("mindspeed.fsdp.utils.str_match").module_name_match
    layers = [f"model.layers.{index}" for index in range(case["layers"])]
    recomputed = [name for name in layers if any(match(pattern, name) for pattern in parallel.recompute_modules)]
    if parallel.cp_size > 1:
        tables = importlib.import_module(f"{BACKEND}.distributed.context_parallel.context_parallel_mappings").MODEL_CP_CONFIG
        if not any(case["model_type"] in table["models"] for table in tables.values()):
            raise ValueError(f"Unsupported model type: {case['model_type']}")
    return {
        "values": {name: value for name, value in values.items() if name in case["asked"]},
        "groups": groups,
        "recomputed": len(recomputed) if parallel.recompute else 0,
        "sharded": sum(any(match(pattern, name) for pattern in parallel.fsdp_modules) for name in layers),
        "batch": parsed.training.per_device_train_batch_size * parsed.training.gradient_accumulation_steps * groups["dp_fsdp"],
    }


if __name__ == "__main__":
    main()
