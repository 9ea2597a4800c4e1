"""What MindFormers' options say, in the product's own terms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cost_models.shapes.canonical import canonical_schedule
from cost_models.shapes.layout import layer_layout, lean_tail_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from frameworks.mindformers import cells as mindformers_cells
from frameworks.mindformers.table import RELEASE
from tests.oracle.launch_files.shell import LaunchFileError

# Sections whose keys MindFormers or MindSpore passes on without checking them.
FREE_SECTIONS = (
    *(
        "train_dataset.",
        "train_dataset_task.",
        "eval_dataset.",
        "eval_dataset_task.",
        "callbacks",
        "processor.",
        "monitor_config.",
    ),
    *("runner_wrapper.", "lr_schedule.", "trainer.", "context.", "parallel.strategy_ckpt_config.", "profile_", "metric."),
)
MAX_NUMBER = 10**12
_SWITCHES = {
    Feature.FLASH_ATTENTION: "model.model_config.use_flash_attention",
    Feature.FUSED_NORM: "model.model_config.fused_norm",
    Feature.FUSED_SWIGLU: "model.model_config.bias_swiglu_fusion",
    Feature.FUSED_ROPE: "model.model_config.use_fused_rope",
    Feature.SWAP_OPTIMIZER: "optimizer.swap",
    Feature.SWAP_ATTENTION: "model.model_config.swap",
    Feature.MOE_GROUPED_GEMM: "model.model_config.moe_grouped_gemm",
    Feature.MOE_PERMUTE_FUSION: "model.model_config.moe_permute_fusion",
    Feature.MOE_SHARED_EXPERT_OVERLAP: "model.model_config.moe_shared_expert_overlap",
}
_SCHEDULERS = {"gpipe": Schedule.GPIPE, "zero_bubble_v": Schedule.ZBV}
_CP_ALGOS = {"colossalai_cp": CpAlgo.KV_ALLGATHER, "ulysses_cp": CpAlgo.ULYSSES, "hybrid_cp": CpAlgo.HYBRID}
_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def written(value: Any) -> tuple[str, ...]:
    """A value of the YAML as the table's checks take it; of a mapping, its keys."""
    if isinstance(value, Mapping):
        return tuple(map(str, value)) or ("",)
    if isinstance(value, list):
        flat = [item for entry in value for item in (entry if isinstance(entry, list) else [entry])]
        return tuple(item if isinstance(item, str) else json.dumps(item) for item in flat) or ("",)
    if isinstance(value, bool):
        return (str(value),)
    return (value if isinstance(value, str) else json.dumps(value),)


class Reading:
    """Options by path, values as YAML reads them."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.dp, self.tp, self.pp, self.cp = (
            self._degree(f"parallel_config.{name}")
            for name in ("data_parallel", "model_parallel", "pipeline_stage", "context_parallel")
        )
        self.num_devices = self.dp * self.tp * self.pp * self.cp

    def _value(self, name: str) -> Any:
        if self._options.get(name) is not None:
            return self._options[name]
        argument = RELEASE.arguments.get(name)
        return argument.default if argument else None

    def _number(self, name: str, low: int = 0) -> int | None:
        value = self._value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_NUMBER:
            raise LaunchFileError(f"launch file: {name} {str(value)[:80]!r} is not allowed; give a whole number from {low}")
        return value

    def _degree(self, name: str) -> int:
        return self._number(name, low=1) or 1

    def strategy(self) -> ParallelStrategy:
        """The strategy."""
        vpp = (
            self._degree("model.model_config.pp_interleave_num")
            if self._value("parallel.pipeline_config.pipeline_interleave")
            else 1
        )
        has_experts = bool(self._experts())
        algo, ulysses = self._context_parallel()
        halves = self._degree("micro_batch_interleave_num")
        kind, method, layers, modules, plan = self._recompute(vpp)
        return ParallelStrategy(
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            cp=self.cp,
            ep=self._degree("parallel_config.expert_parallel") if has_experts else 1,
            vpp=vpp,
            micro_batch_size=self._degree("runner_config.batch_size") * halves,
            sequence_parallel=bool(self._value("parallel_config.use_seq_parallel")) and self.tp > 1,
            cp_algo=algo,
            ulysses_degree=ulysses,
            schedule=self._schedule(vpp),
            zero_stage=self._zero_stage(),
            optimizer_shard_size=max(self._shard_size(), 0),
            dispatcher=self._dispatcher() if has_experts else Dispatcher.NONE,
            recompute=kind,
            recompute_method=method,
            recompute_num_layers=layers,
            recompute_modules=modules,
            features=self._features(vpp, halves),
            recompute_layers_per_stage=plan,
            layer_layout=self._layout(vpp),
        )

    def _experts(self) -> int | None:
        names = ("num_experts", "n_routed_experts")
        return next((found for name in names if (found := self._number(f"model.model_config.{name}"))), None)

    def _schedule(self, vpp: int) -> Schedule:
        written = self._value("parallel.pipeline_config.pipeline_scheduler")
        return canonical_schedule(self.pp, vpp, _SCHEDULERS.get(written, Schedule.NONE))

    def _context_parallel(self) -> tuple[CpAlgo, int]:
        if self.cp == 1:
            return CpAlgo.NONE, 1
        algo = _CP_ALGOS.get(self._value("parallel_config.context_parallel_algo"), CpAlgo.KV_ALLGATHER)
        if algo is CpAlgo.KV_ALLGATHER and self._value("model.model_config.use_ring_attention"):
            algo = CpAlgo.RING
        hybrid = self._degree("parallel_config.ulysses_degree_in_cp")
        return algo, {CpAlgo.ULYSSES: self.cp, CpAlgo.HYBRID: hybrid}.get(algo, 1)

    def _zero_stage(self) -> int:
        if not self._value("parallel.enable_parallel_optimizer"):
            return 0
        return 2 if self._value("parallel.parallel_optimizer_config.gradient_accumulation_shard") else 1

    def _shard_size(self) -> int:
        size = self._value("parallel.parallel_optimizer_config.optimizer_weight_shard_size")
        return size if isinstance(size, int) and size <= MAX_NUMBER else 0

    def _dispatcher(self) -> Dispatcher:
        folded = self._value("model.model_config.moe_token_dispatcher_type") == "alltoall_deredundency"
        return Dispatcher.HIERARCHICAL if folded else Dispatcher.ALLTOALL

    def _layout(self, vpp: int) -> LayerLayout | None:
        """``offset`` is what a stage holds beyond the even share."""
        total = self._number("model.model_config.num_hidden_layers")
        if not total or total < self.pp * vpp:
            return None
        offset = self._value("model.model_config.offset")
        rows = offset if isinstance(offset, list) else [[offset or 0] * self.pp] * vpp
        if rows and not isinstance(rows[0], list):
            rows = [rows]
        flat = [item for row in rows if isinstance(row, list) for item in row]
        each = total // (self.pp * vpp)
        fits = len(rows) == vpp and len(flat) == self.pp * vpp and all(isinstance(item, int) for item in flat)
        if not fits or sum(flat) + each * len(flat) != total or min(flat) + each < 0:
            raise LaunchFileError(f"launch file: offset {str(offset)[:80]} does not place {total} layers on pp {self.pp} x {vpp}")
        if self._schedule(vpp).rules.is_vee:  # given by rank, and the second chunk runs the ranks in reverse
            rows = [rows[0], rows[1][::-1]]
        layout = tuple(tuple(each + item for item in row) for row in rows)
        return None if layout == self._even_layout(total, vpp) else layout

    def _even_layout(self, total: int, vpp: int) -> LayerLayout:
        return (lean_tail_layout if self._schedule(vpp).rules.is_vee else layer_layout)(total, self.pp, vpp)

    def _whole_layout(self, vpp: int) -> LayerLayout:
        given = self._layout(vpp)
        if given is not None:
            return given
        total = self._number("model.model_config.num_hidden_layers") or 0
        if total < self.pp * vpp:
            raise LaunchFileError(f"launch file: num_hidden_layers {total} is less than pp {self.pp} x {vpp}; give the layers")
        return self._even_layout(total, vpp)

    def _recompute(self, vpp: int) -> tuple[Recompute, RecomputeMethod, int, RecomputeModule, tuple[int, ...] | None]:
        value = self._value("recompute_config.recompute")
        patterns = self._value("recompute_config.select_recompute")
        modules = RecomputeModule(0)
        if isinstance(patterns, bool | list | Mapping):
            modules = mindformers_cells.modules_of(patterns if isinstance(patterns, bool) else map(str, patterns))
        if value is True:
            return Recompute.FULL, RecomputeMethod.UNIFORM, 1, modules, None
        if isinstance(value, list) and value:
            rows = value if isinstance(value[0], list) else [value]
            counts = [count for row in rows for count in row]
            if not all(isinstance(count, int) and 0 <= count <= MAX_NUMBER for count in counts):
                raise LaunchFileError(f"launch file: recompute {str(value)[:80]} is no list of numbers of layers")
            if self._value("swap_config.swap") is True and not isinstance(value[0], list):
                layout = self._whole_layout(vpp)
                placed = mindformers_cells.counts_of(counts, layout)
                block = mindformers_cells.block_size(placed, layout)
                if block is not None:
                    return Recompute.FULL, RecomputeMethod.BLOCK, block, modules, None
                counts = [sum(stage) for stage in zip(*placed, strict=True)]
            if isinstance(value[0], list) or (vpp == 1 and len(set(counts)) == 1):
                return Recompute.FULL, RecomputeMethod.BLOCK, max(counts), modules, None
            return Recompute.FULL, RecomputeMethod.BLOCK, max(counts), modules, tuple(counts)
        kind = Recompute.SELECTIVE if modules else Recompute.NONE
        return kind, RecomputeMethod.NONE, 0, modules, None

    def _features(self, vpp: int, halves: int) -> Feature:
        features = Feature.OVERLAP_GRAD_REDUCE  # the compiled graph overlaps by itself
        features |= Feature.OVERLAP_PARAM_GATHER if self._zero_stage() else Feature(0)
        features |= Feature.OVERLAP_P2P if self._schedule(vpp) is Schedule.INTERLEAVED else Feature(0)
        features |= Feature.FINE_GRAIN_INTERLEAVE if halves > 1 else Feature(0)
        for feature, name in _SWITCHES.items():
            features |= feature if self._value(name) is True else Feature(0)
        if self._value("use_legacy") and self._value("parallel_config.vocab_emb_dp"):
            features |= Feature.REPLICATED_EMBEDDING
        return features

    def model(self) -> dict[str, Any]:
        """Facts of the model that are written, under the names of a job."""
        names = {
            **{"num_layers": "num_hidden_layers", "hidden_size": "hidden_size", "ffn_hidden_size": "intermediate_size"},
            **{
                "num_attention_heads": "num_attention_heads",
                "num_query_groups": "num_key_value_heads",
                "kv_channels": "head_dim",
            },
            **{"vocab_size": "vocab_size", "mtp_num_layers": "num_nextn_predict_layers"},
        }
        facts: dict[str, Any] = {
            field: self._number(f"model.model_config.{name}")
            for field, name in names.items()
            if f"model.model_config.{name}" in self._options
        }
        if self._experts():
            facts["moe"] = {
                "num_experts": self._experts(),
                "top_k": self._number("model.model_config.num_experts_per_tok"),
                "expert_ffn_hidden_size": self._number("model.model_config.moe_intermediate_size"),
            }
        return facts

    def training(self) -> dict[str, Any]:
        """Length, batch and precision."""
        micro_batches = self._degree("parallel_config.micro_batch_num") * self._degree(
            "runner_config.gradient_accumulation_steps"
        )
        micro_batch = self._degree("runner_config.batch_size") * self._degree("micro_batch_interleave_num")
        return {
            "seq_length": self._number("model.model_config.seq_length", low=1),
            "global_batch_size": micro_batch * self.dp * micro_batches,
            "precision": _PRECISIONS.get(self._value("model.model_config.compute_dtype"), "bf16"),
        }
