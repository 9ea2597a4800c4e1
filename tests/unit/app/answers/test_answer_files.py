"""Which file starts the plan to run: that of the target first, and not one that is slower than another of the list."""

from __future__ import annotations

import io

from app.answers.files import launch_file_names
from app.answers.schemas import EstimateNumbers, ExportDocument, LaunchDocument, SearchDocument
from app.answers.search import search_document
from app.answers.tables.by_tensor import slower_sentence
from app.answers.tables.search import print_search
from app.jobs.job import parse_job
from app.text.terminal import plain_text


def found(target: str, **training: object) -> SearchDocument:
    job = {
        "model": "qwen3-8b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 32, "task": "sft", **training},
        "software": {"target": target},
        "search": {"pp": [1, 2], "tp": [1, 8], "top": 3},
    }
    return search_document(parse_job(job))


PLAIN = LaunchDocument(target="megatron-lm@0.19", launchable=True, arguments=[], environment={}, notes=[])


def text_of(document: SearchDocument, *saved: str) -> str:
    written = io.StringIO()
    print_search(plain_text(written, 200), document, (), dict.fromkeys(saved, PLAIN))
    return written.getvalue()


def test_the_file_of_the_target_comes_first() -> None:
    assert next(iter(launch_file_names(found("mindformers")))).endswith("mindformers.yaml")
    assert next(iter(launch_file_names(found("mindspeed-llm")))).endswith("mindspeed-llm.sh")


def test_a_target_without_a_file_is_said() -> None:
    unnamed = found("mindformers", mean_squared_length_fraction=0.5)  # parsed as it is, without the refusal of a search
    assert all("mindformers" not in name for name in launch_file_names(unnamed))
    assert "no file for mindformers@1.8 (--details says why); launch file other.sh" in text_of(unnamed, "other.sh")
    assert "no file for" not in text_of(found("mindformers"), "plan.yaml")


def test_a_task_that_no_framework_starts_names_programs_that_do() -> None:
    document = found("any", task="qlora", adapter={"rank": 16})
    alone = [plan for plan in document.plans if plan.strategy.tp * plan.strategy.pp * plan.strategy.cp == 1]
    assert alone
    divided = [plan for plan in document.plans if plan.strategy.tp * plan.strategy.pp > 1]
    for plans, said in (
        (alone, "--forbid reuse_fp32_param,swap_attention plans for LLaMA-Factory"),
        (divided, "--tp 1 --pp 1 --cp 1 plans for LLaMA-Factory"),
    ):
        one = document.model_copy(update={"plans": plans[:1], "recommended": None})
        assert said in text_of(one)


def test_a_job_without_a_task_is_printed() -> None:
    job = {
        "model": "llama-2-7b",
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
        "training": {"seq_length": 4096, "global_batch_size": 32},
        "search": {"pp": [1], "tp": [1, 8], "top": 1},
    }
    document = search_document(parse_job(job))
    assert "task" not in document.job["training"]
    assert "--save-dir DIR writes launch files" in text_of(document)


def export(document: SearchDocument, step_time_s: float) -> ExportDocument:
    plan = document.plans[0]
    numbers = EstimateNumbers.model_validate(plan.estimate.model_dump(include=set(EstimateNumbers.model_fields)))
    launch = plan.launch["mindformers"]
    assert isinstance(launch, LaunchDocument)
    return ExportDocument.model_construct(
        target="mindformers@1.8", estimate=numbers.model_copy(update={"step_time_s": step_time_s}), launch=launch
    )


def test_a_file_of_a_plan_by_tensor_that_is_slower_names_the_file_to_use() -> None:
    document = found("mindformers")
    fastest_s = min(plan.estimate.step_time_s for plan in document.plans)
    assert slower_sentence(document, export(document, 0.9 * fastest_s)) is None
    said = slower_sentence(document, export(document, 1.2 * fastest_s))
    assert said is not None
    assert said.startswith("mindformers@1.8: use the file of plan 1, ")
