"""The optimizer of a job, checked."""

from __future__ import annotations

from typing import Any

from app.jobs.fields import TrainingSection
from cost_models.shapes.optimizers import ADAM, BF16_MOMENT_TYPES, NS_STEPS, OPTIMIZERS, Optimizer, StateTypes, TpMode
from cost_models.shapes.training_task import TrainingTask
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError
from documents.sentences import Sentence, joined

MUON_FIELDS = ("muon_tp_mode", "muon_num_ns_steps")
TYPE_FIELDS = ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")


def job_optimizer(section: TrainingSection, task: TrainingTask, model: ModelShape) -> Optimizer:
    """The optimizer of a job. Raises ``InputError`` if its fields do not go together, or if it cannot train the model."""
    found = Optimizer(
        section.optimizer or ADAM.name,
        TpMode(section.muon_tp_mode or TpMode.BLOCKWISE),
        section.muon_num_ns_steps or NS_STEPS,
        _state_types(section, task),
    )
    if not found.rules.orthogonalises:
        given = [name for name in MUON_FIELDS if getattr(section, name) is not None]
        if given:
            able = joined(" or ", (name for name, rules in OPTIMIZERS.items() if rules.orthogonalises))
            raise InputError(Sentence("training.{}: {} orthogonalises nothing; it belongs to {}.", given[0], found.name, able))
        return found
    if task.is_frozen:
        raise InputError(
            Sentence("training.optimizer: {} of adapters is not priced; give adam, or a task without adapters.", found.name)
        )
    if model.hybrid_layer_pattern:
        raise InputError(
            Sentence("training.optimizer: {} of layers of one block is not priced; {} has them.", found.name, model.name)
        )
    if model.local_attention is not None and model.local_attention.is_linear:
        raise InputError(Sentence("training.optimizer: {} of linear attention is not priced; {} has it.", found.name, model.name))
    return found


def _state_types(section: TrainingSection, task: TrainingTask) -> StateTypes | None:
    given = [name for name in TYPE_FIELDS if getattr(section, name) is not None]
    if not given:
        return None
    name = section.optimizer or ADAM.name
    if name != ADAM.name:
        raise InputError(Sentence("training.{}: {} has no such types; they belong to {}.", given[0], name, ADAM.name))
    if task.is_frozen:
        raise InputError(Sentence("training.{}: types of the states of adapters are not priced; leave it out.", given[0]))
    types = StateTypes(*(getattr(section, field) or "fp32" for field in TYPE_FIELDS))
    if types == BF16_MOMENT_TYPES:
        raise InputError(
            Sentence("training.{}: both moments in bf16 are strategy.switches.bf16_moments; ask for that.", given[0])
        )
    return types


def optimizer_fields(optimizer: Optimizer) -> dict[str, Any]:
    """The fields of ``TrainingSection`` that say the optimizer; none of them for the default."""
    if optimizer == ADAM:
        return {}
    if optimizer.state_types is not None:
        types = optimizer.state_types
        return dict(zip(TYPE_FIELDS, (types.main_params, types.exp_avg, types.exp_avg_sq), strict=True))
    if not optimizer.rules.orthogonalises:
        return {"optimizer": optimizer.name}
    return {
        "optimizer": optimizer.name,
        "muon_tp_mode": optimizer.tp_mode.value,
        "muon_num_ns_steps": optimizer.ns_steps,
    }
