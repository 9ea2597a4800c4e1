"""What a job trains, checked: adapters, the precision of frozen weights, and the reference of preference training."""

from __future__ import annotations

from typing import Any

from app.jobs.fields import TASK_NAMES, TrainingSection
from cost_models.shapes.training_task import (
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

OF_ADAPTERS = (Task.LORA, Task.QLORA)
WITH_ADAPTERS = (*OF_ADAPTERS, Task.DPO)
DEQUANTISED_TO = ("bf16", "fp16")  # precisions that quantised weights are converted to


def named_task(name: str) -> Task:
    """The task of a name; other names of tasks are read too."""
    return TASK_NAMES.get(name) or Task(name)


def training_task(section: TrainingSection, model: ModelShape, assumed: dict[str, str]) -> TrainingTask:
    """The task of a job. Raises ``InputError`` if its fields do not go together, or the model has no such adapters."""
    name = named_task(section.task or Task.PRETRAIN)
    reference = None if section.reference is None else Reference(section.reference)
    if reference is not None and name is not Task.DPO:
        raise InputError(Sentence("training.reference: {} has no reference model; it belongs to dpo.", name.value))
    if name is Task.DPO and reference is None:
        reference = Reference.MODEL
        assumed["training.reference"] = Sentence("(default: a forward of the reference model in every step)")
    adapters = _adapters(section, name, model)
    return TrainingTask(name, adapters, _base_precision(section, name, adapters, assumed), reference)


def _adapters(section: TrainingSection, name: Task, model: ModelShape) -> Adapters | None:
    given = section.adapter
    if given is None:
        if name in OF_ADAPTERS:
            raise InputError(
                Sentence(
                    "training.adapter: missing; {} trains adapters, so give their rank, as {} or {}.",
                    name.value,
                    "--adapter-rank 16",
                    "{rank: 16}",
                )
            )
        return None
    if name not in WITH_ADAPTERS:
        raise InputError(
            Sentence(
                "training.adapter: {} trains all weights and has no adapters; give one of {} as training.task.",
                name.value,
                joined(", ", WITH_ADAPTERS),
            )
        )
    if model.hybrid_layer_pattern:
        raise InputError(Sentence("training.adapter: adapters of layers of one block are not priced; {} has them.", model.name))
    if model.local_attention is not None and model.local_attention.is_linear:
        raise InputError(Sentence("training.adapter: adapters of linear attention are not priced; {} has it.", model.name))
    if model.sparse_attention is not None:
        raise InputError(Sentence("training.adapter: adapters of sparse attention are not priced; {} has it.", model.name))
    modules = given.target_modules
    if modules is None:
        modules = list(MEGATRON_MODULES)  # the most that adapters can cost
    repeated = sorted({module for module in modules if modules.count(module) > 1})
    if repeated:
        raise InputError(Sentence("training.adapter.target_modules: {} is given twice.", joined(", ", repeated)))
    foreign = [module for module in modules if module in HUGGINGFACE_MODULES]
    if foreign and len(foreign) < len(modules):
        raise InputError(
            Sentence(
                "training.adapter.target_modules: {} and {} overlap; give names of Megatron or of Hugging Face alone.",
                joined(", ", [module for module in modules if module in MEGATRON_MODULES]),
                joined(", ", foreign),
            )
        )
    absent = [module for module in foreign if _is_absent(module, model)]
    if absent:
        raise InputError(Sentence("training.adapter.target_modules: {} has no {}.", model.name, joined(", ", absent)))
    order = [*MEGATRON_MODULES, *HUGGINGFACE_MODULES]
    return Adapters(given.rank, given.alpha or float(given.rank), tuple(sorted(modules, key=order.index)))


def _is_absent(module: str, model: ModelShape) -> bool:
    """Whether a model has no linear layer of a name that Hugging Face uses."""
    if model.mla is not None and module in ("q_proj", "k_proj", "v_proj"):
        return True
    return module == "gate_proj" and not model.gated_linear_unit


def _base_precision(section: TrainingSection, name: Task, adapters: Adapters | None, assumed: dict[str, str]) -> BasePrecision:
    if section.base_precision is None:
        if name is not Task.QLORA:
            return BasePrecision.BF16
        assumed["training.base_precision"] = Sentence("(default of qlora)")
        return BasePrecision.NF4
    given = BasePrecision(section.base_precision)
    if adapters is None:
        raise InputError(
            Sentence("training.base_precision: {} trains all weights, so none is frozen; give training.precision.", name.value)
        )
    if name is Task.LORA and given is not BasePrecision.BF16:
        raise InputError(Sentence("training.base_precision: {} is of qlora, not of lora; give task qlora.", given.value))
    if name is Task.QLORA and given is BasePrecision.BF16:
        raise InputError(Sentence("training.base_precision: qlora has quantised weights, not bf16; give task lora."))
    return given


def check_precision(task: TrainingTask, precision: str) -> None:
    """Raises ``InputError`` where quantised weights cannot be converted to the precision of training."""
    if task.dequantises and precision not in DEQUANTISED_TO:
        raise InputError(
            Sentence(
                "training.base_precision: {} weights are converted to {} before a matmul, not to {}; give another "
                "training.precision, or base_precision bf16.",
                task.base_precision.value,
                joined(", ", DEQUANTISED_TO, " or "),
                precision,
            )
        )


def task_fields(task: TrainingTask) -> dict[str, Any]:
    """The fields of ``TrainingSection`` that say the task; none of them for pre-training."""
    if task == PRETRAIN:
        return {}
    fields: dict[str, Any] = {"task": task.name.value}
    if task.adapters is not None:
        adapters = task.adapters
        fields["adapter"] = {"rank": adapters.rank, "alpha": adapters.alpha, "target_modules": list(adapters.modules)}
        fields["base_precision"] = task.base_precision.value
    if task.reference is not None:
        fields["reference"] = task.reference.value
    return fields
