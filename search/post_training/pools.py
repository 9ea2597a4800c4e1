"""The part of a training pool that is used, and its layout: more devices never make the result slower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from cost_models.layer.compute import achievable_flops_per_s
from cost_models.post_training.training_side import FORWARD_PART
from cost_models.shapes.flops import model_flops_per_token
from cost_models.shapes.strategy import ParallelStrategy
from cost_models.shapes.workload import Workload
from documents.errors import InfeasibleError
from documents.sentences import Sentence
from search.post_training.layouts import CostOf, PoolPricing, PricedLayout, Shortlist, with_devices

EXACT_SIZES = 64  # size of a pool up to which all sizes are tried; above, each octave has half as many

LayoutsOf = Callable[[Workload], Sequence[ParallelStrategy]]


def pool_sizes(devices: int) -> Iterator[int]:
    """Numbers of devices that are tried for a pool of ``devices``, the largest first.

    Every number up to 64, then every second up to 128, every fourth up to 256: that includes whole nodes of 8 up to 512 devices.
    The sizes of a larger pool include the sizes of a smaller one.
    """
    size = devices
    while size > 0:
        step = 1 << max((size // EXACT_SIZES).bit_length(), 0)
        size -= size % step
        yield size
        size -= 1


@dataclass
class TrainingPools:
    """The best training layouts on pools of every size; each size is priced once.

    ``layouts_of``: the layouts of a pool. ``pricing`` may be that of other pools of the same job. ``cost_s``: the part of a step
    that a layout takes, at least the matmuls of ``passes`` forward passes. A pool keeps devices idle if layouts that fill it are
    slower than layouts of fewer devices.
    """

    workload: Workload
    layouts_of: LayoutsOf
    pricing: PoolPricing
    cost_s: CostOf
    passes: float = 3.0  # forward and back
    _short: dict[int, Shortlist] = field(default_factory=dict, repr=False)
    _priced: dict[int, PricedLayout | None] = field(default_factory=dict, repr=False)

    def best(self, devices: int, each: int = 1) -> tuple[Workload, PricedLayout]:
        """The workload on the devices that are used, and its layout; one that fits if there is any.

        ``each``: devices of a replica; whole replicas are used. ``InfeasibleError`` where no layout fills a pool of any size.
        """
        best: tuple[Workload, PricedLayout] | None = None
        for size in (each * count for count in pool_sizes(devices // each)):
            if best is not None and best[1].times.fits and self._least_s(size) >= best[1].cost_s:
                break
            found = self._filled(size, None if best is None else best[1])
            if found is not None and (best is None or found.key < best[1].key):
                best = with_devices(self.workload, size), found
        if best is None:
            raise InfeasibleError(Sentence("No training layout fills {} devices for {}.", devices, self.workload.model.name))
        return best

    def _filled(self, size: int, best: PricedLayout | None) -> PricedLayout | None:
        """The layout that fills the pool; ``None`` where none does, or none can come before ``best``."""
        if size not in self._short:
            pool = with_devices(self.workload, size)
            self._short[size] = Shortlist.of(pool, self.layouts_of(pool), self.pricing)
        short = self._short[size]
        if best is not None and short.loses(best):
            return None
        if size not in self._priced:
            self._priced[size] = short.priced(self.pricing, self.cost_s)
        return self._priced[size]

    def _least_s(self, size: int) -> float:
        """Lower bound for all layouts: the matmuls at the best measured rate, on that many devices. [s]"""
        rate = achievable_flops_per_s(self.workload.cluster.profile, self.workload.training.precision)
        flops = model_flops_per_token(self.workload.model, 1.0) * FORWARD_PART * float(self.pricing.sequence_lengths.sum())
        return flops * self.passes / (rate * size)
