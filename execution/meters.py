"""Meters of a step without data: bytes of live storages, matmuls, collectives, and answers that were assumed."""

from __future__ import annotations

import contextlib
import traceback
import weakref
from collections import Counter
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
MATMULS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::addmm_": 1, "aten::baddbmm_": 1}
WEIGHTS = "weights"  # the phase of weight gradients that are made apart from a backward
OPTIMIZER = "optimizer"  # the phase of the optimizer's step
HOST = "host"  # the class of tensors in the host's memory


class Live:
    """Bytes of the storages that exist, by class; those on the host are no part of the total.

    Each storage gives notice of its death, so that the peak is exact.
    """

    def __init__(self) -> None:
        self.entries: dict[int, list[Any]] = {}  # address of the storage object -> [weak reference, bytes, class, label, number]
        self.now: Counter[str] = Counter()
        self.total = self.peak = self.number = 0
        self.peak_parts: dict[str, int] = {}
        self.peak_label = ""
        self.kind = "activations"
        self.paused = 0
        real = torch.UntypedStorage.resize_

        def resize_(storage: Any, size: int) -> Any:
            out = real(storage, size)
            self._resize(storage, size)
            return out

        torch.UntypedStorage.resize_ = resize_
        copied = torch.UntypedStorage.copy_

        def copy_(storage: Any, source: Any, *values: Any) -> Any:
            # Of tensors without data PyTorch would keep both storages for good.
            return storage if storage.device.type == "meta" else copied(storage, source, *values)

        torch.UntypedStorage.copy_ = copy_
        address = torch.UntypedStorage.data_ptr
        torch.UntypedStorage.data_ptr = lambda storage: id(storage) if storage.device.type == "meta" else address(storage)

    def _add(self, kind: str, nbytes: int) -> None:
        self.now[kind] += nbytes
        if kind != HOST:
            self.total += nbytes

    def _resize(self, storage: Any, size: int) -> None:
        entry = self.entries.get(id(storage))
        if entry is not None and entry[0]() is storage:
            self._add(entry[2], size - entry[1])
            entry[1] = size
            self._notice("resize")

    def _notice(self, label: str) -> None:
        if self.total > self.peak:
            self.peak, self.peak_parts, self.peak_label = self.total, dict(self.now), label

    def see(self, tensor: torch.Tensor, label: str) -> None:
        """Count the storage of a tensor, once."""
        while hasattr(tensor, "_local_tensor"):  # a DTensor reports the storage of the whole; it holds its shard
            tensor = tensor._local_tensor
        storage = tensor.untyped_storage()
        key = id(storage)
        entry = self.entries.get(key)
        if entry is not None and entry[0]() is storage:
            return

        def gone(_: Any, key: int = key) -> None:
            entry = self.entries.pop(key, None)
            if entry is not None:
                self._add(entry[2], -entry[1])

        self.number += 1
        self.entries[key] = [weakref.ref(storage, gone), storage.nbytes(), self.kind, label, self.number]
        self._add(self.kind, storage.nbytes())
        self._notice(label)

    def release(self, tensor: torch.Tensor) -> None:
        """The storage of a tensor becomes a part of another one, and needs no memory of its own."""
        self._resize(tensor.untyped_storage(), 0)

    def held(self, storage: Any) -> int:
        """Bytes of a storage."""
        entry = self.entries.get(id(storage))
        return int(storage.nbytes() if entry is None else entry[1])

    @contextlib.contextmanager
    def of_kind(self, kind: str) -> Any:
        """Name the class of what is made meanwhile."""
        before, self.kind = self.kind, kind
        try:
            yield
        finally:
            self.kind = before

    def reset_peak(self) -> None:
        """Start a new peak from what lives now."""
        self.peak = 0
        self._notice("start")

    def largest(self, kind: str, most: int) -> list[tuple[int, int, str]]:
        """Bytes, number and label of the living storages of a class that have the same label, largest first."""
        found: dict[str, list[int]] = {}
        for entry in self.entries.values():
            if entry[2] == kind:
                total = found.setdefault(entry[3], [0, 0])
                total[0] += entry[1]
                total[1] += 1
        return sorted(((nbytes, count, label) for label, (nbytes, count) in found.items()), reverse=True)[:most]

    def between(self, first: int, last: int) -> list[tuple[int, str]]:
        """Bytes and labels of the living storages with these numbers, largest first."""
        found = ((entry[1], entry[3]) for entry in self.entries.values() if first < entry[4] <= last and entry[2] != HOST)
        return sorted(found, reverse=True)


class Meter(TorchDispatchMode):
    """Counts what each operator makes and multiplies, and answers where the values of tensors are wanted."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self.live = live
        self.flops: Counter[str] = Counter()  # "forward/matmul"
        self.phase = "setup"
        self.path: list[str] = []
        self.assumed: Counter[str] = Counter()
        self.density: float | None = None
        self.operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators += 1
        if func is aten._local_scalar_dense.default and isinstance(args[0], FakeTensor):
            self.assume("item")
            return 1.0 if args[0].dtype.is_floating_point else 1
        if func is aten.masked_select.default and self.density is not None:
            self.assume("masked_select")
            out = args[0].new_empty((round(args[1].numel() * self.density),))
        else:
            out = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name in MATMULS:
            a, b = args[MATMULS[name] : MATMULS[name] + 2]
            self.multiplied("matmul", 2 * a.numel() * b.shape[-1])
        if not self.live.paused:
            self.see(out, name)
        return out

    def see(self, made: Any, name: str) -> None:
        """Count the storages of what was made."""
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, torch.Tensor):
                self.live.see(tensor, "/".join([*self.path[-3:], name]))

    def multiplied(self, kind: str, flops: int) -> None:
        """Count FLOPs as of the backward if autograd is at work, with what it computes again, or a weight gradient is late.

        Those of the optimizer's step are apart.
        """
        if self.phase != "setup":
            backward = self.phase == WEIGHTS or torch._C._current_graph_task_id() != -1
            part = OPTIMIZER if self.phase == OPTIMIZER else "backward" if backward else "forward"
            self.flops[f"{part}/{kind}"] += flops

    def assume(self, what: str) -> None:
        """Note an answer that was assumed, with the line that wanted it."""
        frames = reversed(traceback.extract_stack(limit=16)[:-2])
        site = next((each for each in frames if "/torch/" not in each.filename and "/execution/" not in each.filename), None)
        self.assumed[f"{what} at {'/'.join(site.filename.split('/')[-3:])}:{site.lineno}" if site else what] += 1

    @contextlib.contextmanager
    def fused(self) -> Any:
        """One kernel: what it makes inside needs no memory of its own."""
        self.live.paused += 1
        try:
            yield
        finally:
            self.live.paused -= 1


class Done:
    """The handle of a call that is over."""

    def wait(self, *_values: Any, **_keywords: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


class Calls:
    """Collectives and sends of ``torch.distributed``, noted and not made: their results hold no data."""

    def __init__(self) -> None:
        self.log: Counter[tuple[str, str, int, int, int, str, str]] = Counter()
        self.phase = "setup"
        self.names: dict[int, str] = {}
        self.kept: list[Any] = []
        self.tag = ""

    def note(self, kind: str, group: Any, nbytes: int, dtype: torch.dtype) -> None:
        """One call: bytes are of the whole tensor, all ranks' shards together."""
        if group is None:
            group = dist.group.WORLD
        size = group.size()
        self.kept.append(group) if id(group) not in self.names else None
        self.log[self.phase, kind, id(group), size, int(nbytes), str(dtype)[6:], self.tag] += 1

    def by_group(self) -> list[dict[str, Any]]:
        """The calls with the framework's names of their groups."""
        totals: Counter[tuple[Any, ...]] = Counter()
        sends = dict.fromkeys(
            ("isend", "irecv", "send", "recv"), "pp"
        )  # a pipeline of two sends through the group of all as well
        for (phase, kind, group, size, nbytes, dtype, tag), count in self.log.items():
            totals[phase, kind, tag or self.names.get(group) or sends.get(kind, "other"), size, nbytes, dtype] += count
        names = ("phase", "kind", "group", "size", "bytes", "dtype")
        return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in sorted(totals.items())]

    def install(self) -> None:
        """Replace the calls of ``torch.distributed``."""
        library = dist.distributed_c10d

        def given(values: Any, keywords: Any, index: int, *names: str) -> Any:
            return next((keywords[name] for name in names if name in keywords), values[index] if len(values) > index else None)

        def replace(name: str, measured: Any, group_index: int) -> None:
            def called(*values: Any, **keywords: Any) -> Any:
                nbytes, dtype = measured(values, keywords)
                self.note(name.lstrip("_"), given(values, keywords, group_index, "group"), nbytes, dtype)
                return Done() if keywords.get("async_op") or name in ("isend", "irecv") else None

            called.__name__ = name
            setattr(dist, name, called)
            setattr(library, name, called)

        def whole(index: int, *names: str) -> Any:
            def measured(values: Any, keywords: Any) -> tuple[int, torch.dtype]:
                tensor = given(values, keywords, index, *names)
                return tensor.numel() * tensor.element_size(), tensor.dtype

            return measured

        def listed(index: int, name: str) -> Any:
            def measured(values: Any, keywords: Any) -> tuple[int, torch.dtype]:
                tensors = given(values, keywords, index, name)
                return sum(each.numel() * each.element_size() for each in tensors), tensors[0].dtype

            return measured

        replace("all_reduce", whole(0, "tensor"), 2)
        for name in ("all_gather_into_tensor", "_all_gather_base"):
            replace(name, whole(0, "output_tensor", "output"), 2)
        for name in ("reduce_scatter_tensor", "_reduce_scatter_base"):
            replace(name, whole(1, "input"), 3)
        replace("all_to_all_single", whole(1, "input"), 4)
        replace("broadcast", whole(0, "tensor"), 2)
        replace("reduce", whole(0, "tensor"), 3)
        for name in ("send", "recv", "isend", "irecv"):
            replace(name, whole(0, "tensor"), 2)
        replace("barrier", lambda _values, _keywords: (0, torch.int8), 0)
        replace("all_gather", listed(0, "tensor_list"), 2)
        replace("reduce_scatter", listed(1, "input_list"), 3)

        def batch_isend_irecv(operations: Any) -> list[Done]:
            for each in operations:
                nbytes = each.tensor.numel() * each.tensor.element_size()
                self.note(getattr(each.op, "__name__", str(each.op)), each.group, nbytes, each.tensor.dtype)
            return [Done()]

        dist.batch_isend_irecv = library.batch_isend_irecv = batch_isend_irecv

        def all_gather_object(objects: list[Any], value: Any, group: Any = None) -> None:
            objects[:] = [value] * len(objects)  # every rank is taken to say what this one says

        dist.all_gather_object = library.all_gather_object = all_gather_object
        dist.broadcast_object_list = library.broadcast_object_list = lambda *_values, **_keywords: None

        @contextlib.contextmanager
        def _coalescing_manager(*_values: Any, **_keywords: Any) -> Any:
            yield Done()

        dist._coalescing_manager = library._coalescing_manager = _coalescing_manager
