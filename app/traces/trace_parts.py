"""The parts of an estimate, assigned to the parts that a trace distinguishes."""

from __future__ import annotations

from collections.abc import Mapping

from app.answers.strategies import StrategyDocument
from calibration.traces.measured import KERNEL_PARTS, VOCABULARY, MeasuredStep, Part, Source
from cost_models.shapes.strategy import CpAlgo
from documents.sentences import Sentence

# Parts of `time_breakdown_s` and `masked_s`, with the parts of a trace that contain them; the first in the trace counts.
_WHERE: Mapping[str, tuple[Part, ...]] = {
    "matmul": (Part.MATMUL, Part.COMPUTE),
    "attention": (Part.ATTENTION, Part.COMPUTE),
    "vector": (Part.VECTOR, Part.COMPUTE),
    "permute": (Part.VECTOR, Part.COMPUTE),
    "embedding": (Part.VECTOR, Part.COMPUTE),
    "head_and_loss": (Part.MATMUL, Part.COMPUTE),
    "gradient_accumulation": (Part.VECTOR, Part.COMPUTE),
    "optimizer": (Part.VECTOR, Part.COMPUTE),
    "recompute": (Part.COMPUTE,),
    "contention": (Part.COMPUTE,),
    "tp_comm": (Part.TP_COMM, Part.COMMUNICATION),
    "cp_comm": (Part.CP_COMM, Part.COMMUNICATION),
    "ep_comm": (Part.EP_COMM, Part.COMMUNICATION),
    "dp_comm": (Part.DP_COMM, Part.COMMUNICATION),
    "weight_gather": (Part.DP_COMM, Part.COMMUNICATION),
    "pipeline_p2p": (Part.PIPELINE,),
    "pipeline_bubble": (Part.PIPELINE,),
    "activation_swap": (Part.HOST_TRANSFER, Part.FREE),
    "host": (Part.FREE,),
    "size_synchronisation": (Part.FREE,),
    "step_overhead": (Part.FREE,),
}
# Share of another forward in both passes: matmuls run twice in a backward, fused attention two and a half times
# [flash-attention-2, figure 5]; vector passes and collectives once.
_FORWARD = {
    "matmul": 1 / 3,
    "attention": 2 / 7,
    "vector": 1 / 2,
    "permute": 1 / 2,
    "tp_comm": 1 / 2,
    "cp_comm": 1 / 2,
    "ep_comm": 1 / 2,
}
_COMPUTE = ("matmul", "attention", "vector", "permute")


def dealt(source: Source, times_s: Mapping[str, float], strategy: StrategyDocument | None = None) -> dict[str, dict[str, float]]:
    """Seconds by part of the trace and, in it, by part of the estimate; they sum to ``times_s``.

    ``strategy`` gives the parts that recompute repeats; without one nothing is repeated.
    """
    told = VOCABULARY[source]
    found: dict[str, dict[str, float]] = {str(part): {} for part in told}
    shares = {
        "recompute": _shares(
            times_s, _FORWARD if strategy is not None and strategy.recompute.granularity == "full" else _COMPUTE
        ),
        "contention": _shares(times_s, _COMPUTE),
    }
    for name, time_s in times_s.items():
        targets = {name: 1.0}
        if name in shares and (Part.MATMUL in told or name == "recompute"):
            targets = shares[name]
        for target, share in targets.items():
            part = next(part for part in _WHERE.get(target, (Part.FREE,)) if part in told)
            found[part][name] = found[part].get(name, 0.0) + share * time_s
    return found


def _shares(times_s: Mapping[str, float], weights: Mapping[str, float] | tuple[str, ...]) -> dict[str, float]:
    """Share of each part; all of it is matmul if no part has any time."""
    given = weights if isinstance(weights, Mapping) else dict.fromkeys(weights, 1.0)
    weighed = {name: weight * times_s.get(name, 0.0) for name, weight in given.items()}
    total = sum(weighed.values())
    return {name: value / total for name, value in weighed.items() if value} if total else {"matmul": 1.0}


def sentences(measured: MeasuredStep, strategy: StrategyDocument) -> list[str]:
    """Sentences on assignments that are not obvious."""
    found: list[str] = []
    if measured.source is Source.STEP_TABLE:
        found.append(
            Sentence(
                "The table tells compute from communication and no more: a trace in JSON tells kinds of kernels and collectives."
            )
        )
        if strategy.cp > 1 and strategy.ulysses_degree < strategy.cp and strategy.cp_algo != CpAlgo.KV_ALLGATHER.label:
            found.append(Sentence("Its Bubble counts the receives of ring attention too, which are predicted as communication."))
    elif measured.source in (Source.TORCH, Source.TORCH_NPU):
        found.append(
            Sentence("Output head and loss are predicted as matmul; the optimizer's and all other elementwise kernels as vector.")
        )
        if strategy.recompute.granularity == "full":
            found.append(
                Sentence(
                    "Predicted recompute is dealt to kernels and collectives as one more forward; a trace does not tell it apart."
                )
            )
        elif strategy.recompute.granularity != "none":
            found.append(Sentence("Predicted recompute is dealt to kernels by their time; a trace does not tell it apart."))
        found.append(Sentence("A collective lasts from its own start, waits for other ranks included."))
    if any(part in measured.exposed_s for part in KERNEL_PARTS) and measured.exposed_s.get(Part.OTHER_KERNELS):
        found.append(Sentence("Kernels of no known kind are listed; nothing is predicted for them."))
    return found
