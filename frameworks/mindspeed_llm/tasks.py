"""Fine-tuning with ``posttrain_gpt.py``: what each task is called, as arguments and back.

Sources: [mindspeed-llm, features_manager/finetune; mindspeed-llm, tasks/posttrain].
"""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.shapes.strategy import Dispatcher, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import MEGATRON_MODULES, PRETRAIN, Adapters, Reference, Task, TrainingTask
from cost_models.shapes.workload import Workload
from documents.sentences import Sentence, joined
from frameworks.megatron_lm.script import PAIRS, STAGE
from frameworks.model_facts import Arguments
from frameworks.rule import Mask, all_of, either, has_effect, none_of

STAGE_OF_TASK = {Task.SFT: "sft", Task.LORA: "sft", Task.DPO: "dpo"}  # the value of --stage
MODULES = "lora-target-modules"
# Switches that adapters of experts exclude: their dispatcher is alltoall_seq [mindspeed-llm, features_manager/finetune/lora.py],
# which these refuse [mindspeed, fb_overlap.py; megatron-0.12, shared_experts.py; mindspeed-llm, lora.py].
WITHOUT_EXPERTS = Feature.MOE_COMM_OVERLAP | Feature.MOE_SHARED_EXPERT_OVERLAP | Feature.MOE_TP_EXTEND_EP


def has_expert_adapters(workload: Workload) -> bool:
    """Whether a model with experts has adapters, which decides its dispatcher."""
    return workload.training.task.adapters is not None and workload.model.moe is not None


def task_arguments(workload: Workload) -> Arguments:
    """The arguments of a task; none for pre-training. Template, handler and checkpoints are the user's."""
    task, bare = workload.training.task, ()
    if task.name not in STAGE_OF_TASK:
        return {}
    data = PAIRS if task.name is Task.DPO else "is-instruction-dataset"
    written: Arguments = {STAGE: STAGE_OF_TASK[task.name], data: bare}
    if task.adapters is not None:
        adapters = task.adapters
        written |= {"lora-r": adapters.rank, "lora-alpha": int(adapters.alpha), MODULES: adapters.modules}
    return written


def unstartable(workload: Workload) -> str | None:
    """Why MindSpeed-LLM cannot train a task's adapters or reference; ``None`` if it can, or has no such program."""
    task = workload.training.task
    if task.name is Task.DPO and task.adapters is not None:
        return Sentence("dpo holds a second model with its own adapters, whatever training.adapter says; leave it out")
    if task.reference is Reference.PRECOMPUTED:
        return Sentence("dpo runs its reference model in every step, and reads no log-probabilities")
    if task.adapters is None:
        return None
    foreign = [name for name in task.adapters.modules if name not in MEGATRON_MODULES]
    if foreign:
        return Sentence("its layers are {}; {} are not among them", all_of(list(MEGATRON_MODULES)), joined(", ", foreign))
    if task.adapters.alpha != int(task.adapters.alpha):
        return Sentence("lora-alpha is a whole number, and alpha is {:g}", task.adapters.alpha)
    return None


def breaks_expert_adapters(workload: Workload, batch: StrategyBatch) -> Mask:
    """Rows whose experts cannot have adapters."""
    if not has_expert_adapters(workload):
        return none_of(batch)
    exchanged = batch.ep * batch.etp > 1
    mask: Mask = (exchanged & (batch.dispatcher != int(Dispatcher.ALLTOALL))) | (batch.etp != batch.tp)
    overlaps = has_effect(workload, batch, Feature.MOE_ALLTOALL_OVERLAP_COMM)
    unordered = ~batch.has(Feature.MOE_PERMUTATION_ASYNC_COMM)
    mask |= has_effect(workload, batch, WITHOUT_EXPERTS) | (overlaps & ((batch.tp > 1) | unordered))
    return mask


def why_no_expert_adapters(workload: Workload, s: ParallelStrategy) -> str:
    """The sentence for one such row."""
    del workload
    return Sentence(
        "adapters of experts go by alltoall_seq: dispatcher {}, etp {} and tp {} are given, where alltoall and etp = tp are "
        "needed, without {}, and moe_alltoall_overlap_comm with moe_permutation_async_comm at tp 1 alone",
        s.dispatcher.label,
        s.etp,
        s.tp,
        either([str(feature.name).lower() for feature in Feature if feature in WITHOUT_EXPERTS]),
    )


def read_task(stage: object, modules: Sequence[str], rank: int, alpha: int) -> TrainingTask | str:
    """The task of given arguments, or a sentence on modules that are not priced."""
    if stage not in STAGE_OF_TASK.values():
        return Sentence("it decides which weights are trained, and no stage says of which task") if modules else PRETRAIN
    if stage == STAGE_OF_TASK[Task.DPO]:
        if modules:
            return Sentence("adapters beside a second model with adapters of its own are not priced")
        return TrainingTask(Task.DPO, reference=Reference.MODEL)
    if not modules:
        return TrainingTask(Task.SFT)
    foreign = [name for name in modules if name not in MEGATRON_MODULES]
    if foreign:
        return Sentence("adapters of {} are not priced", joined(", ", foreign))
    ordered = tuple(name for name in MEGATRON_MODULES if name in modules)
    return TrainingTask(Task.LORA, Adapters(rank, float(alpha), ordered))
