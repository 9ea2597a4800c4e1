"""Reads arguments of MindSpeed-LLM as a whole job: Megatron's, with no-op layers, dense layers and layer specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cost_models.shapes.layout import default_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute
from cost_models.shapes.tensors import drops_nothing
from cost_models.shapes.training_task import PRETRAIN, TrainingTask
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence, joined
from frameworks.framework import ReadingError, ReadJob
from frameworks.megatron_lm import job_reader as megatron
from frameworks.megatron_lm.reader import integers
from frameworks.megatron_lm.script import STAGE
from frameworks.mindspeed_llm import rules
from frameworks.mindspeed_llm.layers import ACTIVATIONS, NORMS, NUMBERS, is_counted, plan_of
from frameworks.mindspeed_llm.model_table import MODEL
from frameworks.mindspeed_llm.reader import LEADING, Reading
from frameworks.mindspeed_llm.specs import OF_TUNING, OVER_HEADS, PACKAGE, READ_SPECS, SPECS, traits_of
from frameworks.mindspeed_llm.tasks import MODULES, read_task
from frameworks.physics.memory import BESIDE_TENSORS
from frameworks.release import Release, values_of
from frameworks.table import Table
from frameworks.unread import Unread

ABSORBED, SPARSE = "enable-mla-absorb", "use-sparse-flash-attn"
ALL_LAYERS = ("recompute-activation-function-num-layers", "recompute-norm-num-layers", "moe-zero-memory-num-layers")


class JobReading(Reading, megatron.JobReading):
    """A reading with MindSpeed-LLM's own arguments for layers."""

    models = MODEL

    def __init__(self, release: Release, table: Table, arguments: Sequence[str], num_devices: int | None) -> None:
        super().__init__(release, table, arguments, num_devices)
        self.counts_layers = False

    def gathers_eight_bits(self) -> None:
        """Nothing: weights are kept and gathered in 16 bits [mindspeed, te/pytorch/module/linear.py]."""

    def by_tensor(self, model: ModelShape, strategy: ParallelStrategy) -> ParallelStrategy:
        """The strategy with norms and activation functions of the first layers of each virtual stage as a plan by tensor."""
        given = {name: self.number(NUMBERS[name]) for name in NUMBERS if self.on(name)}
        by_rank = self.vpp > 1 and self.on("enable-recompute-layers-per-pp-rank")
        beside = strategy.features & BESIDE_TENSORS or strategy.recompute_modules & ~rules.BY_SWITCH or self.number(LEADING)
        if all(number is None for number in given.values()) or strategy.recompute is Recompute.FULL or by_rank or beside:
            return strategy
        layout = strategy.layer_layout or default_layout(model, strategy.pp, strategy.vpp, strategy.schedule)
        slots = max(map(max, layout))
        if not is_counted(model, strategy) or self.task().is_frozen:
            return strategy
        self.counts_layers = True
        taken = {name: slots if number is None else min(number, slots) for name, number in given.items()}
        if min(taken.values()) == slots:
            return strategy
        plan = plan_of(model, layout, taken.get(NORMS, 0), taken.get(ACTIVATIONS, 0))
        kept = replace(strategy, recompute=Recompute.NONE, recompute_modules=RecomputeModule(0))
        return kept if drops_nothing(plan) else replace(kept, tensor_plan=plan)

    def not_understood(self) -> tuple[Unread, ...]:
        """Arguments that are not understood. A number of layers with recompute of a part is, if a rank has no more."""
        most = -(-megatron.JobReading.layers(self) // self.pp)
        found = super().not_understood()
        task = self._task()
        if isinstance(task, str):
            found = (*found, Unread(MODULES, task))
        if leading := self.layers_without_recompute():
            found = (*found, Unread(LEADING, leading))
        if self.on(ABSORBED) != self.on(SPARSE):
            alone = ABSORBED if self.on(ABSORBED) else SPARSE
            found = (*found, Unread(alone, Sentence("it is priced only where both stand, --{} and --{}", ABSORBED, SPARSE)))
        found = tuple(entry for entry in found if entry.name not in ALL_LAYERS or (self.number(entry.name) or 0) < most)
        if self.counts_layers:
            found = tuple(entry for entry in found if entry.name not in NUMBERS.values())
        packed = self.on("reset-attention-mask")  # the masks of samples replace that of the sequence
        return tuple(entry for entry in found if not (packed and entry.name == "attention-mask-type"))

    def builds_mask(self) -> bool:
        """MindSpeed-LLM's loader builds none [mindspeed-llm, training_basic.py]."""
        return False

    def job(self) -> ReadJob:
        """The job, with a sentence on recompute that DualPipeV leaves out of the price."""
        read = super().job()
        strategy = read.strategy
        if strategy.recompute is not Recompute.FULL or not self.schedule().rules.is_vee:
            return read
        names = [name for module, name in self.table.module_switches.items() if module in strategy.recompute_modules]
        words = [Sentence("{}: layers without full recompute are priced as kept whole.", name) for name in names]
        return replace(read, not_understood=(*read.not_understood, *words))

    def task(self) -> TrainingTask:
        """What the arguments train; what is not priced of it is not understood."""
        found = self._task()
        return PRETRAIN if isinstance(found, str) else found

    def _task(self) -> TrainingTask | str:
        names = [str(value) for value in values_of(self.release, self.given, MODULES)] if MODULES in self.given else []
        rank, alpha = (self.number(name, low=1) or 1 for name in ("lora-r", "lora-alpha"))
        return read_task(self.value(STAGE), names, rank, alpha)

    def noops(self) -> set[int]:
        """Positions of no-op layers."""
        return set(integers(self.value("noop-layers"))) if self.value("noop-layers") else set()

    def layers(self) -> int:
        """Layers of the model without no-op layers."""
        layers = super().layers() - len(self.noops())
        if layers < 1:
            raise ReadingError(
                Sentence("noop-layers {} leave no layer of num-layers {}", self.value("noop-layers"), self.value("num-layers"))
            )
        return layers

    def widths(self) -> Mapping[str, Any]:
        """Default widths, with the shared experts' width from a number of experts."""
        shared = self.number("n-shared-experts") or 0
        found = dict(super().widths())
        each = self.number("moe-ffn-hidden-size") or found["moe.expert_ffn_hidden_size"]
        return found | ({"moe.shared_expert_ffn_hidden_size": shared * each} if shared else {})

    def pattern(self) -> list[int]:
        """1 for each MoE layer, 0 for each dense one; positions include no-op layers [mindspeed-llm, transformer_block.py]."""
        dense, frequency = self.value("first-k-dense-replace"), self.value("moe-layer-freq")
        total, noops = super().layers(), self.noops()
        moe = [not dense or not frequency or (at >= dense and at % frequency == 0) for at in range(total)]
        return [int(is_moe) for at, is_moe in enumerate(moe) if at not in noops]

    def model(self, notes: list[str]) -> ModelShape:
        """The model that the layer specification builds; parts that it ignores are left out."""
        model = super().model(notes)
        given = self.value("spec") or ""
        spec = next(
            (spec for spec in (*SPECS, *READ_SPECS) if given == (f"{PACKAGE}.{spec.module}" if spec.module else "")), None
        )
        if spec is not None and OVER_HEADS in spec.honours:
            model = replace(model, constants=replace(model.constants, qk_norm_over_heads=model.qk_layernorm))
        if spec is None:
            self.unread.append(Unread("spec", Sentence("{} builds layers that are not known here", given[:80])))
            return model
        honoured = spec.honours if given or self.value(STAGE) is None else OF_TUNING
        lost = [name for name in traits_of(model) if name not in honoured]
        if lost:
            where = Sentence("spec {} does not honour them", given) if given else Sentence("no spec is given that does")
            notes.append(Sentence("{} are not built: {} [mindspeed-llm, tasks/models/spec].", joined(" and ", lost), where))
        without: dict[str, Any] = {}
        if "norms of queries and keys" in lost:
            without["qk_layernorm"] = False
        if "norms behind attention and MLP" in lost:
            without["sandwich_norm"] = False
        return replace(model, **without)
