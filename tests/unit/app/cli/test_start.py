"""Modules that a command imports before it has something to price."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALL = "import sys; from app.cli.main import main; code = main(sys.argv[1:]); print('\\n', code, *sys.modules)"
JOB = ("llama-2-7b", "--hardware", "h100-sxm-80gb", "--devices", "1048576")


def called(*words: str) -> tuple[int, set[str]]:
    """Exit code of a command in a process of its own, and the modules that it imported."""
    found = subprocess.run([sys.executable, "-c", CALL, *words], capture_output=True, text=True, check=True)
    code, *modules = found.stdout.splitlines()[-1].split()
    return int(code), set(modules)


def test_help_imports_neither_numpy_nor_pydantic() -> None:
    code, modules = called("--help")
    assert code == 0
    assert not {"numpy", "pydantic", "frameworks.registry"} & modules


@pytest.mark.parametrize("command", ["search", "estimate"])
def test_a_refused_flag_does_not_import_what_prices(command: str) -> None:
    code, modules = called(command, *JOB)
    assert code == 2
    assert "app.jobs.job" in modules
    late = (
        "app.answers",
        "calibration",
        "search.exhaustive",
        "search.results",
        "cost_models.simulation",
        "cost_models.step.composition",
    )
    assert [name for name in modules if name.startswith(late)] == []


# What reads, fits and judges measured runs, what only a server needs, and what other commands print.
NOT_TO_PRICE = (
    *("calibration.records.", "calibration.validation.predictions", "calibration.fitting.robust_fit"),
    *("calibration.procedure.calibrate", "calibration.leave_out", "app.calibrations.schemas", "app.calibrations.tables"),
    *("app.http", "app.storage", "app.server", "asyncio", "ssl", "fastapi", "httpx", "optuna", "sqlalchemy", "pydantic_settings"),
)


@pytest.mark.parametrize("words", [("search",), ("estimate", "--tp", "2"), ("estimate", "--tp", "2", "--json")])
def test_a_price_imports_nothing_that_only_fits_and_servers_need(words: tuple[str, ...]) -> None:
    job = ("llama-2-7b", "--hardware", "h100-sxm-80gb", "--devices", "8")
    code, modules = called(words[0], *job, *words[1:])
    assert code == 0
    assert "app.answers.price" in modules
    assert sorted(name for name in modules if name.startswith(NOT_TO_PRICE)) == ["calibration.records.categories"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("serving", "search", "qwen3-32b", "--hardware", "atlas-800t-a2", "--devices", "16"), 2),
        (("rl", "search", "no-such-file"), 2),
    ],
)
def test_serving_and_post_training_import_no_database(words: tuple[str, ...], code: int) -> None:
    found, modules = called(*words)
    assert found == code
    assert not modules & {"sqlalchemy", "app.storage.session", "alembic"}
    assert "app.serving.job" in modules or "app.rl.job" in modules
