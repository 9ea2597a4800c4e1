"""Recompute and swap of tensors for each virtual stage so that a strategy fits, also with larger micro batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.answers.open_fields import open_fields
from app.answers.price import fill_intervals, priced
from app.answers.schemas import MemoryPlanDocument
from app.answers.simulation import check_cost
from app.calibrations.constants import constants_for
from app.jobs.job import Job
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.layer.tensors import TensorCosts
from cost_models.shapes.canonical import canonical
from cost_models.shapes.layout import stage_table
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.tensors import TENSORS, Tensor, TensorChoice, share_ends, tensor_names
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.chosen_tensors import tensors_by_kind
from cost_models.step.priced_groups import priced_batch
from documents.sentences import Sentence
from frameworks.legality import violations
from frameworks.target import ANY
from search.plans.plan import estimates_to_mappings, strategy_to_mapping
from search.tensor_choice.exports import exports
from search.tensor_choice.tensor_plan import TensorAnswer, keeping_all, with_tensors
from search.tensor_choice.tensor_refinement import saved_fraction

WIDER = (1, 2, 4)  # factors on the micro batch


def memory_plan_document(job: Job, strategy: ParallelStrategy, own: Sequence[Calibration] = ()) -> MemoryPlanDocument:
    """The part of an estimate for ``--memory-plan``. ``InputError`` for a pipeline that is too long for a simulation."""
    workload, constants = job.workload, constants_for(job.workload, own)
    whole = canonical(workload, keeping_all(strategy))
    check_cost(workload, [whole], "strategy")
    document = {
        "tensors": _tensors(workload, whole, constants),
        "micro_batches": [
            _micro_batch(job, canonical(workload, replace(whole, micro_batch_size=times * whole.micro_batch_size)), own)
            for times in WIDER
        ],
    }
    return MemoryPlanDocument.model_validate(document)


def _costs(workload: Workload, whole: ParallelStrategy, constants: Constants) -> tuple[TensorCosts, ...]:
    batch = StrategyBatch.of([whole])
    batch_priced = priced_batch(workload, batch, constants)
    return tensors_by_kind(workload, batch, batch_priced.device, batch_priced.network)


def _tensors(workload: Workload, whole: ParallelStrategy, constants: Constants) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind.label,
            "tensor": str(tensor.name).lower(),
            "meaning": TENSORS[tensor].meaning,
            "kept_bytes": float(kept[0]),
            "computed_by": TENSORS[tensor].again or None,
            "recompute_s": float(costs.recomputed_s(tensor)[0]) if tensor in costs.again_s else None,
            "swap_s": float(kept[0]) / costs.host_bytes_per_s,
        }
        for kind, costs in zip(workload.model.layer_kinds(), _costs(workload, whole, constants), strict=True)
        for tensor, kept in costs.bytes.items()
    ]


def _micro_batch(job: Job, whole: ParallelStrategy, own: Sequence[Calibration]) -> dict[str, Any]:
    """The plan for one micro batch, or the reason why there is none."""
    workload = job.workload
    nothing = dict.fromkeys(("strategy", "estimate", "whole_step_time_s", "saved_fraction", "host_bytes", "added_s", "gap_s"))
    found: dict[str, Any] = {"micro_batch_size": whole.micro_batch_size, "refused": None, **nothing, "stages": []}
    if broken := violations(workload, whole, ANY):
        return {**found, "refused": Sentence("{} ({}).", broken[0].sentence.rstrip("."), broken[0].rule)}
    constants = constants_for(workload, own)
    answer = with_tensors(workload, whole, constants)
    if answer is None:
        return {**found, "refused": Sentence("No choice of tensors makes it fit.")}
    numbers = priced(
        workload, StrategyBatch.of([answer.strategy, replace(answer.strategy, tensor_plan=None)]), own, simulated=True
    )
    chosen, keeping = estimates_to_mappings(workload, numbers)
    (doubts,) = open_fields(job, [answer.strategy], own)
    doubts.widen(fill_intervals(workload, chosen, own, [answer.strategy]))
    stages = _stages(workload, answer, _costs(workload, whole, constants))
    files = exports(workload, answer.strategy, constants, simulate) if stages else ()
    return {
        **found,
        "strategy": strategy_to_mapping(workload, answer.strategy),
        "estimate": chosen,
        "whole_step_time_s": keeping["step_time_s"],
        "saved_fraction": saved_fraction(numbers),
        "added_s": max(answer.added_s),
        "gap_s": answer.gap_s,
        "host_bytes": answer.host_bytes,
        "stages": stages,
        "exports": [each.to_mapping() for each in files],
    }


def _stages(workload: Workload, answer: TensorAnswer, costs: tuple[TensorCosts, ...]) -> list[dict[str, Any]]:
    """Tensors that each virtual stage drops, without stages that keep everything."""
    strategy, kinds = answer.strategy, workload.model.layer_kinds()
    table = stage_table(workload.model, strategy.pp, strategy.vpp, strategy.layer_layout, strategy.schedule)
    mtp = _prediction_layers(workload, strategy)
    rows = []
    for chunk, row in enumerate(strategy.tensor_plan or ()):
        for stage, choices in enumerate(row):
            for kind, shares in enumerate(choices):
                held = int(table.layers[kind, stage, chunk]) + mtp.get((chunk, stage, kind), 0)
                for choice, start, end in share_ends(shares, held):
                    layers = min(end, held) - start
                    if layers <= 0 or choice == TensorChoice():
                        continue
                    weights = {name: float(costs[kind].bytes_of(which)[0]) * layers for name, which in _sets(choice).items()}
                    rows.append(
                        {
                            "chunk": chunk,
                            "stage": stage,
                            "kind": kinds[kind].label,
                            "layers": layers,
                            "recompute": tensor_names(choice.recompute),
                            "swap": tensor_names(choice.swap),
                            **weights,
                            "whole_bytes": float(costs[kind].bytes_of(~Tensor(0))[0]) * layers,
                            "added_s": layers * float(costs[kind].added_s(choice)[0]),
                        }
                    )
    return rows


def _sets(choice: TensorChoice) -> dict[str, Tensor]:
    return {"recomputed_bytes": choice.recompute, "swapped_bytes": choice.swap}


def _prediction_layers(workload: Workload, strategy: ParallelStrategy) -> dict[tuple[int, int, int], int]:
    """Prediction layers by virtual stage and kind of layer, (chunk, stage, kind)."""
    model = workload.model
    if not model.mtp_num_layers:
        return {}
    at = max(strategy.pp * strategy.vpp - 1 - strategy.mtp_before_head, 0)
    kind = model.layer_kinds().index(model.kinds_of_layers()[-1])
    return {(at // strategy.pp, at % strategy.pp, kind): model.mtp_num_layers}
