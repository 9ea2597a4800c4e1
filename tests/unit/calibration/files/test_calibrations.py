import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration.files.calibrations import (
    FAMILIES,
    FORMAT,
    Calibration,
    calibration_for,
    calibration_text,
    parse_calibration,
    read_calibration,
    rounded,
    shipped_calibration,
    write_calibration,
)
from calibration.procedure.free_constants import free_constants
from calibration.records.training import RunRecord
from cost_models.constants import CONSTANTS, prior_constants
from documents.bounds import CALIBRATION_BYTES
from documents.errors import InputError

Read = Callable[..., RunRecord]
Change = Callable[[dict[str, Any]], object]


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path, again = tmp_path / "a.json", tmp_path / "b.json"
    write_calibration(path, shipped_calibration("ascend"))
    found = read_calibration(path)
    assert found == shipped_calibration("ascend")
    write_calibration(again, found)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_shipped_constants_lie_within_their_bounds_and_say_what_made_them(family: str) -> None:
    calibration = shipped_calibration(family)
    bounds = {c.name: (c.low, c.high) for c in CONSTANTS}
    for entry in calibration.fitted:
        low, high = bounds[entry.name]
        assert low <= entry.value <= high
        assert 0.0 < entry.log_spread <= entry.prior_log_spread
        assert entry.value == rounded(entry.value)
    assert calibration.command == "make calibration"
    assert calibration.num_runs == sum(c.num_runs for c in calibration.coverage)
    assert {b.kind for b in calibration.bands} == {"all", "dense", "moe", "long", "slice"}
    assert all(b.low < 0.0 < b.high for b in calibration.bands)


@pytest.mark.parametrize("family", FAMILIES)
def test_shipped_calibrations_keep_to_the_budget_of_constants(family: str) -> None:
    calibration = shipped_calibration(family)
    assert len(free_constants(family, [])) <= 12
    for stack in {c.stack for c in calibration.coverage}:
        assert len(free_constants(family, [stack])) - len(free_constants(family, [])) <= 3
    assert tuple(f.name for f in calibration.fitted) == free_constants(family, [c.stack for c in calibration.coverage])


def test_constants_are_the_priors_with_the_fitted_values() -> None:
    calibration = shipped_calibration("ascend")
    fitted = {entry.name: entry.value for entry in calibration.fitted}
    assert calibration.constants == prior_constants("ascend").with_values(fitted)


def test_the_fingerprint_names_the_content() -> None:
    calibration = shipped_calibration("ascend")
    assert calibration.fingerprint == shipped_calibration("ascend").fingerprint
    assert replace(calibration, num_runs=1).fingerprint != calibration.fingerprint
    assert len(calibration.fingerprint) == 12


def test_a_sites_calibration_applies_to_its_hardware_and_stack_alone(read: Read) -> None:
    site = replace(shipped_calibration("ascend"), hardware="atlas-900-a2-podc", stack="mindspeed-llm")
    workload = read().workload
    assert calibration_for(workload, [site]) is site
    elsewhere = replace(workload, software=replace(workload.software, stack="mindformers"))
    assert calibration_for(elsewhere, [site]) == shipped_calibration("ascend")
    assert calibration_for(workload) == shipped_calibration("ascend")


def document(change: Change) -> str:
    content = json.loads(calibration_text(shipped_calibration("ascend")))
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            lambda d: d.update(format="meshplan-calibration/9"),
            f"format: 'meshplan-calibration/9' is not allowed; give {FORMAT}.",
        ),
        (lambda d: d.update(family="tpu"), "family: 'tpu' is not allowed (did you mean 'gpu'?); give one of ascend, gpu."),
        (lambda d: d.pop("bands"), "bands: missing; give a list (a mapping with kind, low, high, num_runs each)."),
        (lambda d: d.update(bands=None), "bands: missing; give a list"),
        (lambda d: d["bands"].append(None), "null is not allowed; give a mapping with kind"),
        (lambda d: d["bands"][1].update(kind=[]), "bands[1].kind: [] is not allowed; give text."),
        (lambda d: d["bands"][1].update(num_runs=-1), "bands[1].num_runs: -1 is not allowed; give an integer from 0"),
        (lambda d: d.update(bands=d["bands"][1:]), "bands: the entry of kind 'all' is missing."),
        (
            lambda d: d["fitted"][0].update(value=2.0),
            "fitted[0].value: 2.0 is not allowed; give 0.4995 to 1.15115 for matmul",
        ),
        (lambda d: d["fitted"][0].update(value=True), "fitted[0].value: true is not allowed; give a number."),
        (lambda d: d["fitted"][0].update(value=float("nan")), "NaN is not a finite number."),
        (lambda d: d["fitted"][0].update(name="luck"), "fitted[0].name: 'luck' is no constant of this version"),
        (lambda d: d["fitted"][0].update(name=["luck"]), "fitted[0].name: ['luck'] is not allowed; give text."),
        (lambda d: d["fitted"][0].update(extra=1), "fitted[0].extra: unknown key; allowed: name, value"),
        (lambda d: d["bands"][0].update(low="wide"), "bands[0].low: 'wide' is not allowed; give a number from -10 to 10."),
        (lambda d: d["bands"][0].update(high=800.0), "bands[0].high: 800.0 is not allowed; give a number from -10 to 10."),
        (lambda d: d["coverage"][0].update(max_devices=None), "coverage[0].max_devices: missing; give an integer from 0"),
        (lambda d: d.update(hardware=7), "hardware: 7 is not allowed; give text."),
        (lambda d: d.update(num_runs="many"), "num_runs: 'many' is not allowed; give an integer from 0"),
        (lambda d: d.pop("num_runs"), "num_runs: missing; give an integer from 0"),
        (lambda d: d.update(command=None), "command: missing; give text."),
    ],
)
def test_a_broken_file_is_refused_with_one_sentence(change: Change, part: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_calibration(document(change), "mine.json")
    assert str(refusal.value).startswith("mine.json")
    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000])
def test_what_is_no_calibration_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^mine\.json: "):
        parse_calibration(text, "mine.json")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.json", tmp_path / "binary.json"
    large.write_bytes(b" " * (CALIBRATION_BYTES + 1))
    binary.write_bytes(b"\xff\xfe")
    for path, part in ((large, "larger than"), (binary, "UTF-8"), (tmp_path / "none.json", "no such file")):
        with pytest.raises(InputError, match=part):
            read_calibration(path)


def test_values_keep_four_digits() -> None:
    assert (rounded(0.123456), rounded(4.98765e-05), rounded(123456.0)) == (0.1235, 4.988e-05, 123500.0)
    assert isinstance(shipped_calibration("ascend"), Calibration)
