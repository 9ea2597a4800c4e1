"""Devices and stacks are told apart by name in one place."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import cost_models
from cost_models.constants import CONSTANTS, prior_constants
from cost_models.shapes.traits import (
    AMPERE_INSTRUCTION_FRACTION,
    FAMILIES,
    GPU,
    STACKS,
    Generation,
    SoftwareTraits,
    device_traits,
    family_traits,
    software_traits,
)
from hardware_profiles import fields
from hardware_profiles.catalogue import named
from tests.workloads import workload

PHYSICS = Path(cost_models.__file__).parent
NAMES = {*FAMILIES, *STACKS, "gpu", "eager", "graph"}
NUMPY = ast.parse("np", mode="eval").body  # whose `stack` is another
ASKED = {"family", "stack", "execution"}


def told_apart(path: Path) -> list[tuple[str, int]]:
    """Lines that compare one of the names, or ask for it anywhere but where a workload hands it to the tables."""
    found = []
    hands_over = path.name == "workload.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(ast.Module([n for n in ast.walk(tree) if isinstance(n, ast.Compare)], []) if hands_over else tree):
        asks = isinstance(node, ast.Attribute) and node.attr in ASKED and ast.dump(node.value) != ast.dump(NUMPY)
        if asks or (isinstance(node, ast.Constant) and node.value in NAMES):
            found.append((path.relative_to(PHYSICS).as_posix(), node.lineno))
    return found


def test_no_formula_tells_a_family_or_a_stack_by_its_name() -> None:
    paths = [path for path in PHYSICS.rglob("*.py") if path.relative_to(PHYSICS).as_posix() != "shapes/traits.py"]
    assert len(paths) > 40
    assert [line for path in paths for line in told_apart(path)] == []


def test_such_a_line_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PHYSICS", tmp_path)
    for name in ("formula.py", "workload.py"):
        planted = tmp_path / name
        planted.write_text('x = np.stack(y)\nif profile.family == "ascend":\n    z = 1\n', encoding="utf-8")
        assert set(told_apart(planted)) == {(name, 2)}


def test_every_family_that_a_profile_may_have_is_in_the_table() -> None:
    assert set(FAMILIES) == set(fields.FAMILIES)


def test_a_family_nobody_named_has_the_traits_of_a_gpu() -> None:
    assert family_traits("tpu") is GPU
    assert prior_constants("tpu") == prior_constants("nvidia") == prior_constants("amd")
    assert prior_constants("tpu") != prior_constants("ascend")
    assert {family_traits(family).priors for family in FAMILIES} == {"ascend", "gpu"}
    assert all(hasattr(constant, traits.priors) for constant in CONSTANTS for traits in FAMILIES.values())


def test_a_stack_nobody_named_brings_nothing_of_its_own() -> None:
    assert software_traits("in-house", "eager") == SoftwareTraits() == software_traits("maxtext", "eager")


@pytest.mark.parametrize(
    ("name", "generation", "fraction"),
    [
        ("a100-sxm-80gb", Generation.AMPERE, 1.0),
        ("h100-sxm-80gb", Generation.HOPPER, 0.5),
        ("gb200-nvl72", Generation.BLACKWELL, 0.25),
        ("l40s-48gb", Generation.AMPERE, 1.0),  # Ada: FP8 without Hopper's instructions
    ],
)
def test_the_compute_capability_of_a_profile_tells_its_generation(name: str, generation: Generation, fraction: float) -> None:
    traits = device_traits(named(name))
    assert (traits.generation, AMPERE_INSTRUCTION_FRACTION[traits.generation]) == (generation, fraction)
    assert traits.possible_generations == (generation,)


@pytest.mark.parametrize(
    ("family", "capability", "recipes"),
    [  # what the checks of Transformer Engine and of AMD's fork return on such a device
        ("nvidia", 8.0, ()),
        ("nvidia", 8.9, ("delayed", "tensorwise")),
        ("nvidia", 9.0, ("delayed", "tensorwise", "blockwise")),
        ("nvidia", 10.0, ("delayed", "tensorwise", "blockwise", "mxfp8")),
        ("nvidia", 10.3, ("delayed", "tensorwise", "blockwise", "mxfp8")),
        ("nvidia", 12.0, ("delayed", "tensorwise", "blockwise")),
        ("amd", 9.0, ()),
        ("amd", 9.4, ("delayed", "tensorwise")),
        ("amd", 9.5, ("delayed", "tensorwise", "mxfp8")),
        ("amd", 11.0, ()),
        ("amd", 12.5, ("delayed", "tensorwise", "mxfp8")),
    ],
)
def test_the_compute_capability_tells_the_recipes(family: str, capability: float, recipes: tuple[str, ...]) -> None:
    rates = {"bf16": 1e14, "fp8": 2e14}
    profile = replace(named("h100-sxm-80gb"), family=family, compute_capability=capability, matmul_flops_per_s=rates)
    assert device_traits(profile).fp8_recipes == recipes


@pytest.mark.parametrize(
    ("precisions", "generation", "recipes"),
    [
        (("bf16",), Generation.AMPERE, ()),
        (("bf16", "fp8"), Generation.AMPERE, ("delayed", "tensorwise")),  # Ada is older than Hopper
        (("bf16", "fp8", "nvfp4"), Generation.BLACKWELL, ("delayed", "tensorwise", "blockwise", "mxfp8")),
    ],
)
def test_a_gpu_of_unstated_capability_is_the_oldest_with_its_precisions(
    precisions: tuple[str, ...], generation: Generation, recipes: tuple[str, ...]
) -> None:
    rates = dict.fromkeys(precisions, 1e14)
    traits = device_traits(replace(named("b200-sxm-180gb"), compute_capability=None, matmul_flops_per_s=rates))
    assert (traits.generation, traits.fp8_recipes) == (generation, recipes)
    assert not traits.takes_any_layout  # the workstations' Blackwell does not


def test_a_workload_resolves_both_once() -> None:
    job = workload()
    assert job.device_traits is job.device_traits
    assert job.device_traits == device_traits(job.cluster.profile)
    assert job.software_traits.eager
    assert not replace(job, software=replace(job.software, execution="graph")).software_traits.eager
