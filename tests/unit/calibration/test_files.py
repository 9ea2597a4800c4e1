import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibration.calibrate import free_constants
from calibration.files import (
    FAMILIES,
    FORMAT,
    MAX_FILE_BYTES,
    Calibration,
    CalibrationError,
    calibration_for,
    calibration_text,
    parse_calibration,
    read_calibration,
    rounded,
    shipped_calibration,
    write_calibration,
)
from calibration.run_records import RunRecord
from cost_models.constants import CONSTANTS, prior_constants

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
        (lambda d: d.update(format="meshplan-calibration/9"), f"format must be {FORMAT!r}"),
        (lambda d: d.update(family="tpu"), "family is 'tpu'; it must be one of ascend, gpu"),
        (lambda d: d.pop("bands"), "bands must be a list of mappings with kind, low, high, num_runs"),
        (lambda d: d.update(bands=None), "bands must be a list"),
        (lambda d: d["bands"].append(None), "bands must be a list of mappings"),
        (lambda d: d["bands"][1].update(kind=[]), "kind of bands[1] is []; it must be text"),
        (lambda d: d["bands"][1].update(num_runs=float("nan")), "num_runs of band"),
        (lambda d: d.update(bands=d["bands"][1:]), "bands lack the entry of kind 'all'"),
        (lambda d: d["fitted"][0].update(value=2.0), "matmul_fraction is 2.0; it must lie in 0.4995 to 1.15115"),
        (lambda d: d["fitted"][0].update(value=True), "matmul_fraction is True"),
        (lambda d: d["fitted"][0].update(value=float("nan")), "matmul_fraction is nan"),
        (lambda d: d["fitted"][0].update(name="luck"), "'luck' is no constant of this version"),
        (lambda d: d["fitted"][0].update(name=["luck"]), "name of fitted[0] is ['luck']; it must be text"),
        (lambda d: d["fitted"][0].update(extra=1), "fitted must be a list of mappings with name, value"),
        (lambda d: d["bands"][0].update(low="wide"), "low of band all is 'wide'"),
        (lambda d: d["bands"][0].update(high=800.0), "high of band all is 800.0; it must lie in -10 to 10"),
        (lambda d: d["coverage"][0].update(max_devices=None), "max_devices of atlas-800t-a2 is None"),
        (lambda d: d.update(hardware=7), "hardware is 7; it must be a name or null"),
        (lambda d: d.update(num_runs="many"), "num_runs is 'many'; it must lie in 0 to 1e+15"),
        (lambda d: d.pop("num_runs"), "num_runs is None"),
        (lambda d: d.update(command=None), "command is None; it must be text"),
    ],
)
def test_a_broken_file_is_refused_with_one_sentence(change: Change, part: str) -> None:
    with pytest.raises(CalibrationError) as refusal:
        parse_calibration(document(change), "mine.json")
    assert str(refusal.value).startswith("mine.json")
    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000])
def test_what_is_no_calibration_is_refused(text: str) -> None:
    with pytest.raises(CalibrationError, match=r"mine\.json is no"):
        parse_calibration(text, "mine.json")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.json", tmp_path / "binary.json"
    large.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    binary.write_bytes(b"\xff\xfe")
    for path, part in ((large, "larger than"), (binary, "not UTF-8"), (tmp_path / "none.json", "No such file")):
        with pytest.raises(CalibrationError, match=part):
            read_calibration(path)


def test_values_keep_four_digits() -> None:
    assert (rounded(0.123456), rounded(4.98765e-05), rounded(123456.0)) == (0.1235, 4.988e-05, 123500.0)
    assert isinstance(shipped_calibration("ascend"), Calibration)
