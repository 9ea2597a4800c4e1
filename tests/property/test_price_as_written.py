"""A plan costs what its launch file says: nothing that is priced is left out when the plan is written."""

from __future__ import annotations

import numpy as np
import pytest

from app.calibrations.constants import constants_for
from app.jobs.job import parse_job
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate
from frameworks.legality import rules_for
from frameworks.registry import BY_LABEL, parse_target
from search.space.enumeration import Rejections, charge_illegal, chunks
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import memory_saving_forms
from search.space.search_space import search_space

MOST_CHUNKS, ROWS_PER_CHUNK = 60, 4


def _legal_rows(workload: Workload, limits: SearchLimits, seed: int) -> list[ParallelStrategy]:
    """Some legal strategies of the target's lattice, with memory-saving forms of them."""
    draw, rejections, found = np.random.default_rng(seed), Rejections(), []
    rules, space = rules_for(workload.software.target), search_space(workload, limits)
    for number, chunk in enumerate(chunks(workload, space, rejections, 4096)):
        if number == MOST_CHUNKS:
            break
        legal = charge_illegal(workload, chunk.batch, rules, rejections)
        forms = memory_saving_forms(workload.model, legal.take(_some(draw, len(legal))), space.leaner) if len(legal) else None
        lean = legal.take(np.arange(0)) if forms is None else charge_illegal(workload, forms[0], rules, rejections)
        for batch in (legal, lean):
            found += [batch.row(int(row)) for row in _some(draw, len(batch))]
    return found


def _some(draw: np.random.Generator, number: int) -> np.ndarray:
    return draw.choice(number, min(number, ROWS_PER_CHUNK), replace=False)


@pytest.mark.parametrize(
    ("model", "hardware", "num_devices", "target", "limits"),
    [
        ("deepseek-v3", "atlas-800t-a2", 512, "mindspeed-llm", {}),
        ("mixtral-8x7b", "atlas-900-a3-superpod", 64, "mindspeed-llm", {"allow": ["moe_permute_fusion"]}),
        ("qwen3-235b-a22b", "atlas-900-a3-superpod", 256, "mindspeed-llm", {"moe_permute_fusion": [True]}),
        ("gpt3-175b", "atlas-800t-a2", 256, "mindspeed-llm", {}),
        ("deepseek-v3", "h100-sxm-80gb", 512, "megatron-lm@0.12", {}),
        ("deepseek-v3", "h100-sxm-80gb", 512, "megatron-lm@0.19", {}),
        ("deepseek-v3", "atlas-800t-a2", 512, "mindformers", {}),
        ("qwen3-30b-a3b", "atlas-800t-a2", 64, "mindformers", {}),
    ],
)
def test_a_plan_costs_what_its_file_says(
    model: str, hardware: str, num_devices: int, target: str, limits: dict[str, object]
) -> None:
    job = parse_job(
        {
            "model": model,
            "cluster": {"hardware": hardware, "num_devices": num_devices},
            "training": {"seq_length": 8192, "global_batch_size": 1024},
            "software": {"target": target},
            "search": limits,
        }
    )
    workload, framework = job.workload, BY_LABEL[parse_target(target).label]
    planned = _legal_rows(workload, job.limits, num_devices)
    assert len(planned) > 20
    written = [framework.nearest(workload, strategy)[0] for strategy in planned]
    constants = constants_for(workload, [])
    priced, run = (estimate(workload, StrategyBatch.of(batch), constants) for batch in (planned, written))
    np.testing.assert_allclose(run.step_time_s, priced.step_time_s, rtol=1e-9)
    np.testing.assert_allclose(run.peak_memory_bytes, priced.peak_memory_bytes, rtol=1e-9)
