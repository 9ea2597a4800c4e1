"""Arguments of MindSpeed-LLM for the parts of a plan [mindspeed-llm, features_manager; mindspeed, features_manager]."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cost_models.shapes.precision import EIGHT_BITS
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import Feature
from cost_models.shapes.traits import STACKS
from cost_models.shapes.workload import TrainingJob, Workload
from documents.sentences import Sentence
from frameworks.facts import Term, Terms
from frameworks.megatron_lm.table import COLUMNS, SHARED, SHARED_BY_EXPERTS, SHARED_TERMS, dispatcher_term, switch_terms
from frameworks.mindspeed_llm.specs import OVER_HEADS, PACKAGE, traits_of
from frameworks.physics.memory import module_names
from frameworks.release import read_release
from frameworks.table import SwitchArgument, Table

COC_PARALLEL_NUM = 2

RELEASE = read_release(Path(__file__).with_name("master.json"))
TABLE = Table(
    columns=COLUMNS,
    switches=(
        *SHARED,
        SwitchArgument(Feature.MOE_PERMUTE_FUSION, "moe-permute-fusion", former="use-fused-moe-token-permute-and-unpermute"),
        SwitchArgument(Feature.MOE_PERMUTATION_ASYNC_COMM, "moe-permutation-async-comm"),
        *SHARED_BY_EXPERTS,
        SwitchArgument(Feature.DUALPIPEV_DW_DETACH, "dualpipev-dw-detach"),
        SwitchArgument(Feature.CP_SEND_RECV_OVERLAP, "use-cp-send-recv-overlap"),
        SwitchArgument(Feature.MOE_TP_EXTEND_EP, "moe-tp-extend-ep"),
        SwitchArgument(Feature.MOE_ALLTOALL_OVERLAP_COMM, "moe-alltoall-overlap-comm"),
        SwitchArgument(Feature.MOE_ALLGATHER_OVERLAP_COMM, "moe-allgather-overlap-comm"),
        SwitchArgument(Feature.MOE_COMM_OVERLAP, "moe-fb-overlap"),
        SwitchArgument(Feature.MOE_ZERO_MEMORY, "moe-zero-memory", on=("level0", "level1")),
        SwitchArgument(Feature.REUSE_FP32_PARAM, "reuse-fp32-param"),
        SwitchArgument(Feature.SWAP_OPTIMIZER, "swap-optimizer"),
        SwitchArgument(Feature.SWAP_ATTENTION, "swap-attention"),
        SwitchArgument(Feature.FLASH_ATTENTION, "use-flash-attn"),
        SwitchArgument(Feature.FUSED_NORM, "use-fused-rmsnorm"),
        SwitchArgument(Feature.FUSED_SWIGLU, "use-fused-swiglu"),
        SwitchArgument(Feature.FUSED_ROPE, "use-fused-rotary-pos-emb"),
        SwitchArgument(
            Feature.SPARSE_ATTENTION_KERNEL, "use-sparse-flash-attn", beside={"enable-mla-absorb": (), "mla-mm-split": ()}
        ),
        SwitchArgument(
            Feature.FUSED_INDEXER,
            "use-fused-lightning-indexer",
            beside={"use-fused-lightning-indexer-loss": ()},
            former="use-fused-lightning-indexer-loss",  # either sets both
        ),
        SwitchArgument(Feature.MC2, "use-ascend-mc2"),
        SwitchArgument(Feature.COC, "use-ascend-coc", beside={"coc-parallel-num": COC_PARALLEL_NUM}),
        SwitchArgument(Feature.TP_2D, "tp-2d"),
    ),
    dispatchers={Dispatcher.ALLGATHER: "allgather", Dispatcher.ALLTOALL: "alltoall"},
    cp_algos={CpAlgo.RING: "megatron_cp_algo", CpAlgo.ULYSSES: "ulysses_cp_algo", CpAlgo.HYBRID: "hybrid_cp_algo"},
    schedules={Schedule.ONE_F_ONE_B: "", Schedule.INTERLEAVED: "", Schedule.DUALPIPE_V: "dualpipev"},
    modules={RecomputeModule.CORE_ATTN: "core_attn", RecomputeModule.MLP: "mlp", RecomputeModule.MOE: "moe"},
    module_switches={
        RecomputeModule.LAYERNORM: "recompute-norm",
        RecomputeModule.MLP_ACT: "recompute-activation-function",
        RecomputeModule.MLA_UP_PROJ: "recompute-mla-up-proj",
    },
)
HAS_METHOD = np.array([bool(TABLE.schedules.get(schedule)) for schedule in Schedule])  # has a value of schedules-method
USUAL_RECIPE = str(STACKS[RELEASE.name].traits.usual_fp8_recipe)
BY_LAYER = RecomputeModule.CORE_ATTN | RecomputeModule.MLP | RecomputeModule.MOE


def _recurrent(workload: Workload) -> bool:
    return workload.model.local_attention is not None and workload.model.local_attention.is_linear


def recipe_of(training: TrainingJob) -> str:
    """The recipe that launch files ask for in 8 bits: the job's, else the one of MindSpeed-LLM's own scripts."""
    return training.fp8_recipe or USUAL_RECIPE


TERMS: Terms = {
    **switch_terms(TABLE),
    **SHARED_TERMS,
    "moe-token-dispatcher-type": dispatcher_term(TABLE.dispatchers),
    "moe-zero-memory!=disable": switch_terms(TABLE)["moe-zero-memory"],
    "use-distributed-optimizer": Term(
        lambda w, b: b.zero_stage == 1,
        "zero_stage 1",
        lambda w, s: Sentence("zero_stage {}", s.zero_stage),
        lambda w, s: Sentence("it is {}", s.zero_stage),
    ),
    "context-parallel-algo=hybrid_cp_algo": Term(
        lambda w, b: (b.ulysses_degree > 1) & (b.ulysses_degree < b.cp),
        Sentence("cp_algo hybrid"),
        lambda w, s: Sentence("cp_algo {}", s.cp_algo.label),
    ),
    "schedules-method=dualpipev": Term(
        lambda w, b: HAS_METHOD[b.schedule] & (b.pp > 1),
        Sentence("schedule dualpipev"),
        lambda w, s: Sentence("schedule dualpipev"),
    ),
    "untie-embeddings-and-output-weights": Term(
        lambda w, b: not w.model.tied_embeddings,
        Sentence("embeddings that are not tied"),
        lambda w, s: Sentence("embeddings that are not tied"),
        lambda w, s: Sentence("those of {} are", w.model.name),
        of_job=True,
    ),
    "multi-latent-attention": Term(
        lambda w, b: w.model.mla is not None, Sentence("latent attention"), lambda w, s: Sentence("latent attention"), of_job=True
    ),
    "q-lora-rank": Term(
        lambda w, b: w.model.mla is not None and bool(w.model.mla.q_lora_rank),
        Sentence("compressed queries (q_lora_rank)"),
        lambda w, s: Sentence("compressed queries"),
        lambda w, s: Sentence("{} has none", w.model.name),
        of_job=True,
    ),
    f"spec={PACKAGE}.minimax_spec": Term(
        lambda w, b: OVER_HEADS in traits_of(w.model),
        Sentence("a norm of queries and keys over all heads"),
        lambda w, s: OVER_HEADS,
        of_job=True,
    ),
    "full-attention-interval": Term(
        lambda w, b: w.model.local_attention.full_attention_every if _recurrent(w) and w.model.local_attention else 0,
        Sentence("linear attention"),
        lambda w, s: Sentence("linear attention"),
        of_job=True,
    ),
    "transformer-impl=transformer_engine": Term(  # its layers are written for 8 bits alone
        lambda w, b: w.training.precision in EIGHT_BITS,
        Sentence("precision fp8 or hif8"),
        lambda w, s: Sentence("precision {}, which runs on the layers of Transformer Engine", w.training.precision),
        of_job=True,
    ),
    "fp8-format": Term(
        lambda w, b: w.training.precision in EIGHT_BITS,
        Sentence("precision fp8 or hif8"),
        lambda w, s: Sentence("precision {}", w.training.precision),
        of_job=True,
    ),
    "fp8-recipe!=mxfp8": Term(
        lambda w, b: recipe_of(w.training) != "mxfp8",
        Sentence("other recipes"),
        lambda w, s: Sentence("recipe {}", recipe_of(w.training)),
        of_job=True,
    ),
    "lora-target-modules": Term(
        lambda w, b: w.training.task.is_frozen, Sentence("adapters"), lambda w, s: Sentence("adapters"), of_job=True
    ),
    "post-norm": Term(
        lambda w, b: w.model.sandwich_norm,
        Sentence("norms behind attention and MLP"),
        lambda w, s: Sentence("norms behind attention and MLP"),
        of_job=True,
    ),
    "recompute-granularity=selective": Term(  # MindSpeed's own switches have no granularity
        lambda w, b: (b.recompute_modules & int(BY_LAYER)) != 0,
        Sentence("recompute by module"),
        lambda w, s: Sentence("recompute of {}", module_names(s.recompute_modules & BY_LAYER)),
    ),
}
