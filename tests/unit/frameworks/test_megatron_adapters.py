"""Python files that start adapters with Megatron-Bridge: what they say, what it made of them, and how they read back."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.jobs.job import parse_job
from app.language.choice import said
from cost_models.shapes.adapters import adapter_rank_parameters
from cost_models.shapes.strategy import CpAlgo, ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import DEFAULT_FEATURES, Feature
from cost_models.shapes.training_task import Adapters, Task, TrainingTask
from cost_models.shapes.workload import Workload
from frameworks.framework import Start
from frameworks.launch import launch_block
from frameworks.launch_files import launch_file
from frameworks.legality import legal_mask, violations
from frameworks.megatron_lm.bridge import PATHS
from frameworks.megatron_lm.framework import MEGATRON_LM
from frameworks.megatron_lm.table import TABLE_0_19
from frameworks.rule import layout_of
from search.space.enumeration import Rejections, chunks
from search.space.search_space import search_space
from tests.unit.frameworks.legality_cases import ADAPTERS, DEEP, LORA, MIXTURE_JOB, trained
from tests.unit.frameworks.legality_workloads import DENSE_PLAN, MIXTURE_PLAN

NEW = MEGATRON_LM[1]
PLAN = ParallelStrategy(tp=4, dp=16, sequence_parallel=True)
STARTS = json.loads((Path(__file__).parents[2] / "oracle" / "bridge_starts.json").read_text(encoding="utf-8"))
GIVEN = ("HF_MODEL", "MODEL_PATH", "DATA_PATH", "CHECKPOINT_PATH")


def on_gpus(workload: Workload) -> Workload:
    profile = replace(workload.cluster.profile, family="nvidia")
    software = replace(workload.software, stack="megatron-lm", target=NEW.target.label)
    return replace(workload, cluster=replace(workload.cluster, profile=profile), software=software)


def block(strategy: ParallelStrategy = PLAN, workload: Workload = LORA) -> dict[str, Any]:
    return launch_block(on_gpus(workload), strategy)["megatron-lm"]


def file(strategy: ParallelStrategy = PLAN, workload: Workload = LORA, **words: Any) -> str:
    suffix, text = launch_file("megatron-lm", block(strategy, workload), Start("Plan 1", 64, 8, **words))
    assert suffix == "py"
    return text


def tables(text: str) -> dict[str, Any]:
    """The fields of a file, without running it."""
    found: dict[str, Any] = {}
    for each in ast.parse(text).body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and each.targets[0].id in ("PLAN", "MODEL"):
            found |= ast.literal_eval(each.value)
    return found


def test_a_file_has_the_numbers_of_the_plan_and_of_the_model() -> None:
    plan = ParallelStrategy(tp=4, pp=2, dp=4, cp=2, cp_algo=CpAlgo.RING, vpp=2, sequence_parallel=True, zero_stage=1)
    plan = replace(plan, schedule=DENSE_PLAN.schedule, layer_layout=((9, 8), (8, 7)))
    workload = trained(TrainingTask(Task.LORA, Adapters(16, 32.0, ("linear_qkv", "linear_proj"))))
    written, model = tables(file(plan, workload)), workload.model
    degrees = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "sequence_parallel")
    assert [written[f"model.{name}"] for name in degrees] == [4, 2, 2, True]
    assert written["model.virtual_pipeline_model_parallel_size"] == 2
    assert written["model.pipeline_model_parallel_layout"] == f"E{'t' * 9}|{'t' * 8}|{'t' * 8}|{'t' * 7}L"
    assert (written["model.cp_comm_type"], written["ddp.use_distributed_optimizer"]) == ("p2p", True)
    assert (written["train.micro_batch_size"], written["train.global_batch_size"]) == (1, workload.training.global_batch_size)
    assert written["model.seq_length"] == written["dataset.seq_length"] == workload.training.seq_length
    assert [written[f"peft.{name}"] for name in ("dim", "alpha", "target_modules")] == [16, 32, ["linear_qkv", "linear_proj"]]
    assert (written["mixed_precision.bf16"], written["mixed_precision.grad_reduce_in_fp32"]) == (True, True)
    sizes = ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "vocab_size")
    assert [written[f"model.{name}"] for name in sizes] == [getattr(model, name) for name in sizes]
    # 32 layers with 1F1B have no chunks to overlap: the schedule would refuse the field
    assert written["model.overlap_p2p_comm"] is True
    assert tables(file())["model.overlap_p2p_comm"] is False


def test_experts_are_written_and_those_of_the_model_compared() -> None:
    written = tables(file(MIXTURE_PLAN, trained(TrainingTask(Task.LORA, ADAPTERS), MIXTURE_JOB)))
    moe = MIXTURE_JOB.model.moe
    assert moe is not None
    assert (written["model.expert_model_parallel_size"], written["model.expert_tensor_parallel_size"]) == (
        MIXTURE_PLAN.ep,
        MIXTURE_PLAN.etp,
    )
    assert (written["model.num_moe_experts"], written["model.moe_router_topk"]) == (moe.num_experts, moe.top_k)
    assert written["model.moe_layer_freq"] == [int(is_moe) for is_moe in MIXTURE_JOB.model.moe_layers()]
    assert (written["model.moe_token_dispatcher_type"], written["model.moe_grouped_gemm"]) == ("alltoall", True)


def test_a_file_reads_back_as_its_job() -> None:
    written = block()
    assert (written["target"], written["launchable"], written["rules"]) == ("megatron-lm@0.19", True, [])
    read = NEW.read_job(written["arguments"], 64)
    assert (read.task, read.unread, read.not_understood, read.uneven) == (LORA.training.task, (), (), ())
    assert replace(read.strategy, features=PLAN.features) == PLAN
    assert (read.seq_length, read.global_batch_size) == (LORA.training.seq_length, LORA.training.global_batch_size)
    assert read.model.num_layers == LORA.model.num_layers
    assert written["arguments"] == [f"{path}={json.dumps(value)}" for path, value in tables(file()).items()]


def test_every_switch_of_the_release_is_a_field_or_refused_with_adapters() -> None:
    refused = Feature.CUDA_GRAPH | Feature.TP_COMM_OVERLAP | Feature.MOE_COMM_OVERLAP | Feature.OPTIMIZER_CPU_OFFLOAD
    for switch in TABLE_0_19.switches:
        assert switch.argument in PATHS or switch.feature in refused, switch.argument
        assert all(name in PATHS for name in switch.beside) or switch.feature in refused
    assert set(TABLE_0_19.columns.values()) <= {*PATHS}
    every = replace(MIXTURE_PLAN, features=DEFAULT_FEATURES | refused)
    rules = {each.rule for each in violations(on_gpus(trained(TrainingTask(Task.LORA, ADAPTERS), DEEP)), every)}
    switches = {"megatron_adapter_tp_overlap", "megatron_adapter_ep_overlap", "megatron_adapter_graphs"}
    assert switches | {"megatron_host_optimizer"} <= rules


# Arguments of pre-training without a field: what AutoBridge reads of the Hugging Face model, and what is the same without one.
OF_THE_MODEL = {
    "position-embedding-type", "rotary-base", "rotary-percent", "norm-epsilon", "normalization", "max-position-embeddings",
    "disable-bias-linear", "group-query-attention", "use-rope-scaling", "rope-scaling-factor", "rotary-scaling-factor", "mscale",
    "mscale-all-dim",
    "moe-router-score-function", "moe-router-pre-softmax", "moe-router-topk-scaling-factor", "moe-router-num-groups",
    "moe-router-group-topk", "moe-router-enable-expert-bias", "softmax-type", "quick-geglu", "window-size",
    "window-attn-skip-freq", "yarn-original-max-position-embeddings", "yarn-beta-fast", "yarn-beta-slow",
    "no-yarn-correction-range-round-to-int", "glu-linear-offset", "activation-func-clamp-value",
}  # fmt: skip
SAID_OTHERWISE = {"num-layers-per-virtual-pipeline-stage", "no-create-attention-mask-in-dataloader"}


@pytest.mark.parametrize("row", STARTS[::3], ids=lambda row: row["preset"])
def test_nothing_that_pre_training_is_told_of_a_plan_is_lost(row: dict[str, Any]) -> None:
    plan = NEW.read_job(row["arguments"], row["devices"]).strategy
    job = parse_job(
        {
            "model": row["preset"],
            "cluster": {"hardware": "h100-sxm-80gb", "num_devices": row["devices"]},
            "training": {"seq_length": 4096, "global_batch_size": 2 * row["devices"]},
            "software": {"target": "megatron-lm@0.19"},
        }
    )
    written = {word.removeprefix("--") for word in NEW.write(job.workload, plan).arguments if word.startswith("--")}
    assert written - {*PATHS} <= OF_THE_MODEL | SAID_OTHERWISE


def started(text: str, tmp_path: Path, **given: str) -> tuple[int, str]:
    place = tmp_path / "plan.py"
    place.write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], **given}
    done = subprocess.run([sys.executable, str(place)], capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("missing", GIVEN)
def test_a_file_refuses_to_start_while_a_setting_is_missing(missing: str, tmp_path: Path) -> None:
    given = {name: "x" for name in GIVEN if name != missing}
    assert started(file(), tmp_path, WORLD_SIZE="64", **given) == (2, f"Set {', '.join(GIVEN)} first.")


def test_a_file_refuses_other_numbers_of_processes_and_else_looks_for_the_framework(tmp_path: Path) -> None:
    given = dict.fromkeys(GIVEN, "x")
    status, words = started(file(), tmp_path, WORLD_SIZE="8", **given)
    assert (status, "plan is of 64 processes" in words) == (2, True)
    status, words = started(file(), tmp_path, WORLD_SIZE="64", **given)
    assert (status, words.splitlines()[-1]) == (1, "ModuleNotFoundError: No module named 'megatron'")


def test_the_first_lines_say_what_starts_the_file_and_what_converts_the_model() -> None:
    text = file()
    head = text.partition("import os")[0].replace("\n# ", " ").replace("  ", " ")
    assert "launch: megatron-lm@0.19 NVIDIA-NeMo/Megatron-Bridge@51885cf1 NVIDIA/Megatron-LM@5be96267 exact" in head
    assert "torchrun --nproc-per-node 8 --nnodes 8" in head
    assert "AutoBridge.import_ckpt('HF_FOLDER', 'MODEL_PATH')" in head
    chinese = file(say=partial(said, language="zh"))
    assert tables(chinese) == tables(text)
    assert compile(chinese, "plan.py", "exec")


def test_packed_samples_are_packed_with_edges_that_the_ranks_divide() -> None:
    packed = replace(LORA, training=replace(LORA.training, mean_squared_length_fraction=0.5))
    plan = replace(PLAN, dp=8, cp=2, cp_algo=CpAlgo.RING)
    assert tables(file(plan, packed))["dataset.enable_offline_packing"] is True
    assert "pad_seq_to_mult=8" in file(plan, packed)  # 2 cp = 4, and cp tp = 8 rows under sequence parallelism
    assert tables(file(plan))["dataset.enable_offline_packing"] is False
    assert NEW.read_job(block(plan, packed)["arguments"], 64).uneven == ("dataset.enable_offline_packing",)


@pytest.mark.parametrize(
    "task", [TrainingTask(Task.QLORA, ADAPTERS), TrainingTask(Task.DPO, ADAPTERS)], ids=lambda task: task.name.value
)
def test_no_file_is_written_for_a_task_that_megatron_bridge_has_not(task: TrainingTask) -> None:
    assert block(workload=trained(task))["arguments"] is None


def test_no_file_is_written_for_a_plan_whose_adapters_would_differ() -> None:
    written = block(replace(PLAN, zero_stage=3))
    assert (written["launchable"], written["arguments"]) == (False, None)
    assert any("zero_stage 3 with adapters" in note for note in written["notes"])


def test_switches_that_exclude_adapters_are_left_out_of_the_file_and_of_a_search() -> None:
    planned = replace(PLAN, features=DEFAULT_FEATURES | Feature.TP_COMM_OVERLAP | Feature.CUDA_GRAPH)
    written = block(planned)
    assert not written["launchable"]
    assert any("tp_comm_overlap is left out: it excludes adapters" in note for note in written["notes"])
    assert written["arguments"] == block()["arguments"]
    workload = on_gpus(LORA)
    batch = next(chunks(workload, search_space(workload), Rejections())).batch
    assert int(batch.tp[legal_mask(workload, batch)].max()) > 1


def test_megatron_bridge_took_files_of_every_model_that_a_rule_lets_through() -> None:
    assert {row["said"]["verdict"] for row in STARTS} == {"accept"}
    assert all(row["said"]["other"] == {} for row in STARTS)
    assert {row["said"]["fields"] for row in STARTS} <= {len(row["arguments"]) for row in STARTS}
    assert len({row["preset"] for row in STARTS}) >= 25
    counted = Counter(row["devices"] for row in STARTS)
    assert len(counted) == 3
    assert min(counted.values()) >= 40
    texts = [" ".join(row["arguments"]) for row in STARTS]
    assert any("model.tensor_model_parallel_size=4" in text for text in texts)
    for part in (
        "pipeline_model_parallel_layout",
        "num_layers_in_first",
        'recompute_granularity="full"',
        "flex",
        "packing=true",
        'fp8="hybrid"',
        "bfloat16",
    ):
        assert any(part in text for text in texts), part


@pytest.mark.parametrize("row", [row for row in STARTS if row["said"]["ranks"]], ids=lambda row: row["preset"])
def test_adapters_of_a_rank_are_as_many_as_megatron_bridge_built(row: dict[str, Any]) -> None:
    read = NEW.read_job(row["arguments"], row["devices"])
    adapter = read.task.adapters
    assert adapter is not None
    document = {
        "model": row["preset"],
        "cluster": {"hardware": "h100-sxm-80gb", "num_devices": row["devices"]},
        "training": {"seq_length": 4096, "global_batch_size": read.global_batch_size, "task": "lora",
                     "adapter": {"rank": adapter.rank, "target_modules": list(adapter.modules)}},
        "software": {"target": "megatron-lm@0.19"},
    }  # fmt: skip
    workload = parse_job(document).workload
    layout, kinds = layout_of(workload, read.strategy), [bool(moe) for moe in workload.model.moe_layers() or ()]
    kinds = kinds or [False] * workload.model.num_layers
    batch = StrategyBatch.of([read.strategy])
    each = {moe: sum(float(part[0]) for part in adapter_rank_parameters(workload, batch, moe=moe)[:2]) for moe in set(kinds)}
    stages = np.split(np.array(kinds), np.cumsum([layers for chunk in layout for layers in chunk])[:-1])
    for place, rank in ((0, row["said"]["ranks"][0]), (read.strategy.pp - 1, row["said"]["ranks"][1])):
        mine = [stages[chunk * read.strategy.pp + place] for chunk in range(len(layout))]
        assert rank["layers"] == [len(stage) for stage in mine]
        predicting = workload.model.mtp_num_layers * each[kinds[-1]] if place == read.strategy.pp - 1 else 0.0
        assert sum(rank["trained"]) == sum(each[bool(moe)] for stage in mine for moe in stage) + predicting
