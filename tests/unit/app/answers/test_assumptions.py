"""What answers say of defaults, held against jobs that give another value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import pytest

from app.answers.assumptions import (
    MAX_VIRTUAL_STAGES,
    TOLD_PEAK_BYTES,
    TOLD_STEP_FRACTION,
    _Effect,
    assumption_sentences,
    brief,
)
from app.answers.price import estimate_document, priced
from app.answers.search import search_document
from app.catalogue.models.presets import names
from app.jobs.assumed import Assumption, field_of
from app.jobs.defaults import SHOWN, Other, fields_with_defaults, others, others_of_plan, priced_switches
from app.jobs.job import Job, parse_job
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import WorkloadError
from documents.errors import InputError
from documents.quantities import GIB
from documents.sentences import Sentence
from frameworks.legality import violations
from frameworks.target import TargetError

PANGU: dict[str, Any] = {
    "model": "pangu-ultra-moe-718b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 6144},
    "strategy": {"tp": 8, "pp": 16, "vpp": 2, "ep": 32, "moe_dispatcher": "hierarchical"},
}
SMALL: dict[str, Any] = {
    "model": "qwen3-8b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 16},
    "strategy": {"tp": 4, "recompute": "full"},
    "search": {"tp": [4, 8], "pp": 1, "recompute": "full", "top": 2},
}
CANDIDATES = [(512, {"tp": 8, "pp": pp, "ep": ep}) for pp in (4, 2, 8) for ep in (8, 1)] + [
    (8, {"tp": 8}),
    (512, {"tp": 4, "pp": 4}),
]


@dataclass(frozen=True)
class Numbers:
    step_time_s: float
    peak_bytes: float


def numbers(job: Job) -> Numbers:
    assert job.strategy is not None
    found = priced(job.workload, StrategyBatch.of([job.strategy]))
    return Numbers(float(found.step_time_s[0]), float(found.peak_memory_bytes[0]))


def by_field(sentences: list[str]) -> dict[str, str]:
    found = {field_of(sentence): sentence for sentence in sentences}
    assert len(found) == len(sentences), "a default is told twice"
    return found


def broken(job: Job, rules_of: str) -> set[str]:
    """Rules of physics, and of the stack's framework where there is one."""
    assert job.strategy is not None
    found = violations(job.workload, job.strategy)
    try:
        found += violations(job.workload, job.strategy, rules_of)
    except TargetError:
        pass
    return {violation.rule for violation in found}


def with_field(document: Mapping[str, Any], field: str, value: Any) -> dict[str, Any]:
    section, _, name = field.partition(".")
    part = {**document.get(section, {})}
    if name.startswith("switches."):
        part["switches"] = {name.removeprefix("switches."): value}
    else:
        part[name] = value
    return {**document, section: part}


def usual_job(model: str) -> tuple[dict[str, Any], Job]:
    """The preset on devices of each kind in turn, with the first strategy that runs there."""
    hardware = ("atlas-800t-a2", "h100-sxm-80gb")[names().index(model) % 2]
    for num_devices, strategy in CANDIDATES:
        document = {"model": model, "cluster": {"hardware": hardware, "num_devices": num_devices}, "strategy": strategy}
        job = parse_job(document)
        if not violations(job.workload, job.strategy):  # type: ignore[arg-type]
            return document, job
    raise AssertionError(f"{model}: no candidate runs")


def left_out(document: Mapping[str, Any]) -> Iterator[str]:
    for field in (*fields_with_defaults(), *(f"strategy.switches.{name}" for name in priced_switches())):
        section, _, name = field.partition(".")
        if name not in document.get(section, {}):
            yield field


def other_values(job: Job, field: str) -> list[tuple[Any, str]]:
    """Values and their words."""
    assert job.strategy is not None
    section, _, name = field.partition(".")
    if name.startswith("switches."):
        is_on = name.removeprefix("switches.") in job.document["strategy"]["features"]
        return [(not is_on, str(not is_on).lower())]
    now = job.document[section].get(name)
    if now is None and field in SHOWN:
        now = SHOWN[field](job.workload)
    of_plan = section == "strategy"
    found = others_of_plan(field, job.workload, job.strategy, now) if of_plan else others(field, job.workload, now)
    told = [(other.value, other.text) if isinstance(other, Other) else (other, other) for other in found]
    if name.endswith("_bytes_per_s"):  # every shipped rate is a whole number of MB/s, told as GB/s
        return [(value, f"{value / 1e9:g}GB/s") for value, _ in told]
    return [(v, t if isinstance(t, str) else str(t).lower() if isinstance(t, bool) else f"{t:g}") for v, t in told]


@pytest.mark.parametrize("model", names())
def test_a_default_that_moves_the_step_or_the_peak_of_a_preset_is_told(model: str) -> None:
    document, job = usual_job(model)
    assert job.strategy is not None
    lines, base = by_field(assumption_sentences(job, (), job.strategy, "strategy")), numbers(job)
    stack = job.workload.software.stack
    already = broken(job, stack)
    for field in left_out(document):
        moved: dict[str, float] = {}
        for value, words in other_values(job, field):
            try:
                changed = parse_job(with_field(document, field, value))
            except (InputError, WorkloadError):
                continue
            if broken(changed, stack) - already:
                continue
            found = numbers(changed)
            if isfinite(found.step_time_s):
                step, peak = found.step_time_s / base.step_time_s - 1.0, found.peak_bytes - base.peak_bytes
                moved[words] = max(abs(step) / TOLD_STEP_FRACTION, abs(peak) / TOLD_PEAK_BYTES)
        if moved and max(moved.values()) > 1.0:
            told = lines[field]
            largest = max(moved, key=lambda words: moved[words])
            assert f": {largest} would " in told or max(moved.values()) - moved_by(told, moved) < 1e-6
        elif field in lines:
            assert "(not given)" not in lines[field]


def moved_by(told: str, moved: Mapping[str, float]) -> float:
    """Weight of the value that the sentence names, where several weigh alike."""
    return max(weight for words, weight in moved.items() if f": {words} would " in told)


def test_the_year_of_the_software_is_told_for_the_largest_job() -> None:
    job = parse_job(PANGU)
    assert job.strategy is not None
    found = by_field(estimate_document(job, job.strategy).assumptions)
    with_year = numbers(parse_job({**PANGU, "software": {"year": 2024}})).step_time_s
    slower = 100 * (with_year / numbers(job).step_time_s - 1)
    assert slower > 5
    assert found["software.year"] == (
        "software.year = 2025, mindspeed-llm 2.0 and later (not given): "
        f"2024 would make the step {slower:.1f} % slower, peak +9.8 GiB"  # its experts keep their outputs, which are weighted
    )


def test_what_is_given_has_no_line() -> None:
    job = parse_job(PANGU)
    assert job.strategy is not None
    told = by_field(assumption_sentences(job, (), job.strategy, "strategy"))
    given = {
        "software": {"stack": "mindspeed-llm", "year": 2025, "execution": "eager"},
        "training": {"precision": "bf16"},  # a stated balance would move the step
    }
    strategy = {**PANGU["strategy"], "recompute": "none", "micro_batch_size": 1, "switches": {"flash_attention": True}}
    again = parse_job({**PANGU, **given, "strategy": strategy})
    assert again.strategy == job.strategy
    left = by_field(assumption_sentences(again, (), again.strategy, "strategy"))
    gone = {
        *(f"{section}.{name}" for section, part in given.items() for name in part),
        *(f"strategy.{name}" for name in ("recompute", "micro_batch_size", "switches.flash_attention")),
    }
    assert gone <= set(told)
    assert left == {field: sentence for field, sentence in told.items() if field not in gone}


def test_what_moves_the_answer_most_is_told_first_and_what_cannot_be_tried_last() -> None:
    job = parse_job(SMALL)
    found = assumption_sentences(job, (), job.strategy, "strategy")
    weights = [weight(sentence) for sentence in found]
    measured = [value for value in weights if value is not None]
    assert len(measured) > 5
    for first, second in pairwise(measured):
        assert first >= second - 0.1  # as rounded in the sentences
    assert weights[: len(measured)] == measured
    assert field_of(found[-1]) == "training.train_tokens"


def weight(sentence: str) -> float | None:
    """Of the effect that it tells, 2 % of the step and 1 GiB alike."""
    _, told, effect = sentence.partition(" would ")
    if not told:
        return None
    if effect == "move neither the step nor the peak":
        return 0.0
    step, peak = effect.partition(" %")[0].removeprefix("make the step "), effect.partition("peak ")[2].partition(" GiB")[0]
    return max(0.0 if step.startswith("keep the step") else float(step) / 2, abs(float(peak or 0)))


def test_a_default_without_another_value_that_runs_says_so() -> None:
    job = parse_job(PANGU)  # the stack's framework runs no experts in fp16
    found = by_field(assumption_sentences(job, (), job.strategy, "strategy"))
    assert found["training.precision"].endswith(": not measured, as no other value runs with this strategy")


def test_a_resolved_job_gives_the_same_sentences() -> None:
    job = parse_job(PANGU)
    again = parse_job(job.document)
    assert again.document == job.document
    assert again.assumptions == job.assumptions
    assert assumption_sentences(again, (), again.strategy) == assumption_sentences(job, (), job.strategy)


def test_a_field_that_was_changed_in_a_resolved_job_is_given() -> None:
    document = parse_job(PANGU).document
    changed = parse_job({**document, "software": {**document["software"], "year": 2026}})
    assert "software.year" not in changed.assumed
    assert "software.execution" in changed.assumed


@pytest.mark.parametrize(
    ("assumed", "said"),
    [
        ({"software.yaer": {"value": None, "why": "?"}}, "did you mean 'software.year'"),
        ({"software.year": {"value": None}}, "assumed.software.year.why: missing"),
        ({"software.year": {"why": "two\nlines"}}, "one line"),
        (["software.year"], "a mapping"),
        ({4: {}}, "no known field with a default"),
    ],
)
def test_what_a_job_says_that_it_assumed_is_checked(assumed: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_job({**SMALL, "assumed": assumed})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_search_tells_what_its_plan_owes_to_options_that_it_did_not_try() -> None:
    job = parse_job(SMALL)
    document = search_document(job)
    found = by_field(document.assumptions)
    assert "software.year" in found
    fixed = [sentence for field, sentence in found.items() if field.startswith("search.")]
    assert any("search.flash_attention = true (left to the search): false would make the step" in sentence for sentence in fixed)
    given = parse_job({**SMALL, "search": {**SMALL["search"], "flash_attention": True, "zero_stage": 1}})
    left = by_field(search_document(given).assumptions)
    assert not {"search.flash_attention", "search.zero_stage"} & set(left)
    assert set(left) == set(found) - {"search.flash_attention", "search.zero_stage"}


def test_without_a_plan_the_sentences_stand_as_they_are() -> None:
    job = parse_job({"model": "llama-3.1-405b", "cluster": {"hardware": "v100-sxm-32gb", "num_devices": 1}})
    document = search_document(job)
    assert not document.plans
    assert document.assumptions == list(job.assumptions)


def test_a_very_deep_pipeline_is_not_priced_dozens_of_times() -> None:
    model = {**parse_job(SMALL).document["model"], "num_layers": 2 * MAX_VIRTUAL_STAGES}
    document = {
        **SMALL,
        "model": model,
        "cluster": {"hardware": "atlas-800t-a2", "num_devices": 2 * MAX_VIRTUAL_STAGES},
        "training": {"seq_length": 4096, "global_batch_size": 512},
        "strategy": {"pp": 2 * MAX_VIRTUAL_STAGES},
    }
    job = parse_job(document)
    assert assumption_sentences(job, (), job.strategy, "strategy") == list(job.assumptions)


@pytest.mark.parametrize(
    ("effect", "long", "short"),
    [
        (
            _Effect("8", 0.123, 2 * GIB, None),
            "make the step 12.3 % slower, peak +2.0 GiB",
            ": step +12.3 %, peak +2.0 GiB",
        ),
        (_Effect("8", -0.123, 0.01 * GIB, None), "make the step 12.3 % faster", ": step -12.3 %"),
        (_Effect("8", 0.0, -2 * GIB, None), "keep the step, peak -2.0 GiB", ": peak -2.0 GiB"),
        (_Effect("8", 0.5, 0.0, True), "make the step 50.0 % slower, which fits", ": step +50.0 %, fits"),
        (
            _Effect("8", 0.0, 90 * GIB, False),
            "keep the step, peak +90.0 GiB, which does not fit",
            ": peak +90.0 GiB, too large",
        ),
        (
            _Effect("8", 0.0, 0.0, None),
            "move neither the step nor the peak",
            " would move neither the step nor the peak",
        ),
    ],
)
def test_what_does_not_move_is_not_told(effect: _Effect, long: str, short: str) -> None:
    told = Assumption("training.seq_length", 4, "(not given)").sentence()
    sentence = Sentence("{}: {}", told, effect.sentence())
    assert sentence == f"training.seq_length = 4 (not given): 8 would {long}"
    assert brief(sentence).replace(" = 4; 8", " = 4: 8") == f"training.seq_length = 4: 8{short}"
