"""docs/accuracy.md and the README's line were written from the calibrations that ship (`make docs`)."""

import re
from pathlib import Path

import numpy as np
import pytest

from calibration.files.calibrations import FAMILIES, shipped_calibration

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("family", FAMILIES, scope="session")
def test_the_page_shows_the_shipped_intervals(family: str) -> None:
    (band,) = (b for b in shipped_calibration(family).bands if b.kind == "all")
    width = f"{100 * np.expm1(band.low):+.0f} % to {100 * np.expm1(band.high):+.0f} %"
    (row,) = re.findall(rf"^\| {family}, all \| (\d+) \| (?:\d+(?: %)? \| )+(.* to .*) \|$", PAGE, re.MULTILINE)
    assert row == (str(shipped_calibration(family).num_runs), width)


@pytest.mark.parametrize("family", FAMILIES, scope="session")
def test_the_page_shows_the_shipped_constants(family: str) -> None:
    ablations = PAGE.partition("## Ablations\n")[2].partition(f"\n{family} (")[2].partition("\n\nWithout effect")[0]
    shown = dict(re.findall(r"^\| `(\w+)` \| fitted \| ([^ ]+) \|", ablations, re.MULTILINE))
    values = {entry.name: entry.value for entry in shipped_calibration(family).fitted}
    assert len(shown) >= 3
    assert {name: float(value) for name, value in shown.items()} == {name: values[name] for name in shown}


def test_every_figure_has_its_count_and_the_readme_its_line() -> None:
    header, *rows = PAGE.partition("## Aims\n")[2].partition("\n##")[0].strip().splitlines()
    assert header.startswith("| step time | runs |")
    counts = [row.split(" | ")[1] for row in rows if row.startswith("| ") and "---" not in row]
    assert len(counts) >= 10
    assert all(int(count) > 0 for count in counts)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    line = readme.partition("<!-- accuracy:")[2].partition("<!-- /accuracy -->")[0]
    assert re.search(r"\d+\.\d % \(\d+\s+runs\)", line)
    assert "docs/accuracy.md" in line


@pytest.mark.parametrize("family", FAMILIES, scope="session")
def test_the_plots_hold_a_point_for_every_run(family: str) -> None:
    plot = (ROOT / "docs/images" / f"accuracy_{family}.svg").read_text(encoding="utf-8")
    assert plot.count('r="3"') == shipped_calibration(family).num_runs


def test_the_chinese_page_has_the_same_figures_and_every_missed_aim_its_cause() -> None:
    def rows(name: str, section: str) -> list[list[str]]:
        text = (ROOT / name).read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n##")[0]
        return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]

    english, chinese = rows("docs/accuracy.md", "Aims"), rows("docs/zh/accuracy.md", "目标")
    assert [row[1:5] for row in english] == [row[1:5] for row in chinese]
    assert [row[5] == "yes" for row in english] == [row[5] == "是" for row in chinese]
    for row in english:
        aim, reached = ([float(part) for part in row[column].split(" / ")] for column in (2, 3))
        assert (row[5] == "yes") == all(found <= wanted + 0.05 for found, wanted in zip(reached, aim, strict=True)), row
    assert all(len(row[6]) > 10 for row in english)
    assert all(re.search(r"[\u4e00-\u9fff]", row[6]) for row in chinese)
