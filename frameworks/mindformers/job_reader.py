"""Reads options of MindFormers as a whole job: model, strategy, batch, and a sentence for each skipped option that may matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute
from documents.sentences import Sentence
from frameworks.framework import ReadingError, ReadJob
from frameworks.mindformers.balance import read_balance
from frameworks.mindformers.model_reader import ModelReading
from frameworks.mindformers.reader import Reading
from frameworks.mindformers.table import MODEL, RELEASE
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
    f"{MODEL}.fp32_residual_connection": ((False,), "cost"),
    f"{MODEL}.group_wise_a2a": ((False,), "time"),
    f"{MODEL}.comp_comm_parallel": ((False,), "time"),
    "moe_config.ep_extend_tp": ((False,), "cost"),  # of legacy layers: experts over expert and tensor-parallel ranks
}


class _Recomputed(NamedTuple):
    """A key of ``recompute_config`` without a price: the values that change nothing, its effect, and the plans that feel it."""

    usual: tuple[Any, ...]
    effect: Effect
    felt: Callable[[ParallelStrategy], bool]


def _recomputes(s: ParallelStrategy) -> bool:
    return s.recompute is not Recompute.NONE


def _fully(s: ParallelStrategy) -> bool:
    return s.recompute is Recompute.FULL


_RECOMPUTED: Mapping[str, _Recomputed] = {
    # What tensor-parallel ranks exchange is kept, or sent again in the backward pass [mindformers-1.8, transformer.py].
    "recompute_config.mp_comm_recompute": _Recomputed((True,), "cost", lambda s: _fully(s) and s.tp > 1),
    "recompute_config.select_comm_recompute": _Recomputed((False, None, [], {}), "cost", lambda s: s.tp > 1),
    "recompute_config.select_comm_recompute_exclude": _Recomputed((False, None, [], {}), "cost", _recomputes),
    "recompute_config.select_recompute_exclude": _Recomputed((False, None, [], {}), "cost", _recomputes),
    # Weights are gathered again; the input of a recomputed layer is cut, which split sequences are anyway.
    "recompute_config.parallel_optimizer_comm_recompute": _Recomputed(
        (False,), "cost", lambda s: _recomputes(s) and s.zero_stage > 0 and s.dp * s.cp > 1
    ),
    "recompute_config.recompute_slice_activation": _Recomputed(
        (False,), "memory", lambda s: _fully(s) and s.tp > 1 and not s.sequence_parallel
    ),
}
_RESIDUAL = f"{MODEL}.res_dtype"  # of Telechat's layers, where it is FP32 by default [mindformers-1.8, telechat_config.py]
_WITHOUT_EFFECT = ("parallel_config.optimizer_shard",)  # since 0.7 [mindformers-1.8, transformer.py]
_BY_DOCUMENT = (f"{MODEL}.use_eod_attn_mask_compression", f"{MODEL}.use_eod_reset")  # attention within the documents of a sample
_KNOWN = {
    *_UNPRICED,
    *_REFUSED,
    *_RECOMPUTED,
    *_WITHOUT_EFFECT,
    *_BY_DOCUMENT,
    f"{MODEL}.use_ring_attention",
}  # a ring is the default of context parallelism
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
    if mode not in (None, "train", "finetune"):
        raise ReadingError(Sentence("run_mode {!r} trains nothing; give the file of a training", str(mode)[:80]))
    model = ModelReading(reading)
    shape, strategy = model.model(), reading.strategy()
    precision = str(reading.value(f"{MODEL}.compute_dtype"))
    sentences = [
        *reading.twice,
        *model.passed_over(),
        *_unknown(options),
        *_unpriced(reading),
        *_idle(reading, strategy),
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
        tuple(_unread(reading, options, strategy)),
        uneven=tuple(name for name in _BY_DOCUMENT if reading.value(name)),
        legacy_layers=reading.legacy,
    )


def _global_batch(reading: Reading, strategy: ParallelStrategy) -> int:
    """Samples of a step [mindformers-1.8, base_trainer.py]."""
    accumulated = "parallel_config.micro_batch_num" if strategy.pp > 1 else "runner_config.gradient_accumulation_steps"
    return strategy.micro_batch_size * strategy.dp * (reading.number(accumulated, low=1) or 1)


def _unread(reading: Reading, options: Mapping[str, Any], strategy: ParallelStrategy) -> Iterator[Unread]:
    """Adapters, whose weights alone are trained, and keys without a price."""
    adapters = f"{MODEL}.pet_config"
    if any(name.startswith(adapters) and value not in _NOTHING for name, value in options.items()):
        yield Unread(adapters, CHANGES["weights"])
    for name, (usual, effect) in _REFUSED.items():
        if reading.is_given(name) and reading.value(name) not in usual:
            yield Unread(name, CHANGES[effect])
    residual = reading.value(_RESIDUAL) or ("float32" if reading.value(f"{MODEL}.type") == "TelechatConfig" else "")
    if PRECISIONS.get(str(residual)) == "fp32" != PRECISIONS.get(str(reading.value(f"{MODEL}.compute_dtype"))):
        yield Unread(_RESIDUAL, CHANGES["cost"])
    for name, key in _RECOMPUTED.items():
        if reading.is_given(name) and reading.value(name) not in key.usual and key.felt(strategy):
            yield Unread(name, CHANGES[key.effect])


def _unknown(options: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on keys that the release lacks: keys of older layers, and misspelt ones."""
    sections = {name.partition(".")[0] for name in RELEASE.arguments if "." in name}
    adapters = f"{MODEL}.pet_config"
    for name, value in options.items():
        section = name.partition(".")[0]
        known = name.startswith(adapters) or name in _KNOWN or name in RELEASE.arguments or name in RELEASE.former
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
        *("rotary_pct", "rotary_emb_base", "compute_in_2d", "net_name", "temperature", "expand_ratio", "router_aux_loss_coef"),
    )
) | {"model.arch.type", "model.arch.auto_register"}
_NOTHING: tuple[Any, ...] = (None, "", "None", False, [])


def _unpriced(reading: Reading) -> Iterator[str]:
    for name, usual in _UNPRICED.items():
        value = reading.value(name)
        is_read = name == f"{MODEL}.fine_grain_interleave" and reading.legacy
        if reading.is_given(name) and value not in usual and not is_read:
            yield Sentence("{} {} changes what the plan costs, and no plan says it", name, str(value)[:60])
    for name in (f"{MODEL}.attention_dropout", f"{MODEL}.hidden_dropout"):
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


def _of_devices(strategy: ParallelStrategy, num_devices: int | None) -> Iterator[str]:
    degrees = strategy.dp * strategy.tp * strategy.pp * strategy.cp
    if num_devices is not None and num_devices != degrees:
        yield Sentence("parallel_config asks for {} devices, and {} are started", degrees, num_devices)
