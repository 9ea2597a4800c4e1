"""The backend that runs the cases: PyTorch, also with torch_npu."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from app.measuring.torch_kernels import KERNELS, Runnable, torch_type
from calibration.measurements.cases import Case, Kind
from calibration.measurements.files import Device, one_line
from calibration.measurements.timing import Prepared, UnsupportedCaseError
from documents.errors import InputError, unknown_name
from documents.sentences import Sentence

DEVICES = ("cuda", "npu", "cpu")
_COMMUNICATION = {"cuda": "nccl", "npu": "hccl", "cpu": "gloo"}
_PACKAGES = {"cuda": "torch", "npu": "torch_npu", "cpu": "torch"}


class TorchBackend:
    """The device of one rank. Under ``torchrun`` all ranks run the same cases and agree on seconds and unsupported cases."""

    def __init__(self, kind: str | None) -> None:
        if kind is not None and kind not in DEVICES:
            raise unknown_name("--device", kind, DEVICES, what=Sentence("kind of device"))
        self.torch = _imported("torch")
        self.kind = kind or self._found()
        if self.kind == "npu":
            _imported("torch_npu")
        self._of_kind: Any = getattr(self.torch, self.kind)
        if self.kind != "cpu" and not self._of_kind.is_available():
            raise InputError(
                Sentence("--device: this PyTorch ({}) finds no {} device here; give another.", self.torch.__version__, self.kind)
            )
        self.num_ranks, self.rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = self.torch.device(self.kind) if self.kind == "cpu" else self.torch.device(self.kind, local)
        if self.kind != "cpu":
            self._of_kind.set_device(self.device)
        self.torch.manual_seed(self.rank)
        if self.num_ranks > 1:
            self.distributed: Any = import_module("torch.distributed")
            self.distributed.init_process_group(_COMMUNICATION[self.kind])

    def _found(self) -> str:
        if self.torch.cuda.is_available():
            return "cuda"
        try:
            import_module("torch_npu")
        except ImportError:
            return "cpu"
        return "npu" if self.torch.npu.is_available() else "cpu"

    def close(self) -> None:
        """Leaves the process group."""
        if self.num_ranks > 1:
            self.distributed.destroy_process_group()

    @property
    def description(self) -> Device:
        name = platform.processor() or platform.machine() if self.kind == "cpu" else self._of_kind.get_device_name(self.device)
        return Device(one_line(name), self.kind, self.num_ranks, self._capability())

    def _capability(self) -> float | None:
        if self.kind != "cuda":
            return None
        major, minor = self._of_kind.get_device_capability(self.device)
        return float(f"{major}.{minor}")

    @property
    def software(self) -> Mapping[str, str]:
        """Versions by name."""
        versions = {"python": platform.python_version(), "torch": self.torch.__version__, "system": platform.platform()}
        if self.kind == "npu":
            versions["torch_npu"] = import_module("torch_npu").__version__
            versions["cann"] = str(getattr(self.torch.version, "cann", None))
        if self.kind == "cuda":
            versions |= {"cuda": str(self.torch.version.cuda), "hip": str(self.torch.version.hip)}
            versions["cudnn"] = str(self.torch.backends.cudnn.version())
        if self.num_ranks > 1:
            versions["communication"] = _COMMUNICATION[self.kind]
        return {name: one_line(version) for name, version in versions.items()}

    def prepare(self, case: Case) -> Prepared:
        """Allocate the case's tensors; raises ``UnsupportedCaseError`` on all ranks if one cannot run it."""
        runnable: list[Runnable] = []
        self._agreed(lambda: runnable.append(self._runnable(case)))
        run, kernel, is_fused = runnable[0].call, runnable[0].kernel, runnable[0].is_fused

        def work(calls: int) -> float:
            def batch() -> None:
                for _ in range(calls):
                    run()
                self._wait()

            self._wait()
            began_s = time.perf_counter()
            self._agreed(batch, may_fail=case.kind is not Kind.COLLECTIVE)
            return self._slowest(time.perf_counter() - began_s)

        return Prepared(work, kernel, is_fused, self._memory if case.kind is Kind.LAYER else None)

    def _runnable(self, case: Case) -> Runnable:
        if case.kind is Kind.LAYER:
            if self.kind == "cpu":
                raise UnsupportedCaseError(Sentence("a processor's memory has no pool to ask about."))
            self._of_kind.empty_cache()
            self._of_kind.reset_peak_memory_stats()
        torch_type(self.torch, case.precision)
        runnable = KERNELS[case.kind](case, self.torch, self.device)
        runnable.call()  # an unsupported operation fails here
        self._wait()
        return runnable

    def _memory(self) -> tuple[int, int]:
        return int(self._of_kind.max_memory_allocated()), int(self._of_kind.max_memory_reserved())

    def _wait(self) -> None:
        if self.kind != "cpu":
            self._of_kind.synchronize()

    def _agreed(self, step: Callable[[], Any], *, may_fail: bool = True) -> None:
        """Run ``step``. A failure on one rank makes the case unsupported on all; a broken collective ends the run."""
        reason = ""
        try:
            step()
        except UnsupportedCaseError as error:
            reason = str(error)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError) as error:
            reason = Sentence("PyTorch says: {}", one_line(str(error)))
        if may_fail and self.num_ranks > 1 and self._slowest(float(bool(reason))):
            reason = reason or Sentence("another rank cannot run it.")
        if reason:
            raise UnsupportedCaseError(reason)

    def _slowest(self, value: float) -> float:
        if self.num_ranks == 1:
            return value
        held = self.torch.tensor([value], dtype=self.torch.float64 if self.kind != "npu" else self.torch.float32).to(self.device)
        self.distributed.all_reduce(held, op=self.distributed.ReduceOp.MAX)
        return float(held.item())


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            Sentence(
                "--device: {} cannot be imported ({}); measuring needs the PyTorch that "
                "trains on these devices: run meshplan with the Python that has it.",
                name,
                one_line(str(error)),
            )
        ) from None
