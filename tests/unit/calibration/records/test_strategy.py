from collections.abc import Callable
from typing import Any

import pytest

from calibration.records.training import RunRecord
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Schedule
from cost_models.shapes.switches import Feature

Read = Callable[..., RunRecord]
Refuse = Callable[..., str]
TITAN = {"software.framework": "torchtitan"}
FLAT: dict[str, Any] = {
    "strategy.pp": 1,
    "strategy.dp": 8,
    "strategy.num_microbatches": None,
    "strategy.distributed_optimizer": None,
}


def test_a_data_parallel_degree_that_does_not_fit_is_derived(read: Read) -> None:
    record = read({"strategy.dp": 4, "strategy.num_microbatches": None})
    assert record.strategy.dp == 2
    assert record.warnings == ("strategy.dp: 4 does not fit: tp 2 x pp 4 x cp 1 x dp = 16 devices gives dp 2.",)


def test_degrees_that_no_data_parallel_degree_completes_are_refused(refuse: Refuse) -> None:
    assert refuse({"strategy.tp": 3}) == ("strategy needs tp 3 x pp 4 x cp 1 = 12 devices a replica, which do not divide 16.")


@pytest.mark.parametrize(
    ("schedule", "vpp", "expected", "warns"),
    [
        ("1f1b", 1, (Schedule.ONE_F_ONE_B, 1), False),
        ("none", 1, (Schedule.ONE_F_ONE_B, 1), False),
        (None, 2, (Schedule.INTERLEAVED, 2), False),
        ("interleaved-1f1b", 2, (Schedule.INTERLEAVED, 2), False),
        ("1f1b or interleaved", 2, (Schedule.INTERLEAVED, 2), True),
        ("1f1b or interleaved", None, (Schedule.INTERLEAVED, 2), True),  # 8 layers a stage: 2 divides them first
        ("interleaved-1f1b", None, (Schedule.INTERLEAVED, 2), True),
        ("1f1b", 2, (Schedule.INTERLEAVED, 2), True),
        ("gpipe", 1, (Schedule.GPIPE, 1), False),
        ("zb-1p", 1, (Schedule.ZB1P, 1), False),
        ("zb-2p", 1, (Schedule.ZB2P, 1), False),
        ("zb-2p*", 1, (Schedule.ZB2P, 1), False),
        ("zb1p", 2, (Schedule.ZB1P, 1), True),
        ("zb-v", 2, (Schedule.ZBV, 2), False),
        ("zbv", None, (Schedule.ZBV, 2), False),
        ("DualPipe", 1, (Schedule.DUALPIPE, 1), False),
        ("dualpipev", 1, (Schedule.DUALPIPE_V, 2), False),  # MindSpeed's scripts give no virtual stages with it
        ("dualpipev", 4, (Schedule.DUALPIPE_V, 2), True),
        ("spiral", 1, (Schedule.ONE_F_ONE_B, 1), True),
    ],
)
def test_schedules_are_mapped(
    read: Read, schedule: str | None, vpp: int | None, expected: tuple[Schedule, int], warns: bool
) -> None:
    record = read({"strategy.schedule": schedule, "strategy.vpp": vpp})
    assert (record.strategy.schedule, record.strategy.vpp) == expected
    assert bool(record.warnings) == warns


def test_without_a_pipeline_there_is_no_schedule(read: Read) -> None:
    record = read({"strategy.pp": 1, "strategy.vpp": 4, "strategy.dp": 8, "strategy.num_microbatches": 8})
    assert (record.strategy.schedule, record.strategy.vpp) == (Schedule.NONE, 1)
    assert record.warnings == ("strategy.vpp: 4 has no effect without a pipeline.",)


@pytest.mark.parametrize(
    ("size", "count", "expected"),
    [(None, 32, 1), (None, 8, 4), (None, None, 1), (2, None, 2)],  # 64 samples over dp 2 are 32 a replica
)
def test_the_micro_batch_follows_from_its_number(read: Read, size: int | None, count: int | None, expected: int) -> None:
    record = read({"strategy.micro_batch_size": size, "strategy.num_microbatches": count})
    assert record.strategy.micro_batch_size == expected
    assert bool(record.warnings) == (size is None)


def test_a_batch_below_one_micro_batch_a_replica_is_refused(refuse: Refuse) -> None:
    assert refuse({"strategy.micro_batch_size": 64}) == (
        "training.global_batch_size is 64; micro_batch_size 64 x dp 2 = 128 or more is needed."
    )


def test_an_uneven_batch_is_noted(read: Read) -> None:
    assert read({"strategy.micro_batch_size": 3}).warnings == (
        "strategy.micro_batch_size: 3 x dp 2 = 6 does not divide the global batch of 64.",
    )


@pytest.mark.parametrize(
    ("algo", "flags", "expected", "warns"),
    [
        ("ring", [], (CpAlgo.RING, 1), False),
        ("ring (all-gather or p2p)", [], (CpAlgo.RING, 1), False),
        ("kv_allgather", [], (CpAlgo.KV_ALLGATHER, 1), False),
        ("all_gather", [], (CpAlgo.KV_ALLGATHER, 1), False),
        ("ulysses", [], (CpAlgo.ULYSSES, 4), False),
        ("a2a", [], (CpAlgo.ULYSSES, 4), False),
        ("hybrid", ["ulysses-degree-in-cp=2"], (CpAlgo.HYBRID, 2), False),
        ("hybrid", [], (CpAlgo.HYBRID, 2), True),
        (None, [], (CpAlgo.ULYSSES, 4), True),  # the default of MindSpeed-LLM
    ],
)
def test_context_parallel_algorithms_are_mapped(
    read: Read, algo: str | None, flags: list[str], expected: tuple[CpAlgo, int], warns: bool
) -> None:
    record = read(
        {
            "strategy.cp": 4,
            "strategy.pp": 1,
            "strategy.cp_algo": algo,
            "software.raw_flags": flags,
            "strategy.num_microbatches": None,
        }
    )
    assert (record.strategy.cp_algo, record.strategy.ulysses_degree) == expected
    assert bool(record.warnings) == warns


def test_megatron_defaults_to_ring(read: Read) -> None:
    changes = {"strategy.cp": 4, "strategy.pp": 1, "strategy.num_microbatches": None, "software.framework": "Megatron-LM"}
    assert read(changes).strategy.cp_algo is CpAlgo.RING


@pytest.mark.parametrize(
    ("dispatcher", "framework", "expected"),
    [
        ("alltoall_seq", "MindSpeed-LLM", Dispatcher.ALLTOALL),
        ("hybridep", "MindSpeed-LLM", Dispatcher.TWO_LEVEL),
        ("deepep", "MindSpeed-LLM", Dispatcher.TWO_LEVEL),
        (None, "MindSpeed-LLM", Dispatcher.ALLGATHER),
        (None, "MindFormers", Dispatcher.ALLTOALL),
        (None, "Megatron-Bridge / Megatron-Core", Dispatcher.TWO_LEVEL),
    ],
)
def test_dispatchers_are_mapped(
    read: Read, moe: dict[str, Any], dispatcher: str | None, framework: str, expected: Dispatcher
) -> None:
    record = read({"model.moe": moe, "strategy.ep": 2, "strategy.moe_dispatcher": dispatcher, "software.framework": framework})
    assert record.strategy.dispatcher is expected
    assert record.strategy.ep == 2


def test_experts_need_ranks_and_ranks_need_experts(read: Read, refuse: Refuse, moe: dict[str, Any]) -> None:
    assert refuse({"model.moe": moe, "strategy.ep": 8}) == (
        "strategy.ep 8 x etp 1 = 8 do not divide the tp 2 x cp 1 x dp 2 = 4 devices of a pipeline stage."
    )
    assert refuse({"model.moe": {**moe, "num_experts": 9}, "strategy.ep": 2}) == (
        "strategy.ep: 2 is not allowed; give a divisor of model.moe.num_experts 9."
    )
    dense = read({"strategy.ep": 4, "strategy.etp": 2})
    assert (dense.strategy.ep, dense.strategy.etp, dense.strategy.dispatcher) == (1, 1, Dispatcher.NONE)
    assert dense.warnings == ("strategy.ep: 4 has no effect without experts.",)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"strategy.distributed_optimizer": True}, (1, 0)),
        ({"strategy.distributed_optimizer": None}, (0, 0)),
        ({"strategy.distributed_optimizer": None, "software.framework": "Megatron-DeepSpeed"}, (1, 0)),  # its launch scripts
        ({"strategy.zero_stage": 2}, (2, 0)),
        ({"strategy.fsdp_shard_size": 2}, (3, 2)),
        ({"strategy.fsdp_shard_size": 64}, (3, 2)),  # no more than the replicas there are
        ({"strategy.fsdp_shard_size": 2, "strategy.zero_stage": 2}, (2, 2)),
        # torchtitan frees weights behind a forward by default, but not in a pipeline
        ({**TITAN, **FLAT}, (3, 0)),
        ({**TITAN}, (2, 0)),
        ({**TITAN, "software.raw_flags": ["fsdp_reshard_after_forward=default"]}, (2, 0)),
        ({**TITAN, "software.raw_flags": ["fsdp_reshard_after_forward=always"]}, (3, 0)),
        ({**TITAN, **FLAT, "software.raw_flags": ["fsdp_reshard_after_forward=never"]}, (2, 0)),
        ({**TITAN, **FLAT, "software.raw_flags": ["reshard_after_forward=false"]}, (2, 0)),
        # its context-parallel ranks share states too
        ({**TITAN, **FLAT, "strategy.cp": 2, "strategy.dp": 4, "strategy.fsdp_shard_size": 4}, (3, 8)),
        ({**FLAT, "strategy.cp": 2, "strategy.dp": 4, "strategy.fsdp_shard_size": 4}, (3, 4)),
    ],
)
def test_optimizer_sharding(read: Read, changes: dict[str, Any], expected: tuple[int, int]) -> None:
    strategy = read(changes).strategy
    assert (strategy.zero_stage, strategy.optimizer_shard_size) == expected


@pytest.mark.parametrize(("version", "size"), [("2024-12", 8), ("2025-06", 1), ("", 1)])
def test_early_torchtitan_makes_a_micro_batch_of_each_rank_of_a_pipeline(read: Read, version: str, size: int) -> None:
    unstated = {"software.version": version, "strategy.micro_batch_size": None, "strategy.num_microbatches": None}
    assert read({**TITAN, **unstated}).strategy.micro_batch_size == size  # 64 samples over dp 2 and 4 ranks
    assert read(unstated).strategy.micro_batch_size == 1


def test_nemo_reduces_gradients_in_bf16(read: Read) -> None:
    assert Feature.GRAD_REDUCE_IN_BF16 in read({"software.framework": "fms-fsdp"}).strategy.features
    assert Feature.GRAD_REDUCE_IN_BF16 in read({"software.framework": "NeMo / Megatron-Core"}).strategy.features
    assert Feature.GRAD_REDUCE_IN_BF16 not in read({"software.framework": "Megatron-LM"}).strategy.features


def test_moments_are_read_from_the_optimizers_flags(read: Read) -> None:
    flags = ["use-precision-aware-optimizer", "exp-avg-dtype=bf16", "exp-avg-sq-dtype=bf16"]
    megatron = {"software.framework": "Megatron-LM"}
    assert Feature.BF16_MOMENTS in read({**megatron, "software.raw_flags": flags}).strategy.features
    assert Feature.BF16_MOMENTS not in read({**megatron, "software.raw_flags": flags[:2]}).strategy.features


def test_features_are_matched_by_name_and_unknown_ones_noted(read: Read) -> None:
    record = read({"strategy.features": ["mc2", "Reuse_FP32_Param", "warp_drive"]})
    assert record.strategy.features == Feature.FLASH_ATTENTION | Feature.MC2 | Feature.REUSE_FP32_PARAM
    assert record.warnings == ("strategy.features: 'warp_drive' is not a known switch, left out.",)


def test_interleaving_overlaps_its_sends_by_default(read: Read) -> None:
    changes: dict[str, Any] = {"strategy.vpp": 2, "strategy.schedule": "interleaved-1f1b"}
    assert Feature.OVERLAP_P2P in read(changes).strategy.features
    without = read({**changes, "software.raw_flags": ["no-overlap-p2p-communication"]})
    assert Feature.OVERLAP_P2P not in without.strategy.features


@pytest.mark.parametrize(
    ("framework", "version", "overlaps"),
    [
        ("Megatron-LM", "2021-04", False),
        ("Megatron-LM", "commit 285068c8 base", False),
        ("Megatron-Core", "0.3", False),
        ("Megatron-Core", "0.4", True),
        ("Megatron-LM", None, True),
        ("Megatron-LM (zero-bubble fork)", None, False),
        ("NeMo / Megatron-Core", "Release 23.04", False),
        ("NeMo / Megatron-Core", "Release 23.09", True),
    ],
)
def test_sends_overlap_from_the_release_that_could(read: Read, framework: str, version: str | None, *, overlaps: bool) -> None:
    changes: dict[str, Any] = {"strategy.vpp": 2, "strategy.schedule": "interleaved-1f1b", "cluster.hardware": "a100-sxm-80gb"}
    named = {"software.framework": framework, "software.version": version, "software.backend": "PyTorch/CUDA"}
    assert (Feature.OVERLAP_P2P in read({**changes, **named}).strategy.features) is overlaps
    told = {**changes, **named, "strategy.features": ["overlap_p2p"]}
    assert Feature.OVERLAP_P2P in read(told).strategy.features


def test_nemo_overlaps_gradients_and_weights_whatever_else_a_record_names(read: Read) -> None:
    nemo: dict[str, Any] = {"software.framework": "NeMo / Megatron-Core", "cluster.hardware": "h100-sxm-80gb"}
    both = Feature.OVERLAP_GRAD_REDUCE | Feature.OVERLAP_PARAM_GATHER
    named = read({**nemo, "strategy.features": ["fused_norm"], "software.raw_flags": []}).strategy.features
    assert named & (both | Feature.TP_COMM_OVERLAP) == both
    silent = read({**nemo, "strategy.features": [], "software.raw_flags": []}).strategy.features
    assert silent & (both | Feature.TP_COMM_OVERLAP) == both | Feature.TP_COMM_OVERLAP


@pytest.mark.parametrize(
    ("changes", "overlaps"),
    [
        ({}, True),
        ({"software.raw_flags": ["use-flash-attn"]}, False),  # the script's switches are known
        ({"strategy.features": ["flash_attention"]}, False),
        ({"software.raw_flags": ["MCore"]}, True),
        ({"model.moe": None, "strategy.ep": 1}, False),
        ({"software.framework": "Megatron-DeepSpeed"}, False),
    ],
)
def test_a_mixture_without_switches_ran_the_script_of_its_framework(
    read: Read, moe: dict[str, Any], changes: dict[str, Any], *, overlaps: bool
) -> None:
    plain: dict[str, Any] = {"software.framework": "Megatron-Core", "software.version": "0.9", "software.backend": "PyTorch/CUDA"}
    silent = {"model.moe": moe, "strategy.features": [], "software.raw_flags": [], "cluster.hardware": "h100-sxm-80gb"}
    features = read({**plain, **silent, **changes}).strategy.features
    assert (Feature.OVERLAP_GRAD_REDUCE in features) is overlaps
    assert (Feature.OVERLAP_PARAM_GATHER in features) is overlaps


@pytest.mark.parametrize(
    ("changes", "layout"),
    [
        ({"strategy.layer_layout": "7,8,9,8"}, ((7, 8, 9, 8),)),
        ({"strategy.layer_layout": [7, 8, 9, 8]}, ((7, 8, 9, 8),)),
        ({"strategy.layer_offset": "[-1, 1, 1, -1]"}, ((7, 9, 9, 7),)),
        ({"strategy.layer_offset": 0}, None),
        ({"model.num_layers": 30}, ((7, 8, 8, 7),)),  # 30 + embedding + loss fill 4 stages
        ({"model.num_layers": 14, "strategy.vpp": 2}, ((1, 2, 2, 2), (2, 2, 2, 1))),
        ({"model.num_layers": 31}, None),
        ({"strategy.layer_offset": [[0, 0, 0, 1], [0, 0, 0, -1]], "strategy.vpp": 2}, ((4, 4, 4, 5), (4, 4, 4, 3))),
        ({"software.raw_flags": ["pp_layout=Et*7|t*9|(t*8|)*2L"]}, None),  # 5 stages
        ({"software.raw_flags": ["pp_layout=Et*7|t*9|(t*8|)*2mL"], "strategy.layer_layout": "1,2"}, None),
        ({"software.raw_flags": ["pp_layout=Et*7|t*9|t*8|t*8L"]}, ((7, 9, 8, 8),)),
    ],
)
def test_layer_layouts_in_every_notation(read: Read, changes: dict[str, Any], layout: object) -> None:
    assert read(changes).strategy.layer_layout == layout


def test_a_recipe_with_mtp_leaves_the_last_stage_lean(read: Read) -> None:
    mtp = {"model.num_layers": 30, "strategy.pp": 4, "strategy.tp": 1}
    assert read({**mtp, "model.mtp_num_layers": 1}).strategy.layer_layout == ((8, 8, 8, 6),)
    assert read({**mtp, "model.mtp_num_layers": 0}).strategy.layer_layout != ((8, 8, 8, 6),)


def test_repeated_groups_of_a_pipeline_layout(read: Read) -> None:
    # E + 4, fourteen stages of 4, and one layer before the loss: 4 + 56 + 1 = 61 on 2 stages of 8 chunks.
    record = read(
        {
            "model.num_layers": 61,
            "strategy.pp": 2,
            "strategy.vpp": 8,
            "strategy.num_microbatches": None,
            "software.raw_flags": ["pp_layout=Et*4|(t*4|)*14tmL"],
        }
    )
    assert record.strategy.layer_layout == ((4, 4),) * 7 + ((4, 1),)


def test_a_layout_that_does_not_hold_the_layers_is_left_out(read: Read) -> None:
    record = read({"strategy.layer_layout": "7,8,9,9"})
    assert record.strategy.layer_layout is None
    assert record.warnings == ("strategy.layer_layout: '7,8,9,9' does not place 32 layers on 4 stages of 1 chunks, left out.",)


@pytest.mark.parametrize(
    ("framework", "flags", "etp"),
    [
        ("MindSpeed-LLM", [], 2),  # Megatron-Core cuts experts as the layers around them
        ("MindSpeed-LLM", ["moe-tp-extend-ep"], 1),
        ("MindSpeed-LLM", ["expert-tensor-parallel-size=1"], 1),
        ("Megatron-Bridge", [], 1),
    ],
)
def test_a_silent_cut_of_experts_is_the_framework_s(
    read: Read, moe: dict[str, Any], framework: str, flags: list[str], etp: int
) -> None:
    changes = {"model.moe": moe, "strategy.etp": None, "strategy.ep": 2, "software.framework": framework}
    record = read({**changes, "software.raw_flags": flags})
    assert record.strategy.etp == etp
    assert any("strategy.etp" in warning for warning in record.warnings) == (not flags or flags == ["moe-tp-extend-ep"])


@pytest.mark.parametrize(
    ("global_batch_size", "read_as"),
    [(64, (Schedule.INTERLEAVED, 2)), (60, (Schedule.ONE_F_ONE_B, 1))],  # 32 and 30 micro batches over 4 ranks
)
def test_micro_batches_that_cannot_interleave_run_1f1b(read: Read, global_batch_size: int, read_as: tuple[Schedule, int]) -> None:
    changes = {"strategy.vpp": 2, "strategy.schedule": "interleaved-1f1b", "strategy.num_microbatches": None}
    record = read({**changes, "training.global_batch_size": global_batch_size})
    assert (record.strategy.schedule, record.strategy.vpp) == read_as
    assert any("cannot run 30 micro batches over 4 ranks" in warning for warning in record.warnings) == (read_as[1] == 1)
