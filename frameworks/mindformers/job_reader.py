"""Reads options of MindFormers as a whole job: model, strategy, batch, and a sentence for each skipped option that may matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute
from cost_models.shapes.tensors import choices_of
from cost_models.shapes.training_task import PRETRAIN, Task, TrainingTask
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence
from frameworks.framework import ReadingError, ReadJob
from frameworks.mindformers import adapters, fine_tuning
from frameworks.mindformers.balance import read_balance
from frameworks.mindformers.model_reader import ModelReading
from frameworks.mindformers.reader import GATHERED, SELECTED, SHARDED, WHOLLY, Reading
from frameworks.mindformers.selection import WHOLE
from frameworks.mindformers.table import MODEL, RELEASE, RING_ATTENTION
from frameworks.options import options_of
from frameworks.release import Effect
from frameworks.unread import CHANGES, Unread

PRECISIONS = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "float32": "fp32", "fp32": "fp32"}
# Keys that change little of a plan's cost and are not part of a plan, with the values that change nothing.
_UNPRICED: Mapping[str, tuple[Any, ...]] = {
    f"{MODEL}.fine_grain_interleave": (None, 1),
    f"{MODEL}.disable_lazy_inline": (None, False),
}
# Keys that change much of the cost, with the values that are priced.
_REFUSED: Mapping[str, tuple[tuple[Any, ...], Effect]] = {
    "parallel_config.seq_split_num": ((1,), "cost"),
    "parallel.parallel_mode": ((1, "semi_auto_parallel"), "cost"),
    "context.mode": ((0, "GRAPH_MODE"), "cost"),
    "optimizer.type": (("AdamW", "FP32StateAdamWeightDecay", "FusedAdamW"), "cost"),
    "swap_config.layer_swap": ((None, [], {}), "cost"),
    f"{MODEL}.window_size": ((None,), "model"),
    f"{MODEL}.group_wise_a2a": ((False,), "time"),
    f"{MODEL}.comp_comm_parallel": ((False,), "time"),
    "moe_config.ep_extend_tp": ((False,), "cost"),  # of legacy layers: experts over expert and tensor-parallel ranks
}


class _Recomputed(NamedTuple):
    """A key of ``recompute_config`` without a price: its effect, and the files that feel it if it is on."""

    effect: Effect
    felt: Callable[[Reading, ParallelStrategy], bool]


def _recomputes(reading: Reading, s: ParallelStrategy) -> bool:
    return s.recompute is not Recompute.NONE


def _gathers_weights(reading: Reading, s: ParallelStrategy) -> bool:
    """Whether weights are gathered again: ChatGLM's model alone hands the key on [mindformers-1.8, glm2.py]."""
    return reading.value(f"{MODEL}.type") == "ChatGLM2Config" and _recomputes(reading, s) and s.zero_stage > 0 and s.dp * s.cp > 1


def _cuts_inputs(reading: Reading, s: ParallelStrategy) -> bool:
    """Whether the inputs of recomputed layers are cut over tensor-parallel ranks that hold the same.

    The key is handed on if all layers are recomputed [mindformers-1.8, training_graph/transformer/utils.py]. The first dimension
    is cut, if its size is a multiple of the ranks: samples, or tokens in two dimensions [mindspore,
    slice_activation_in_recompute.cc; mindformers-1.8, llama.py].
    """
    rows_are_tokens = bool(reading.value(f"{MODEL}.rmsnorm_compute_2d"))
    is_whole = s.tp > 1 and not s.sequence_parallel and (rows_are_tokens or s.micro_batch_size % s.tp == 0)
    return is_whole and reading.value(WHOLLY) is True


_RECOMPUTED: Mapping[str, _Recomputed] = {
    "recompute_config.select_comm_recompute_exclude": _Recomputed("cost", _recomputes),
    "recompute_config.select_recompute_exclude": _Recomputed("cost", _recomputes),
    "recompute_config.parallel_optimizer_comm_recompute": _Recomputed("cost", _gathers_weights),
    "recompute_config.recompute_slice_activation": _Recomputed("cost", _cuts_inputs),
}
_OFF: tuple[Any, ...] = (False, None, [], {})


class _ResidualKey(NamedTuple):
    """Key of the precision of a layer's residual sums, its default if it is not the compute precision, and the form in FP32."""

    key: str
    default: str | None
    form: str


# Of legacy layers [mindformers-1.8, telechat_config.py, glm2_config.py, llama_config.py].
_RESIDUALS = {
    "TelechatConfig": _ResidualKey("res_dtype", "float32", "sums"),
    "ChatGLM2Config": _ResidualKey("residual_dtype", "float32", "stream"),
}
_OTHER_RESIDUAL = _ResidualKey("residual_dtype", None, "sums")
_WITHOUT_EFFECT = (
    "parallel_config.optimizer_shard",  # since 0.7 [mindformers-1.8, transformer.py]
    # Read, and handed to no layer: what tensor-parallel ranks exchange is sent again [mindformers-1.8, transformer.py, utils.py].
    "recompute_config.mp_comm_recompute",
    f"{MODEL}.rmsnorm_compute_2d",
)
# Attention within the documents of a sample; the loader's masks switch the model's key on [mindformers-1.8, base_trainer.py].
_BY_DOCUMENT = (
    f"{MODEL}.use_eod_attn_mask_compression",
    f"{MODEL}.use_eod_reset",
    "train_dataset.data_loader.create_compressed_eod_mask",
    "train_dataset.data_loader.config.create_compressed_eod_mask",
)
_KNOWN = {
    *_UNPRICED,
    *_REFUSED,
    *_RECOMPUTED,
    SELECTED,
    GATHERED,
    *_WITHOUT_EFFECT,
    *_BY_DOCUMENT,
    RING_ATTENTION,
}
# Sections whose keys cost nothing, or belong to data, checkpoints and logs.
_FREE = (
    *("train_dataset", "train_dataset_task", "eval_dataset", "eval_dataset_task", "processor", "callbacks", "eval_callbacks"),
    *(
        "monitor_config",
        "runner_wrapper",
        "lr_schedule",
        "metric",
        "trainer",
        "context",
        "parallel",
        "runner_config",
        "optimizer",
    ),
    *("moe_config", "generation_config", "infer", "auto_tune", "remote_save_url"),
)


def read_job(arguments: Sequence[str], num_devices: int | None = None) -> ReadJob:
    """The job of ``path=value`` arguments; raises ``ReadingError``."""
    options = options_of(arguments)
    reading = Reading(options)
    mode = reading.value("run_mode")
    if mode not in (None, "train", fine_tuning.MODE):
        raise ReadingError(Sentence("run_mode {!r} trains nothing; give the file of a training", str(mode)[:80]))
    model = ModelReading(reading)
    shape, strategy = model.model(), reading.strategy()
    precision = str(reading.value(f"{MODEL}.compute_dtype"))
    task = _task(reading, options, shape)
    sentences = [
        *reading.twice,
        *model.passed_over(),
        *_unknown(options),
        *_unpriced(reading),
        *_idle(reading, strategy),
        *_whole_layers(strategy),
        *_of_devices(strategy, num_devices),
    ]
    if precision not in PRECISIONS:
        sentences.append(Sentence("{}.compute_dtype {} is read as bfloat16", MODEL, precision[:80]))
    return ReadJob(
        shape,
        strategy,
        reading.number(f"{MODEL}.seq_length", low=1),
        _global_batch(reading, strategy),
        PRECISIONS.get(precision, "bf16"),
        tuple(sentences),
        read_balance(reading, shape),
        (*((Unread(task, CHANGES["weights"]),) if isinstance(task, str) else ()), *_unread(reading, strategy, task)),
        uneven=tuple(name for name in _BY_DOCUMENT if reading.value(name)),
        padded=fine_tuning.padded_by(options),
        legacy_layers=reading.legacy,
        fp32_residual=_fp32_residual(reading),
        task=PRETRAIN if isinstance(task, str) else task,
    )


def _task(reading: Reading, options: Mapping[str, Any], model: ModelShape) -> TrainingTask | str:
    """What the file trains, or the key of adapters that no price understands."""
    if adapters.is_given(options):
        return adapters.SECTION if reading.legacy else adapters.read_adapters(options, model, reading.value)
    return TrainingTask(Task.SFT) if reading.value("run_mode") == fine_tuning.MODE else PRETRAIN


def _global_batch(reading: Reading, strategy: ParallelStrategy) -> int:
    """Samples of a step [mindformers-1.8, base_trainer.py]."""
    accumulated = "parallel_config.micro_batch_num" if strategy.pp > 1 else "runner_config.gradient_accumulation_steps"
    return strategy.micro_batch_size * strategy.dp * (reading.number(accumulated, low=1) or 1)


def _unread(reading: Reading, strategy: ParallelStrategy, task: TrainingTask | str) -> Iterator[Unread]:
    """Keys without a price."""
    if isinstance(task, TrainingTask) and task.is_frozen and strategy.zero_stage > 0 and strategy.dp * strategy.cp > 1:
        yield Unread(SHARDED, CHANGES["cost"])  # frozen weights are divided as well: see adapters.SHARDING
    for name, (usual, effect) in _REFUSED.items():
        if reading.is_given(name) and reading.value(name) not in usual:
            yield Unread(name, CHANGES[effect])
    for name in reading.selected.unread:
        yield Unread(name, CHANGES["cost"])
    for name, key in _RECOMPUTED.items():
        if reading.is_given(name) and reading.value(name) not in _OFF and key.felt(reading, strategy):
            yield Unread(name, CHANGES[key.effect])


def _fp32_residual(reading: Reading) -> str:
    """The form of the FP32 residual, as in a job."""
    if PRECISIONS.get(str(reading.value(f"{MODEL}.compute_dtype"))) == "fp32":
        return "none"
    if not reading.legacy:
        return "layer" if reading.value(f"{MODEL}.fp32_residual_connection") else "none"
    named = _RESIDUALS.get(str(reading.value(f"{MODEL}.type")), _OTHER_RESIDUAL)
    dtype = reading.value(f"{MODEL}.{named.key}") or named.default
    return named.form if PRECISIONS.get(str(dtype)) == "fp32" else "none"


def _unknown(options: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on keys that the release lacks: keys of older layers, and misspelt ones."""
    sections = {name.partition(".")[0] for name in RELEASE.arguments if "." in name}
    for name, value in options.items():
        section = name.partition(".")[0]
        known = name.startswith(adapters.SECTION) or name in _KNOWN or name in RELEASE.arguments or name in RELEASE.former
        if not known and section in sections and section not in _FREE and name not in _OF_LEGACY_LAYERS and value not in _NOTHING:
            yield Sentence("{} is no key of MindFormers {} that is known here", name, RELEASE.version)


# Keys of the legacy layers: number formats, and settings of words and predictions.
_OF_LEGACY_LAYERS = frozenset(
    f"{MODEL}.{key}"
    for key in (
        *("type", "auto_register", "layernorm_compute_type", "softmax_compute_type", "embedding_init_type", "res_dtype"),
        *("rmsnorm", "post_layer_norm", "multi_query_attention", "partial_rotary_factor", "rope_ratio", "mlp_concat"),
        *("max_position_embedding", "parallel_optimizer", "pretrain_seqlen", "expert_num", "return_extra_loss"),
        *("hidden_dropout_prob", "attention_dropout_prob", "embed_dropout_prob", "max_length", "quantization_bit", "pre_seq_len"),
        *("rotary_pct", "rotary_emb_base", "compute_in_2d", "residual_dtype", "net_name", "temperature", "expand_ratio"),
        "router_aux_loss_coef",
    )
) | {"model.arch.type", "model.arch.auto_register"}
_NOTHING: tuple[Any, ...] = (None, "", "None", False, [])


def _unpriced(reading: Reading) -> Iterator[str]:
    for name, usual in _UNPRICED.items():
        value = reading.value(name)
        is_read = name == f"{MODEL}.fine_grain_interleave" and reading.legacy
        if reading.is_given(name) and value not in usual and not is_read:
            yield Sentence("{} {} changes what the plan costs, and no plan says it", name, str(value)[:60])
    for name in (f"{MODEL}.attention_dropout", f"{MODEL}.hidden_dropout", adapters.DROPOUT):
        if reading.is_given(name) and reading.value(name) != 0:
            yield Sentence("{} {} is read as 0, which keeps no masks", name, str(reading.value(name))[:20])
    dtype, computed = (str(reading.value(f"{MODEL}.{key}")) for key in ("params_dtype", "compute_dtype"))
    stated = reading.is_given(f"{MODEL}.params_dtype") or not reading.legacy
    if stated and PRECISIONS.get(dtype) == "fp32" != PRECISIONS.get(computed):
        yield Sentence(
            "{}.params_dtype {} is read as 16-bit weights with FP32 copies; software.fp32_parameters says otherwise", MODEL, dtype
        )


def _idle(reading: Reading, strategy: ParallelStrategy) -> Iterator[str]:
    """Sentences on keys that ``use_legacy: False`` ignores [mindformers-1.8, transformer_config_utils.py, attention.py]."""
    if reading.legacy:
        return
    if reading.value("swap_config.swap") and not reading.value(f"{MODEL}.swap"):
        yield Sentence("swap_config.swap is read as swap, for which these layers ask {}.swap", MODEL)
    degree = reading.value("parallel_config.ulysses_degree_in_cp")
    if strategy.cp_algo is CpAlgo.ULYSSES and degree != strategy.cp:
        yield (
            Sentence(
                "parallel_config.ulysses_degree_in_cp {} is read as {}: these layers split heads by it, whatever "
                "context_parallel_algo is",
                degree,
                strategy.cp,
            )
        )


def _whole_layers(strategy: ParallelStrategy) -> Iterator[str]:
    """A sentence on layers that are recomputed whole beside others that recompute some tensors on some stages."""
    if any(choice.recompute == WHOLE for choice in choices_of(strategy.tensor_plan or ())):
        yield Sentence("{} is read tensor by tensor: what enters the second norm of its layers is kept", WHOLLY)


def _of_devices(strategy: ParallelStrategy, num_devices: int | None) -> Iterator[str]:
    degrees = strategy.dp * strategy.tp * strategy.pp * strategy.cp
    if num_devices is not None and num_devices != degrees:
        yield Sentence("parallel_config asks for {} devices, and {} are started", degrees, num_devices)
