"""calibration/shipped/*_errors.json holds what this version predicts (`make docs` writes it)."""

import numpy as np

from calibration.files.calibrations import shipped_calibration
from calibration.files.published_errors import published_runs
from calibration.validation.predictions import ValidationReport

ROUNDING = 1e-4  # of what the file keeps


def test_the_errors_are_those_of_the_shipped_constants(family: str, report: ValidationReport) -> None:
    found = published_runs(family)
    assert found.calibration == shipped_calibration(family).fingerprint
    assert [p["id"] for p in found.predictions] == [row.id for row in report.rows] == [r["id"] for r in found.records]
    for name in ("predicted_step_time_s", "predicted_peak_memory_bytes"):
        kept = np.array([p[name] for p in found.predictions], dtype=np.float64)
        now = np.array([getattr(row, name) for row in report.rows], dtype=np.float64)
        np.testing.assert_allclose(kept, now, rtol=ROUNDING, err_msg="run `make docs` and review the diff")
    for name in ("category", "refused"):
        assert [p[name] for p in found.predictions] == [getattr(row, name) for row in report.rows]


def test_the_intervals_hold_as_many_unseen_runs_as_the_page_says(family: str) -> None:
    inside = [p["left_out_inside"] for p in published_runs(family).predictions if p["left_out_inside"] is not None]
    assert len(inside) == shipped_calibration(family).num_runs
    assert 0.7 <= np.mean(inside) <= 0.97  # on Ascend one publication of five holds most shapes: wide for what comes from another
