"""What the arguments of Megatron-LM and MindSpeed-LLM say, in the product's own terms."""

from __future__ import annotations

import re
from typing import Any

from cost_models.shapes.canonical import canonical_group_size, canonical_schedule
from cost_models.shapes.layout import layer_layout, lean_tail_layout
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, LayerLayout, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from frameworks.release import Given, Release, values_of
from tests.oracle.launch_files.shell import LaunchFileError

MAX_NUMBER = 10**12
MAX_LAYERS = 100_000
_PATTERN = re.compile(r"\[([01](?:,[01])*)\](?:\*(\d{1,6}))?")
_SWITCHES = {
    Feature.OVERLAP_GRAD_REDUCE: "overlap-grad-reduce",
    Feature.OVERLAP_PARAM_GATHER: "overlap-param-gather",
    Feature.GRAD_REDUCE_IN_BF16: "grad-reduce-in-bf16",
    Feature.MOE_GROUPED_GEMM: "moe-grouped-gemm",
    Feature.MOE_PERMUTE_FUSION: "moe-permute-fusion",
    Feature.MOE_SHARED_EXPERT_OVERLAP: "moe-shared-expert-overlap",
    Feature.MOE_PAD_TO_CAPACITY: "moe-pad-expert-input-to-capacity",
}
_MEGATRON_SWITCHES = {
    Feature.TP_COMM_OVERLAP: "tp-comm-overlap",
    Feature.CUDA_GRAPH: "enable-cuda-graph",
    Feature.OPTIMIZER_CPU_OFFLOAD: "optimizer-cpu-offload",
}
_MINDSPEED_SWITCHES = {
    Feature.FLASH_ATTENTION: "use-flash-attn",
    Feature.FUSED_NORM: "use-fused-rmsnorm",
    Feature.FUSED_SWIGLU: "use-fused-swiglu",
    Feature.FUSED_ROPE: "use-fused-rotary-pos-emb",
    Feature.MC2: "use-ascend-mc2",
    Feature.COC: "use-ascend-coc",
    Feature.TP_2D: "tp-2d",
    Feature.REUSE_FP32_PARAM: "reuse-fp32-param",
    Feature.SWAP_OPTIMIZER: "swap-optimizer",
    Feature.SWAP_ATTENTION: "swap-attention",
    Feature.CP_SEND_RECV_OVERLAP: "use-cp-send-recv-overlap",
    Feature.MOE_PERMUTATION_ASYNC_COMM: "moe-permutation-async-comm",
    Feature.MOE_ALLTOALL_OVERLAP_COMM: "moe-alltoall-overlap-comm",
    Feature.MOE_ALLGATHER_OVERLAP_COMM: "moe-allgather-overlap-comm",
    Feature.MOE_COMM_OVERLAP: "moe-fb-overlap",
    Feature.MOE_TP_EXTEND_EP: "moe-tp-extend-ep",
    Feature.DUALPIPEV_DW_DETACH: "dualpipev-dw-detach",
}
_DISPATCHERS = {
    "allgather": Dispatcher.ALLGATHER,
    "alltoall": Dispatcher.ALLTOALL,
    "alltoall_seq": Dispatcher.ALLTOALL,
    "flex": Dispatcher.TWO_LEVEL,
}
_CP_ALGOS = {"megatron_cp_algo": CpAlgo.RING, "ulysses_cp_algo": CpAlgo.ULYSSES, "hybrid_cp_algo": CpAlgo.HYBRID}
_MODULES = {
    "core_attn": RecomputeModule.CORE_ATTN,
    "layernorm": RecomputeModule.LAYERNORM,
    "moe_act": RecomputeModule.MLP_ACT,
    "mla_up_proj": RecomputeModule.MLA_UP_PROJ,
    "mlp": RecomputeModule.MLP,
    "moe": RecomputeModule.MOE,
}
_MODULE_SWITCHES = {
    RecomputeModule.LAYERNORM: "recompute-norm",
    RecomputeModule.MLP_ACT: "recompute-activation-function",
    RecomputeModule.MLA_UP_PROJ: "recompute-mla-up-proj",
}
_ZERO_STAGES = {"optim_grads": 2, "optim_grads_params": 3}


class Reading:
    """Arguments of one release whose values its table accepts."""

    def __init__(self, release: Release, given: Given, num_devices: int | None) -> None:
        self._release = release
        self._given = given
        self._ascend = release.name == "mindspeed-llm"
        self.tp = self._degree("tensor-model-parallel-size")
        self.pp = self._degree("pipeline-model-parallel-size")
        self.cp = self._degree("context-parallel-size")
        replica = self.tp * self.pp * self.cp
        self.num_devices = num_devices or replica
        if self.num_devices % replica:
            raise LaunchFileError(
                f"launch file: tp {self.tp} x pp {self.pp} x cp {self.cp} = {replica} devices of a replica do not divide "
                f"the {self.num_devices} that the launcher starts"
            )
        self.dp = self.num_devices // replica

    def _value(self, name: str) -> Any:
        return values_of(self._release, self._given, name)[0]

    def _values(self, name: str) -> list[Any]:
        return [value for value in values_of(self._release, self._given, name) if value is not None]

    def _on(self, name: str) -> bool:
        return bool(self._value(name))

    def _number(self, name: str, low: int = 0) -> int | None:
        value = self._value(name)
        if value is not None and not low <= value <= MAX_NUMBER:
            raise LaunchFileError(f"launch file: {name} {value} is not allowed; give {low} to {MAX_NUMBER}")
        return value if value is None else int(value)

    def _degree(self, name: str) -> int:
        return self._number(name, low=1) or 1

    def strategy(self) -> ParallelStrategy:
        """The strategy; its layers are placed where ``num-layers`` is given."""
        vpp, layout = self._layout()
        algo, ulysses = self._context_parallel()
        ep, etp = self._expert_degrees()
        zero_stage, shard = self._optimizer()
        kind, method, layers, modules, plan = self.recompute(vpp)
        return ParallelStrategy(
            tp=self.tp,
            pp=self.pp,
            dp=self.dp,
            cp=self.cp,
            ep=ep,
            etp=etp,
            vpp=vpp,
            micro_batch_size=self._degree("micro-batch-size"),
            sequence_parallel=self._on("sequence-parallel") and self.tp > 1,
            cp_algo=algo,
            ulysses_degree=ulysses,
            schedule=self._schedule(vpp),
            microbatch_group_size_per_vp_stage=self._group_size(vpp),
            zero_stage=zero_stage,
            optimizer_shard_size=shard,
            dispatcher=self.dispatcher() if self._number("num-experts") else Dispatcher.NONE,
            recompute=kind,
            recompute_method=method,
            recompute_num_layers=layers,
            recompute_modules=modules,
            features=self.features(vpp),
            recompute_layers_per_stage=plan,
            layer_layout=layout,
        )

    @property
    def _folded(self) -> bool:
        """Whether the two chunks of every rank make a V: there is no argument for their number."""
        return self._ascend and self.pp > 1 and self._value("schedules-method") == "dualpipev"

    def _schedule(self, vpp: int) -> Schedule:
        return Schedule.DUALPIPE_V if self._folded else canonical_schedule(self.pp, vpp)

    def _group_size(self, vpp: int) -> int:
        size = self._number("microbatch-group-size-per-virtual-pipeline-stage", low=1) or 0
        return canonical_group_size(self.pp, self._schedule(vpp), size)

    def _counted(self) -> tuple[int, int]:
        """Whether embedding and loss count as a layer."""
        if self._ascend or self.pp == 1:
            return 0, 0
        return int(self._on("account-for-embedding-in-pipeline-split")), int(self._on("account-for-loss-in-pipeline-split"))

    def _layout(self) -> tuple[int, LayerLayout | None]:
        """Virtual stages of a rank, and the layers of each where they differ from the default."""
        total = self._number("num-layers")
        chunk = self._number("num-layers-per-virtual-pipeline-stage", low=1)
        vpp = self._number("num-virtual-stages-per-pipeline-rank", low=1) or 1
        if total is None or total > MAX_LAYERS:
            return 2 if self._folded else vpp, None
        if chunk is not None and self.pp > 1:
            of_rank, rest = divmod(total + sum(self._counted()), self.pp)
            if rest or of_rank % chunk:
                raise LaunchFileError(f"launch file: pp {self.pp} leaves no whole chunks of {chunk} of num-layers {total}")
            vpp = of_rank // chunk
        if self._folded:
            vpp = 2
        if vpp * self.pp > total + sum(self._counted()):
            raise LaunchFileError(f"launch file: pp {self.pp} x {vpp} virtual stages do not fit num-layers {total}")
        counts = self._counts(total, vpp)
        layout = tuple(tuple(counts[c * self.pp : (c + 1) * self.pp]) for c in range(vpp))
        default = (lean_tail_layout if self._folded else layer_layout)(sum(counts), self.pp, vpp)
        return vpp, None if layout == default else layout

    def _counts(self, total: int, vpp: int) -> list[int]:
        """Layers of each virtual stage, in the order of the model."""
        if self._ascend and self._value("num-layer-list"):
            listed = _integers(self._value("num-layer-list"))
            if len(listed) != self.pp or sum(listed) != total:
                raise LaunchFileError(f"launch file: num-layer-list {listed} does not place {total} layers on pp {self.pp}")
            return listed
        if any(self._counted()):
            slots, rest = divmod(total + sum(self._counted()), self.pp * vpp)
            if rest:
                raise LaunchFileError(f"launch file: {total} layers do not fill {self.pp * vpp} stages with embedding and loss")
            counts = [slots] * (self.pp * vpp)
            counts[0] -= self._counted()[0]
            counts[-1] -= self._counted()[1]
            return counts
        first, last = self._number("decoder-first-pipeline-num-layers"), self._number("decoder-last-pipeline-num-layers")
        ends = (first or 0) + (last or 0)
        middle = self.pp - (first is not None) - (last is not None)
        if middle and (total - ends) % (middle * vpp):
            raise LaunchFileError(
                f"launch file: {total - ends} layers are not a multiple of {middle} ranks x {vpp} virtual stages"
            )
        each = (total - ends) // middle if middle else 0
        ranks = [first if first is not None else each, *[each] * (self.pp - 2), last if last is not None else each][: self.pp]
        if self.pp == 1:
            ranks = [total]
        counts = [rank // vpp for _ in range(vpp) for rank in ranks]
        noops = sorted(set(_integers(self._value("noop-layers")))) if self._ascend and self._value("noop-layers") else []
        slots = counts[0]
        for position in noops:
            if position >= total:
                raise LaunchFileError(f"launch file: noop-layers has {position}, and num-layers is {total}")
            counts[position // slots] -= 1
        return counts

    def _context_parallel(self) -> tuple[CpAlgo, int]:
        if self.cp == 1:
            return CpAlgo.NONE, 1
        if self._ascend:
            algo = _CP_ALGOS.get(self._value("context-parallel-algo"), CpAlgo.RING)
            degree = self._number("ulysses-degree-in-cp", low=1) or 1
        else:
            kind = self._value("cp-comm-type")
            algo = {"a2a": CpAlgo.ULYSSES, "a2a+p2p": CpAlgo.HYBRID, "all_gather": CpAlgo.KV_ALLGATHER}.get(kind, CpAlgo.RING)
            sizes = self._values("hierarchical-context-parallel-sizes")
            degree = sizes[0] if sizes else 1
        return algo, {CpAlgo.ULYSSES: self.cp, CpAlgo.HYBRID: degree}.get(algo, 1)

    def _expert_degrees(self) -> tuple[int, int]:
        if not self._number("num-experts"):
            return 1, 1
        ep = self._degree("expert-model-parallel-size")
        if self._ascend and self._on("moe-tp-extend-ep") and self.tp > 1:
            return ep * self.tp, 1
        return ep, self._number("expert-tensor-parallel-size", low=1) or self.tp

    def dispatcher(self) -> Dispatcher:
        """How tokens reach their experts."""
        return _DISPATCHERS[self._value("moe-token-dispatcher-type")]

    def _optimizer(self) -> tuple[int, int]:
        if not self._on("use-distributed-optimizer"):
            return 0, 0
        stage = 1
        if not self._ascend and self._on("use-custom-fsdp"):
            stage = _ZERO_STAGES.get(self._value("data-parallel-sharding-strategy"), 1)
        instances = self._degree("num-distributed-optimizer-instances")
        return stage, self.dp * self.cp // instances if instances > 1 else 0

    def recompute(self, vpp: int) -> tuple[Recompute, RecomputeMethod, int, RecomputeModule, tuple[int, ...] | None]:
        """Granularity, method, layers, modules, and layers of each rank."""
        granularity = self._value("recompute-granularity") or ("selective" if self._on("recompute-activations") else None)
        modules = RecomputeModule(0)
        if self._ascend:
            for module, name in _MODULE_SWITCHES.items():
                modules |= module if self._on(name) else RecomputeModule(0)
        if granularity == "full":
            method = RecomputeMethod.BLOCK if self._value("recompute-method") == "block" else RecomputeMethod.UNIFORM
            layers = self._number("recompute-num-layers", low=0)
            layers = 1 if layers is None else layers
            if self._ascend and self._on("enable-recompute-layers-per-pp-rank") and vpp > 1:
                return Recompute.FULL, RecomputeMethod.BLOCK, layers, modules, (layers,) * self.pp
            if layers or method is RecomputeMethod.UNIFORM:
                return Recompute.FULL, method, max(layers, 1), modules, None
        elif granularity == "selective":
            written = self._values("recompute-modules") or ["core_attn"]
            for name in written:
                modules |= _MODULES[name]
        kind = Recompute.SELECTIVE if modules else Recompute.NONE
        return kind, RecomputeMethod.NONE, 0, modules, None

    def features(self, vpp: int) -> Feature:
        """The switches that are on, and those that the framework leaves on."""
        named = {**_SWITCHES, **(_MINDSPEED_SWITCHES if self._ascend else _MEGATRON_SWITCHES)}
        features = Feature(0)
        for feature, name in named.items():
            features |= feature if self._on(name) else Feature(0)
        if self._schedule(vpp) is Schedule.INTERLEAVED and not self._on("no-overlap-p2p-communication"):
            features |= Feature.OVERLAP_P2P
        if self._ascend:
            return features | self._ascend_features()
        if self._value("attention-backend") in ("auto", "flash", "fused"):
            features |= Feature.FLASH_ATTENTION
        if self._value("transformer-impl") == "transformer_engine":
            features |= Feature.FUSED_NORM
        if self._on("swiglu") and not self._on("no-bias-swiglu-fusion"):
            features |= Feature.FUSED_SWIGLU
        if self._value("position-embedding-type") == "rope" and not self._on("no-rope-fusion"):
            features |= Feature.FUSED_ROPE
        sharding = self._value("data-parallel-sharding-strategy")
        if sharding in _ZERO_STAGES:
            features |= Feature.OVERLAP_GRAD_REDUCE
            features |= Feature.OVERLAP_PARAM_GATHER if sharding == "optim_grads_params" else Feature(0)
        return features

    def _ascend_features(self) -> Feature:
        features = Feature(0)
        if self._value("moe-zero-memory") != "disable":
            features |= Feature.MOE_ZERO_MEMORY
        if self._on("use-fused-moe-token-permute-and-unpermute"):
            features |= Feature.MOE_PERMUTE_FUSION
        return features

    def model(self) -> dict[str, Any]:
        """Facts of the model that are written, under the names of a job."""
        facts: dict[str, Any] = {}
        names = {
            **{"hidden_size": "hidden-size", "ffn_hidden_size": "ffn-hidden-size", "num_attention_heads": "num-attention-heads"},
            **{"kv_channels": "kv-channels", "vocab_size": "vocab-size", "mtp_num_layers": "mtp-num-layers"},
        }
        layers = self._number("num-layers")
        if layers is not None:
            idle = len(set(_integers(self._value("noop-layers")))) if self._ascend and self._value("noop-layers") else 0
            facts["num_layers"] = layers - idle
        facts |= {field: self._number(name) for field, name in names.items() if name in self._given}
        heads = self._number("num-attention-heads")
        if heads is not None:
            facts["num_query_groups"] = self._number("num-query-groups") if self._on("group-query-attention") else heads
        facts["gated_linear_unit"] = self._on("swiglu")
        facts["tied_embeddings"] = not self._on("untie-embeddings-and-output-weights")
        if self._on("multi-latent-attention"):
            facts["mla"] = {
                "q_lora_rank": self._number("q-lora-rank") or 0,
                "kv_lora_rank": self._number("kv-lora-rank"),
                "qk_nope_head_dim": self._number("qk-head-dim"),
                "qk_rope_head_dim": self._number("qk-pos-emb-head-dim"),
                "v_head_dim": self._number("v-head-dim"),
            }
        if self._number("num-experts"):
            facts["moe"] = {
                "num_experts": self._number("num-experts"),
                "top_k": self._number("moe-router-topk"),
                "expert_ffn_hidden_size": self._number("moe-ffn-hidden-size") or self._number("ffn-hidden-size"),
                "shared_expert_ffn_hidden_size": self._number("moe-shared-expert-intermediate-size") or 0,
                "capacity_factor": self._value("moe-expert-capacity-factor"),
            }
            pattern = None if self._ascend else moe_pattern(str(self._value("moe-layer-freq")))
            if pattern is not None:
                facts["moe"]["num_leading_dense_layers"] = pattern.index(True) if True in pattern else len(pattern)
        return facts

    def training(self) -> dict[str, Any]:
        """Lengths, batch and precision that are written."""
        facts: dict[str, Any] = {}
        for field, name in (("seq_length", "seq-length"), ("global_batch_size", "global-batch-size")):
            if name in self._given:
                facts[field] = self._number(name, low=1)
        facts["precision"] = "bf16" if self._on("bf16") else "fp16" if self._on("fp16") else "fp32"
        if self._value("fp8-format"):
            facts["precision"] = "fp8"
        return facts


def moe_pattern(text: str) -> tuple[bool, ...] | None:
    """Whether each layer is MoE, of a pattern such as ``([0]*3+[1]*58)``; None where it is a number."""
    if "[" not in text:
        return None
    layers: list[bool] = []
    for kinds, times in _PATTERN.findall(text):
        layers += [kind == "1" for kind in kinds.split(",")] * min(int(times or 1), MAX_LAYERS)
    return tuple(layers[:MAX_LAYERS])


def _integers(text: str) -> list[int]:
    parts = [part.strip() for part in str(text).split(",")]
    if not all(re.fullmatch(r"\d{1,6}", part) for part in parts):
        raise LaunchFileError(f"launch file: {text!r} is no list of whole numbers")
    return [int(part) for part in parts]
