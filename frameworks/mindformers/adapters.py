"""Adapters of ``pet_config``: options, what cannot have them, and the task of a file.

The class of a model joins layers whose names match ``target_modules``, and freezes the parameters that match ``freeze_include``
and not ``freeze_exclude`` [mindformers-1.8, lora_adapter.py, pet_model.py]. Dropout is left out: it has no price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, StrategyBatch
from cost_models.shapes.training_task import MEGATRON_MODULES, Adapters, Target, Task, TrainingTask
from cost_models.shapes.workload import ModelShape, Workload
from documents.bounds import MAX_NUMBER, MAX_WIDTH
from documents.sentences import Sentence, joined
from frameworks.mindformers.table import MODEL
from frameworks.options import Options
from frameworks.rule import Mask, Rule, all_of, every_row, none_of, rules_in

SECTION = f"{MODEL}.pet_config"
TYPE, RANK, ALPHA, DROPOUT, MODULES = (
    f"{SECTION}.{key}" for key in ("pet_type", "lora_rank", "lora_alpha", "lora_dropout", "target_modules")
)
FROZEN, TRAINED = f"{SECTION}.freeze_include", f"{SECTION}.freeze_exclude"
ALL_BUT_ADAPTERS = {FROZEN: ["*"], TRAINED: ["*lora*"]}  # without them no weight is frozen
_PRICED = (TYPE, RANK, ALPHA, DROPOUT, MODULES, *ALL_BUT_ADAPTERS)
_FREE = tuple(f"{SECTION}.{key}" for key in ("lora_a_init", "lora_b_init"))  # values at the start cost nothing
_NOT_LINEAR = ("word_embeddings",)  # a name of README.md, whose layer gets no adapter


def options(workload: Workload) -> Options:
    """The options of a job's adapters; none without."""
    adapters = workload.training.task.adapters
    if adapters is None:
        return {}
    alpha = int(adapters.alpha) if adapters.alpha == int(adapters.alpha) else adapters.alpha
    return {TYPE: "lora", RANK: adapters.rank, ALPHA: alpha, DROPOUT: 0.0, MODULES: "|".join(adapters.modules)} | ALL_BUT_ADAPTERS


def notes(workload: Workload, s: ParallelStrategy) -> Iterator[str]:
    """A sentence on what tensor-parallel ranks exchange for adapters beside the price."""
    adapters = workload.training.task.adapters
    if adapters is not None and s.tp > 1 and (adapters.on(Target.PROJ) or adapters.on(Target.FC2)):
        yield Sentence(
            "MindFormers adds an adapter of linear_proj or linear_fc2 to its layer in parts of hidden_size: tp {} exchanges each "
            "output twice more than is priced.",
            s.tp,
        )


def unpriced(workload: Workload) -> tuple[str, ...]:
    """The same sentence for a job, whatever its plan."""
    adapters = workload.training.task.adapters
    if adapters is None or not (adapters.on(Target.PROJ) or adapters.on(Target.FC2)):
        return ()
    return (
        Sentence(
            "With tp above 1 MindFormers exchanges each output of linear_proj and linear_fc2 with an adapter twice more than is "
            "priced: such plans are slower than predicted."
        ),
    )


def modules_of(model: ModelShape) -> tuple[str, ...]:
    """The layers of a model that can have adapters: neither those of experts, nor ``linear_qkv`` of latent attention."""
    without = {Target.FC1, Target.FC2} if model.moe is not None else set()
    without |= {Target.QKV} if model.mla is not None else set()
    return tuple(name for name, target in MEGATRON_MODULES.items() if target not in without)


def _asked(model: ModelShape) -> str:
    """How to ask for the adapters that the classes make: no flag names modules."""
    return Sentence("in a job file give training.adapter.target_modules: [{}]", joined(", ", modules_of(model)))


def _unmade(model: ModelShape, adapters: Adapters) -> str | None:
    """Why the classes make no such adapters; ``None`` if they do."""
    foreign = [name for name in adapters.modules if name not in MEGATRON_MODULES]
    if foreign:
        return Sentence("its layers are {}; {} are not among them", all_of(list(MEGATRON_MODULES)), joined(", ", foreign))
    if model.moe is not None and (adapters.on(Target.FC1) or adapters.on(Target.FC2)):
        return Sentence("routed experts are no linear layers there and get no adapter; {}", _asked(model))
    if model.mla is not None and adapters.on(Target.QKV):
        return Sentence("an adapter would divide linear_qkv of latent attention, which is whole; {}", _asked(model))
    return None


def _unmade_of(workload: Workload) -> str | None:
    adapters = workload.training.task.adapters
    if adapters is None:
        return None
    if workload.software.fp32_parameters or workload.training.precision == "fp32":
        return Sentence("frozen weights would be kept in FP32, and are priced in 16 bits")
    return _unmade(workload.model, adapters)


def _loses_ulysses(workload: Workload, batch: StrategyBatch) -> Mask:
    adapters = workload.training.task.adapters
    if adapters is None or not adapters.on(Target.PROJ):
        return none_of(batch)
    mask: Mask = (batch.cp > 1) & (batch.cp_algo == CpAlgo.ULYSSES)
    return mask


ADAPTERS = Rule(
    "mindformers_adapters",
    "[mindformers-1.8, lora_adapter.py; mindformers-1.8, gpt_layer_specs.py; mindformers-1.8, lora_layers.py]",
    Sentence(
        "adapters are of Megatron's layers in 16 bits, without linear_fc1 and linear_fc2 beside experts, and linear_qkv "
        "of latent attention"
    ),
    lambda w, b: every_row(b, _unmade_of(w) is not None),
    lambda w, s: Sentence("MindFormers: {}", _unmade_of(w) or ""),
    job_only=True,
)
ULYSSES = Rule(
    "mindformers_adapter_ulysses",
    "[mindformers-1.8, training_graph/transformer/attention.py; mindformers-1.8, lora_adapter.py]",
    Sentence(
        "with adapters of linear_proj context parallelism is not ulysses, which divides the layer that the adapter replaces"
    ),
    _loses_ulysses,
    lambda w, s: Sentence(
        "ulysses over cp {} with adapters of linear_proj: the layer that it divides is replaced by one with an adapter", s.cp
    ),
)
SHARDING = Rule(
    "mindformers_adapter_sharding",
    "[mindspore, opt_param_mgr.cc]",
    Sentence(
        "with adapters and replicas zero_stage is 0: MindSpore's parallel optimizer divides frozen weights as well, and gathers "
        "them for each micro batch, which has no price"
    ),
    lambda w, b: (b.zero_stage > 0) & (b.dp * b.cp > 1) if w.training.task.is_frozen else none_of(b),
    lambda w, s: Sentence(
        "zero_stage {} over dp {} x cp {} with adapters: frozen weights would be divided, and gathered for each micro batch",
        s.zero_stage,
        s.dp,
        s.cp,
    ),
)

RULES = rules_in(globals())


def is_given(options: Mapping[str, Any]) -> bool:
    """Whether a file has adapters of any kind."""
    return any(name.startswith(SECTION) and value not in (None, "", "None", {}, []) for name, value in options.items())


def read_adapters(given: Mapping[str, Any], model: ModelShape, value_of: Callable[[str], Any]) -> TrainingTask | str:
    """The task of a file with adapters, or the key that no price understands.

    ``value_of``: the value of a key, or its default.
    """
    for name, value in ({TYPE: "lora"} | ALL_BUT_ADAPTERS).items():
        if value_of(name) != value:
            return name
    for name in given:
        if name.startswith(SECTION) and name not in (*_PRICED, *_FREE) and given[name] not in (None, ""):
            return name
    rank, alpha = value_of(RANK), value_of(ALPHA)
    if type(rank) is not int or not 1 <= rank <= MAX_WIDTH:
        return RANK
    if type(alpha) not in (int, float) or not 0 < alpha <= MAX_NUMBER:
        return ALPHA
    named = [name.removeprefix(".*") for name in str(value_of(MODULES)).split("|")]
    adapters = Adapters(rank, float(alpha), tuple(name for name in MEGATRON_MODULES if name in named))
    if not adapters.modules or set(named) - {*MEGATRON_MODULES, *_NOT_LINEAR} or _unmade(model, adapters) is not None:
        return MODULES
    dtype = f"{MODEL}.params_dtype"  # frozen weights in FP32 have no price
    return TrainingTask(Task.LORA, adapters) if value_of(dtype) in ("bfloat16", "float16", "bf16", "fp16") else dtype
