"""Reads options of the FSDP2 backend as a strategy; missing ones have the release's defaults."""

from __future__ import annotations

from collections.abc import Sequence

from cost_models.shapes.strategy import CpAlgo, Dispatcher, ParallelStrategy, RecomputeMethod
from cost_models.shapes.switches import Feature
from documents.bounds import MAX_NUMBER
from documents.sentences import Sentence, joined
from frameworks.framework import DevicesError, ReadingError
from frameworks.fully_sharded import EVERYTHING, NOTHING, Checkpoints
from frameworks.mindspeed_llm_fsdp2.families import TYPES, UNREAD
from frameworks.mindspeed_llm_fsdp2.patterns import LAYERS, num_layers_of
from frameworks.mindspeed_llm_fsdp2.table import (
    ACCUMULATION,
    EXPERT_FSDP,
    FSDP,
    MIXTURE,
    MODEL_ID,
    RECOMPUTE,
    RECOMPUTED,
    RELEASE,
    STAGE,
    TABLE,
)
from frameworks.mindspeed_llm_fsdp2.values import MAX_TEXT, typed
from frameworks.options import OptionValues, as_given, options_of
from frameworks.table import features_read, key_of


def read(arguments: Sequence[str], num_devices: int | None = None) -> ParallelStrategy:
    """The strategy of ``path=value`` arguments; ``num_devices`` are those that a launcher starts."""
    return Reading(arguments, num_devices).strategy()


class Reading(OptionValues):
    """Options by path, with the types that the backend's parser gives them; an empty value is not given."""

    def __init__(self, arguments: Sequence[str], num_devices: int | None) -> None:
        given = {name: value for name, value in options_of(arguments).items() if value is not None}
        super().__init__(RELEASE, {name: typed(RELEASE.arguments.get(name), name, value) for name, value in given.items()})
        self.model_id = str(self.value(MODEL_ID) or "")
        if self.model_id in UNREAD:
            raise ReadingError(Sentence("{} {} has no price: {}", MODEL_ID, self.model_id, UNREAD[self.model_id]))
        if self.model_id not in TYPES:
            raise ReadingError(Sentence("{} {} is not known; give {}", MODEL_ID, self.model_id[:MAX_TEXT], joined(", ", TYPES)))
        self.devices = self._devices(num_devices)
        self.cp = self.number(TABLE.columns["cp"])
        if self.devices % self.cp:
            raise ReadingError(Sentence("{} {} does not divide {} {}", TABLE.columns["cp"], self.cp, FSDP, self.devices))
        self.ep = self._experts()

    def _devices(self, num_devices: int | None) -> int:
        """``fsdp_size``, which is all devices [mindspeed-llm, fsdp2/distributed/parallel_state.py:97]."""
        size, tp = self.number(FSDP), self.number(TABLE.columns["tp"])
        if num_devices is not None and size != num_devices:
            raise DevicesError(
                Sentence("{} is {}, and the job has {} devices: the backend shards over all of them", FSDP, size, num_devices)
            )
        if tp > 1:
            name = TABLE.columns["tp"]
            raise ReadingError(Sentence("{} {}: {} is all devices, which leaves none for it", name, tp, FSDP))
        return size

    def _experts(self) -> int:
        """``ep_size``; its ranks and those of ``ep_fsdp_size`` are all devices, else replicas of an expert are not kept equal."""
        ep, shards, name = self.number(TABLE.columns["ep"]), self.number(EXPERT_FSDP), TABLE.columns["ep"]
        if ep > 1 and self.model_id != MIXTURE:
            raise ReadingError(Sentence("{} {}: the model has no experts, and the backend refuses it", name, ep))
        if ep > 1 and ep * shards != self.devices:
            raise ReadingError(
                Sentence(
                    "{} {} x {} {} is not {} {}: nothing adds the gradients of an expert's replicas, which has no price",
                    name,
                    ep,
                    EXPERT_FSDP,
                    shards,
                    FSDP,
                    self.devices,
                )
            )
        return ep

    @property
    def dp(self) -> int:
        """Ranks with samples of their own."""
        return self.devices // self.cp

    @property
    def micro_batch_size(self) -> int:
        """Samples of a rank at once."""
        return self.number(TABLE.columns["micro_batch_size"])

    @property
    def global_batch_size(self) -> int:
        """Samples of a step [mindspeed-llm, fsdp2/train/trainer.py:190]."""
        return self.micro_batch_size * self.number(ACCUMULATION) * self.dp

    def patterns(self, name: str) -> list[str]:
        """Names of modules; empty if none are given."""
        value = self.value(name)
        return list(value) if isinstance(value, list) else []

    def checkpoints(self) -> Checkpoints:
        """Layers that are recomputed; parts of layers are read as none."""
        if not self.value(RECOMPUTE):
            return NOTHING
        layers = num_layers_of(self.patterns(RECOMPUTED) or [LAYERS]) or 0
        if layers in (0, MAX_NUMBER):
            return EVERYTHING if layers else NOTHING
        return Checkpoints(EVERYTHING.recompute, RecomputeMethod.BLOCK, layers)

    def strategy(self) -> ParallelStrategy:
        """The strategy."""
        found, algo = self.checkpoints(), str(self.value(TABLE.columns["cp_algo"]))
        cp_algo = key_of(TABLE.cp_algos, algo, CpAlgo.NONE) if self.cp > 1 else CpAlgo.NONE
        if self.cp > 1 and cp_algo is CpAlgo.NONE:
            raise ReadingError(Sentence("{} {} has no price", TABLE.columns["cp_algo"], algo[:MAX_TEXT]))
        return ParallelStrategy(
            dp=self.dp,
            cp=self.cp,
            cp_algo=cp_algo,
            ulysses_degree=self.cp if cp_algo is CpAlgo.ULYSSES else 1,
            ep=self.ep,
            micro_batch_size=self.micro_batch_size,
            zero_stage=3 if self.value(TABLE.columns["zero_stage"]) else 2,
            dispatcher=Dispatcher.ALLTOALL if self.model_id == MIXTURE else Dispatcher.NONE,
            recompute=found.recompute,
            recompute_method=found.method,
            recompute_num_layers=found.num_layers,
            features=self._features(),
        )

    def _features(self) -> Feature:
        """The switches; one option has those of grouped experts [mindspeed-llm, fsdp2/models/qwen3/qwen3_moe.py:150]."""
        given = {name: as_given(value) for name, value in self.options.items() if name in RELEASE.arguments}
        features = features_read(TABLE, RELEASE, given, self.value) | (TABLE.implied & ~Feature.FUSED_SWIGLU)
        if self.value(STAGE) != "pt":
            features &= ~Feature.CHUNKED_LOSS
        if Feature.MOE_GROUPED_GEMM in features:
            features |= Feature.FUSED_SWIGLU | (Feature.MOE_PERMUTE_FUSION if self.ep == 1 else Feature(0))
        return features
