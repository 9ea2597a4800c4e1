"""torchtitan: what its own start made of files, its models, and what a file of it says."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.catalogue.models.presets import model_preset, names
from cost_models.shapes.parameters import num_parameters
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, Recompute, RecomputeMethod, Schedule
from cost_models.shapes.switches import FUSED_KERNELS, Feature
from cost_models.shapes.workload import Software, TrainingJob
from frameworks.framework import ReadingError
from frameworks.launch import launch_blocks
from frameworks.legality import violations
from frameworks.rule import layout_of
from frameworks.torchtitan.flavors import FLAVORS
from frameworks.torchtitan.framework import TORCHTITAN
from frameworks.torchtitan.stages import usual_counts
from tests.unit.frameworks.torchtitan_cases import on_gpus

STARTS = json.loads((Path(__file__).parents[2] / "oracle" / "torchtitan_starts.json").read_text(encoding="utf-8"))
IDS = [f"{row['preset']}-{row['devices']}-{index}" for index, row in enumerate(STARTS)]
TRAINED = {
    "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b",
    "qwen3-1.7b", "qwen3-4b", "qwen3-14b", "deepseek-v2", "deepseek-v2-lite",
}  # fmt: skip
BASE = {"model.name": "llama3", "model.flavor": "8B", "parallelism.data_parallel_shard_degree": 8}
PIPELINE = {**BASE, "parallelism.pipeline_parallel_degree": 2, "training.local_batch_size": 4}


def options(**changes: Any) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in {**BASE, **changes}.items()]


def read(changes: dict[str, Any] | None = None, devices: int | None = None) -> ParallelStrategy:
    return TORCHTITAN.read(options(**(changes or {})), devices)


def unread(changes: dict[str, Any]) -> set[str]:
    return {entry.name for entry in TORCHTITAN.read_job(options(**changes), None).unread}


def test_torchtitan_accepted_files_of_every_preset_that_it_trains() -> None:
    assert {row["said"]["verdict"] for row in STARTS} == {"accept"}
    assert {row["preset"] for row in STARTS} == TRAINED | {"deepseek_v3-671b", "llama4-17bx16e", "llama4-17bx128e"}
    counted = Counter(row["devices"] for row in STARTS)
    assert len(counted) == 3
    assert min(counted.values()) >= 20
    said = [json.loads(entry.partition("=")[2]) for row in STARTS for entry in row["arguments"] if "replicate_degree" in entry]
    assert max(said) > 1  # HSDP is among them


@pytest.mark.parametrize("row", STARTS, ids=IDS)
def test_torchtitan_makes_of_a_file_what_the_plan_says(row: dict[str, Any]) -> None:
    job, said = TORCHTITAN.read_job(row["arguments"], None), row["said"]
    s, model, ranks = job.strategy, job.model, row["said"]["ranks"]
    workload = on_gpus(model)
    assert job.seq_length is not None
    assert job.global_batch_size is not None
    workload = replace(
        workload,
        training=TrainingJob(job.seq_length, job.global_batch_size),
        cluster=replace(workload.cluster, num_devices=row["devices"]),
    )
    assert s.tp * s.cp * s.pp * s.dp == said["world"] == row["devices"]
    layout = layout_of(workload, s)
    for place, rank in zip(sorted({0, s.pp - 1}), ranks, strict=True):
        held = [chunk[place] for chunk in layout]
        assert rank["parameters"] == num_parameters(model).total
        assert rank["layers"] == held
        assert rank["micro_batches"] == job.global_batch_size // (s.micro_batch_size * s.dp)
        assert rank["recomputed"] == _recomputed(s, place, sum(held))
        assert rank["schedule"] == {Schedule.NONE: "", Schedule.ONE_F_ONE_B: "Schedule1F1B"}.get(
            s.schedule, "ScheduleInterleaved1F1B"
        )
        if s.pp == 1 and model.moe is None:  # each rank holds its shard of all weights, which torchtitan rounds up
            shards = (s.optimizer_shard_size or s.dp * s.cp) * s.tp
            again = model.vocab_size * model.hidden_size * model.tied_embeddings  # FSDP shards a tied table with either end
            assert rank["held"] == pytest.approx((rank["parameters"] + again) / shards, rel=0.02)
    assert TORCHTITAN.write(workload, s).arguments == tuple(row["arguments"])


def _recomputed(s: ParallelStrategy, place: int, held: int) -> int:
    if s.recompute is Recompute.NONE:
        return 0
    if s.recompute is Recompute.SELECTIVE:  # by operator, all layers
        return held
    if s.recompute_layers_per_stage is not None:
        return s.recompute_layers_per_stage[place]
    return held if s.recompute_method is RecomputeMethod.UNIFORM else s.recompute_num_layers


def test_the_presets_that_are_flavors() -> None:
    assert {name for name in names() if FLAVORS.of(model_preset(name).model)} == TRAINED
    # 8.03, 70.55 and 405.85 billion as Meta publishes them; Qwen3's are of its technical report.
    totals = {f"{name}/{flavor}": num_parameters(each.model).total for (name, flavor), each in FLAVORS.items()}
    assert [round(totals[f"llama3/{size}"] / 1e9, 2) for size in ("8B", "70B", "405B")] == [8.03, 70.55, 405.85]
    assert round(totals["qwen3/235B-A22B"] / 1e9) == 235
    # 15.7, 236 and 671 billion as DeepSeek publishes them.
    assert [round(totals[f"deepseek_v3/{size}"] / 1e9, 1) for size in ("16B", "236B", "671B")] == [15.7, 235.7, 671.0]


def test_another_model_is_refused_with_the_nearest_flavor() -> None:
    assert FLAVORS.none_for(model_preset("llama-2-70b").model).endswith("the nearest, llama3 70B, has another vocab_size")
    assert FLAVORS.none_for(model_preset("deepseek-v3").model).endswith(
        "the nearest, deepseek_v3 671B, has another mtp_num_layers"
    )


def test_a_constant_without_cost_is_said() -> None:
    assert FLAVORS.misstated(model_preset("qwen3-235b-a22b").model) == (
        "torchtitan's flavor 235B-A22B has other constants: the rotary base (5000000.0 for 1000000.0).",
    )
    assert FLAVORS.misstated(model_preset("llama-3.1-8b").model) == ()


def test_defaults_are_those_of_the_release() -> None:
    plain = read()
    assert (plain.zero_stage, plain.micro_batch_size, plain.optimizer_shard_size) == (3, 8, 0)
    assert not plain.features & FUSED_KERNELS  # compilation is off by default
    # Each second of 32 layers is recomputed by default.
    assert (plain.recompute, plain.recompute_num_layers) == (Recompute.FULL, 16)
    staged = read({**PIPELINE})
    assert (staged.zero_stage, staged.schedule, staged.micro_batch_size) == (2, Schedule.ONE_F_ONE_B, 1)
    assert staged.recompute_layers_per_stage == (8, 8)
    assert read({"parallelism.data_parallel_shard_degree": -1}, 64).dp == 64
    assert read({"parallelism.data_parallel_replicate_degree": 4}).optimizer_shard_size == 8
    assert read({"compile.enable": True}).features & FUSED_KERNELS == FUSED_KERNELS
    assert (
        Feature.TP_COMM_OVERLAP
        in read(
            {"parallelism.enable_async_tensor_parallel": True, "compile.enable": True, "parallelism.tensor_parallel_degree": 2}
        ).features
    )


def test_context_parallel_ranks_gather_keys_and_values() -> None:
    method = "parallelism.context_parallel_rotate_method"
    assert read({"parallelism.context_parallel_degree": 2}).cp_algo is CpAlgo.KV_ALLGATHER
    told = [
        TORCHTITAN.read_job(options(**{"parallelism.context_parallel_degree": 2, method: value}), None).not_understood
        for value in ("allgather", "alltoall")
    ]
    assert [any(method in sentence for sentence in sentences) for sentences in told] == [False, True]


@pytest.mark.parametrize(
    ("layers", "stages", "less", "counts"),
    [
        # torchtitan's own example counts the embedding and the head as two layers each: 7 over 2 stages.
        (3, 2, (2, 2), [2, 1]),
        (32, 4, (1, 1), [8, 9, 8, 7]),
        (126, 16, (1, 1), [7, *[8] * 14, 7]),
        (6, 8, (1, 1), [0, *[1] * 6, 0]),
    ],
)
def test_stages_that_no_file_names_are_those_that_the_release_makes(
    layers: int, stages: int, less: tuple[int, int], counts: list[int]
) -> None:
    assert usual_counts(layers, stages, *less) == counts


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.name": "llama4", "model.flavor": "17bx16e_irope"}, "within chunks"),
        ({"model.name": "gpt_oss", "model.flavor": "20b"}, "windows, documents and sinks"),
        ({"model.flavor": "9B"}, "no flavor that is known"),
        ({"parallelism.data_parallel_shard_degree": -1}, "--devices states"),
        ({**PIPELINE, "parallelism.pipeline_parallel_schedule": "DualPipeV"}, "DualPipeV has no price"),
        ({**PIPELINE, "training.global_batch_size": 64}, "runs the pipeline 2 times"),
        ({**PIPELINE, "parallelism.pipeline_parallel_microbatch_size": 3}, "micro batches of 3"),
        ({**PIPELINE, "parallelism.pipeline_parallel_layers_per_stage": 12}, "3 virtual stages do not divide over pp 2"),
        ({**PIPELINE, "parallelism.module_fqns_per_model_part": [["tok_embeddings"], ["norm", "output"]]}, "does not place"),
        ({"compile.enable": True, "compile.components": ["model", "optimizer"]}, "is not allowed; give model or loss"),
        ({"activation_checkpoint.selective_ac_option": "all"}, "'all' is not allowed; give op or a number"),
        ({"training.global_batch_size": 60}, "does not divide by 8 x 8"),
    ],
)
def test_a_file_without_a_price_is_refused_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ReadingError, match=words):
        TORCHTITAN.read_job(options(**changes), None)


def test_keys_that_change_the_price_are_named_and_others_are_not() -> None:
    assert unread({"training.dtype": "float32", "optimizer.lr": 1e-4, "model.converters": [], "metrics.log_freq": 1}) == set()
    priced_otherwise = {
        "training.dtype": "bfloat16",
        "training.enable_cpu_offload": True,
        "parallelism.fsdp_reshard_after_forward": 8,
        "model.converters": ["float8"],
        "parallelism.expert_parallel_comm_backend": "deepep",
        "job.custom_config_module": "mine",
        "parallelism.tensor_paralel_degree": 2,
    }
    assert unread(priced_otherwise) == set(priced_otherwise)


OPERATORS = {"activation_checkpoint.selective_ac_option": "op"}
NAMED = "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"
OPTION = "activation_checkpoint.selective_ac_option"
MIXTURE = {"model.name": "qwen3", "model.flavor": "30B-A3B"}
LLAMA4 = {"model.name": "llama4", "model.flavor": "17bx16e"}


def test_checkpoints_by_operator_are_read_and_written_as_they_are() -> None:
    job = TORCHTITAN.read_job(options(**OPERATORS), None)
    found = job.strategy
    assert (found.recompute, found.recompute_modules) == (Recompute.SELECTIVE, RecomputeModule.EVERY_OTHER_MATMUL)
    assert job.unread == ()
    written = TORCHTITAN.write(on_gpus(job.model, compiled=False), found)
    assert {'activation_checkpoint.mode="selective"', 'activation_checkpoint.selective_ac_option="op"'} <= {*written.arguments}
    assert TORCHTITAN.read(written.arguments, None) == found


@pytest.mark.parametrize("option", ["0", "00", "1"])
def test_each_layer_has_a_checkpoint_where_none_are_skipped(option: str) -> None:
    """As torchtitan 0.2.2: ``if not ac_freq or _layer_sac_count % ac_freq == 0``."""
    found = TORCHTITAN.read_job(options(**{"activation_checkpoint.selective_ac_option": option}), None)
    whole = TORCHTITAN.read_job(options(**{"activation_checkpoint.mode": "full"}), None)
    assert found.strategy == whole.strategy
    assert found.strategy.recompute is Recompute.FULL
    assert unread({**MIXTURE, "compile.enable": True, "activation_checkpoint.selective_ac_option": option}) == set()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({NAMED: ["attention.wk"]}, {NAMED}),
        ({NAMED: []}, set()),  # a dense layer has no router
        ({NAMED: ["moe.router.gate"], **MIXTURE}, set()),
        ({NAMED: [], **MIXTURE}, {NAMED}),
        ({**MIXTURE, "compile.enable": True}, {OPTION}),
        ({**LLAMA4}, set()),
        ({**LLAMA4, "parallelism.expert_parallel_degree": 8}, {OPTION}),
        ({"model.name": "deepseek_v3", "model.flavor": "16B", "parallelism.expert_parallel_degree": 8}, set()),
    ],
)
def test_checkpoints_of_other_operators_are_named(changes: dict[str, Any], names: set[str]) -> None:
    assert unread({**OPERATORS, **changes}) == names
    assert unread({**changes, "activation_checkpoint.mode": "full"}) == set()


DOCUMENTS = {"model.name": "deepseek_v3", "model.flavor": "16B", "activation_checkpoint.mode": "none"}


@pytest.mark.parametrize(("changes", "uneven"), [(DOCUMENTS, True), ({"model.flavor": "8B_flex"}, True), ({}, False)])
def test_attention_within_documents_is_that_of_packed_samples(changes: dict[str, Any], uneven: bool) -> None:
    job = TORCHTITAN.read_job(options(**changes), None)
    assert job.uneven == (("model.flavor",) if uneven else ())
    assert any("FlexAttention" in sentence for sentence in job.not_understood) == uneven


@pytest.mark.parametrize(
    ("flavor", "fraction", "written"),
    [
        (("llama3", "8B"), 1.0, "8B"),
        (("llama3", "8B"), 0.3, "8B_flex"),
        (("deepseek_v3", "16B"), 1.0, "16B"),
        (("deepseek_v3", "16B"), 0.3, "16B"),
    ],
)
def test_packed_samples_are_written_as_a_flavor_within_documents(flavor: tuple[str, str], fraction: float, written: str) -> None:
    workload = on_gpus(replace(FLAVORS[flavor].model, name="a-model"), packed=fraction)
    launch = TORCHTITAN.write(workload, ParallelStrategy(dp=64, zero_stage=3))
    assert f'model.flavor="{written}"' in launch.arguments
    is_whole = any("counts attention over whole sequences" in note for note in launch.notes)
    assert is_whole == (fraction == 1.0 and flavor[0] == "deepseek_v3")
    assert TORCHTITAN.untold(workload) == ()


# torchtitan 0.2.2: llama3/model/args.py:55 refuses varlen alone; deepseek_v3/model/args.py:101 all but sdpa.
TAKES_CP = {
    ("llama3", "8B"): True,
    ("llama3", "8B_flex"): True,
    ("llama3", "8B_varlen"): False,
    ("deepseek_v3", "16B"): False,
    ("llama4", "17bx16e"): True,
}


@pytest.mark.parametrize("flavor", TAKES_CP)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_a_file_of_a_flavor_takes_the_context_parallelism_of_that_flavor(flavor: tuple[str, str], fraction: float) -> None:
    changes = {"model.name": flavor[0], "model.flavor": flavor[1], "parallelism.context_parallel_degree": 2}
    read = TORCHTITAN.read_job(options(**changes), None)
    broken = {violation.rule for violation in violations(on_gpus(read.model, packed=fraction), read.strategy)}
    assert ("torchtitan_documents" in broken) == (not TAKES_CP[flavor])
    assert ("torchtitan_model" in broken) == (fraction < 1.0 and flavor[1] in ("8B", "17bx16e"))


@pytest.mark.parametrize("flavor", ["8B", "8B_flex", "8B_varlen"])
def test_a_model_named_as_a_flavor_is_that_flavor(flavor: str) -> None:
    found = FLAVORS.of(FLAVORS["llama3", flavor].model)
    assert found is not None
    assert found.flavor == flavor
    packed = FLAVORS.of(FLAVORS["llama3", flavor].model, packed=True)
    assert packed == (None if flavor == "8B" else found)


@pytest.mark.parametrize(
    ("flavor", "target", "said"),
    [
        (("deepseek_v3", "16B"), "torchtitan@0.2.2", "torchtitan's deepseek_v3 16B"),
        (("llama3", "8B_flex"), "torchtitan@0.2.2", "torchtitan's llama3 8B_flex"),
        (("llama3", "8B"), "torchtitan@0.2.2", None),
        (("deepseek_v3", "16B"), "any", None),
    ],
)
def test_lengths_are_in_doubt_where_the_file_stays_within_documents(
    flavor: tuple[str, str], target: str, said: str | None
) -> None:
    workload = on_gpus(FLAVORS[flavor].model)
    assert TORCHTITAN.uneven(replace(workload, software=replace(workload.software, target=target))) == said


def test_packed_samples_of_a_model_without_such_a_flavor_are_refused() -> None:
    packed = on_gpus(FLAVORS["llama3", "70B"].model, packed=0.3)
    assert [sentence for sentence in TORCHTITAN.untold(packed) if "attends to whole sequences" in sentence]


@pytest.mark.parametrize(
    ("changes", "layers", "loss"),
    [
        ({"compile.enable": True, "compile.components": ["loss"]}, False, True),
        ({"compile.enable": True, "compile.components": ["model"]}, True, False),
        ({"compile.enable": True, "compile.components": []}, False, False),
        ({"compile.enable": True}, True, True),
        ({"compile.components": ["loss"]}, False, False),
    ],
)
def test_layers_and_loss_are_compiled_together_or_alone(changes: dict[str, Any], layers: bool, loss: bool) -> None:
    job = TORCHTITAN.read_job(options(**changes), None)
    assert (job.torch_compile, job.compiled_loss) == (layers, loss)
    assert bool(job.strategy.features & FUSED_KERNELS) == layers
    workload = on_gpus(job.model, compiled=layers)
    workload = replace(workload, software=replace(workload.software, plain_cross_entropy=not loss, compiled_loss=loss))
    again = TORCHTITAN.read_job(TORCHTITAN.write(workload, job.strategy).arguments, None)
    assert (again.torch_compile, again.compiled_loss, again.strategy) == (layers, loss, job.strategy)


def test_experts_follow_the_dense_layers_as_torchtitan_counts_them() -> None:
    assert FLAVORS["llama4", "17bx128e"].model.moe_layers()[:4] == (False, True, False, True)
    assert all(FLAVORS["llama4", "17bx16e"].model.moe_layers())
    assert FLAVORS["deepseek_v3", "671B"].model.moe_layers()[:4] == (False, False, False, True)


def test_a_file_of_another_plan_is_judged_with_its_own_stack() -> None:
    """The times of a job for Megatron are of its stack, and those of the file are of torchtitan's, whatever the plan breaks."""
    own = on_gpus()
    made = replace(own, software=Software("megatron-lm", target="megatron-lm@0.19"))
    (file,) = launch_blocks(made, [ParallelStrategy(dp=64)])
    said = " ".join(file["torchtitan"]["notes"])
    assert "Not as planned (torchtitan_stack)" in said
    assert "`meshplan estimate` of this file says it" in said
    assert "refuses it too" not in said
    assert violations(own, TORCHTITAN.read(file["torchtitan"]["arguments"], None)) == ()
