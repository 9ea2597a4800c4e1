"""Jobs: presets and mappings, defaults that are said aloud, arithmetic that is checked, bounds that hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from app.jobs.job import load_job, parse_job
from app.jobs.spares import with_filled_devices
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, Dispatcher, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import Feature
from documents.errors import InputError
from search.plans.plan import strategy_to_mapping

DENSE: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 32},
    "training": {"seq_length": 4096, "global_batch_size": 64},
}
PANGU: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "training": {"seq_length": 8192, "global_batch_size": 6144},
}


def with_part(job: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**job, **{name: {**job.get(name, {}), **part} if isinstance(part, dict) else part for name, part in parts.items()}}


def refusal(document: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        parse_job(document)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_a_preset_lends_its_training_and_says_so() -> None:
    job = parse_job({"model": "deepseek-v3", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 1024}})
    assert job.workload.training.seq_length > 0
    assert job.assumptions[0].startswith("training.seq_length = ")
    assert job.assumptions[1].startswith("training.global_batch_size = ")
    assert any(line.startswith("software.stack = mindspeed-llm") for line in job.assumptions)
    assert any(line.startswith("training.router_balance = none (not stated") for line in job.assumptions)


def test_what_is_given_is_not_assumed() -> None:
    training = {"precision": "bf16", "train_tokens": 1e12, "expert_load_factor": 1.3}
    job = parse_job(with_part(PANGU, training=training, software={"stack": "mindspeed-llm"}))
    assert job.assumptions == ()
    assert job.workload.training.expert_load_factor == 1.3


def test_default_load_factor_is_balanced_for_dense_models_and_capped_routing() -> None:
    assert parse_job(DENSE).workload.training.expert_load_factor == 1.0
    document = parse_job(with_part(PANGU)).document
    document["model"]["moe"]["capacity_factor"] = 1.0
    del document["training"]["expert_load_factor"]
    assert parse_job(document).workload.training.expert_load_factor == 1.0


def test_stack_and_precision_follow_the_hardware() -> None:
    assert parse_job(with_part(DENSE, cluster={"hardware": "h100-sxm-80gb"})).workload.software.stack == "megatron-lm"
    assert parse_job(with_part(DENSE, cluster={"hardware": "atlas-800-910a"})).workload.training.precision == "fp16"
    assert parse_job(with_part(DENSE, software={"stack": "mindformers"})).workload.software.execution == "graph"


def test_the_target_reaches_the_workload_with_its_release() -> None:
    job = parse_job(with_part(DENSE, software={"target": "mindspeed-llm"}))
    assert job.workload.software.target.startswith("mindspeed-llm@")
    assert job.document["software"]["target"] == job.workload.software.target


def test_omitted_strategy_fields_take_the_documented_defaults() -> None:
    strategy = parse_job(with_part(PANGU, strategy={"tp": 8, "pp": 16, "vpp": 2, "ep": 32})).strategy
    assert strategy is not None
    # 6144 devices / (tp 8 x cp 1 x pp 16 = 128) = 48
    assert (strategy.dp, strategy.cp, strategy.etp, strategy.micro_batch_size) == (48, 1, 1, 1)
    assert strategy.sequence_parallel
    assert (strategy.schedule, strategy.cp_algo) == (Schedule.INTERLEAVED, CpAlgo.NONE)
    assert (strategy.dispatcher, strategy.recompute, strategy.zero_stage) == (Dispatcher.ALLTOALL, Recompute.NONE, 1)
    assert strategy.layer_layout is None


def _features(strategy: dict[str, Any]) -> Feature:
    found = parse_job(with_part(DENSE, strategy=strategy)).strategy
    assert found is not None
    return found.features


def test_switches_change_what_the_features_say() -> None:
    usual = _features({"tp": 8})
    assert Feature.FUSED_ROPE in usual
    assert Feature.MC2 not in usual
    for strategy, features in (
        ({"tp": 8, "switches": {"mc2": True, "fused_rope": False, "coc": None}}, usual & ~Feature.FUSED_ROPE | Feature.MC2),
        ({"tp": 8, "features": ["mc2", "coc"], "switches": {"coc": False}}, Feature.MC2),
        ({"tp": 8, "switches": {}}, usual),
    ):
        assert _features(strategy) == features


def test_a_flag_changes_the_switches_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(with_part(DENSE, strategy={"tp": 8, "switches": {"mc2": True, "fused_rope": False}})))
    job = load_job(str(path), {"strategy": {"switches": {"mc2": False, "coc": True}}}, {})
    assert job.strategy is not None
    assert job.strategy.features == _features({"tp": 8}) & ~Feature.FUSED_ROPE | Feature.COC


def test_default_features_are_those_that_have_an_effect() -> None:
    strategy = parse_job(with_part(DENSE, strategy={"tp": 8, "pp": 4})).strategy
    assert strategy is not None
    # dense, dp 1: no expert switch, no data-parallel overlap; pp without virtual stages: no overlapped sends
    assert strategy.features == Feature.FLASH_ATTENTION | Feature.FUSED_NORM | Feature.FUSED_SWIGLU | Feature.FUSED_ROPE


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("full", (Recompute.FULL, RecomputeMethod.UNIFORM, 1, RecomputeModule(0))),
        ("block:3", (Recompute.FULL, RecomputeMethod.BLOCK, 3, RecomputeModule(0))),
        (
            {"granularity": "full", "method": "block", "num_layers": 2},
            (Recompute.FULL, RecomputeMethod.BLOCK, 2, RecomputeModule(0)),
        ),
        ({"granularity": "selective"}, (Recompute.SELECTIVE, RecomputeMethod.NONE, 0, RecomputeModule.CORE_ATTN)),
        (
            "layernorm+mlp_act",
            (Recompute.SELECTIVE, RecomputeMethod.NONE, 0, RecomputeModule.LAYERNORM | RecomputeModule.MLP_ACT),
        ),
    ],
)
def test_recompute_by_name_or_mapping(given: object, expected: tuple[object, ...]) -> None:
    strategy = parse_job(with_part(DENSE, strategy={"tp": 8, "recompute": given})).strategy
    assert strategy is not None
    found = (strategy.recompute, strategy.recompute_method, strategy.recompute_num_layers, strategy.recompute_modules)
    assert found == expected


def test_layouts_by_stage_by_offset_and_by_noops_agree() -> None:
    # 32 layers on pp 4: 7, 9, 9, 7 is an offset of -1, 1, 1, -1 to 8; two no-op layers make 34, which 4 stages cannot hold
    layout = {"layer_layout": [7, 9, 9, 7]}
    offset = {"layer_offset": [-1, 1, 1, -1]}
    by_layout, by_offset = (parse_job(with_part(DENSE, strategy={"pp": 4, **way})).strategy for way in (layout, offset))
    assert by_layout is not None
    assert by_layout.layer_layout == ((7, 9, 9, 7),)
    assert by_layout == by_offset
    # By chunk and rank: of 4 layers a virtual stage, the last rank of the first chunk gives one to the first of the second, in a
    # V that is the same rank.
    chunks = {"pp": 4, "vpp": 2, "layer_offset": [[0, 0, 0, -1], [1, 0, 0, 0]]}
    by_chunk = parse_job(with_part(DENSE, strategy=chunks)).strategy
    assert by_chunk is not None
    assert by_chunk.layer_layout == ((4, 4, 4, 3), (5, 4, 4, 4))
    by_rank = parse_job(with_part(DENSE, strategy={**chunks, "schedule": "zbv"})).strategy
    assert by_rank is not None
    assert by_rank.layer_layout == ((4, 4, 4, 3), (4, 4, 4, 5))
    # 32 + 4 no-op layers = 36 positions, 9 a stage; positions 0, 1 lie on the first stage and 34, 35 on the last
    noops = parse_job(with_part(DENSE, strategy={"pp": 4, "noop_layers": [0, 1, 34, 35]})).strategy
    assert noops == by_layout
    assert "do not spread evenly" in refusal(with_part(DENSE, strategy={"pp": 4, "noop_layers": [0, 33]}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"pp": 4, "schedule": "gpipe"}, Schedule.GPIPE),
        ({"pp": 4, "schedule": "zb1p"}, Schedule.ZB1P),
        ({"pp": 4, "schedule": "zb2p"}, Schedule.ZB2P),
        ({"pp": 4, "schedule": "dualpipe"}, Schedule.DUALPIPE),
        ({"pp": 4, "vpp": 2, "schedule": "zbv"}, Schedule.ZBV),
        ({"pp": 4, "vpp": 2, "schedule": "dualpipev"}, Schedule.DUALPIPE_V),
        ({"pp": 4, "vpp": 2}, Schedule.INTERLEAVED),
    ],
)
def test_a_schedule_is_read_and_echoed(given: dict[str, Any], expected: Schedule) -> None:
    job = parse_job(with_part(DENSE, strategy=given))
    assert job.strategy is not None
    assert job.strategy.schedule is expected
    assert job.document["strategy"]["schedule"] == expected.label


@pytest.mark.parametrize(("given", "held", "echoed"), [(None, 0, 4), (4, 0, 4), (8, 8, 8)])
def test_the_group_of_micro_batches_is_pp_unless_given(given: int | None, held: int, echoed: int) -> None:
    part = {"pp": 4, "vpp": 2} | ({} if given is None else {"microbatch_group_size_per_vp_stage": given})
    job = parse_job(with_part(DENSE, strategy=part))
    assert job.strategy is not None
    assert job.strategy.microbatch_group_size_per_vp_stage == held
    assert job.document["strategy"]["microbatch_group_size_per_vp_stage"] == echoed


@pytest.mark.parametrize(
    ("job", "strategy"),
    [
        (DENSE, {"tp": 8}),
        (DENSE, {"pp": 4, "vpp": 2, "schedule": "dualpipev", "features": ["dualpipev_dw_detach"]}),
        (DENSE, {"pp": 4, "vpp": 2, "microbatch_group_size_per_vp_stage": 6}),
        (DENSE, {"pp": 4, "schedule": "zb2p"}),
        (DENSE, {"tp": 2, "pp": 4, "vpp": 2, "recompute": "block:1", "sequence_parallel": False}),
        (DENSE, {"cp": 4, "cp_algo": "hybrid", "ulysses_degree": 2, "zero_stage": 3, "optimizer_shard_size": 8}),
        (DENSE, {"pp": 4, "layer_layout": [7, 9, 9, 7], "recompute": {"granularity": "full", "layers_per_stage": [1, 2, 3, 4]}}),
        (PANGU, {"tp": 8, "pp": 16, "vpp": 2, "ep": 32, "features": ["swap_optimizer", "flash_attention"]}),
        (PANGU, {"tp": 8, "pp": 16, "ep": 32, "moe_dispatcher": "two_level", "recompute": "mla_up_proj+mlp_act"}),
    ],
)
def test_the_resolved_job_parses_to_the_same_job(job: dict[str, Any], strategy: dict[str, Any]) -> None:
    first = parse_job(with_part(job, strategy=strategy))
    again = parse_job(yaml.safe_load(yaml.safe_dump(first.document)))
    assert again.strategy == first.strategy
    assert again.document == first.document
    assert again.workload.model == first.workload.model
    assert first.strategy is not None
    assert first.document["strategy"] == strategy_to_mapping(first.workload, first.strategy)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({**DENSE, "modle": 1}, "modle: unknown key; did you mean 'model'?"),
        ({**DENSE, "schema_version": 2}, "schema_version: 2 is not allowed; give 1."),
        ({**DENSE, "model": "lama-2-7b"}, "model: 'lama-2-7b' is not a preset; the nearest is llama-2-7b."),
        ({**DENSE, "model": {"num_layers": 10**12}}, "model.num_layers: 1000000000000 is not allowed; give"),
        ({**DENSE, "model": ["llama-2-7b"]}, "model: ['llama-2-7b'] is not allowed; give a mapping"),
        ({**DENSE, "model": "./config.json"}, "model: "),
        ({**DENSE, "cluster": [1]}, "cluster: a list is not allowed; give a mapping"),
        ({**DENSE, "cluster": "atlas-800t-a2"}, "cluster.num_devices: missing; give an integer from 1 to 1,000,000."),
        (
            with_part(DENSE, cluster={"hardware": "atlas-800t"}),
            "hardware 'atlas-800t' is unknown (did you mean 'atlas-800t-a2' (910B3)",
        ),
        (with_part(DENSE, cluster={"hardware": "/etc/passwd"}), "hardware '/etc/passwd' is unknown"),
        (with_part(DENSE, cluster={"num_devices": 0}), "cluster.num_devices: 0 is not allowed"),
        (with_part(DENSE, training={"global_batch_size": -4}), "training.global_batch_size: -4 is not allowed; give an integer"),
        (with_part(DENSE, training={"seq_length": 10**12}), "training.seq_length: 1000000000000 is not allowed"),
        (
            with_part(DENSE, training={"seq_length": 10**8, "global_batch_size": 10**7}),
            "training.global_batch_size: 10000000 sequences of 100000000 tokens are more than 1e+13 tokens a step",
        ),
        (with_part(DENSE, training={"precision": "fp8"}), "training.precision: 'fp8' has no matmul rate on atlas-800t-a2; give"),
        (
            with_part(DENSE, software={"target": "megatron"}),
            "software.target: 'megatron' is unknown (did you mean 'megatron-lm'?); give one",
        ),
        (
            with_part(DENSE, strategy={"tp": 3}),
            "strategy: tp 3 x cp 1 x pp 1 = 3 does not divide the 32 devices of the cluster.",
        ),
        (
            with_part(DENSE, strategy={"tp": 64}),
            "strategy: tp 64 x cp 1 x pp 1 = 64 does not divide the 32 devices of the cluster.",
        ),
        (
            with_part(DENSE, cluster={"num_devices": 65_536}, strategy={"pp": 65_536, "vpp": 65_536, "layer_layout": [32]}),
            "strategy: pp 65536 x vpp 65536 = 4294967296 virtual stages are more than 65,536, and llama-2-7b has 32 layers.",
        ),
        (
            with_part(DENSE, strategy={"tp": 8, "dp": 8}),
            "strategy.dp: 8 is given, but 32 devices / (tp 8 x cp 1 x pp 1 = 8) = 4;",
        ),
        (
            with_part(DENSE, strategy={"tp": 8, "num_microbatches": 8}),
            "strategy.num_microbatches: 8 is given, but global_batch_size 64 / (micro_batch_size 1 x dp 4) = 16.",
        ),
        (with_part(DENSE, strategy={"vpp": 2}), "strategy.vpp: 2 needs a pipeline"),
        (with_part(DENSE, strategy={"cp_algo": "ring"}), "strategy.cp_algo: 'ring' does not go with cp 1"),
        (with_part(DENSE, strategy={"cp": 4, "cp_algo": "hybrid"}), "strategy.ulysses_degree: missing"),
        (
            with_part(DENSE, strategy={"cp": 4, "cp_algo": "hybrid", "ulysses_degree": 3}),
            "strategy.ulysses_degree: 3 does not divide cp 4.",
        ),
        (
            with_part(DENSE, strategy={"cp": 4, "ulysses_degree": 2}),
            "strategy.ulysses_degree: 2 is given, but cp_algo 'ring' with cp 4 has 1.",
        ),
        (
            with_part(DENSE, strategy={"pp": 2, "schedule": "interleaved-1f1b"}),
            "strategy.schedule: 'interleaved-1f1b' is given, but pp 2",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "schedule": "zbv"}),
            "strategy.vpp: 1 is given, but schedule 'zbv' folds the model into 2 chunks a rank; give vpp 2.",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "vpp": 4, "schedule": "dualpipev"}),
            "strategy.vpp: 4 is given, but schedule 'dualpipev' folds the model into 2 chunks a rank; give vpp 2.",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "vpp": 2, "schedule": "zb1p"}),
            "strategy.schedule: 'zb1p' is given, but pp 4 with vpp 2 runs 'interleaved-1f1b', 'zbv' or 'dualpipev'.",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "mtp_before_head": 1}),
            "strategy.mtp_before_head: 1 is given, but llama-2-7b predicts no further tokens; leave it out.",
        ),
        (
            with_part(PANGU, strategy={"pp": 4, "vpp": 2, "mtp_before_head": 8}),
            "strategy.mtp_before_head: 8 is not allowed; pp 4 x vpp 2 = 8 virtual stages leave 0 to 7 before that of the head.",
        ),
        (with_part(PANGU, strategy={"pp": 4, "mtp_before_head": -1}), "strategy.mtp_before_head: -1 is not allowed"),
        (
            with_part(DENSE, strategy={"schedule": "dualpipe"}),
            "strategy.schedule: 'dualpipe' is given, but pp 1 with vpp 1 runs 'none'.",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "microbatch_group_size_per_vp_stage": 8}),
            "strategy.microbatch_group_size_per_vp_stage: 8 is given, but only the chunks of 'interleaved-1f1b' take turns, "
            "and the schedule is '1f1b'; leave it out.",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "vpp": 2, "microbatch_group_size_per_vp_stage": 0}),
            "strategy.microbatch_group_size_per_vp_stage: 0 is not allowed",
        ),
        (with_part(DENSE, strategy={"zero_stage": 0, "distributed_optimizer": True}), "strategy.zero_stage: 0 contradicts"),
        (
            with_part(DENSE, strategy={"moe_dispatcher": "alltoall"}),
            "strategy.moe_dispatcher: 'alltoall' is given, but llama-2-7b has no",
        ),
        (
            with_part(DENSE, strategy={"recompute": "ful"}),
            "strategy.recompute: 'ful' is not a recompute mode (did you mean 'full'?)",
        ),
        (with_part(DENSE, strategy={"recompute": "block:50%"}), "strategy.recompute: 'block:50%' is a share"),
        (
            with_part(DENSE, strategy={"recompute": {"granularity": "full", "method": "block"}}),
            "strategy.recompute.num_layers: missing",
        ),
        (
            with_part(DENSE, strategy={"recompute": {"method": "block"}}),
            "strategy.recompute.method: 'block' belongs to granularity full",
        ),
        (with_part(DENSE, strategy={"pp": 4, "layer_layout": [8, 8, 8, 7]}), "strategy.layer_layout"),
        (
            with_part(DENSE, strategy={"pp": 4, "layer_layout": [8, 8, 8, 8], "layer_offset": [0, 0, 0, 0]}),
            "strategy.layer_offset: given",
        ),
        (
            with_part(DENSE, strategy={"pp": 4, "layer_offset": [-9, 3, 3, 3]}),
            "strategy.layer_offset: -9 is not allowed; an even share of 8 layers leaves -8 at least.",
        ),
        (with_part(DENSE, strategy={"pp": 4, "vpp": 2, "layer_offset": [[0, 0, 0, 0]]}), "strategy.layer_layout: [4, 4, 4, 4]"),
        (with_part(DENSE, strategy={"pp": 4, "layer_layout": [[]], "noop_layers": 1}), "strategy.layer_layout"),
        (with_part(DENSE, strategy={"pp": 4, "layer_layout": [8, 8, 8, 8], "noop_layers": [3]}), "strategy.noop_layers: given"),
        (with_part(DENSE, strategy={"pp": 4, "noop_layers": 3}), "strategy.noop_layers: 3 is given, but the layout has 32 slots"),
        (with_part(DENSE, search={"tp": {"min": 8, "max": 2}}), "search.tp: min 8 is above max 2."),
        (with_part(DENSE, search={"mc3": True}), "search.mc3: unknown key; did you mean 'mc2'?"),
        (with_part(DENSE, search={"recompute": "ful"}), "search.recompute: 'ful' is not a recompute mode"),
    ],
)
def test_bad_jobs(document: dict[str, Any], expected: str) -> None:
    assert refusal(document).startswith(expected)


def test_a_job_says_that_its_nodes_have_fewer_devices() -> None:
    job = parse_job(with_part(DENSE, cluster={"hardware": "a100-sxm-80gb", "devices_per_node": 4}))
    assert job.workload.cluster.profile.devices_per_node == 4
    assert job.document["cluster"]["devices_per_node"] == 4
    assert parse_job(job.document).workload == job.workload
    usual = parse_job(with_part(DENSE, cluster={"hardware": "a100-sxm-80gb"}))
    assert "devices_per_node" not in usual.document["cluster"]
    assert usual.workload.cluster.profile.devices_per_node == 8
    larger = with_part(DENSE, cluster={"hardware": "a100-sxm-80gb", "devices_per_node": 16})
    assert refusal(larger).startswith("cluster.devices_per_node: 16 is not possible; a node of a100-sxm-80gb has 8 devices")


def test_switches_that_do_nothing_are_a_warning() -> None:
    features = ["flash_attention", "moe_allgather_overlap_comm", "cp_send_recv_overlap", "moe_tp_extend_ep"]
    job = parse_job(with_part(PANGU, strategy={"tp": 8, "pp": 16, "ep": 32, "features": features}))
    assert job.warnings == (
        "strategy.features: moe_allgather_overlap_comm has no effect: the dispatcher is not allgather.",
        "strategy.features: cp_send_recv_overlap has no effect: cp is 1.",
        "strategy.features: moe_tp_extend_ep: priced as if off, since no formula says what it changes.",
    )


def test_a_roadmap_product_is_a_warning() -> None:
    job = parse_job(with_part(DENSE, cluster={"hardware": "atlas-950-superpod"}))
    assert any("announced, not delivered" in line for line in job.warnings)


def test_sources_of_a_job(tmp_path: Path) -> None:
    flags = {"cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**DENSE, "cluster": "atlas-800t-a2"}))
    assert load_job(str(path), {"cluster": {"num_devices": 8}}, {}).workload.cluster.num_devices == 8
    assert load_job("llama-2-7b", flags, {}).workload.model.name == "llama-2-7b"
    config = Path(__file__).parents[3] / "fixtures" / "huggingface"
    found = next(iter(sorted(config.rglob("*.json"))))
    job = load_job(str(found), {**flags, "training": {"seq_length": 4096, "global_batch_size": 8}}, {})
    assert job.workload.model.num_layers > 0
    path.write_text("batch: 3\n")
    with pytest.raises(InputError, match="neither a job"):
        load_job(str(path), flags, {})
    with pytest.raises(InputError, match="no such file"):
        load_job(str(tmp_path / "absent.yaml"), flags, {})
    with pytest.raises(InputError, match=r"--seq-length\) and training.global_batch_size: missing; .* an integer for each\."):
        load_job(str(found), flags, {"training.seq_length": "training.seq_length (--seq-length)"})


def test_paths_in_a_job_start_at_the_job_and_paths_in_flags_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = Path(__file__).parents[4] / "hardware_profiles" / "ascend" / "atlas-800t-a2.yaml"
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "site.yaml").write_text(shipped.read_text())
    (tmp_path / "jobs" / "job.yaml").write_text(yaml.safe_dump(with_part(DENSE, cluster={"hardware": "site.yaml"})))
    monkeypatch.chdir(tmp_path)
    resolved = load_job("jobs/job.yaml", {}, {}).document["cluster"]["hardware"]
    assert resolved == str(tmp_path / "jobs" / "site.yaml")
    flags = {"cluster": {"hardware": "jobs/site.yaml"}}
    assert load_job("jobs/job.yaml", flags, {}).document["cluster"]["hardware"] == resolved
    (tmp_path / "jobs" / "job.yaml").write_text(yaml.safe_dump(with_part(DENSE, cluster={"hardware": "jobs/site.yaml"})))
    with pytest.raises(InputError, match=r"jobs/jobs/site\.yaml"):
        load_job("jobs/job.yaml", {}, {})


def test_spares_are_left_where_the_count_cannot_be_filled() -> None:
    # 37 is prime: neither the heads (tp), the layers (pp), the sequence (cp) nor the batch (dp) can use it; 36 = pp 9 x dp 4
    job = with_filled_devices(parse_job(with_part(DENSE, cluster={"num_devices": 37})))
    assert job.workload.cluster.num_devices == 36
    assert job.document["cluster"]["num_devices"] == 36
    assert job.assumptions[-1] == "cluster.num_devices = 36 of at most 37: 1 stay spare"
    filled = parse_job(DENSE)
    assert with_filled_devices(filled) is filled


def test_spares_respect_the_limits_of_the_search() -> None:
    # batch 64 without tp, cp and pp: dp alone, and of 1 to 48 only 32 is the largest divisor of 64
    alone = {"tp": 1, "cp": 1, "pp": 1, "vpp": 1}
    job = with_filled_devices(parse_job(with_part(DENSE, cluster={"num_devices": 48}, search=alone)))
    assert job.workload.cluster.num_devices == 32


def test_time_factors_reach_the_model_and_are_said_aloud() -> None:
    plain = parse_job(DENSE)
    assert (plain.workload.cluster.time_factor, plain.workload.software.time_factor) == (1.0, 1.0)
    assert not any("time_factor" in line for line in plain.assumptions)
    job = parse_job(with_part(DENSE, cluster={"time_factor": 1.25}, software={"time_factor": 0.9}))
    assert (job.workload.cluster.time_factor, job.workload.software.time_factor) == (1.25, 0.9)
    assert [line.split(" (")[0] for line in job.assumptions if "time_factor" in line] == [
        "cluster.time_factor = 1.25",
        "software.time_factor = 0.9",
    ]
    assert parse_job(job.document).document == job.document


@pytest.mark.parametrize("part", ["cluster", "software"])
@pytest.mark.parametrize("factor", [0.19, 5.01, 0, -1, True, "1.2", float("nan")])
def test_time_factors_have_bounds(part: str, factor: object) -> None:
    message = refusal(with_part(DENSE, **{part: {"time_factor": factor}}))
    assert message.startswith(f"{part}.time_factor: ")
    assert "0.2 to 5" in message


@pytest.mark.parametrize(
    ("software", "warned"),
    [
        ({"target": "mindformers"}, False),  # the stack is the target
        ({"stack": "mindspeed-llm", "target": "mindformers@1.8"}, True),
        ({"stack": "mindformers", "target": "mindformers@1.8"}, False),
        ({"stack": "mindformers", "target": "any"}, False),
        ({"target": "mindspeed-llm"}, False),
    ],
)
def test_a_price_and_rules_of_two_frameworks_are_warned_of(software: dict[str, str], warned: bool) -> None:
    warnings = parse_job(with_part(DENSE, software=software)).warnings
    sentence = "software.stack is mindspeed-llm and software.target is mindformers: times are of the one, rules of the other"
    assert any(line.startswith(sentence) for line in warnings) == warned


@pytest.mark.parametrize(("stack", "release", "year"), [("mindformers", "r1.3.0", 2024.9), ("mindspeed-llm", "2.1", 2025.5)])
def test_a_release_stands_for_its_year(stack: str, release: str, year: float) -> None:
    job = parse_job(
        {
            "model": "qwen3-8b",
            "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
            "software": {"stack": stack, "release": release},
        }
    )
    assert job.workload.software.year == year == job.document["software"]["year"]
    assert "software.year" not in job.assumed


@pytest.mark.parametrize(
    ("software", "message"),
    [
        ({"stack": "mindformers", "release": "r1.4"}, "software.release: 'r1.4'"),
        ({"stack": "nemo", "release": "2.0"}, "software.release: '2.0'"),
        ({"stack": "mindformers", "release": "r1.3", "year": 2024.9}, "year and release are two names of one thing"),
    ],
)
def test_a_release_that_nobody_knows_or_that_is_said_twice_is_refused(software: dict[str, object], message: str) -> None:
    hardware = "h100-sxm-80gb" if software["stack"] == "nemo" else "atlas-800t-a2"
    with pytest.raises(InputError, match=message):
        parse_job({"model": "qwen3-8b", "cluster": {"hardware": hardware, "num_devices": 8}, "software": software})
