"""What files of frameworks can state of a plan by tensor: it fits, costs what it says, and no other recompute is faster."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from app.calibrations.constants import constants_for
from app.jobs.job import Job, parse_job
from cost_models.shapes.canonical import canonical
from cost_models.shapes.recompute_modules import RecomputeModule
from cost_models.shapes.strategy import ParallelStrategy, Recompute, StrategyBatch
from cost_models.shapes.switches import Feature
from cost_models.shapes.workload import Workload
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from frameworks.legality import violations
from frameworks.registry import BY_LABEL
from search.tensor_choice.exports import Export, exports, nearest_by_tensor
from search.tensor_choice.tensor_plan import with_tensors

GPU, ASCEND = "h100-sxm-80gb", "atlas-800t-a2"
JOBS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("qwen3-30b-a3b", GPU, 64, {"tp": 1, "pp": 4, "ep": 8, "micro_batch_size": 2}),
    ("llama-3.1-70b", GPU, 64, {"tp": 4, "pp": 4}),
    ("qwen3-32b", ASCEND, 64, {"tp": 4, "pp": 4, "vpp": 2, "micro_batch_size": 2}),
    ("qwen3-30b-a3b", ASCEND, 64, {"tp": 2, "pp": 4, "ep": 8, "micro_batch_size": 2}),
    ("qwen3-8b", ASCEND, 16, {"tp": 2, "pp": 4, "micro_batch_size": 2}),
]


def asked(model: str, hardware: str, devices: int, strategy: dict[str, Any], target: str = "any") -> Job:
    return parse_job(
        {
            "model": model,
            "cluster": {"hardware": hardware, "num_devices": devices},
            "training": {"seq_length": 8192, "global_batch_size": 256},
            "software": {"target": target},
            "strategy": strategy,
        }
    )


def found(job: Job) -> tuple[ParallelStrategy, tuple[Export, ...]]:
    assert job.strategy is not None
    of_job = constants_for(job.workload, ())
    answer = with_tensors(job.workload, job.strategy, of_job)
    assert answer is not None
    assert answer.strategy.tensor_plan is not None
    return answer.strategy, exports(job.workload, answer.strategy, of_job, simulate)


@pytest.mark.parametrize(("model", "hardware", "devices", "strategy"), JOBS)
def test_a_file_read_again_costs_what_its_export_says_and_fits(
    model: str, hardware: str, devices: int, strategy: dict[str, Any]
) -> None:
    job = asked(model, hardware, devices, strategy)
    plan, all_of_them = found(job)
    written = [each for each in all_of_them if each.launch is not None]
    assert len(written) == 2
    assert all(each.estimate is None and "nothing near it" in each.why for each in all_of_them if each.launch is None)
    for each in written:
        assert each.estimate is not None
        assert each.launch is not None
        assert each.difference_fraction is not None
        assert each.difference_fraction > -1e-9  # a file that says less is no faster
        read = BY_LABEL[each.target].read_job(each.launch["arguments"], devices)
        again = canonical(job.workload, replace(read.strategy, dp=devices // (read.strategy.tp * read.strategy.pp)))
        assert read.unread == ()
        assert not violations(job.workload, again, each.target)
        of_file = asked(model, hardware, devices, strategy, each.target).workload
        if of_file.software.stack != job.workload.software.stack:  # prices are those of the job's stack
            of_file = job.workload
        price = simulate(of_file, StrategyBatch.of([again, plan]), constants_for(of_file, ()))
        assert price.fits[0]
        assert float(price.step_time_s[0]) == pytest.approx(each.estimate["step_time_s"], rel=1e-9)
        assert each.difference_fraction == pytest.approx(price.step_time_s[0] / price.step_time_s[1] - 1.0, abs=1e-9)
        assert float(price.peak_memory_bytes[0]) == pytest.approx(each.estimate["peak_memory_bytes"], rel=1e-9)


def test_no_recompute_of_modules_that_fits_is_faster_than_the_export() -> None:
    """Each set of modules of core 0.12, and each number of whole layers, asked for as a job."""
    model, hardware, devices, strategy = JOBS[1]
    _, all_of_them = found(asked(model, hardware, devices, strategy))
    export = next(each for each in all_of_them if each.target == "megatron-lm@0.12")
    assert export.estimate is not None
    names = ("core_attn", "layernorm", "mlp_act", "mlp")
    ways: list[dict[str, Any]] = [
        {"granularity": "selective", "modules": list(some)} for size in (1, 2, 3, 4) for some in combinations(names, size)
    ]
    ways += [{"granularity": "full", "method": "block", "num_layers": layers} for layers in range(1, 21)]
    jobs = [asked(model, hardware, devices, {**strategy, "recompute": way}, "megatron-lm@0.12") for way in ways]
    plans = [job.strategy for job in jobs if job.strategy is not None and not violations(job.workload, job.strategy)]
    assert len(plans) > 20
    price = estimate(jobs[0].workload, StrategyBatch.of(plans), constants_for(jobs[0].workload, ()))
    assert price.fits.any()
    best_s = float(price.step_time_s[price.fits].min())
    assert export.estimate["step_time_s"] <= best_s * 1.002  # the simulated step beside the closed form


def test_offloading_makes_a_file_of_core_0_19_faster_than_one_of_0_12() -> None:
    _, all_of_them = found(asked(*JOBS[0]))
    of = {each.target: each for each in all_of_them}
    older, newer = (of[f"megatron-lm@{release}"] for release in ("0.12", "0.19"))
    assert older.difference_fraction is not None
    assert newer.difference_fraction is not None
    assert newer.difference_fraction < older.difference_fraction
    assert newer.launch is not None
    assert "--fine-grained-activation-offloading" in newer.launch["arguments"]
    assert "swap of" in newer.why


def test_mindspeed_counts_the_layers_whose_norms_it_recomputes_where_all_would_be_more_than_needed() -> None:
    _, all_of_them = found(asked(*JOBS[4]))
    export = next(each for each in all_of_them if each.target == "mindspeed-llm@master")
    assert export.launch is not None
    assert export.difference_fraction is not None
    arguments = export.launch["arguments"]
    layers = int(arguments[arguments.index("--recompute-norm-num-layers") + 1])
    assert 0 < layers < 9
    assert export.difference_fraction < 0.001


def test_a_plan_that_a_framework_takes_is_exported_as_it_is() -> None:
    shares = [{"recompute": ["mlp_activation"], "swap": [], "layers": 3}, {"recompute": [], "swap": []}]
    job = asked("qwen3-8b", ASCEND, 8, {"tp": 2, "pp": 2, "tensor_plan": [[{"dense": shares}, {}]]})
    assert job.strategy is not None
    of_job = constants_for(job.workload, ())
    found_of = {each.target: each for each in exports(job.workload, job.strategy, of_job, simulate)}
    same = found_of["mindformers@1.8"]
    assert same.why == "mindformers@1.8 takes the plan as it is."
    assert same.difference_fraction == pytest.approx(0.0, abs=1e-12)
    assert same.strategy is not None
    assert same.strategy["tensor_plan"][0][0] == {"dense": shares}


def test_the_difference_is_between_prices_of_one_release() -> None:
    """The plan takes less time in core 0.12 than in the newest one, and the file is priced in 0.12."""
    job = asked(*JOBS[0])
    plan, all_of_them = found(job)
    export = next(each for each in all_of_them if each.target == "megatron-lm@0.12")
    assert export.estimate is not None
    of_release = asked(*JOBS[0], "megatron-lm@0.12").workload
    newest_s, older_s = (
        float(simulate(each, StrategyBatch.of([plan]), constants_for(each, ())).step_time_s[0])
        for each in (job.workload, of_release)
    )
    assert abs(older_s / newest_s - 1.0) > 1e-3
    assert export.difference_fraction == pytest.approx(export.estimate["step_time_s"] / older_s - 1.0, rel=1e-9)


def test_sentences_on_other_recompute_than_the_file_has_are_left_out() -> None:
    """Forms give way one by one: of several that end alike, those with more modules say that these are left out."""
    label = "mindspeed-llm@master"
    strategy = {"tp": 2, "pp": 4, "ep": 8, "micro_batch_size": 4, "switches": {"moe_comm_overlap": True}}
    job = asked("qwen3-30b-a3b", ASCEND, 64, strategy)
    of_job = constants_for(job.workload, ())
    answer = with_tensors(job.workload, job.strategy, of_job) if job.strategy is not None else None
    assert answer is not None
    framework = BY_LABEL[label]

    def nearest(workload: Workload, form: ParallelStrategy) -> tuple[ParallelStrategy, tuple[str, ...]]:
        keeps_all = form.recompute is Recompute.NONE and Feature.SWAP_ATTENTION not in form.features
        return (form, ()) if keeps_all else framework.nearest(workload, form)  # so all forms have moe_comm_overlap at first

    late = replace(framework, nearest=nearest)
    written = nearest_by_tensor(late, job.workload, answer.strategy, of_job, simulate)
    assert written is not None
    assert written.strategy.recompute_modules == RecomputeModule.MOE
    (sentence,) = written.replaced
    assert sentence.startswith("Not as planned: moe_comm_overlap is left out")
