"""Each field that a job may leave out has other values that an answer tries, or a reason why there are none."""

from __future__ import annotations

import numpy as np
import pytest

from app.jobs.defaults import (
    KEEP_PEAK,
    OF_STRATEGY,
    OF_WORKLOAD,
    SHOWN,
    WITHOUT_OTHERS,
    fields_with_defaults,
    others,
    others_of_plan,
    usual_others,
)
from app.jobs.job import parse_job
from cost_models.layer.compute import release_years
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.step.composition import estimate
from tests.workloads import constants


@pytest.mark.parametrize("field", fields_with_defaults())
def test_a_field_with_a_default_has_other_values_or_a_reason_why_not(field: str) -> None:
    entries = [table for table in (OF_WORKLOAD, OF_STRATEGY, WITHOUT_OTHERS) if field in table]
    assert len(entries) == 1 or (not entries and usual_others(field) is not None), (
        f"{field}: the type does not say what else it could be; give it an entry in app/jobs/defaults.py"
    )


def test_the_tables_name_fields_of_a_job() -> None:
    assert {*OF_WORKLOAD, *OF_STRATEGY, *WITHOUT_OTHERS, *SHOWN} <= set(fields_with_defaults())


@pytest.mark.parametrize("field", sorted(KEEP_PEAK))
@pytest.mark.parametrize("model", ["qwen3-8b", "deepseek-v3"])
def test_what_is_said_to_move_times_alone_keeps_the_peak(field: str, model: str) -> None:
    document = {"model": model, "cluster": {"hardware": "atlas-800t-a2", "num_devices": 512}}
    section, _, name = field.partition(".")
    strategies = [
        ParallelStrategy(tp=2, pp=4, ep=ep, dp=64, micro_batch_size=2) for ep in ((1, 8) if model != "qwen3-8b" else (1,))
    ]

    def found(value: float) -> list[float]:
        job = parse_job({**document, section: {**document.get(section, {}), name: value}})  # type: ignore[dict-item]
        batch = StrategyBatch.of(strategies)
        priced = estimate(job.workload, batch, constants())
        return [*priced.peak_memory_bytes, *priced.fits]

    values = (1e10, 2e10) if name == "inter_node_bytes_per_s" else (1.0, 2.0) if name == "oversubscription" else (1.0, 0.5)
    assert found(values[0]) == found(values[1])


def test_the_type_of_a_field_says_what_else_it_could_be() -> None:
    assert usual_others("strategy.sequence_parallel") == (True, False)
    assert usual_others("software.fp32_parameters") == (True,)
    assert usual_others("software.execution") == ("eager", "graph")
    assert usual_others("strategy.vpp") == (2,)
    assert usual_others("training.seq_length") is None  # an integer without a default: which would be the other one
    assert usual_others("cluster.oversubscription") is None


@pytest.mark.parametrize(
    ("hardware", "software", "unknown", "tried"),
    [
        ("atlas-800t-a2", "mindspeed-llm", 2025, (2024,)),
        ("atlas-800t-a2", "mindformers", 2025.25, (2024, 2024.5)),
        ("h100-sxm-80gb", "fsdp", 2026, (2023,)),
        ("h100-sxm-80gb", "nemo", 2026, ()),
    ],
)
def test_a_year_is_tried_for_each_price_that_a_release_of_unknown_date_could_have(
    hardware: str, software: str, unknown: float, tried: tuple[float, ...]
) -> None:
    document = {"model": "qwen3-8b", "cluster": {"hardware": hardware, "num_devices": 8}, "software": {"stack": software}}

    def step_time_s(year: float | None) -> float:
        stack = {"stack": software} if year is None else {"stack": software, "year": year}
        workload = parse_job({**document, "software": stack}).workload
        values = constants(recent_eager_factor=0.9, early_graph_factor=1.2)
        return float(estimate(workload, StrategyBatch.of([ParallelStrategy(dp=8)]), values).step_time_s[0])

    assert release_years(parse_job(document).workload) == (unknown, tried)
    assert step_time_s(unknown) == step_time_s(None)
    prices = {step_time_s(year) for year in np.arange(2019, 2031, 0.25).tolist()}
    assert prices == {step_time_s(year) for year in (unknown, *tried)}
    assert len(prices) == 1 + len(tried)


def test_a_value_is_not_its_own_other() -> None:
    job = parse_job({"model": "mixtral-8x7b", "cluster": {"hardware": "h100-sxm-80gb", "num_devices": 8}})
    assert list(others_of_plan("strategy.zero_stage", job.workload, ParallelStrategy(), 1)) == [0, 2, 3]
    assert "loss-free" not in others("training.router_balance", job.workload, "loss-free")
    assert "megatron-lm" not in others("software.stack", job.workload, "megatron-lm")
