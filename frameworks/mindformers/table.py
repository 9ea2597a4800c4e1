"""Keys of MindFormers' YAML for the parts of a plan [mindformers-1.8, transformer_config_utils.py, config_args.py]."""

from __future__ import annotations

from pathlib import Path

from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import Feature
from documents.sentences import Sentence
from frameworks.facts import SEQUENCE_PARALLEL, Term, Terms, number
from frameworks.mindformers import cells
from frameworks.release import read_release
from frameworks.table import SwitchArgument, Table

MODEL = "model.model_config"
FOLDER = "pretrained_model_dir"  # its config.json states what ``MODEL`` leaves out


def _switch(feature: Feature, key: str, *only: str) -> SwitchArgument:
    return SwitchArgument(feature, key, on=(True,), off=False, only=only)


RING_ATTENTION = f"{MODEL}.use_ring_attention"
EXPERT_KEYS = (f"{MODEL}.num_experts", f"{MODEL}.n_routed_experts")  # a class has one of them, and both are refused
EXPERTS = tuple(f"{key}>0" for key in EXPERT_KEYS)

RELEASE = read_release(Path(__file__).with_name("1.8.json"))
TABLE = Table(
    columns={
        "dp": "parallel_config.data_parallel",
        "tp": "parallel_config.model_parallel",
        "sequence_parallel": "parallel_config.use_seq_parallel",
        "pp": "parallel_config.pipeline_stage",
        "cp": "parallel_config.context_parallel",
        "ep": "parallel_config.expert_parallel",
        "ulysses_degree": "parallel_config.ulysses_degree_in_cp",
        "cp_algo": "parallel_config.context_parallel_algo",
        "vpp": f"{MODEL}.pp_interleave_num",
        "schedule": "parallel.pipeline_config.pipeline_scheduler",
        "micro_batch_size": "runner_config.batch_size",
        "dispatcher": f"{MODEL}.moe_token_dispatcher_type",
        "optimizer_shard_size": "parallel.parallel_optimizer_config.optimizer_weight_shard_size",
        "layer_layout": f"{MODEL}.offset",
    },
    switches=(
        SwitchArgument(Feature.FINE_GRAIN_INTERLEAVE, "micro_batch_interleave_num", on=(2, 3, 4, 6, 8), off=1),
        _switch(Feature.MOE_GROUPED_GEMM, f"{MODEL}.moe_grouped_gemm", *EXPERTS),
        _switch(Feature.MOE_PERMUTE_FUSION, f"{MODEL}.moe_permute_fusion", *EXPERTS),
        _switch(Feature.MOE_SHARED_EXPERT_OVERLAP, f"{MODEL}.moe_shared_expert_overlap", *EXPERTS),
        _switch(Feature.FLASH_ATTENTION, f"{MODEL}.use_flash_attention"),
        _switch(Feature.FUSED_NORM, f"{MODEL}.fused_norm"),
        _switch(Feature.FUSED_SWIGLU, f"{MODEL}.bias_swiglu_fusion", f"{MODEL}.gated_linear_unit"),
        _switch(Feature.FUSED_ROPE, f"{MODEL}.use_fused_rope", f"{MODEL}.multi_latent_attention!=True"),
        SwitchArgument(Feature.SWAP_OPTIMIZER, "optimizer.swap", on=(True,)),
        # The layers read only model_config; check_rules.py reads swap_config.
        SwitchArgument(
            Feature.SWAP_ATTENTION,
            f"{MODEL}.swap",
            on=(True,),
            beside={f"{MODEL}.op_swap": [cells.SWAPPED], "swap_config.swap": True},
            former="swap_config.swap",
        ),
    ),
    dispatchers={Dispatcher.ALLTOALL: "alltoall", Dispatcher.HIERARCHICAL: "alltoall_deredundency"},
    # ``RING_ATTENTION`` makes a ring of what else gathers keys and values [mindformers-1.8, flash_attention.py].
    cp_algos={
        CpAlgo.KV_ALLGATHER: "colossalai_cp",
        CpAlgo.RING: "colossalai_cp",
        CpAlgo.ULYSSES: "ulysses_cp",
        CpAlgo.HYBRID: "hybrid_cp",
    },
    schedules={
        Schedule.ONE_F_ONE_B: "1f1b",
        Schedule.INTERLEAVED: "1f1b",  # pipeline_interleave makes it interleaved
        Schedule.GPIPE: "gpipe",
        Schedule.ZBV: "zero_bubble_v",
    },
    modules_by_rule=True,  # ``select_recompute`` goes by names of cells, which depend on the model
    # The compiled graph overlaps sends, gradient reduction and weight gathering by itself.
    implied=Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER | Feature.OVERLAP_P2P,
)
BY_NAME = RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT | RecomputeModule.MLP

TERMS: Terms = {
    TABLE.columns["tp"]: number("tp"),
    TABLE.columns["sequence_parallel"]: SEQUENCE_PARALLEL,
    EXPERT_KEYS[0]: Term(
        lambda w, b: w.model.moe.num_experts if w.model.moe else 0,
        "experts",
        lambda w, s: Sentence("a model of {} experts", w.model.moe.num_experts if w.model.moe else 0),
        of_job=True,
    ),
    f"{MODEL}.num_nextn_predict_layers": Term(
        lambda w, b: w.model.mtp_num_layers,
        "mtp_num_layers",
        lambda w, s: Sentence("mtp_num_layers {}", w.model.mtp_num_layers),
        of_job=True,
    ),
}
