"""Arguments of Megatron-LM core 0.12 for the parts of a plan [megatron-0.12, arguments.py], and their terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from cost_models.shapes.canonical import expert_domain_devices
from cost_models.shapes.precision import QUANTISED_PRECISIONS
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Recompute, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.training_task import Task
from cost_models.shapes.workload import Cluster
from documents.sentences import Sentence
from frameworks.facts import SEQUENCE_PARALLEL, Term, Terms, choice, number, switch
from frameworks.megatron_lm import host_optimizer
from frameworks.megatron_lm.hybrid import PATTERN
from frameworks.physics.memory import module_names
from frameworks.release import read_release
from frameworks.rule import has_effect
from frameworks.table import SwitchArgument, Table

SFT = "sft"  # the argument that makes pretrain_gpt.py fine-tune, from 0.19 on
DEEPEP_DOMAIN = 8  # devices that DeepEP's kernels reach over NVLink


def has_deepep(cluster: Cluster) -> bool:
    """Whether DeepEP runs on the devices."""
    return cluster.profile.family == "nvidia" and expert_domain_devices(cluster) <= DEEPEP_DOMAIN


COLUMNS = {
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
    "etp": "expert-tensor-parallel-size",
    "micro_batch_size": "micro-batch-size",
    "sequence_parallel": "sequence-parallel",
    "microbatch_group_size_per_vp_stage": "microbatch-group-size-per-virtual-pipeline-stage",
    "dispatcher": "moe-token-dispatcher-type",
}
CHUNKED = ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank")
# Switches that MindSpeed-LLM has as well.
SHARED = (
    SwitchArgument(Feature.OVERLAP_P2P, "no-overlap-p2p-communication", negated=True, only=CHUNKED),
    SwitchArgument(Feature.OVERLAP_GRAD_REDUCE, "overlap-grad-reduce"),
    SwitchArgument(Feature.OVERLAP_PARAM_GATHER, "overlap-param-gather"),
    SwitchArgument(Feature.GRAD_REDUCE_IN_BF16, "grad-reduce-in-bf16"),
    SwitchArgument(Feature.MOE_GROUPED_GEMM, "moe-grouped-gemm"),
)
SHARED_BY_EXPERTS = (
    SwitchArgument(Feature.MOE_SHARED_EXPERT_OVERLAP, "moe-shared-expert-overlap"),
    SwitchArgument(Feature.MOE_PAD_TO_CAPACITY, "moe-pad-expert-input-to-capacity"),
)

RELEASE_0_12 = read_release(Path(__file__).with_name("0.12.json"))
TABLE_0_12 = Table(
    columns=COLUMNS,
    switches=(
        *SHARED,
        SwitchArgument(Feature.MOE_PERMUTE_FUSION, "moe-permute-fusion"),
        *SHARED_BY_EXPERTS,
        SwitchArgument(Feature.FUSED_NORM, "transformer-impl", on=("transformer_engine",), off="local"),
        SwitchArgument(Feature.FLASH_ATTENTION, "attention-backend", on=("auto", "flash", "fused"), off="unfused"),
        SwitchArgument(Feature.FUSED_SWIGLU, "no-bias-swiglu-fusion", negated=True, only=("swiglu",)),
        SwitchArgument(
            Feature.FUSED_ROPE,
            "no-rope-fusion",
            negated=True,
            only=("position-embedding-type=rope", "multi-latent-attention"),  # core 0.12 refuses the fused kernel with MLA
        ),
        SwitchArgument(Feature.CUDA_GRAPH, "enable-cuda-graph", beside={"te-rng-tracker": ()}),
        SwitchArgument(Feature.TP_COMM_OVERLAP, "tp-comm-overlap"),
        SwitchArgument(Feature.OPTIMIZER_CPU_OFFLOAD, host_optimizer.SWITCH, beside={host_optimizer.AWARE: ()}),
    ),
    dispatchers={
        Dispatcher.ALLGATHER: "allgather",
        Dispatcher.ALLTOALL: "alltoall",
        Dispatcher.TWO_LEVEL: "flex",  # DeepEP sends a token once to each node, then spreads it inside
    },
    cp_algos={CpAlgo.RING: "p2p", CpAlgo.ULYSSES: "a2a", CpAlgo.HYBRID: "a2a+p2p", CpAlgo.KV_ALLGATHER: "all_gather"},
    schedules={Schedule.ONE_F_ONE_B: "", Schedule.INTERLEAVED: ""},
    modules={
        RecomputeModule.CORE_ATTN: "core_attn",
        RecomputeModule.LAYERNORM: "layernorm",
        RecomputeModule.MLP_ACT: "moe_act",
        RecomputeModule.MLA_UP_PROJ: "mla_up_proj",
        RecomputeModule.MLP: "mlp",
        RecomputeModule.MOE: "moe",
    },
)


def module_term(module: RecomputeModule) -> Term:
    """A term for the recompute of one module; other modules do not matter."""
    name = Sentence("recompute of {}", module_names(module))
    return Term(lambda w, b: (b.recompute_modules & int(module)) != 0, name, lambda w, s: name)


def switch_terms(table: Table) -> Terms:
    """Terms of a table's switches and modules. A value that means "off" has the code 0."""
    terms = {}
    for entry in table.switches:
        codes = {entry.off: 0, **dict.fromkeys(entry.on, 1)} if entry.on else None
        terms[entry.argument] = switch(entry.feature, off=entry.negated, codes=codes)
    terms |= {f"recompute-modules={name}": module_term(module) for module, name in table.modules.items()}
    return terms | {name: module_term(module) for module, name in table.module_switches.items()}


def dispatcher_term(names: Mapping[Dispatcher, str]) -> Term:
    """A term for the dispatcher if tokens are exchanged, else the plain one."""
    return choice(
        "moe_dispatcher",
        lambda w, b: np.where(b.ep * b.etp > 1, b.dispatcher, int(Dispatcher.ALLTOALL)),
        {name: int(dispatcher) for dispatcher, name in names.items()},
        lambda w, s: Sentence("{} over ep {}", s.dispatcher.label, s.ep) if s.ep * s.etp > 1 else "alltoall",
    )


VIRTUAL_STAGES = Term(lambda w, b: (b.vpp > 1) & (b.pp > 1), Sentence("vpp above 1"), lambda w, s: Sentence("vpp {}", s.vpp))
# Terms for arguments of both frameworks, besides switches.
SHARED_TERMS: Terms = {
    **{COLUMNS[field]: number(field) for field in ("tp", "pp", "cp", "ep", "etp")},
    "sequence-parallel": SEQUENCE_PARALLEL,
    **dict.fromkeys(CHUNKED, VIRTUAL_STAGES),
    "num-experts": Term(
        lambda w, b: w.model.moe.num_experts if w.model.moe else 0,
        "experts",
        lambda w, s: Sentence("experts ({})", w.model.moe.num_experts if w.model.moe else 0),
        of_job=True,
    ),
    "moe-expert-capacity-factor": Term(
        lambda w, b: w.model.moe is not None and w.model.moe.capacity_factor is not None,
        "capacity_factor",
        lambda w, s: Sentence("capacity_factor {}", w.model.moe.capacity_factor if w.model.moe else None),
        of_job=True,
    ),
    "multi-latent-attention": Term(
        lambda w, b: w.model.mla is not None,
        Sentence("latent attention"),
        lambda w, s: Sentence("latent attention"),
        of_job=True,
    ),
    "mtp-num-layers": Term(
        lambda w, b: w.model.mtp_num_layers,
        Sentence("multi-token-prediction layers"),
        lambda w, s: Sentence("{} multi-token-prediction layers", w.model.mtp_num_layers),
        of_job=True,
    ),
    "bf16": Term(
        lambda w, b: w.training.precision in ("bf16", *QUANTISED_PRECISIONS),  # fewer bits run on top of it
        Sentence("precision bf16"),
        lambda w, s: Sentence("precision {}", w.training.precision),
        lambda w, s: Sentence("it is {}", w.training.precision),
        of_job=True,
    ),
    "fp16": Term(
        lambda w, b: w.training.precision == "fp16",
        Sentence("precision fp16"),
        lambda w, s: Sentence("precision fp16"),
        of_job=True,
    ),
    "recompute-granularity": choice(
        "recompute",
        lambda w, b: b.recompute,
        {kind.label: int(kind) for kind in Recompute if kind},
        lambda w, s: s.recompute.label,
    ),
    "recompute-method": Term(
        lambda w, b: b.recompute == Recompute.FULL, Sentence("full recompute"), lambda w, s: Sentence("full recompute")
    ),
    "overlap-param-gather": Term(
        lambda w, b: has_effect(w, b, Feature.OVERLAP_PARAM_GATHER),
        "overlap_param_gather",
        lambda w, s: Sentence("overlap_param_gather with zero_stage {}", s.zero_stage),
        feature=Feature.OVERLAP_PARAM_GATHER,
    ),
}
# Without --data-parallel-sharding-strategy: a plan says by its switches that fully sharded data parallelism overlaps.
TERMS_0_12: Terms = {
    **switch_terms(TABLE_0_12),
    **SHARED_TERMS,
    "moe-token-dispatcher-type": dispatcher_term(TABLE_0_12.dispatchers),
    "use-custom-fsdp": Term(
        lambda w, b: b.zero_stage >= 2, Sentence("zero_stage above 1"), lambda w, s: Sentence("zero_stage {}", s.zero_stage)
    ),
}

RELEASE_0_19 = read_release(Path(__file__).with_name("0.19.json"))
CHANGED = {
    Feature.OVERLAP_P2P: SwitchArgument(
        Feature.OVERLAP_P2P,
        "no-overlap-p2p-communication",
        negated=True,
        only=(*CHUNKED, "pipeline-model-parallel-layout", PATTERN),
    ),
    Feature.CUDA_GRAPH: SwitchArgument(Feature.CUDA_GRAPH, "cuda-graph-impl", on=("local",), beside={"te-rng-tracker": ()}),
    Feature.OPTIMIZER_CPU_OFFLOAD: SwitchArgument(
        Feature.OPTIMIZER_CPU_OFFLOAD,
        host_optimizer.SWITCH,
        beside={host_optimizer.AWARE: (), host_optimizer.OVERLAP: ()},
    ),
    Feature.FUSED_SWIGLU: SwitchArgument(
        Feature.FUSED_SWIGLU, "no-bias-swiglu-fusion", negated=True, only=("swiglu", "quick-geglu")
    ),
    Feature.FUSED_ROPE: SwitchArgument(  # there is a fused kernel for MLA
        Feature.FUSED_ROPE, "no-rope-fusion", negated=True, only=("position-embedding-type=rope",)
    ),
}
NEW = (
    SwitchArgument(Feature.MOE_COMM_OVERLAP, "overlap-moe-expert-parallel-comm"),
    SwitchArgument(
        Feature.BF16_MOMENTS,
        "exp-avg-dtype",
        on=("bf16",),
        only=("exp-avg-sq-dtype=bf16",),  # the other moment
        beside={"use-precision-aware-optimizer": (), "exp-avg-sq-dtype": "bf16"},
    ),
)
TABLE_0_19 = replace(TABLE_0_12, switches=(*(CHANGED.get(switch.feature, switch) for switch in TABLE_0_12.switches), *NEW))
TERMS_0_19: Terms = {
    **{name: term for name, term in TERMS_0_12.items() if name not in ("enable-cuda-graph", "use-custom-fsdp")},
    **switch_terms(TABLE_0_19),
    **SHARED_TERMS,
    "moe-token-dispatcher-type": TERMS_0_12["moe-token-dispatcher-type"],
    "moe-flex-dispatcher-backend=deepep": Term(
        lambda w, b: (b.dispatcher == Dispatcher.TWO_LEVEL) & has_deepep(w.cluster), "DeepEP", lambda w, s: "DeepEP"
    ),
    "use-megatron-fsdp": TERMS_0_12["use-custom-fsdp"],
    SFT: Term(
        lambda w, b: w.training.task.name is Task.SFT, Sentence("sft"), lambda w, s: Sentence("training.task sft"), of_job=True
    ),
    "micro-batch-size": number("micro_batch_size"),
}
