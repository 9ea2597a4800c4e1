"""Mechanisms that a run or a plan uses in addition to matmuls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from calibration.splits.groups import model_kind
from cost_models.shapes.effective_switches import possible
from cost_models.shapes.optimizers import ADAM
from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy
from cost_models.shapes.switches import UNPRICED_FEATURES, Feature
from cost_models.shapes.training_task import Task, TrainingTask
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence

if TYPE_CHECKING:
    from calibration.records.training import RunRecord

_ZERO_STAGE_OF_NEED = 2  # first ZeRO stage that is a mechanism of its own


def workload_mechanisms(workload: Workload) -> frozenset[str]:
    """The precision, the kind of the model, its forms of attention, and what its task adds to a step of pre-training."""
    precision, kind = Sentence("precision {}", workload.training.precision), Sentence("kind {}", model_kind(workload))
    return attention_mechanisms(workload) | _task_mechanisms(workload.training.task) | {precision, kind}


def kept_mechanisms(workload: Workload) -> frozenset[str]:
    """What decides, beside the kind of the model and the plan, which bytes a rank keeps."""
    training = workload.training
    found = {Sentence("precision {}", training.precision)}
    if training.recipe is not None:
        found.add(Sentence("recipe {} of {}", training.fp8_recipe, training.precision))
    if training.optimizer != ADAM:
        found.add(Sentence("optimizer {}", training.optimizer.name))
    if training.task.is_frozen or training.task.holds_reference:
        found.add(Sentence("task {}", training.task.name.value))
    return attention_mechanisms(workload) | found


def _task_mechanisms(task: TrainingTask) -> frozenset[str]:
    found: set[str] = set()
    if task.is_frozen:
        found.add(Sentence("adapters on weights in {}", task.base_precision.value))
    if task.name is Task.DPO:
        found.add(Sentence("task {}", task.name.value))
    return frozenset(found)


def attention_mechanisms(workload: Workload) -> frozenset[str]:
    """Layers of another form than full attention; a window that covers the sequence is full attention."""
    model = workload.model
    found: set[str] = set()
    if model.mla is not None:
        found.add(Sentence("latent attention"))
    if model.sparse_attention is not None:
        found.add(Sentence("sparse attention"))
    if (local := model.local_attention) is not None:
        if local.is_state_space:
            found.add(Sentence("state spaces"))
        elif local.is_linear:
            found.add(Sentence("linear attention"))
        elif local.window < workload.training.seq_length:
            found.add(Sentence("attention in windows"))
    return frozenset(found)


def plan_mechanisms(
    workload: Workload,
    *,
    schedule: str,
    cp_algo: str | None,
    dispatcher: str | None,
    recompute: str,
    zero_stage: int,
    features: Iterable[str],
) -> frozenset[str]:
    """Mechanisms of a plan: its labels, and its switches that the model can use and that are priced."""
    acts = possible(workload.model) & ~UNPRICED_FEATURES
    found: set[str] = {Sentence("schedule {}", schedule), Sentence("recompute {}", recompute)}
    found |= {
        Sentence("switch {}", name) for name in features if name.upper() in Feature.__members__ and Feature[name.upper()] in acts
    }
    if cp_algo is not None:
        found.add(Sentence("context parallelism {}", cp_algo))
    if dispatcher is not None and workload.model.moe is not None:
        found.add(Sentence("dispatcher {}", dispatcher))
    if zero_stage >= _ZERO_STAGE_OF_NEED:
        found.add(f"ZeRO {zero_stage}")
    return frozenset(found)


def strategy_mechanisms(workload: Workload, strategy: ParallelStrategy) -> frozenset[str]:
    """``plan_mechanisms`` of a strategy."""
    return plan_mechanisms(
        workload,
        schedule=strategy.schedule.label,
        cp_algo=None if strategy.cp_algo is CpAlgo.NONE else strategy.cp_algo.label,
        dispatcher=None if strategy.dispatcher is Dispatcher.NONE else strategy.dispatcher.label,
        recompute=strategy.recompute.label,
        zero_stage=strategy.zero_stage,
        features=[str(feature.name).lower() for feature in strategy.features],
    )


def run_mechanisms(record: RunRecord) -> frozenset[str]:
    """Mechanisms of a run."""
    return workload_mechanisms(record.workload) | strategy_mechanisms(record.workload, record.strategy)
