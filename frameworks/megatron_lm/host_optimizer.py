"""Adam on the host in Megatron-Core: its rule, its arguments, and the threads that it runs on.

The price is of all states on the host. Copies that run beside Adam (``overlap-cpu-optimizer-d2h-h2d``) are written from core 0.19
on: before it, a pass could start before its weights had arrived [megatron-0.19, hybrid_optimizer.py].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.step.host_update import THREADS
from documents.sentences import Sentence
from frameworks.rule import Mask, SwitchRule, has_effect
from frameworks.table import SwitchArgument

SWITCH, FRACTION, OVERLAP = "optimizer-cpu-offload", "optimizer-offload-fraction", "overlap-cpu-optimizer-d2h-h2d"
AWARE = "use-precision-aware-optimizer"
ENVIRONMENT = {"OMP_NUM_THREADS": str(THREADS)}
PURPOSES = {"OMP_NUM_THREADS": Sentence("threads of a process: Adam on the host runs on them, and torchrun gives it one")}


def doubts_of_overlap(given: Collection[str], switches: Iterable[SwitchArgument]) -> tuple[str, ...]:
    """A sentence if arguments ask for copies beside Adam of a release whose table does not write them."""
    if not {SWITCH, OVERLAP} <= {*given} or any(OVERLAP in switch.beside for switch in switches):
        return ()
    return (
        Sentence(
            "--{}: in this release a pass may start before its weights have come back from the host; leave it out.", OVERLAP
        ),
    )


def _why(workload: Workload, s: ParallelStrategy) -> str:
    """Why Megatron-Core does not run the states of a plan on the host as priced; empty if it does."""
    training = workload.training
    if s.zero_stage != 1:
        return Sentence("it divides its states as the distributed optimizer does (zero_stage is {})", s.zero_stage)
    if Feature.BF16_MOMENTS in s.features:
        return Sentence("Adam on the host keeps its moments in FP32, whatever bf16_moments says")
    if training.task.is_frozen:
        return Sentence("states of adapters are small")
    if training.precision in ("bf16", "fp16"):
        return ""
    if training.precision == "fp8" and (training.recipe is None or training.recipe.is_delayed or not workload.gathers_eight_bits):
        return ""
    return Sentence("it takes 16-bit weights, or in fp8 delayed scaling (precision is {})", training.precision)


def _violates(workload: Workload, batch: StrategyBatch) -> Mask:
    of_job = bool(_why(workload, ParallelStrategy(zero_stage=1)))
    moments = batch.has(Feature.BF16_MOMENTS)
    mask: Mask = has_effect(workload, batch, Feature.OPTIMIZER_CPU_OFFLOAD) & (of_job | moments | (batch.zero_stage != 1))
    return mask


def host_optimizer_rule(source: str) -> SwitchRule:
    """What Adam on the host needs."""
    return SwitchRule(
        "megatron_host_optimizer",
        source,
        Sentence(
            "optimizer_cpu_offload needs zero_stage 1 and 16-bit weights (in fp8 delayed scaling), and excludes bf16_moments "
            "and adapters"
        ),
        _violates,
        lambda w, s: Sentence("optimizer_cpu_offload: {}", _why(w, s)),
        subject=Feature.OPTIMIZER_CPU_OFFLOAD,
        reason=_why,
    )
