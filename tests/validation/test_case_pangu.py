"""The case study of Pangu Ultra MoE: its claims hold, and the page says what its script prices."""

from __future__ import annotations

import re

import pytest

from cost_models.strategy import ParallelStrategy
from scripts.pangu_case import (
    MODES,
    SWAPS,
    TOKENS_PER_S,
    flops_per_token,
    priced,
    published,
    published_fitting,
    ranked,
    what_ifs,
    workload_of,
)
from scripts.write_case_study import GIB, PAGE, head, memory_section, table
from search.legality import violations

WORKLOAD = workload_of()
SECTIONS = (
    "What was published",
    "Is it legal",
    "What fits",
    "Where it ranks",
    "Where the time goes",
    "What the estimate leaves out",
    "Against the published throughput",
    "Batch and sequence",
)


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def variants() -> list[ParallelStrategy]:
    return [
        published(mode, swap, micro_batch_size=size, dispatcher=dispatcher)
        for mode in MODES
        for swap in SWAPS.values()
        for size in (1, 2)
        for dispatcher in ("alltoall", "hierarchical")
    ]


def test_the_published_layout_is_legal_under_every_setting() -> None:
    for strategy in variants():
        assert (strategy.tp, strategy.pp, strategy.vpp, strategy.ep, strategy.dp) == (8, 16, 2, 32, 48)
        assert violations(WORKLOAD, strategy, "any") == ()


def test_the_published_micro_batch_fits_with_some_recompute_and_swap() -> None:
    fitting = published_fitting(WORKLOAD)
    assert fitting
    times = [found["step_time_s"] for _, found in fitting]
    assert times == sorted(times)
    assert all(found["fits"] and strategy.micro_batch_size == 2 for strategy, found in fitting)
    # Nothing recomputed and nothing swapped does not: the published system needs its memory savings.
    assert not priced(WORKLOAD, [published("none", [], micro_batch_size=2, dispatcher="hierarchical")])[0]["fits"]


def test_the_best_plan_of_a_ranking_is_at_least_as_fast_as_the_published_structure() -> None:
    found = ranked(WORKLOAD, what_ifs(WORKLOAD)[0].constants, {"tp": 8, "pp": [8, 16], "vpp": [2, 4], "ep": [16, 32], "cp": 1})
    assert found.published is not None
    assert found.place is not None
    assert found.plans[found.place] is found.published
    assert found.plans[0].step_time_s <= found.published.step_time_s
    assert found.fits <= found.legal <= found.enumerated


def test_a_full_mask_attends_to_as_much_as_a_causal_one_of_twice_the_length() -> None:
    # [pangu-ultra-moe] 30.0 % at 1.46 M tokens/s on 6,144 NPUs implies a peak of 220 TFLOPS for causal 4K, of 294 for full 8K.
    model = WORKLOAD.model
    per_device = TOKENS_PER_S[6144] / 6144
    assert flops_per_token(model, 4096, "full") == flops_per_token(model, 8192, "causal")
    assert flops_per_token(model, 4096, "causal") * per_device / 0.30 == pytest.approx(220e12, rel=0.005)
    assert flops_per_token(model, 8192, "full") * per_device / 0.30 == pytest.approx(294e12, rel=0.005)


def test_the_page_has_its_sections_and_tables(text: str) -> None:
    assert tuple(re.findall(r"^## (.+)$", text, flags=re.MULTILINE)) == SECTIONS
    for section in text.split("\n## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        assert len(lines) >= 3, section.splitlines()[0]
        for link in re.findall(r"\]\(([^)#]+)\)", section):
            assert (PAGE.parent / link).is_file(), link


def test_the_page_agrees_with_the_script(text: str) -> None:
    # Both are cheap: the calibration that the page names, and every peak of its memory table.
    assert text.startswith(head(WORKLOAD)), "the calibration changed: run `make docs` and review the diff"
    assert memory_section(WORKLOAD) in text, "the estimates changed: run `make docs` and review the diff"


def test_a_row_of_the_page_is_what_a_user_would_be_told(text: str) -> None:
    (found,) = priced(WORKLOAD, [published("full", [], micro_batch_size=2, dispatcher="hierarchical")])
    (row,) = re.findall(r"^\| `full` \|(.+)\|$", text, flags=re.MULTILINE)
    cells = [cell.strip(" *") for cell in row.split("|")]
    assert cells[len(SWAPS)] == f"{found['peak_memory_bytes'] / GIB:.1f}"


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    assert table(("a", "b"), [("x", "1.0 s"), ("y", "**+2**")]) == "| a | b |\n| --- | ---: |\n| x | 1.0 s |\n| y | **+2** |\n"
