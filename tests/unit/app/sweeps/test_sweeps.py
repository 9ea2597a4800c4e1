"""A sweep as a document: what each point holds, what the points say together, and what becomes of one that is cut."""

import csv
import io
import os
import signal
from itertools import count
from time import sleep
from typing import Any

import pytest
from rich.console import Console

from app.answers.search import search_document
from app.cli.main import main
from app.jobs.job import parse_job
from app.sweeps.points import Source, job_of, points_of
from app.sweeps.schemas import SweepDocument
from app.sweeps.service import SweepProgress, sweep_document
from app.sweeps.tables import COLUMNS, csv_text, print_sweep
from app.text.json_documents import plain
from documents.errors import InputError
from search.executors.processes import Processes
from search.objectives.table import OBJECTIVES
from search.session.progress import EXPLAIN

JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "precision": "bf16", "train_tokens": 1e12},
    "search": {"tp": [1, 8], "pp": [1, 2], "vpp": 1, "cp": 1, "recompute": ["none", "full"]},
    "delivery": None,
}


def swept(changes: dict[str, Any] | None = None, **tried: Any) -> SweepDocument:
    return sweep_document(Source({**JOB, **(changes or {}), "sweep": tried}))


def test_a_point_is_what_a_search_of_its_job_finds() -> None:
    found = swept(devices=[8, 16])
    assert [(point.point, point.num_devices, point.state) for point in found.points] == [(1, 8, "proved"), (2, 16, "proved")]
    for point in found.points:
        job = parse_job(
            {**JOB, "cluster": {**JOB["cluster"], "num_devices": point.num_devices}, "search": {**JOB["search"], "top": 1}}
        )
        searched = search_document(job)
        fastest = min(plan.estimate.step_time_s for plan in searched.plans)
        assert point.step_time_s == pytest.approx(fastest, rel=1e-9)


def test_linearity_days_energy_and_cost_follow_from_the_step() -> None:
    site = {
        "price_per_device_hour_usd": 2.0,
        "power_w": 400.0,
        "pue": 1.0,
        "host_power_fraction": 0.0,
        "waiting_power_fraction": 1.0,
    }
    search = {**JOB["search"], "objective": "step_time"}
    found = swept(
        {"search": search, "delivery": {**site, "failures_per_node_day": 0.0, "spares": 0, "checkpoint_fixed_s": 0.0}},
        devices=[8, 16],
    )
    small, large = found.points
    assert small.tokens_per_s is not None
    assert large.tokens_per_s is not None
    assert large.linearity_fraction == pytest.approx(large.tokens_per_s / small.tokens_per_s / 2.0)
    assert large.marginal_fraction == pytest.approx(large.tokens_per_s / small.tokens_per_s - 1.0)
    for point in (small, large):
        assert point.tokens_per_s is not None
        assert point.effective_time_fraction is not None
        seconds = 1e12 / point.tokens_per_s / point.effective_time_fraction
        assert point.days == pytest.approx(seconds / 86_400.0)
        assert point.device_days == pytest.approx(seconds / 86_400.0 * point.num_devices)
        assert point.cost_usd == pytest.approx(seconds / 3600.0 * point.num_devices * 2.0)
        # Waiting draws what computing does, so that only the little time outside steps draws less.
        assert point.energy_kwh == pytest.approx(400.0 * point.num_devices * seconds / 3.6e6, rel=1e-3)


def test_without_a_site_nothing_fails() -> None:
    (point,) = swept().points
    assert point.tokens_per_s is not None
    assert point.effective_time_fraction is None
    assert point.days == pytest.approx(1e12 / point.tokens_per_s / 86_400.0)


def test_the_best_point_is_that_of_the_objective_within_the_constraints() -> None:
    free = swept(devices=[8, 16, 32])
    fastest, cheapest = free.points[-1], free.points[0]
    assert free.best is not None
    assert free.best.point == fastest.point
    assert free.best.value == fastest.days
    assert cheapest.days is not None
    search = {**JOB["search"], "objective": "device_hours", "deadline_days": cheapest.days * 0.9}
    bound = swept({"search": search}, devices=[8, 16, 32])
    assert [point.within for point in bound.points] == [False, True, True]
    assert bound.best is not None
    assert bound.best.point == 2
    none = swept({"search": {**search, "deadline_days": 1.0}}, devices=[8, 16])
    assert none.best is None
    assert none.why_none is not None
    assert "the fastest takes" in none.why_none


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_sweep_has_a_best_point_by_every_objective(objective: str) -> None:
    site = {"price_per_device_hour_usd": 2.0, "power_w": 400.0}
    limits = {"tp": 8, "pp": 1, "vpp": 1, "cp": 1, "recompute": "none"}
    found = swept({"search": {**limits, "objective": objective}, "delivery": site}, devices=[8, 16])
    if found.best is None:  # the 80 % interval of a step needs runs
        assert objective == "robust"
        assert found.why_none == "The best by robust is unknown: no point has an interval of the step."
        return
    assert found.best.objective == objective
    planned = {point.point: point for point in found.points}
    by_hand = {
        "step_time": lambda point: point.days,
        "delivered": lambda point: point.days,
        "robust": lambda point: point.days * point.step_time_high_s / point.step_time_s,
        "device_hours": lambda point: point.device_days,
        "cost": lambda point: point.cost_usd,
        "energy": lambda point: point.energy_kwh,
        "memory_headroom": lambda point: -point.headroom_bytes,
    }[objective]
    assert found.best.point == min(planned, key=lambda number: by_hand(planned[number]))
    assert found.best.value == pytest.approx(abs(by_hand(planned[found.best.point])))


def test_the_front_holds_the_fastest_and_the_cheapest() -> None:
    found = swept({"delivery": {"price_per_device_hour_usd": 1.0}}, devices=[8, 16, 32])
    assert found.pareto_of == ["days", "cost_usd"]
    by_days = min(found.points, key=lambda point: point.days or 0.0)
    by_cost = min(found.points, key=lambda point: point.cost_usd or 0.0)
    assert found.pareto[0] == by_days.point
    assert found.pareto[-1] == by_cost.point


def test_points_that_no_plan_fits_or_that_are_no_job_say_why_and_the_others_stay() -> None:
    found = swept(devices=[8], hardware=["atlas-800t-a2", "no-such-hardware"], global_batch_size=[64, 63])
    assert [point.state for point in found.points] == ["proved", "proved", "refused", "refused"]
    assert "no-such-hardware" in (found.points[2].reason or "")
    tight = swept({"search": {**JOB["search"], "min_headroom": "60GiB"}}, devices=[8])
    assert tight.points[0].state == "infeasible"
    assert "No legal strategy fits" in (tight.points[0].reason or "")
    assert (tight.best, tight.why_none) == (None, "No point has a plan.")


def test_a_sweep_of_which_nothing_is_a_job_is_refused() -> None:
    with pytest.raises(InputError, match="no-such-hardware"):
        swept(hardware="no-such-hardware")


@pytest.mark.parametrize(("stop_after", "num_done"), [(0, 1), (1, 1)])
def test_an_interrupt_leaves_the_points_so_far(stop_after: int, num_done: int) -> None:
    calls = count()
    found = sweep_document(
        Source({**JOB, "sweep": {"devices": [8, 16, 32]}}), on_progress=lambda progress: next(calls) < stop_after
    )
    assert found.stopped_by == "interrupt"
    assert (found.num_done, found.num_points) == (num_done, 3)
    assert len(found.points) == num_done


def test_a_time_limit_is_of_all_points_together() -> None:
    found = swept({"search": {**JOB["search"], "time_limit_s": 1e-6}}, devices=[8, 16])
    assert found.stopped_by == "time_limit"
    assert found.num_done == 1


def test_progress_counts_points() -> None:
    seen: list[SweepProgress] = []
    sweep_document(Source({**JOB, "sweep": {"devices": [8, 16]}}), on_progress=lambda progress: seen.append(progress))
    assert {progress.num_done for progress in seen} == {0, 1, 2}
    assert {progress.num_points for progress in seen} == {2}
    # Each point says that it is explained before it is done, and the bar has not come to its end by then.
    told = [progress.num_done for progress in seen[:-1] if progress.phase == EXPLAIN]
    assert told == [0, 1]
    ahead = [progress.done_fraction * 2 - progress.num_done for progress in seen[:-1] if progress.phase == EXPLAIN]
    assert all(0.5 < fraction < 0.8 for fraction in ahead)  # of the way of the point
    fractions = [progress.done_fraction for progress in seen]
    assert fractions == sorted(fractions)


def test_devices_double_or_are_halved_and_stay_below_the_most() -> None:
    def counts(**tried: Any) -> list[int | None]:
        return [point.devices for point in points_of(Source({**JOB, "sweep": tried}))]

    assert counts(devices={"min": 8, "max": 70}) == [8, 16, 32, 64]
    assert counts(devices=[32, 8, 8]) == [8, 32]
    assert counts(devices_at_most=100) == [6, 12, 25, 50, 100]
    assert counts(devices={"min": 8, "max": 64}, devices_at_most=20) == [8, 16]
    assert counts() == [None]
    with pytest.raises(InputError, match="above devices_at_most"):
        counts(devices=[64], devices_at_most=8)
    with pytest.raises(InputError, match="more than 1,024"):
        counts(devices=list(range(1, 200)), seq_length=list(range(1, 200)))


def test_the_batch_grows_with_the_devices() -> None:
    source = Source({**JOB, "sweep": {"devices": [8, 12], "scale_batch": True}})
    assert [point.global_batch_size for point in points_of(source)] == [64, 96]
    with pytest.raises(InputError, match="no whole number"):
        points_of(Source({**JOB, "sweep": {"devices": [7, 8], "scale_batch": True}}))
    found = swept(devices=[8, 16], scale_batch=True)
    assert len(found.curves) == 1
    assert found.points[1].linearity_fraction is not None


def test_another_hardware_takes_its_own_defaults() -> None:
    resolved = parse_job({**JOB, "training": {"seq_length": 4096, "global_batch_size": 64}}).document
    source = Source({**resolved, "sweep": {"hardware": ["atlas-800t-a2", "h100-sxm-80gb"]}})
    ascend, nvidia = (job_of(source, point).workload.software.stack for point in points_of(source))
    assert (ascend, nvidia) == ("mindspeed-llm", "megatron-lm")


def test_software_is_a_stack_or_a_part_of_the_job() -> None:
    source = Source({**JOB, "sweep": {"software": ["mindformers", {"time_factor": 1.1}]}})
    stacks = [job_of(source, point).workload.software for point in points_of(source)]
    assert [(each.stack, each.time_factor) for each in stacks] == [("mindformers", 1.0), ("mindspeed-llm", 1.1)]


def test_a_sweep_reads_on_a_terminal_and_in_a_spreadsheet() -> None:
    found = swept({"search": {**JOB["search"], "deadline_days": 1.0}}, devices=[8, 16], seq_length=[2048, 4096])
    console = Console(width=200, record=True, file=io.StringIO())
    print_sweep(console, found)
    text = console.export_text()
    assert "4 of 4 points" in text
    assert "beyond the deadline" in text
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))
    assert len(rows) == 4
    assert set(COLUMNS) < set(rows[0])
    assert float(rows[1]["step_time_s"]) == found.points[1].step_time_s
    days = found.points[1].intervals["days"]
    assert [float(rows[1][name]) for name in ("days_low", "days_high")] == [days.low, days.high]
    assert not any("{" in value for row in rows for value in row.values())
    assert float(rows[0]["fit_limit_bytes"]) < float(rows[0]["peak_memory_bytes"]) + float(rows[0]["headroom_bytes"])
    assert rows[0]["tp"] == str(plain(found)["points"][0]["strategy"]["tp"])


def test_a_sampler_proves_nothing_and_is_refused() -> None:
    with pytest.raises(InputError, match="sampler"):
        swept({"search": {"sampler": "random"}})


@pytest.mark.parametrize("given", [{"refine": 8}, {"by_tensor": True}, {"seed": 3}, {"max_trials": 5}, {"refine_front": True}])
def test_an_option_that_a_sweep_does_not_read_is_refused(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(InputError, match=f"search.{name}: a sweep does not read it"):
        swept({"search": {**JOB["search"], **given}})


def test_the_answer_of_two_processes_is_that_of_one_though_one_is_killed() -> None:
    source = Source({**JOB, "sweep": {"devices": [8, 16, 32], "global_batch_size": [64, 128, 63]}})
    pool, killed = Processes(2), set[int]()
    try:
        while not pool.room:
            sleep(0.05)

        def kill_once(progress: SweepProgress) -> None:
            if progress.num_done >= 2 and not killed and pool.pids:
                killed.update(pool.pids)
                os.kill(pool.pids[0], signal.SIGKILL)

        found = sweep_document(source, on_progress=kill_once, executor=pool)
    finally:
        pool.close()
    assert killed
    alone = sweep_document(source)
    assert [point.point for point in found.points] == list(range(1, 10))
    assert found.model_copy(update={"elapsed_s": 0.0}) == alone.model_copy(update={"elapsed_s": 0.0})


def test_counts_a_step_apart() -> None:
    source = Source({**JOB, "sweep": {"devices": {"min": 512, "max": 4096, "step": 128}}})
    assert [point.devices for point in points_of(source)] == [512 + 128 * number for number in range(29)]
    with pytest.raises(InputError, match="points are more than"):
        points_of(Source({**JOB, "sweep": {"devices": {"min": 1, "max": 10**6, "step": 1}}}))


def test_a_deadline_is_met_with_its_confidence() -> None:
    plain_days = swept(devices=[8]).points[0]
    assert plain_days.days is not None
    assert plain_days.step_time_s is not None
    assert plain_days.step_time_high_s is not None
    # A tenth of the steps are longer than the upper end of the 80 % interval.
    ratio = plain_days.step_time_high_s / plain_days.step_time_s
    deadline = plain_days.days * ratio
    search = {**JOB["search"], "deadline_days": deadline}
    met, missed = (swept({"search": search}, devices=[8], deadline_confidence=each) for each in (0.899, 0.901))
    assert met.points[0].within_probability == pytest.approx(0.9)
    assert (met.points[0].within, missed.points[0].within) == (True, False)
    assert met.best is not None
    assert "with a probability of 90%" in met.best.why
    assert missed.best is None
    assert missed.why_none is not None
    assert swept({"search": search}, devices=[8]).points[0].within
    # Without a confidence, the days that are sure with 80 %: 0.8416 of 1.2816 standard deviations.
    assert plain_days.sure_days == pytest.approx(plain_days.days * ratio ** (0.841621 / 1.281552), rel=1e-5)
    assert plain_days.within_probability is None


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("512..4096:128", {"min": 512, "max": 4096, "step": 128}),
        ("512..8192", {"min": 512, "max": 8192}),
        ("512,768", [512, 768]),
    ],
)
def test_counts_of_the_command_line(text: str, devices: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Source] = []

    def found(source: Source, *_: Any, **__: Any) -> None:
        asked.append(source)
        raise InputError("stop")

    monkeypatch.setattr("app.sweeps.service.sweep_document", found)
    assert main(["sweep", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", text, "--deadline-confidence", "0.8"]) == 2
    tried = {"hardware": ["atlas-800t-a2"], "devices": devices, "deadline_confidence": 0.8}
    assert asked[0].document["sweep"] == tried


@pytest.mark.parametrize("text", ["512:128", "512..:128", "512..4096:x", "512..4096:0"])
def test_counts_that_are_none_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", text]) == 2
    assert "devices" in capsys.readouterr().err
