"""Pictures of answers: well-formed, with what was given in its place; and the example notebook, cell by cell."""

import ast
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from meshplan import drawings
from meshplan.local import Drawing

ROOT = Path(__file__).resolve().parents[3]
GIB = 2.0**30
SVG = "{http://www.w3.org/2000/svg}"


def document(**changes: Any) -> dict[str, Any]:
    """Two ranks over 8 s: rank 0 works from 0 to 4 and from 4 to 8, rank 1 from 2 to 6."""
    return {
        "step_time_s": 8.0,
        "num_ranks": 2,
        "streams": ["compute"],
        "kinds": ["forward", "backward"],
        "tasks": {
            "rank": [0, 0, 1],
            "stream": [0, 0, 0],
            "kind": [0, 1, 0],
            "start_s": [0.0, 4.0, 2.0],
            "end_s": [4.0, 8.0, 6.0],
        },
        "memory": {"rank": [0, 1], "time_s": [[0.0, 4.0], [0.0]], "bytes": [[GIB, 3 * GIB], [2 * GIB]]},
        **changes,
    }


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def bars(svg: str) -> list[tuple[float, float]]:
    found = re.findall(r'<path d="M([\d.]+) [\d.]+h([\d.]+)v[\d.]+h-[\d.]+z"', svg)
    return [(float(x), float(width)) for x, width in found]


def test_a_timeline_has_each_bar_where_it_runs() -> None:
    title, svg = drawings.of_timeline(document())
    assert parsed(svg).attrib["aria-label"] == title == "A step of 8 s on 2 pipeline ranks"
    # 830 pixels from 120 on are 8 s.
    assert bars(svg) == [(120.0, 415.0), (535.0, 415.0), (327.5, 415.0)]


def test_bars_that_no_eye_tells_apart_are_one() -> None:
    many = 100_000
    tasks = {
        "rank": [0] * many,
        "stream": [0] * many,
        "kind": [index % 2 for index in range(many)],
        "start_s": [8.0 * index / many for index in range(many)],
        "end_s": [8.0 * (index + 1) / many for index in range(many)],
    }
    found = bars(drawings.of_timeline(document(tasks=tasks, num_ranks=1))[1])
    assert len(found) in (830, 831)
    assert sum(width for _, width in found) == pytest.approx(830, abs=10)


def test_memory_steps_at_its_times() -> None:
    _, svg = drawings.of_memory(document())
    # 300 pixels above 330 are 3 GiB; rank 0 holds one from the left edge, three from the middle on.
    assert 'd="M120 230.0H535V30.0H950"' in svg
    assert 'd="M120 130.0H950"' in svg
    parsed(svg)


def test_parts_stand_one_after_the_other_the_largest_first() -> None:
    title, svg = drawings.of_parts({"step_time_s": 4.0, "time_breakdown_s": {"host": 1.0, "matmul": 3.0, "none": 0.0}})
    assert title == "Where the 4 s of a step go"
    (matmul, host) = bars(svg)
    assert matmul[0] == 180.0
    assert host[0] == pytest.approx(matmul[0] + matmul[1], abs=0.2)
    assert matmul[1] == pytest.approx(3 * host[1], abs=0.3)


def test_plans_are_points_with_their_names_and_the_limit() -> None:
    _, svg = drawings.of_plans([("a & b", 2.0, 4 * GIB), ("c", 3.0, 2 * GIB)], 5 * GIB)
    circles = parsed(svg).findall(f"{SVG}circle")
    assert [circle.findtext(f"{SVG}title") for circle in circles] == ["a & b", "c"]
    assert 2 * (float(circles[1].attrib["cx"]) - 120) == pytest.approx(float(circles[0].attrib["cx"]) - 120, abs=0.1)
    assert "stroke-dasharray" in svg
    assert "circle" not in drawings.of_plans([], None)[1]


def test_a_drawing_is_saved_as_it_is_shown(tmp_path: Path) -> None:
    drawing = Drawing(*drawings.of_timeline(document()))
    drawing.save(tmp_path / "step.svg")
    assert (tmp_path / "step.svg").read_text(encoding="utf-8") == drawing._repr_svg_() == drawing.svg
    assert "<svg" not in repr(drawing)


def test_the_example_notebook_runs_and_shows_pictures() -> None:
    notebook = json.loads((ROOT / "examples/plans.ipynb").read_text(encoding="utf-8"))
    scope: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            *before, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(before, []), "cell", "exec"), scope)
            assert isinstance(last, ast.Expr)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
            shown.append(value._repr_svg_() if isinstance(value, Drawing) else value._repr_html_())
    assert len(shown) == 5
    assert [parsed(svg).attrib["aria-label"].split(" ")[0] for svg in shown] == ["Step", "Where", "A", "Memory", "Where"]


def test_the_dashboard_draws_in_the_same_colours() -> None:
    palette = (ROOT / "dashboard" / "src" / "theme" / "palette.ts").read_text(encoding="utf-8")
    light = palette.partition("const LIGHT")[2].partition("};")[0]
    series = light.partition("series: [")[2].partition("]")[0]
    assert tuple(re.findall("#[0-9a-f]{6}", series)) == drawings.COLOURS
    assert (f'text: "{drawings.TEXT}"' in light, f'bad: "{drawings.LIMIT}"' in light) == (True, True)
