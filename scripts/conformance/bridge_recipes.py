"""Recipes of Megatron-Bridge as strategies. A recipe is a Python function, which runs here on stand-ins for all that it imports.

A stand-in has every attribute, keeps those that are set, and is empty where nothing was set.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from frameworks.megatron_lm.layouts import read_layout

PACKAGE = "megatron.bridge"
OWN = (f"{PACKAGE}.perf_recipes", f"{PACKAGE}.recipes")
FLEX = f"{PACKAGE}.training.flex_dispatcher_backend"
FOLDERS = "src/megatron/bridge/perf_recipes/*/*/*.py"
NAME = re.compile(
    r"(?P<model>\w+?)_pretrain_(?P<devices>\d+)gpu_(?P<hardware>\w+?)_(?P<precision>bf16|fp8[a-z]*)_(?:\w+_)?config"
)
MODULES = {"moe_act": "mlp_act"}  # one module of ours
SCALINGS = {"fp8ds": "delayed", "fp8cs": "tensorwise", "fp8sc": "blockwise", "fp8mx": "mxfp8"}  # as mixed_precision.py sets them
LETTERS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}  # of a layout's text, by the names in its list


@dataclass(frozen=True)
class Recipe:
    """A recipe as it is published; ``strategy`` is the section of a job."""

    name: str
    path: str
    line: int
    model: str
    hardware: str
    precision: str
    fp8_recipe: str | None
    num_devices: int
    seq_length: int | None
    global_batch_size: int
    strategy: Mapping[str, Any]


class StandIn:
    """An object with every attribute."""

    def __init__(self, *_: Any, **given: Any) -> None:
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.__dict__[name] = StandIn()
        return made

    def __call__(self, *_: Any, **given: Any) -> StandIn:
        return StandIn(**given)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, _: Any) -> StandIn:
        return self

    __ror__ = __or__
    __getitem__ = __getattr__


def _with_flex(model: Any, backend: str | None = None) -> None:
    """What Megatron-Bridge's function of this name does on devices that the backend runs on."""
    if backend is not None:
        model.moe_token_dispatcher_type, model.moe_flex_dispatcher_backend = "flex", backend
        model.moe_shared_expert_overlap = False


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of recipes from the checkout; all others of the frameworks as stand-ins."""

    def __init__(self, source: Path) -> None:
        self.source = source

    def find_spec(self, name: str, _path: Any, _target: Any = None) -> Any:
        if name.split(".")[0] not in (
            "megatron",
            "torch",
            "transformers",
            "transformer_engine",
            "nvidia_resiliency_ext",
            "yaml_",
        ):
            return None
        place = self.source.joinpath(*name.split("."))
        if name.startswith(OWN) and place.with_suffix(".py").is_file():
            return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        made = _Module(spec.name)
        made.__path__ = []
        if spec.name == FLEX:
            made.apply_flex_dispatcher_backend = _with_flex  # type: ignore[attr-defined]
        return made

    def exec_module(self, module: ModuleType) -> None: ...


def recipes(checkout: Path) -> Iterator[Recipe]:
    """All recipes of pre-training whose degrees can be told, in the order of their files."""
    finder = _Finder(checkout / "src")
    sys.meta_path.insert(0, finder)
    try:
        for path in sorted(checkout.glob(FOLDERS)):
            module = ".".join(path.relative_to(checkout / "src").with_suffix("").parts)
            if path.stem == "__init__":
                continue
            for name, made in vars(importlib.import_module(module)).items():
                said = NAME.fullmatch(name)
                if said and made.__module__ == module:
                    yield _recipe(said, made(), str(path.relative_to(checkout)), made.__code__.co_firstlineno)
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(("megatron", "torch."))]:
            del sys.modules[name]


def _recipe(said: re.Match[str], config: Any, path: str, line: int) -> Recipe:
    model, train = config.model, config.train
    return Recipe(
        said[0],
        path,
        line,
        said["model"],
        said["hardware"],
        "bf16" if said["precision"] == "bf16" else "fp8",
        SCALINGS.get(said["precision"]),
        int(said["devices"]),
        _number(model.seq_length) or _number(config.dataset.seq_length),
        _number(train.global_batch_size) or 0,
        _strategy(model, train, config),
    )


def _strategy(model: Any, train: Any, config: Any) -> dict[str, Any]:
    flex, backend = model.moe_token_dispatcher_type == "flex", model.moe_flex_dispatcher_backend
    overlap = StandIn() if config.comm_overlap is None else config.comm_overlap
    switches = {
        "tp_comm_overlap": _is_on(overlap.tp_comm_overlap) and (_number(model.tensor_model_parallel_size) or 1) > 1,
        "moe_comm_overlap": _is_on(overlap.overlap_moe_expert_parallel_comm),
        "moe_shared_expert_overlap": _is_on(model.moe_shared_expert_overlap),
        "cuda_graph": model.cuda_graph_impl not in (None, "none") and not isinstance(model.cuda_graph_impl, StandIn),
        "grad_reduce_in_bf16": config.mixed_precision.grad_reduce_in_fp32 is False,
        "bf16_moments": config.optimizer.use_precision_aware_optimizer is True,
    }
    made: dict[str, Any] = {
        "tp": _number(model.tensor_model_parallel_size) or 1,
        "pp": _number(model.pipeline_model_parallel_size) or 1,
        "vpp": _number(model.virtual_pipeline_model_parallel_size) or 1,
        "cp": _number(model.context_parallel_size) or 1,
        "ep": _number(model.expert_model_parallel_size) or 1,
        "etp": _number(model.expert_tensor_parallel_size) or 1,
        "micro_batch_size": _number(train.micro_batch_size) or 1,
        "recompute": _recompute(model),
        "switches": {name: True for name, on in switches.items() if on},
    }
    if config.ddp.overlap_grad_reduce is False:
        made["switches"] |= {"overlap_grad_reduce": False, "overlap_param_gather": False}  # Megatron-LM takes one with the other
    if config.ddp.use_megatron_fsdp is True:
        made["zero_stage"] = 3
    if flex and isinstance(backend, str):
        made["moe_dispatcher"] = "two_level"
    layout = model.pipeline_model_parallel_layout
    if isinstance(layout, list):
        layout = "|".join("".join(LETTERS[part] for part in stage) for stage in layout)
    if isinstance(layout, str):
        placed = read_layout(layout, made["pp"])
        made |= {"vpp": len(placed.layout), "layer_layout": [list(row) for row in placed.layout]}
    return made


def _recompute(model: Any) -> str:
    granularity, modules = model.recompute_granularity, model.recompute_modules
    if granularity == "full":
        layers = _number(model.recompute_num_layers) or 1
        return f"block:{layers}" if model.recompute_method == "block" else "full" if layers == 1 else f"full:{layers}"
    if (granularity == "selective" or isinstance(granularity, StandIn)) and isinstance(modules, Sequence) and modules:
        return "+".join(MODULES.get(str(name), str(name)) for name in modules)
    return "none"


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_on(value: Any) -> bool:
    return value is True
