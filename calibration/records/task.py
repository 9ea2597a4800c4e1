"""What a run trained: all weights, adapters beside frozen ones, or a model that answers are compared with."""

from __future__ import annotations

from typing import TypeVar

from calibration.records.sections import Notes, TrainingSection, refused
from cost_models.shapes.training_task import (
    ADAPTED_MODULES,
    HUGGINGFACE_MODULES,
    MEGATRON_MODULES,
    PRETRAIN,
    Adapters,
    BasePrecision,
    Reference,
    Task,
    TrainingTask,
)
from cost_models.shapes.workload import ModelShape
from documents.errors import InputError
from documents.sentences import Sentence, joined

TRAINS_ALL = ("pretrain", "sft", "sft_full", "rl_update")  # a step of these is priced as one of pre-training
Named = TypeVar("Named", BasePrecision, Reference)
BASES = {Task.QLORA: BasePrecision.NF4}  # else in 16 bits


def record_task(section: TrainingSection, model: ModelShape, notes: Notes) -> TrainingTask:
    """The task of a record; ``InputError`` if it does not say what is trained, or adapters of the model are not priced.

    Without one, and with one that is not known, all weights are trained.
    """
    name = section.task.strip().lower()
    if not name or name in TRAINS_ALL:
        return PRETRAIN
    if name not in (Task.LORA, Task.QLORA, Task.DPO):
        notes.add("task", section.task, Sentence("is not known, read as training of all weights"))
        return PRETRAIN
    task = Task(name)
    adapters = _adapters(section, task, model)
    base, reference = BASES.get(task, BasePrecision.BF16), None
    if section.base_precision is not None:
        base = _member(BasePrecision, "base_precision", section.base_precision)
    if task is Task.DPO:
        reference = Reference.MODEL if section.reference is None else _member(Reference, "reference", section.reference)
    return TrainingTask(task, adapters, BasePrecision.BF16 if adapters is None else base, reference)


def _adapters(section: TrainingSection, task: Task, model: ModelShape) -> Adapters | None:
    given = section.adapter
    if given is None:
        if task is Task.DPO:
            return None
        raise InputError(
            Sentence("training.task: {} trains adapters, and the record states no rank of them (training.adapter).", task.value)
        )
    local = model.local_attention
    if model.hybrid_layer_pattern or model.sparse_attention is not None or (local is not None and local.is_linear):
        raise InputError(Sentence("training.adapter: adapters of such layers are not priced."))
    modules = given.target_modules or tuple(MEGATRON_MODULES)
    unknown = [name for name in modules if name not in ADAPTED_MODULES]
    families = [family for family in (MEGATRON_MODULES, HUGGINGFACE_MODULES) if set(modules) & set(family)]
    if unknown or len(families) > 1:
        raise refused("training.adapter.target_modules", list(modules), Sentence("names of Megatron or of Hugging Face alone"))
    return Adapters(given.rank, given.alpha or float(given.rank), tuple(dict.fromkeys(modules)))


def _member(kind: type[Named], field: str, name: str) -> Named:
    if name.lower() not in {each.value for each in kind}:
        raise refused(f"training.{field}", name, joined(", ", kind))
    return kind(name.lower())
