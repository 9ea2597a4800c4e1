"""Reads arguments of Megatron-LM as a strategy; missing ones have the framework's defaults, not ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cost_models.shapes.canonical import canonical_group_size, canonical_schedule
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from documents.bounds import MAX_LAYERS, MAX_NUMBER
from documents.sentences import Sentence
from frameworks.framework import DevicesError, ReadingError
from frameworks.megatron_lm import fully_sharded, hybrid
from frameworks.megatron_lm.layouts import LAYOUT, read_layout
from frameworks.megatron_lm.optimizer import MAIN_GRADS, is_typed, read_types
from frameworks.release import Given, Release, accepted, read_tokens, values_of
from frameworks.rule import unless_default
from frameworks.table import Table, features_read, key_of

CHUNK = "num-layers-per-virtual-pipeline-stage"
COUNTED_ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")


class Reading:
    """Arguments of one release of the family. ``num_devices`` defaults to the devices of one replica."""

    def __init__(self, release: Release, table: Table, arguments: Sequence[str], num_devices: int | None) -> None:
        self.release, self.table = release, table
        self.written, self.stray = read_tokens(release, list(arguments))
        self.given = as_run(accepted(release, self.written))
        self.tp, self.pp, self.cp = (self.column(name) for name in ("tp", "pp", "cp"))
        replica = self.tp * self.pp * self.cp
        if (num_devices or replica) % replica:
            raise DevicesError(
                Sentence(
                    "tp {} x pp {} x cp {} = {} devices of a replica do not divide the {} devices",
                    self.tp,
                    self.pp,
                    self.cp,
                    replica,
                    num_devices,
                )
            )
        self.dp = (num_devices or replica) // replica
        self.mtp_before_head = 0
        self.vpp, self.layout = self.virtual_stages()

    def values(self, name: str) -> list[Any]:
        """Values of an argument, given or by default."""
        return [value for value in values_of(self.release, self.given, name) if value is not None]

    def value(self, name: str) -> Any:
        """The first value, or ``None``."""
        return next(iter(self.values(name)), None)

    def on(self, name: str) -> bool:
        """Whether a bare argument is given."""
        return bool(self.value(name))

    def number(self, name: str, low: int = 0) -> int | None:
        """A whole number within bounds."""
        value = self.value(name)
        if value is not None and not low <= value <= MAX_NUMBER:
            raise ReadingError(Sentence("{} {} is not allowed; give {} to {}", name, value, low, MAX_NUMBER))
        return value if value is None else int(value)

    def column(self, field: str) -> int:
        """A field of the strategy with a number from 1 on."""
        return self.number(self.table.columns[field], low=1) or 1

    def strategy(self) -> ParallelStrategy:
        """The strategy; layers are placed if ``num-layers`` is given."""
        algo, ulysses = self.context_parallel()
        routed = bool(self.number("num-experts"))
        ep, etp = self.expert_degrees() if routed else (1, 1)
        stage, shard = self.optimizer()
        kind, method, layers, modules, plan = self.recompute()
        size = self.number(self.table.columns["microbatch_group_size_per_vp_stage"], low=1) or 0
        return ParallelStrategy(
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            cp=self.cp,
            ep=ep,
            etp=etp,
            vpp=self.vpp,
            micro_batch_size=self.column("micro_batch_size"),
            sequence_parallel=self.on(self.table.columns["sequence_parallel"]) and self.tp > 1,
            cp_algo=algo,
            ulysses_degree=ulysses,
            schedule=self.schedule(),
            microbatch_group_size_per_vp_stage=canonical_group_size(self.pp, self.schedule(), size),
            zero_stage=stage,
            optimizer_shard_size=shard,
            dispatcher=self.dispatcher() if routed else Dispatcher.NONE,
            recompute=kind,
            recompute_method=method,
            recompute_num_layers=layers,
            recompute_modules=modules,
            features=self.features(stage),
            recompute_layers_per_stage=plan,
            layer_layout=self.layout,
            mtp_before_head=self.mtp_before_head,
        )

    def schedule(self) -> Schedule:
        """The schedule, which follows from degrees and virtual stages."""
        return canonical_schedule(self.pp, self.vpp)

    @property
    def symbols(self) -> str:
        """Symbols of layers of one block, with bars between stages; empty for other layers."""
        named = (self.value(name) for name in (hybrid.PATTERN, hybrid.FORMER) if name in self.release.arguments)
        return str(next(filter(None, named), ""))

    def virtual_stages(self) -> tuple[int, LayerLayout | None]:
        """Virtual stages of a rank, and the layers of each if they differ from the default."""
        total = len(hybrid.plain(self.symbols)) if self.symbols else self.number("num-layers")
        if placed := hybrid.layout_of(self.symbols, self.pp):
            self.vpp = len(placed)
            return self.vpp, unless_default(placed, self.schedule())
        chunk = self.number(CHUNK, low=1)
        self.vpp = self.number("num-virtual-stages-per-pipeline-rank", low=1) or 1
        if text := self.value(LAYOUT) if LAYOUT in self.release.arguments else None:
            layout, self.mtp_before_head, predicting = read_layout(text, self.pp)
            self.vpp = len(layout)
            modules = self.number("mtp-num-layers") or 0
            if total is not None and (total, modules) != (sum(map(sum, layout)), predicting):
                raise ReadingError(
                    Sentence(
                        "{} places {} layers and {} that predict further tokens, and num-layers is {}, mtp-num-layers {}",
                        LAYOUT,
                        sum(map(sum, layout)),
                        predicting,
                        total,
                        modules,
                    )
                )
            return self.vpp, unless_default(layout, self.schedule())
        if total is None or total > MAX_LAYERS:
            return self.chunks(self.vpp), None
        slots = total + sum(self.counted_ends())
        if chunk is not None and self.pp > 1:
            if slots % (self.pp * chunk):
                ends = Sentence(" and {} for embedding and loss", slots - total) if slots > total else ""
                raise ReadingError(Sentence("{} layers{}: no multiple of pp {} x {} {}", total, ends, self.pp, CHUNK, chunk))
            self.vpp = slots // self.pp // chunk
        vpp = self.chunks(self.vpp)
        if vpp * self.pp > slots:
            raise ReadingError(Sentence("pp {} x {} virtual stages do not fit num-layers {}", self.pp, vpp, total))
        counts = self.counts(total, vpp)
        layout = tuple(tuple(counts[c * self.pp : (c + 1) * self.pp]) for c in range(vpp))
        return vpp, unless_default(layout, self.schedule())

    def counted_ends(self) -> tuple[int, int]:
        """Whether embedding and loss count as one layer each of the first and the last virtual stage."""
        counted = (name in self.release.arguments and self.pp > 1 and self.on(name) for name in COUNTED_ENDS)
        first, last = map(int, counted)
        return first, last

    def chunks(self, vpp: int) -> int:
        """Virtual stages of a rank; a subclass can let the schedule decide."""
        return vpp

    def counts(self, total: int, vpp: int) -> list[int]:
        """Layers of each virtual stage, in the order of the model."""
        if self.pp == 1:
            return [total // vpp] * vpp
        ends = self.counted_ends()
        if any(ends):
            slots, rest = divmod(total + sum(ends), self.pp * vpp)
            if rest:
                raise ReadingError(
                    Sentence(
                        "{} layers and {} for embedding and loss are no multiple of pp {} x {} stages",
                        total,
                        sum(ends),
                        self.pp,
                        vpp,
                    )
                )
            return [slots - ends[0], *[slots] * (self.pp * vpp - 2), slots - ends[1]]
        first, last = self.number("decoder-first-pipeline-num-layers"), self.number("decoder-last-pipeline-num-layers")
        inner = total - (first or 0) - (last or 0)
        middle = self.pp - (first is not None) - (last is not None)
        if middle and inner % (middle * vpp):
            raise ReadingError(Sentence("{} layers are not a multiple of {} ranks x {} virtual stages", inner, middle, vpp))
        each = inner // middle if middle else 0
        ranks = [each if first is None else first, *[each] * (self.pp - 2), each if last is None else last]
        return [rank // vpp for _ in range(vpp) for rank in ranks]

    def context_parallel(self) -> tuple[CpAlgo, int]:
        """Context-parallel algorithm, and its Ulysses degree."""
        if self.cp == 1:
            return CpAlgo.NONE, 1
        algo = key_of(self.table.cp_algos, self.algorithm(), CpAlgo.RING)
        return algo, {CpAlgo.ULYSSES: self.cp, CpAlgo.HYBRID: self.ulysses_degree()}.get(algo, 1)

    def algorithm(self) -> Any:
        """The framework's name of the context-parallel algorithm."""
        kinds = dict.fromkeys(self.values("cp-comm-type"))
        if len(kinds) > 1:
            raise ReadingError(Sentence("--cp-comm-type {}: layers of different types have no price", " ".join(kinds)))
        return next(iter(kinds), None)

    def ulysses_degree(self) -> int:
        """Ulysses degree of hybrid context parallelism."""
        return self.value("hierarchical-context-parallel-sizes") or 1

    def expert_degrees(self) -> tuple[int, int]:
        """Expert-parallel ranks, and ranks of one expert; by default experts are split like the layers."""
        return self.column("ep"), self.number(self.table.columns["etp"], low=1) or self.tp

    def dispatcher(self) -> Dispatcher:
        """The dispatcher of tokens to experts."""
        return key_of(self.table.dispatchers, self.value(self.table.columns["dispatcher"]), Dispatcher.ALLTOALL)

    def optimizer(self) -> tuple[int, int]:
        """ZeRO stage, and the ranks that share one optimizer state."""
        if fully_sharded.OF_PYTORCH in self.release.arguments and self.on(fully_sharded.OF_PYTORCH):
            return 3, 0
        sharded = fully_sharded.is_on(self.release, self.value)
        if not (sharded or self.on("use-distributed-optimizer")):
            return 0, 0
        instances = self.number(fully_sharded.INSTANCES, low=1) or 1
        if self.dp * self.cp % instances:
            words = Sentence("--{} {} does not divide the {} replicas", fully_sharded.INSTANCES, instances, self.dp * self.cp)
            raise ReadingError(words)
        stage = key_of(fully_sharded.STRATEGIES, self.value(fully_sharded.STRATEGY), 1) if sharded else 1
        return stage, self.dp * self.cp // instances if instances > 1 else 0

    def recompute(self) -> tuple[Recompute, RecomputeMethod, int, RecomputeModule, tuple[int, ...] | None]:
        """Granularity, method, layers, modules, and layers of each rank."""
        granularity = self.value("recompute-granularity")
        modules = RecomputeModule(0)
        for module, name in self.table.module_switches.items():
            modules |= module if self.on(name) else RecomputeModule(0)
        if granularity == "full":
            method = RecomputeMethod.BLOCK if self.value("recompute-method") == "block" else RecomputeMethod.UNIFORM
            layers = self.number("recompute-num-layers")
            if layers != 0 or method is RecomputeMethod.UNIFORM:
                return Recompute.FULL, method, layers or 1, modules, None
        elif granularity == "selective":
            for name in self.values("recompute-modules") or ["core_attn"]:
                modules |= key_of(self.table.modules, name, RecomputeModule(0))
            if self.on("moe-grouped-gemm") and not self.number("num-experts"):
                modules &= (
                    ~RecomputeModule.MLP_ACT
                )  # taken, and recomputed in experts alone [megatron-0.12, transformer_config.py]
        kind = Recompute.SELECTIVE if modules else Recompute.NONE
        return kind, RecomputeMethod.NONE, 0, modules, None

    def features(self, zero_stage: int) -> Feature:
        """The switches that are on, with those that the framework sets by itself."""
        features = features_read(self.table, self.release, self.given, self.value)
        if read_types(self.release, self.value) is not None:
            features &= ~Feature.BF16_MOMENTS
        if is_typed(self.release) and self.value(MAIN_GRADS) == "bf16":
            features |= Feature.GRAD_REDUCE_IN_BF16  # the one buffer of gradients has this type [megatron-0.19, arguments.py]
        return fully_sharded.features_of(self.release, self.value, zero_stage, features) if zero_stage >= 2 else features


def as_run(given: Given) -> dict[str, tuple[str, ...]]:
    """Arguments as ``validate_args`` leaves them: the short form of selective recompute wins [megatron-0.12, arguments.py]."""
    return {**given, "recompute-granularity": ("selective",)} if "recompute-activations" in given else dict(given)


def integers(text: str) -> list[int]:
    """Whole numbers separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,6}", part) for part in parts):
        raise ReadingError(Sentence("{!r} is no list of whole numbers", text[:80]))
    return [int(part) for part in parts]
