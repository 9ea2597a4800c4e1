"""Lets code for CUDA devices run on a processor: install this before the framework is imported.

A device named cuda is the processor, streams and events do nothing, and Triton is an empty module, whose kernels must not be
called. What is computed, kept and sent does not change.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from typing import Any

import torch
import torch._dynamo  # before Triton is empty
import torch._inductor.runtime.hints

PROCESSOR = torch.device("cpu")
MAKERS = (
    "arange as_tensor empty empty_like eye full full_like linspace ones ones_like rand randint randn scalar_tensor tensor tril"
    " triu zeros zeros_like"
)
TENSOR_TYPES = ("BFloat16", "Byte", "Double", "Float", "Half", "Int", "Long")


class Anything:
    """Takes any call, attribute and item; as a decorator it returns the function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key: Any) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: Any) -> bool:
        return False


def empty_module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    module.__version__ = "3.0.0"

    def attribute(of: str) -> Any:
        if of.startswith("__"):
            raise AttributeError(of)
        return Anything()

    module.__getattr__ = attribute
    sys.modules[name] = module
    return module


def here(device: Any) -> Any:
    """The processor in place of a CUDA device; anything else as it is."""
    return PROCESSOR if isinstance(device, int) or "cuda" in str(device) else device


def _on_the_processor(make: Any) -> Any:
    def made(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = here(kwargs["device"])
        return make(*args, **kwargs)

    return made


def install() -> None:
    torch.compile = lambda f=None, *args, **kwargs: f if callable(f) else (lambda g: g)
    empty_module("triton").language = empty_module("triton.language")
    cuda = torch.cuda

    def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    def state(*args: Any, **kwargs: Any) -> Any:
        return torch.zeros(1, dtype=torch.uint8)

    for name in "synchronize empty_cache set_device set_rng_state manual_seed manual_seed_all".split():
        setattr(cuda, name, nothing)
    cuda.Stream = cuda.Event = Anything
    cuda.current_device = lambda: PROCESSOR
    cuda.current_stream = cuda.default_stream = lambda *args, **kwargs: Anything()
    cuda.stream = lambda stream: contextlib.nullcontext()
    cuda.is_available = cuda.is_current_stream_capturing = lambda: False
    cuda.device_count = lambda: 8
    cuda.get_device_capability = lambda *args, **kwargs: (9, 0)
    cuda.get_rng_state = cuda.random.get_rng_state = state
    cuda.random.set_rng_state = cuda.nvtx.range_push = cuda.nvtx.range_pop = nothing
    for name in TENSOR_TYPES:
        setattr(cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    for name in MAKERS.split():
        setattr(torch, name, _on_the_processor(getattr(torch, name)))
    tensor = torch.Tensor
    tensor.cuda = torch.nn.Module.cuda = tensor.pin_memory = lambda self, *args, **kwargs: self
    tensor.record_stream = nothing
    to, kind = tensor.to, tensor.type
    tensor.to = lambda self, *args, **kwargs: to(
        self,
        *(
            each if isinstance(each, int | torch.dtype) else here(each) if isinstance(each, str | torch.device) else each
            for each in args
        ),
        **kwargs,
    )
    # Names of types tell frameworks whether a parameter is on the device.
    tensor.type = lambda self, *args, **kwargs: (
        kind(self, *args, **kwargs) if args or kwargs else kind(self).replace("torch.", "torch.cuda.")
    )
