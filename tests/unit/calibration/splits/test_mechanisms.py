"""Forms of attention are mechanisms of a step time and of a peak; unmeasured ones widen the interval."""

from typing import Any

import pytest

from app.jobs.job import parse_job
from calibration.files.calibrations import shipped_calibration
from calibration.splits.mechanisms import kept_mechanisms, workload_mechanisms
from cost_models.shapes.workload import Workload

FORMS = {"latent attention", "sparse attention", "state spaces", "linear attention", "attention in windows"}


def job(model: str, seq_length: int = 4096, **others: Any) -> Workload:
    cluster = {"hardware": "h100-sxm-80gb", "num_devices": 8}
    training = {"seq_length": seq_length, "global_batch_size": 64, **others}
    return parse_job({"model": model, "cluster": cluster, "training": training}).workload


@pytest.mark.parametrize(
    ("model", "forms"),
    [
        ("llama-2-7b", set()),
        ("deepseek-v3", {"latent attention"}),
        ("deepseek-v3.2", {"latent attention", "sparse attention"}),
        ("nemotron-h-8b", {"state spaces"}),
        ("qwen3-next-80b-a3b", {"linear attention"}),
        ("gpt-oss-20b", {"attention in windows"}),
    ],
)
def test_both_sets_have_the_forms_of_attention(model: str, forms: set[str]) -> None:
    assert workload_mechanisms(job(model)) & FORMS == forms
    assert kept_mechanisms(job(model)) & FORMS == forms


def test_a_window_that_covers_the_sequence_is_full_attention() -> None:
    assert "attention in windows" in workload_mechanisms(job("gpt-oss-20b", 129))
    assert "attention in windows" not in workload_mechanisms(job("gpt-oss-20b", 128))


@pytest.mark.parametrize(("model", "form"), [("nemotron-h-8b", "state spaces"), ("qwen3-next-80b-a3b", "linear attention")])
def test_a_form_without_a_measured_run_is_said_and_widens_the_interval(model: str, form: str) -> None:
    calibration, plain = shipped_calibration("gpu"), job("llama-2-7b")
    found, usual = calibration.interval(job(model), 1.0), calibration.interval(plain, 1.0)
    assert any("mechanism unseen" in each and form in each for each in found.extrapolated)
    assert not any("mechanism unseen" in each for each in usual.extrapolated)


@pytest.mark.parametrize("family", ["gpu", "ascend"])
def test_windows_are_in_measured_runs_of_both_families(family: str) -> None:
    assert "attention in windows" in shipped_calibration(family).mechanisms


@pytest.mark.parametrize(
    ("training", "mechanisms"),
    [
        ({"task": "sft"}, set()),  # the work of pre-training
        ({"task": "lora", "adapter": {"rank": 16}}, {"adapters on weights in bf16"}),
        ({"task": "qlora", "adapter": {"rank": 16}}, {"adapters on weights in nf4"}),
        ({"task": "dpo"}, {"task dpo"}),
        ({"task": "dpo", "adapter": {"rank": 16}}, {"task dpo", "adapters on weights in bf16"}),
    ],
)
def test_a_task_without_a_measured_run_is_said_and_widens_the_interval(training: dict[str, Any], mechanisms: set[str]) -> None:
    calibration = shipped_calibration("gpu")
    plain, other = job("llama-2-7b"), job("llama-2-7b", **training)
    assert workload_mechanisms(other) - workload_mechanisms(plain) == mechanisms
    found, usual = calibration.interval(other, 1.0), calibration.interval(plain, 1.0)
    assert all(any("mechanism unseen" in each and name in each for each in found.extrapolated) for name in mechanisms)
    assert (found.high_s > usual.high_s) == bool(mechanisms)
