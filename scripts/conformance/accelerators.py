"""Values that frameworks read from the stand-ins of accelerator libraries: dtypes, devices, versions, process groups."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from scripts.conformance.stand_ins import StandIn, replace_packages

# Packages that the frameworks require, so that an answer never depends on the machine. Optional packages are not here, since
# frameworks expect an ImportError for them; numpy, PyYAML and packaging are real.
SHARED = (
    *("torch", "torchvision", "einops", "transformers", "sentencepiece", "tiktoken", "datasets", "wandb", "triton", "nltk"),
    *("tensorstore", "zarr", "safetensors", "regex", "tqdm", "psutil", "scipy", "pandas", "sklearn", "tokenizers", "peft"),
    *("accelerate", "jsonlines", "pybind11", "setuptools_scm", "six"),
)
OF_GPUS = (*SHARED, "transformer_engine", "transformer_engine_torch", "fused_weight_gradient_mlp_cuda", "deep_ep")
REMOVED = "mindspeed_llm.tasks.checkpoint.models"  # MindSpore's back end imports it after its removal: it converts checkpoints
OF_NPUS = (
    *SHARED,
    REMOVED,
    "mindspore",
    "msadapter",
    "torch_npu",
    "torchair",
    "acl",
    "bitsandbytes",
    "sqlalchemy",
    "highspy",
    "nevergrad",
    "networkx",
)
OF_MINDSPORE = (
    *("mindspore", "mindspore_gs", "torch", "transformers", "safetensors", "datasets", "tokenizers", "sentencepiece", "tiktoken"),
    *("ftfy", "regex", "tqdm", "psutil", "nltk", "jieba", "rouge_chinese", "pyarrow", "cv2", "PIL", "mindpet", "setproctitle"),
    *("ms_custom_ops", "sklearn", "scipy", "pandas", "huggingface_hub", "einops", "deprecated", "matplotlib", "ray"),
    *("astunparse", "requests", "tensorboardX", "httpx", "six", "urllib3"),
)
VERSIONS = {"transformers": "4.57.1", "mindspore": "2.8.0", "PIL": "10.4.0", "tokenizers": "0.22.0"}
TORCH, TRANSFORMER_ENGINE = "2.7.1", "2.8.0"
TORCH_TYPES = {
    **{"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1, "bool": 1},
    **{"uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8},
}
TORCH_SHORT = {"float": "float32", "half": "float16", "double": "float64", "int": "int32", "long": "int64", "short": "int16"}
MINDSPORE_TYPES = {
    **{"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "bool_": 1, "complex64": 8, "complex128": 16},
    **{"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8},
}
DEVICES_PER_NODE = 8


class ElementType:
    """A dtype that ``isinstance`` recognises and that prints like the library's own."""

    def __init__(self, library: str, name: str, itemsize: int) -> None:
        self.printed, self.name, self.itemsize = f"{library}{name}", name, itemsize

    def __repr__(self) -> str:
        return self.printed


class ModuleList(StandIn):
    """Layers of a block; constructors compare their number."""

    def __init__(self, modules: Iterable[Any] = ()) -> None:
        self.held = list(modules)

    def append(self, module: Any) -> None:
        self.held.append(module)

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.held)

    def __getitem__(self, item: Any) -> Any:
        return self.held[item]


class ProcessGroup(StandIn):
    """A process group with its ranks. This process is rank 0, or the position ``acts_as`` of the group."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks = list(ranks)
        self.acts_as: int | None = None

    def size(self) -> int:
        return len(self.ranks)

    def rank(self) -> int:
        if self.acts_as is not None:
            return self.acts_as
        return self.ranks.index(0) if 0 in self.ranks else -1


class World:
    """``torch.distributed`` of a single process that stands for a job of many."""

    def __init__(self) -> None:
        self.started = False
        self.size = DEVICES_PER_NODE

    def start(self, *_values: Any, **keywords: Any) -> None:
        self.started, self.size = True, keywords.get("world_size", self.size)

    def group(self, ranks: Sequence[int] | None = None, **_keywords: Any) -> ProcessGroup:
        members = list(range(self.size)) if ranks is None else list(ranks)
        if len(set(members)) != len(members) or any(not 0 <= rank < self.size for rank in members):
            raise ValueError(f"a process group of ranks that the plan does not have: {members[:16]}")
        return ProcessGroup(members)

    def size_of(self, group: Any = None) -> int:
        return group.size() if isinstance(group, ProcessGroup) else self.size

    def ranks_of(self, group: Any = None) -> list[int]:
        return group.ranks if isinstance(group, ProcessGroup) else list(range(self.size))

    def answer_for(self, distributed: Any) -> None:
        distributed.is_available = staticmethod(lambda: True)
        distributed.is_initialized = staticmethod(lambda: self.started)
        distributed.init_process_group = staticmethod(self.start)
        distributed.new_group = staticmethod(self.group)
        distributed.get_rank = staticmethod(lambda group=None: group.rank() if isinstance(group, ProcessGroup) else 0)
        distributed.get_world_size = staticmethod(self.size_of)
        distributed.get_process_group_ranks = staticmethod(self.ranks_of)
        distributed.get_backend = staticmethod(lambda *_: "nccl")


def _rearranged(values: Any, pattern: str, **sizes: int) -> Any:
    """The one result that a start needs: ranks of hierarchical context parallelism, a row for each group."""
    if pattern != "(l s u) -> (l u) s":
        return StandIn()
    levels = values.reshape(sizes["l"], sizes["s"], sizes["u"])
    return levels.swapaxes(1, 2).reshape(-1, sizes["s"])


class _FusedAdam:
    """Transformer Engine's FusedAdam; Megatron-LM inspects its parameters before it keeps moments in 16 bits."""

    def __init__(
        self, params: Any, *, master_weight_dtype: Any, exp_avg_dtype: Any, exp_avg_sq_dtype: Any, use_decoupled_grad: bool
    ) -> None:
        """Accept the parameters and keep none."""


class _RngStates:
    """Transformer Engine's tracker of random states, which layers under CUDA graphs ask for."""

    def reset(self) -> None:
        """Forget all states; there are none."""

    def add(self, name: str, seed: int) -> None:
        """Accept a state and keep none."""

    def fork(self, name: str = "") -> AbstractContextManager[None]:
        """Run under a state; there is none to change."""
        return nullcontext()


def gpus() -> None:
    """PyTorch with CUDA devices and Transformer Engine."""
    if not hasattr(typing, "override"):  # Megatron-LM 0.19 is written for Python 3.12
        typing.override = lambda method: method  # type: ignore[attr-defined]
    replace_packages(OF_GPUS, VERSIONS)
    _torch()
    import einops  # type: ignore[import-not-found]
    import transformer_engine  # type: ignore[import-not-found]
    import transformer_engine.pytorch.cpu_offload  # type: ignore[import-not-found]
    import transformer_engine.pytorch.distributed  # type: ignore[import-not-found]
    import transformer_engine.pytorch.optimizers  # type: ignore[import-not-found]

    einops.rearrange = staticmethod(_rearranged)
    transformer_engine.__version__ = TRANSFORMER_ENGINE
    offload = transformer_engine.pytorch.cpu_offload
    offload.get_cpu_offload_context = staticmethod(lambda *_values, **_keywords: (None, None))
    transformer_engine.pytorch.optimizers.FusedAdam = _FusedAdam
    transformer_engine.pytorch.distributed.CudaRNGStatesTracker = _RngStates


def npus() -> None:
    """PyTorch with Ascend devices, which also answers for CUDA, as with ``transfer_to_npu``."""
    replace_packages(OF_NPUS, VERSIONS)
    _torch()
    import torch  # type: ignore[import-not-found]
    import torch_npu  # type: ignore[import-not-found]

    torch_npu.__version__ = TORCH
    torch.npu.is_available = staticmethod(lambda: True)
    torch.npu.device_count = staticmethod(lambda: DEVICES_PER_NODE)
    torch.npu.get_device_name = torch_npu.npu.get_device_name = staticmethod(lambda *_: "Ascend910B")


def _nothing_is_compiled(*_values: Any, **_keywords: Any) -> None:
    raise RuntimeError("nothing is compiled here")


def _torch() -> None:
    import torch
    import torch.nn  # type: ignore[import-not-found]
    import torch.utils.cpp_extension  # type: ignore[import-not-found]

    torch.__version__ = TORCH
    torch.dtype = ElementType
    for name, size in TORCH_TYPES.items():
        setattr(torch, name, ElementType("torch.", name, size))
    for name, whole in TORCH_SHORT.items():
        setattr(torch, name, getattr(torch, whole))
    torch.version.cuda, torch.version.hip = "12.6", None
    properties = {"major": 9, "minor": 0, "multi_processor_count": 132, "total_memory": 80 << 30, "name": "stand-in"}
    torch.cuda.is_available = staticmethod(lambda: True)
    torch.cuda.device_count = staticmethod(lambda: DEVICES_PER_NODE)
    torch.cuda.current_device = staticmethod(lambda: 0)
    torch.cuda.get_device_capability = staticmethod(lambda *_: (9, 0))
    torch.cuda.get_device_properties = staticmethod(lambda *_: types.SimpleNamespace(**properties))
    torch.utils.cpp_extension.CUDA_HOME = "no-such-folder"
    torch.utils.cpp_extension._get_build_directory = staticmethod(lambda *_values, **_keywords: "no-such-folder")
    torch.utils.cpp_extension.load_inline = staticmethod(_nothing_is_compiled)
    torch.nn.ModuleList = ModuleList
    torch.tensor = staticmethod(lambda *_values, **_keywords: StandIn())
    World().answer_for(torch.distributed)


def mindspore() -> None:
    """MindSpore on Ascend, in graph mode."""
    replace_packages(OF_MINDSPORE, VERSIONS)
    import mindspore  # type: ignore[import-not-found]
    import mindspore.common.dtype  # type: ignore[import-not-found]
    import mindspore.communication  # type: ignore[import-not-found]
    import mindspore.context  # type: ignore[import-not-found]

    sys.modules["mindspore.dtype"] = mindspore.dtype = mindspore.common.dtype
    for name, size in MINDSPORE_TYPES.items():
        kind = ElementType("", name, size)
        for module in (mindspore, mindspore.common, mindspore.common.dtype):
            setattr(module, name, kind)
    parallel = {"parallel_mode": "semi_auto_parallel", "pipeline_stages": 1, "full_batch": False}
    context = {"mode": 0, "device_target": "Ascend"}
    for module in (mindspore, mindspore.context):
        module.get_auto_parallel_context = staticmethod(parallel.get)
        module.get_context = staticmethod(context.get)
        module.GRAPH_MODE, module.PYNATIVE_MODE = 0, 1
    for mode in ("semi_auto_parallel", "auto_parallel", "data_parallel"):
        setattr(mindspore.context.ParallelMode, mode.upper(), mode)
