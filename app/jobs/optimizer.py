"""The optimizer of a job, checked."""

from __future__ import annotations

from typing import Any

from app.jobs.fields import TrainingSection
from cost_models.shapes.optimizers import ADAM, NS_STEPS, OPTIMIZERS, Optimizer, TpMode
from cost_models.shapes.training_task import TrainingTask
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError
from documents.sentences import Sentence, joined

MUON_FIELDS = ("muon_tp_mode", "muon_num_ns_steps")


def job_optimizer(section: TrainingSection, task: TrainingTask, model: ModelShape) -> Optimizer:
    """The optimizer of a job. Raises ``InputError`` if its fields do not go together, or if it cannot train the model."""
    found = Optimizer(
        section.optimizer or ADAM.name,
        TpMode(section.muon_tp_mode or TpMode.BLOCKWISE),
        section.muon_num_ns_steps or NS_STEPS,
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


def optimizer_fields(optimizer: Optimizer) -> dict[str, Any]:
    """The fields of ``TrainingSection`` that say the optimizer; none of them for the default."""
    if optimizer == ADAM:
        return {}
    if not optimizer.rules.orthogonalises:
        return {"optimizer": optimizer.name}
    return {
        "optimizer": optimizer.name,
        "muon_tp_mode": optimizer.tp_mode.value,
        "muon_num_ns_steps": optimizer.ns_steps,
    }
