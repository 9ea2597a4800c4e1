"""What a process holds, sends and multiplies: live storages, collectives, FLOPs of matmuls."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import StorageWeakRef
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode


class Kept(NamedTuple):
    """A storage: its number in the order of creation, its bytes now, and the module and operator that made it."""

    number: int
    num_bytes: int
    maker: str


class Storages(TorchDispatchMode):
    """Storages that operators made while the mode was on, and matmul FLOPs by phase. Parameters and buffers are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = "setup"
        self.path: list[str] = []
        self.flops: Counter[str] = Counter()
        self.counts_flops = True
        self.peak_bytes: int | None = None  # None: not followed
        self._made: dict[int, tuple[StorageWeakRef, int, str]] = {}
        self._left_out: set[int] = set()
        self._number = 0

    def leave_out(self, tensor: Any) -> None:
        self._left_out.add(tensor.untyped_storage()._cdata)

    def live_bytes(self) -> int:
        return sum(_bytes(reference) for reference, _, _ in self._made.values())

    def listing(self, since: int = 0) -> Iterator[Kept]:
        for reference, number, maker in self._made.values():
            if number > since and (now := _bytes(reference)):
                yield Kept(number, now, maker)

    @property
    def number(self) -> int:
        """Of the storage that was made last."""
        return self._number

    def add_flops(self, number: float, kind: str = "linear") -> None:
        self.flops[f"{self.phase}|{kind}"] += int(number)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = str(func)
        if self.counts_flops and name.startswith(("aten.mm.", "aten.addmm.", "aten.bmm.", "aten.baddbmm.")):
            left, right = args[-2:] if name.startswith(("aten.mm.", "aten.bmm.")) else args[1:3]
            self.add_flops(2 * left.numel() * right.shape[-1], "attention" if "bmm" in name else "linear")
        if self.counts_flops and name.startswith("aten._scaled_dot_product_flash_attention_for_cpu.default"):
            query, key, value = args[:3]
            self.add_flops(2 * query.shape[:-1].numel() * key.shape[2] * (query.shape[3] + value.shape[3]), "attention")
        for each in out if isinstance(out, tuple | list) else (out,):
            if isinstance(each, torch.Tensor):
                self._see(each, name)
        if self.peak_bytes is not None:
            self.peak_bytes = max(self.peak_bytes, self.live_bytes())
        return out

    def _see(self, tensor: Any, operator: str) -> None:
        local = getattr(tensor, "_local_tensor", tensor)
        storage = getattr(local, "elem", local).untyped_storage()  # of a collective that is under way
        key = storage._cdata
        known = self._made.get(key)
        if key in self._left_out or (known is not None and not known[0].expired()):
            return
        self._number += 1
        maker = f"{'/'.join(self.path)} {operator} {tuple(tensor.shape)} {str(tensor.dtype)[6:]}"
        self._made[key] = StorageWeakRef(storage), self._number, maker


def most_allocated(step: Callable[[], object]) -> int:
    """The most bytes that ``step`` held at once of what it allocated, compiled kernels included."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    with tempfile.TemporaryDirectory() as folder:
        profiled.export_chrome_trace(str(path := Path(folder) / "trace.json"))
        events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: float(event["ts"])):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most


def _bytes(reference: StorageWeakRef) -> int:
    """Bytes of a storage now: a framework may have resized it to nothing."""
    storage = None if reference.expired() else torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
    return 0 if storage is None else int(storage.nbytes())


class Done:
    """The handle of a collective that is over."""

    def wait(self, *args: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(None)
        return future


class Collectives:
    """Notes each collective instead of making it. Every rank of a group is taken to hold what this one holds.

    Entries are ``phase|group|kind|bytes|type`` with the bytes of the whole message, and how often it was sent.
    """

    def __init__(self, phase: Callable[[], str]) -> None:
        self.calls: Counter[str] = Counter()
        self.phase = phase
        self.names: dict[str, str] = {}  # of the groups, by their own names

    def note(self, kind: str, tensors: Any, group: Any) -> None:
        each = tensors if isinstance(tensors, list | tuple) else [tensors]
        num_bytes = sum(t.numel() * t.element_size() for t in each)
        group = group if group is not None else dist.group.WORLD
        name = self.names.get(group.group_name, "world")
        self.calls[f"{self.phase()}|{name}:{group.size()}|{kind}|{num_bytes}|{str(each[0].dtype)[6:]}"] += 1

    def install(self) -> None:
        def all_reduce(tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
            self.note("all_reduce", tensor, group)
            return _handle(async_op)

        def broadcast(tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None) -> Any:
            self.note("broadcast", tensor, group)
            return _handle(async_op)

        def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
            self.note("all_gather", output_tensor, group)
            output_tensor.detach().view(-1, input_tensor.numel()).copy_(input_tensor.detach().reshape(1, -1).clone())
            return _handle(async_op)

        def reduce_scatter_tensor(output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
            self.note("reduce_scatter", input, group)
            output.detach().view(-1).copy_(input.detach().reshape(-1)[: output.numel()].clone())
            return _handle(async_op)

        def all_to_all_single(
            output: Any,
            input: Any,
            output_split_sizes: Any = None,
            input_split_sizes: Any = None,
            group: Any = None,
            async_op: bool = False,
        ) -> Any:
            self.note("all_to_all", input, group)
            shared = min(output.numel(), input.numel())
            output.detach().view(-1)[:shared].copy_(input.detach().reshape(-1)[:shared])
            output.detach().view(-1)[shared:].zero_()
            return _handle(async_op)

        def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
            self.note("all_gather", tensor_list, group)
            for each in tensor_list:
                each.detach().copy_(tensor.detach())
            return _handle(async_op)

        def reduce_scatter(output: Any, input_list: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
            self.note("reduce_scatter", input_list, group)
            output.detach().copy_(input_list[0].detach())
            return _handle(async_op)

        def all_gather_object(object_list: Any, obj: Any, group: Any = None) -> None:
            object_list[:] = [obj] * len(object_list)

        def isend(tensor: Any, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> Any:
            self.note("send", tensor, group)
            return Done()

        def irecv(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None) -> Any:
            self.note("receive", tensor, group)
            tensor.detach().zero_()
            return Done()

        def batch_isend_irecv(ops: Any) -> Any:
            return [each.op(each.tensor, group=each.group) for each in ops]

        def barrier(*args: Any, **kwargs: Any) -> None:
            pass

        own = dict(locals())
        own.pop("self")
        own |= {"_all_gather_base": all_gather_into_tensor, "_reduce_scatter_base": reduce_scatter_tensor}
        own |= {"all_gather_single": all_gather_into_tensor, "reduce_scatter_single": reduce_scatter_tensor}  # since torch 2.13
        for module in (dist, dist.distributed_c10d):
            for name, function in own.items():
                setattr(module, name, function)


def _handle(async_op: bool) -> Done | None:
    return Done() if async_op else None
