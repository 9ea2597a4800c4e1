"""Reads arguments of MindSpeed-LLM as a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, RecomputeMethod, Schedule
from documents.sentences import Sentence
from frameworks.framework import ReadingError
from frameworks.megatron_lm import reader as megatron
from frameworks.mindspeed_llm.table import RELEASE, TABLE
from frameworks.table import key_of

LEADING, DISAGGREGATED = "recompute-num-layers", "layerwise-disaggregated-training"
OF_LAYERS = ("recompute-activation-function", "recompute-norm")  # modules of which a layer is left out by its number


def read(arguments: Sequence[str], num_devices: int | None) -> ParallelStrategy:
    """The strategy; unknown arguments and rejected values are skipped."""
    return Reading(RELEASE, TABLE, arguments, num_devices).strategy()


class Reading(megatron.Reading):
    """A reading with the algorithms, no-op layers and switches that MindSpeed adds."""

    def schedule(self) -> Schedule:
        """DualPipeV if it is chosen; no argument has its number of chunks."""
        method = self.value("schedules-method")
        return key_of(TABLE.schedules, method, super().schedule()) if method and self.pp > 1 else super().schedule()

    def chunks(self, vpp: int) -> int:
        """Chunks of a rank: two in a V."""
        return 2 if self.schedule().rules.is_vee else vpp

    def counts(self, total: int, vpp: int) -> list[int]:
        """Layers of each virtual stage, without no-op layers or as listed."""
        if DISAGGREGATED in self.written:
            raise ReadingError(Sentence("{} places layers on devices of two sites, and no plan says it", DISAGGREGATED))
        if self.value("num-layer-list"):
            listed = megatron.integers(self.value("num-layer-list"))
            if len(listed) != self.pp or sum(listed) != total:
                raise ReadingError(Sentence("num-layer-list {} does not place {} layers on pp {}", listed, total, self.pp))
            return listed
        counts = super().counts(total, vpp)
        slots = max(counts)
        for position in sorted(set(megatron.integers(self.value("noop-layers")))) if self.value("noop-layers") else ():
            if position >= total:
                raise ReadingError(Sentence("noop-layers has {}, and num-layers is {}", position, total))
            counts[position // slots] -= 1
        return counts

    def algorithm(self) -> Any:
        """The algorithm, from MindSpeed's own argument."""
        return self.value("context-parallel-algo")

    def ulysses_degree(self) -> int:
        """The Ulysses degree, from MindSpeed's own argument."""
        return self.number("ulysses-degree-in-cp", low=1) or 1

    def expert_degrees(self) -> tuple[int, int]:
        """Expert degrees; MindSpeed counts the expert ranks outside tp if tp extends them."""
        if self.on("moe-tp-extend-ep") and self.tp > 1:
            return self.column("ep") * self.tp, 1
        return super().expert_degrees()

    def recompute(self) -> tuple[Recompute, RecomputeMethod, int, RecomputeModule, tuple[int, ...] | None]:
        """Recompute settings, with one number of layers for each rank instead of each virtual stage, if that is given."""
        kind, method, layers, modules, _ = super().recompute()
        if kind is not Recompute.FULL and self._leading() >= self._slots():
            modules &= ~self._of_layers()
            kind = Recompute.SELECTIVE if modules else Recompute.NONE
        if self.value("recompute-granularity") == "full" and self.on("enable-recompute-layers-per-pp-rank") and self.vpp > 1:
            given = self.number("recompute-num-layers")
            layers = 1 if given is None else given
            return Recompute.FULL, RecomputeMethod.BLOCK, layers, modules, (layers,) * self.pp
        return kind, method, layers, modules, None

    def layers_without_recompute(self) -> str:
        """A sentence if a number of layers, given without full recompute, leaves some of a stage without any recompute."""
        kind, _, _, modules, _ = super().recompute()
        leading, slots = self._leading(), self._slots()
        if kind is Recompute.FULL or not modules & self._of_layers() or not 0 < leading < slots:
            return ""
        return Sentence(
            "without recompute-granularity full the first {} of {} layers recompute nothing, and no plan says it", leading, slots
        )

    def _leading(self) -> int:
        """Layers of a stage whose norms and activation functions are kept [mindspeed-llm, mlp.py; mindspeed, transformer.py]."""
        return self.number(LEADING) or 0

    def _slots(self) -> int:
        """Layers that are counted together: those of a virtual stage, or of a rank."""
        of_rank = self.vpp > 1 and self.on("enable-recompute-layers-per-pp-rank")
        return max((self.number("num-layers", low=1) or 1) // (self.pp * (1 if of_rank else self.vpp)), 1)

    def _of_layers(self) -> RecomputeModule:
        """Modules that a switch recomputes in layers by their number."""
        found = RecomputeModule(0)
        for module, name in self.table.module_switches.items():
            found |= module if name in OF_LAYERS else RecomputeModule(0)
        return found
