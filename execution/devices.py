"""Code for accelerators on a processor: devices become the CPU, streams and random states do nothing, nothing is compiled."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter
from typing import Any

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
os.environ.setdefault("NO_VCS_VERSION", "1")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an accelerator's own package would take the devices

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from execution.meters import HOST
from execution.running import live, routing

CPU = torch.device("cpu")
TYPES = ("FloatTensor", "IntTensor", "LongTensor", "HalfTensor", "BFloat16Tensor", "ByteTensor", "DoubleTensor", "BoolTensor")


class Nothing:
    """A stream or an event: every method does nothing."""

    def __init__(self, *_values: Any, **_keywords: Any) -> None:
        self.cuda_stream = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_values, **_keywords: None

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_error: Any) -> bool:
        return False

    def record_event(self, *_values: Any) -> Nothing:
        return Nothing()

    def query(self) -> bool:
        return True

    def elapsed_time(self, *_values: Any) -> float:
        return 0.0


def _is_accelerator(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type in ("cuda", "npu")
    return isinstance(value, str) and value.partition(":")[0] in ("cuda", "npu")


class OnProcessor(TorchFunctionMode):
    """Rewrites devices in calls, and answers the calls that read values of tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        device = kwargs.get("device")
        if device is not None and (_is_accelerator(device) or isinstance(device, int)):
            kwargs = {**kwargs, "device": CPU}
        if kwargs.get("pin_memory"):  # a tensor of the host
            with live.of_kind(HOST):
                return func(*args, **{**kwargs, "pin_memory": False})
        if func is torch.Tensor.to:
            args = tuple(CPU if _is_accelerator(each) else each for each in args)
        elif func is torch.Tensor.data_ptr and isinstance(args[0], FakeTensor):
            return id(args[0].untyped_storage()) + args[0].storage_offset()
        elif func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return str(func(*args)).replace("torch.", "torch.cuda.", 1)
        elif func is torch.tensor:
            return _tensor(func, args, kwargs)
        elif func is torch.Tensor.numpy and routing.get("counting"):  # counts that are replaced afterwards
            return type(routing["counting"])([0] * args[0].numel())
        elif func in (torch.Tensor.tolist, torch.Tensor.numpy) and isinstance(args[0], FakeTensor):
            raise RuntimeError(f"the values of a tensor of shape {tuple(args[0].shape)} are wanted, and it holds none")
        return func(*args, **kwargs)


def _tensor(func: Any, args: Any, kwargs: Any) -> Any:
    """``torch.tensor`` of tensors reads their values; make one of the same shape instead."""
    data = args[0] if args else kwargs["data"]
    if type(data).__name__ == "Shares":  # numbers on the host, which the framework reads again
        return data
    if isinstance(data, FakeTensor):
        return data.detach().clone().to(kwargs.get("dtype") or data.dtype)
    if isinstance(data, list | tuple):
        fakes = [each for each in data if isinstance(each, FakeTensor)]
        if fakes:
            return fakes[0].new_empty((len(data), *fakes[0].shape), dtype=kwargs.get("dtype") or fakes[0].dtype)
    return func(*args, **kwargs)


def one_kernel(function: Any, meter: Any) -> Any:
    """A function that a compiler would make one kernel of."""

    @functools.wraps(function)
    def fused(*values: Any, **keywords: Any) -> Any:
        running = meter()
        if running is None:
            return function(*values, **keywords)
        with running.fused():
            out = function(*values, **keywords)
        running.see(out, function.__name__)
        return out

    return fused


def converted(dtype: torch.dtype) -> Any:
    """``Module.bfloat16`` and its like: parameters stay the same objects if they can, and keep their marks if they cannot.

    PyTorch's own makes new parameters of tensors without data, so that the framework's marks would be lost.
    """

    def convert(module: torch.nn.Module) -> torch.nn.Module:
        for each in module.modules():
            for name, parameter in each._parameters.items():
                if parameter is not None and parameter.is_floating_point() and parameter.dtype is not dtype:
                    made = torch.nn.Parameter(parameter.data.to(dtype), parameter.requires_grad)
                    made.__dict__.update(parameter.__dict__)
                    each._parameters[name] = made
            for name, buffer in each._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    each._buffers[name] = buffer.to(dtype)
        return module

    return convert


def install(meter: Any) -> None:
    """Replace ``torch.cuda`` and the compilers; ``meter`` gives the running meter, or ``None``."""

    def compiled(function: Any = None, *_values: Any, **_keywords: Any) -> Any:
        return one_kernel(function, meter) if callable(function) else lambda each: one_kernel(each, meter)

    torch.compile = compiled
    torch.jit.script = compiled
    cuda: Any = torch.cuda
    state = torch.zeros(1, dtype=torch.uint8)
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: True
    cuda.current_device = lambda: CPU
    cuda.device_count = lambda: 8
    cuda.Stream = cuda.Event = Nothing
    cuda.current_stream = cuda.default_stream = lambda *_values, **_keywords: Nothing()
    cuda.stream = lambda *_values: contextlib.nullcontext()
    cuda.device = lambda *_values: contextlib.nullcontext()
    for name in (
        "synchronize",
        "empty_cache",
        "set_device",
        "set_stream",
        "manual_seed",
        "manual_seed_all",
        "init",
        "_lazy_init",
    ):
        setattr(cuda, name, lambda *_values, **_keywords: None)
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *_values, **_keywords: state
    cuda.set_rng_state = cuda.random.set_rng_state = lambda *_values, **_keywords: None
    cuda.is_current_stream_capturing = lambda: False
    cuda.get_device_capability = lambda *_values, **_keywords: (9, 0)
    cuda.get_device_properties = lambda *_values: _Properties()
    cuda.get_device_name = lambda *_values: "stand-in"
    cuda.memory_allocated = cuda.max_memory_allocated = cuda.memory_reserved = lambda *_values, **_keywords: 0
    cuda.memory_stats = lambda *_values, **_keywords: Counter()
    cuda.nvtx.range_push = cuda.nvtx.range_pop = lambda *_values, **_keywords: None
    # The method refuses a stream that is none before any mode sees the call.
    torch.Tensor.record_stream = lambda _tensor, _stream: None  # type: ignore[method-assign,assignment]
    for name in TYPES:
        setattr(cuda, name, getattr(torch, name))
    torch.nn.Module.bfloat16, torch.nn.Module.half = converted(torch.bfloat16), converted(torch.float16)
    torch.nn.Module.cuda = lambda module, *_values, **_keywords: module


class _Properties:
    major, minor, multi_processor_count, total_memory, name = 9, 0, 132, 80 << 30, "stand-in"
