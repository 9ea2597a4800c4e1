"""Every software stack that a reader returns, a table names or a condition asks for is one of ``traits.STACKS``."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.jobs.fields import SoftwareSection
from calibration.files.calibrations import shipped_calibration
from calibration.procedure.free_constants import ASCEND_STACK_CONSTANTS, GPU_STACK_CONSTANTS
from calibration.records import model as record_model
from calibration.records import software as record_software
from calibration.records import strategy as record_strategy
from calibration.records.sections import Notes
from calibration.records.software import software_stack
from cost_models.shapes.traits import FAMILIES, STACKS, default_stack, family_traits, stacks_of
from frameworks.registry import TARGETS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "benchmarks", "calibration", "frameworks", "scripts", "search")


def asked_for(source: str) -> Iterator[str]:
    """Texts that a condition of the source compares ``stack``, or an attribute of that name, with."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(getattr(side, "id", getattr(side, "attr", None)) == "stack" for side in sides):
                texts = (part for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant))
                yield from (text.value for text in texts if isinstance(text.value, str))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([stack for stack, _ in record_software._STACKS], id="frameworks of run records"),
        pytest.param(record_model._VOCABULARY_MULTIPLE, id="padded vocabularies"),
        pytest.param(record_strategy._MEGATRONS, id="stacks with Megatron's overlap"),
        pytest.param([*ASCEND_STACK_CONSTANTS, *GPU_STACK_CONSTANTS], id="constants of a stack"),
        pytest.param([c.stack for f in ("ascend", "gpu") for c in shipped_calibration(f).coverage], id="shipped calibrations"),
        pytest.param([target.priced_as for target in TARGETS if target.name != "any"], id="targets"),
    ],
)
def test_every_stack_that_a_table_names_is_known(names: list[str]) -> None:
    assert names
    assert set(names) <= set(STACKS)


def test_every_stack_that_a_condition_asks_for_is_known() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {(name, path.name) for path in paths for name in asked_for(path.read_text(encoding="utf-8"))}
    assert len(found) >= 10
    assert [place for place in found if place[0] not in STACKS] == []


def test_a_stack_that_is_misspelt_would_be_seen() -> None:
    source = 'x = stack == "megatron"\ny = software.stack in ("nemo", "fdsp")\nz = name == "other"\n'
    assert list(asked_for(source)) == ["megatron", "nemo", "fdsp"]


def test_a_run_record_is_read_as_any_stack_of_the_table() -> None:
    assert {software_stack(name, "nvidia", Notes("software", [])) for name in STACKS} == set(STACKS)


@pytest.mark.parametrize("family", [*FAMILIES, "tpu"])
def test_what_nobody_named_runs_on_the_usual_stack_of_the_family(family: str) -> None:
    usual = {"ascend": "mindspeed-llm", "gpu": "megatron-lm"}[family_traits(family).priors]
    assert software_stack("in-house", family, Notes("software", [])) == default_stack(family) == usual


def test_a_stack_runs_on_one_kind_of_devices_and_a_job_may_name_it() -> None:
    assert set(stacks_of("ascend")) | set(stacks_of("nvidia")) == set(STACKS)
    assert not set(stacks_of("ascend")) & set(stacks_of("nvidia"))
    assert stacks_of("nvidia") == stacks_of("amd") == stacks_of("tpu")
    assert all(SoftwareSection(stack=name).stack == name for name in STACKS)
