"""A search that names no target plans for the framework of its stack, where that takes a plan of the job."""

from __future__ import annotations

import io
from typing import Any

import pytest

from app.answers.search import search_document
from app.answers.tables.search import beside_sentences, launch_sentences, print_search
from app.answers.targets import with_usual_target
from app.catalogue.models.presets import model_preset
from app.catalogue.models.shape import model_to_mapping
from app.jobs.job import Job, parse_job
from app.text.terminal import plain_text
from documents.errors import InputError

DENSE: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 32},
    "search": {"tp": 8, "pp": 1, "recompute": "full", "micro_batch_size": 1},
}
MIXTURE: dict[str, Any] = {
    "model": "qwen3-30b-a3b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 32},
    "training": {"seq_length": 4096, "global_batch_size": 64},
    "search": {"tp": 4, "pp": 2, "vpp": 1, "ep": 16, "micro_batch_size": 1, "recompute": "full", "top": 2},
}


def job(document: dict[str, Any], **software: Any) -> Job:
    return parse_job({**document, "software": software})


def test_the_usual_framework_of_the_hardware_is_the_target_and_is_told() -> None:
    found = with_usual_target(job(DENSE))
    target = found.workload.software.target
    assert target.startswith("mindspeed-llm@")
    assert found.document["software"]["target"] == target
    assert found.assumptions[-1].startswith(f"software.target = {target} (usual for stack mindspeed-llm; --target any")


def test_the_framework_of_the_stack_that_a_job_names_is_its_target() -> None:
    qwen = {**DENSE, "model": "qwen3-8b"}  # MindFormers trains no llama
    assert with_usual_target(job(qwen, stack="mindformers")).workload.software.target.startswith("mindformers@")
    gpus = {**DENSE, "cluster": {"hardware": "a100-sxm-80gb", "num_devices": 8}}
    assert with_usual_target(job(gpus)).workload.software.target.startswith("megatron-lm@")


def test_a_stack_that_no_launch_file_is_written_for_is_planned_on_physics() -> None:
    gpus = {**DENSE, "cluster": {"hardware": "a100-sxm-80gb", "num_devices": 8}}
    found = with_usual_target(job(gpus, stack="fsdp"))
    assert found.workload.software.target == "any"
    assert found.assumptions[-1] == "software.target = any (no launch files are written for stack fsdp)"


@pytest.mark.parametrize("target", ["any", "mindformers", "mindspeed-llm"])
def test_a_target_that_is_given_stays(target: str) -> None:
    given = job(DENSE, target=target)
    assert with_usual_target(given) is given


def test_a_job_that_the_framework_takes_no_plan_of_is_planned_on_physics_and_says_why() -> None:
    limited = {**MIXTURE, "search": {**MIXTURE["search"], "moe_dispatcher": "two_level"}}
    found = with_usual_target(job(limited))
    assert found.workload.software.target == found.document["software"]["target"] == "any"
    assert found.assumptions[-1].startswith("software.target = any (mindspeed-llm@")
    assert "takes no plan of this job that fits; most often: " in found.assumptions[-1]
    assert "two_level" in found.assumptions[-1]


def test_a_job_that_physics_refuses_as_well_stays_with_the_framework() -> None:
    found = with_usual_target(job({**DENSE, "search": {"tp": 3}}))
    assert found.workload.software.target.startswith("mindspeed-llm@")
    assert not found.warnings
    answer = search_document(found)
    assert not answer.plans
    assert "tp 3 does not divide num_attention_heads 32" in answer.nearest


def test_the_resolved_job_searches_the_same_again() -> None:
    found = with_usual_target(job(DENSE))
    again = parse_job(found.document)
    assert with_usual_target(again) is again
    assert again.workload.software == found.workload.software
    assert search_document(again).plans == search_document(found).plans


def test_a_price_or_a_check_of_a_job_without_a_target_asks_physics_alone() -> None:
    plain = job(DENSE)
    assert plain.workload.software.target == plain.document["software"]["target"] == "any"
    assert not plain.is_target_given


def test_the_report_says_what_physics_alone_would_give_and_what_refuses_it() -> None:
    document = search_document(with_usual_target(job(MIXTURE)))
    best = document.physics_best
    assert best is not None
    assert best.difference_fraction is not None
    assert best.difference_fraction > 0
    told = list(beside_sentences(document))
    assert told[0].startswith("Physics alone: TP4 PP2 ")
    assert best.why in told[0]
    assert all(broken.sentence.rstrip(".") in told[1] for broken in best.rules)
    launched = list(launch_sentences(document.plans[0]))
    assert launched[0].startswith("Plan 1 can be launched on: mindspeed-llm@")


def test_the_report_of_physics_alone_prices_what_each_framework_takes_and_names_the_rules_it_breaks() -> None:
    document = search_document(job(MIXTURE, target="any"))
    assert document.physics_best is None
    plan = document.plans[0]
    nearest = document.nearest_launchable[0]
    assert nearest.target.startswith("mindspeed-llm@")
    assert nearest.target not in plan.launchable_on
    assert nearest.estimate is not None
    assert any(sentence.startswith(f"Nearest on {nearest.target}: ") for sentence in beside_sentences(document))
    refused = plan.launch["mindspeed-llm"]
    assert refused is not None
    assert refused.rules
    sentences = list(launch_sentences(plan))
    assert sentences[0] == f"Plan 1 can be launched on: {', '.join(plan.launchable_on) or 'no public release'}."
    told = next(sentence for sentence in sentences if sentence.startswith(f"{refused.target} does not take it: "))
    assert all(broken.sentence.rstrip(".") in told and broken.rule in told for broken in refused.rules)


def test_a_sampler_plans_for_the_target_and_says_nothing_of_physics() -> None:
    sampled = {**DENSE, "search": {**DENSE["search"], "sampler": "random", "max_trials": 32}}
    document = search_document(with_usual_target(job(sampled)))
    assert document.job["software"]["target"].startswith("mindspeed-llm@")
    assert document.physics_best is None
    assert list(beside_sentences(document)) == []


def test_the_target_stays_where_it_would_train_another_model_and_no_file_is_written() -> None:
    model: dict[str, Any] = model_to_mapping(model_preset("qwen3-30b-a3b").model)
    model["constants"]["attention_scale"] = 0.11
    found = with_usual_target(job({**MIXTURE, "model": model}))
    assert found.workload.software.target.startswith("mindspeed-llm@")
    assert "Not the same model: MindSpeed-LLM cannot be told attention_scale 0.11." in found.warnings
    document = search_document(found)
    assert document.plans
    for plan in document.plans:
        assert plan.launchable_on == []
        launch = plan.launch["mindspeed-llm"]
        assert launch is not None
        assert launch.arguments is None


def test_the_target_stays_where_it_cannot_be_told_a_number_and_that_is_a_warning() -> None:
    model: dict[str, Any] = model_to_mapping(model_preset("llama-3.1-8b").model)
    model["constants"]["rope_scaling"]["factor"] = 32.0
    gpus = {**DENSE, "model": model, "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8}}
    found = with_usual_target(job(gpus))
    assert found.workload.software.target == "megatron-lm@0.12"
    assert any(warning.startswith("Another constant: Megatron-LM 0.12") for warning in found.warnings)
    assert "megatron-lm@0.12" in search_document(found).plans[0].launchable_on


def test_physics_alone_says_so_first() -> None:
    limited = {**MIXTURE, "search": {**MIXTURE["search"], "moe_dispatcher": "two_level"}}
    found = with_usual_target(job(limited))
    assert found.warnings[0].startswith("Physics alone: no framework runs these plans as they are, since mindspeed-llm@")


def test_the_last_line_offers_no_target_where_the_usual_one_has_no_plan_that_fits() -> None:
    tuned = {"task": "sft", "seq_length": 4096, "global_batch_size": 8}
    small = {"model": "qwen3-8b", "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 1}, "training": tuned}
    small["search"] = {"optimizer_cpu_offload": False}
    printed = io.StringIO()
    document = search_document(with_usual_target(job(small)))
    assert document.no_target_fits
    assert not search_document(job(small, target="any")).no_target_fits
    print_search(plain_text(printed, 200), document.model_copy(update={"warnings": ["仅按物理约束"]}))  # in any language
    last = next(line for line in printed.getvalue().splitlines() if line.startswith("Next"))
    assert "no public release can run plan 1; the warning says why" in last
    assert "--target NAME" not in last


@pytest.mark.parametrize("task", ["sft", "lora"])
def test_packed_samples_that_a_framework_trains_wrongly_get_no_plan_of_it(task: str) -> None:
    tuned = {"task": task, "seq_length": 4096, "global_batch_size": 8, **({"adapter": {"rank": 8}} if task == "lora" else {})}
    padded = {"model": "qwen3-8b", "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8}, "training": tuned}
    packed = {**padded, "training": {**tuned, "mean_squared_length_fraction": 0.5}}
    with pytest.raises(InputError, match=r"--lengths.*PackingHandler shifts labels twice.*; without it samples are padded"):
        with_usual_target(job(packed, target="mindformers"))
    for software in ({"target": "mindformers"}, {"stack": "mindformers"}):
        assert with_usual_target(job(padded, **software)).workload.software.target == "mindformers@1.8"
    unnamed = with_usual_target(job(packed, stack="mindformers"))
    assert unnamed.workload.software.target == "any"
    reason = "MindFormers' PackingHandler shifts labels twice, so that tokens learn the one after the next"
    assert unnamed.warnings[0] == f"Physics alone: no framework runs these plans as they are, since {reason}."
    assert unnamed.assumptions[-1] == f"software.target = any ({reason})"
    with_baseline = job({**packed, "strategy": {"tp": 8}}, target="mindformers")
    with pytest.raises(InputError, match="PackingHandler"):
        with_usual_target(with_baseline)
    assert any("PackingHandler" in warning for warning in with_baseline.warnings)  # its price is given
    pretrained = {**packed, "training": {"seq_length": 4096, "global_batch_size": 8, "mean_squared_length_fraction": 0.5}}
    assert with_usual_target(job(pretrained, target="mindformers")).workload.software.target == "mindformers@1.8"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, "target megatron-lm@0.12 by default (megatron-lm@0.19 is newer)"),
        ({"target": "megatron-lm"}, "target megatron-lm@0.12 by default (megatron-lm@0.19 is newer)"),
        ({"target": "megatron-lm@0.12"}, "target megatron-lm@0.12"),
        ({"target": "megatron-lm@0.19"}, "target megatron-lm@0.19"),
    ],
)
def test_a_search_that_names_no_release_says_which_is_newer(named: dict[str, str], said: str) -> None:
    limited = {"tp": 2, "pp": 1, "micro_batch_size": 1, "top": 1, "recompute": "none"}
    given = {**DENSE, "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8}, "search": limited}
    document = search_document(with_usual_target(job(given, **named)))
    printed = io.StringIO()
    print_search(plain_text(printed, 200), document, ())
    assert printed.getvalue().splitlines()[0].endswith(f", {said}")
    told = [each for each in document.assumptions if each.startswith("software.target = ")]
    assert len(told) == ("is newer" in said)
    assert all("megatron-lm@0.19" in each for each in told)


def test_a_task_that_no_release_starts_is_no_question_of_memory() -> None:
    tuned = {"task": "sft", "seq_length": 4096, "global_batch_size": 8}
    blocks = {"model": "nemotron-h-8b", "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8}, "training": tuned}
    found = with_usual_target(job({**blocks, "search": {"tp": 2, "pp": 1, "micro_batch_size": 1}}))
    assert "since megatron-lm@0.19 takes no plan of this job: Not the same task: a model" in found.warnings[0]
