"""What is made of nested left-out errors: bands, steps, coverage, and the file that keeps them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.intervals.widening import CHIP, COMBINATION, MECHANISM, STACK
from calibration.leave_out.ablation import Ablation
from calibration.leave_out.family_errors import (
    SPLITS,
    LeftOut,
    family_bands,
    family_steps,
    left_out_text,
    near_log_errors,
    parse_left_out,
    publication_inside,
    seen_mechanisms,
    taught,
)
from calibration.records.training import RunRecord
from calibration.splits.mechanisms import run_mechanisms

Read = Callable[..., RunRecord]
MINDFORMERS = {"software.framework": "MindFormers", "software.backend": "MindSpore graph mode", "strategy.features": []}


def published(record: RunRecord, document: str) -> RunRecord:
    return replace(record, origin=replace(record.origin, publication=document))


def left_out(records: list[RunRecord], mechanisms: dict[str, Any] | None = None, **splits: list[float]) -> LeftOut:
    """Errors of 0.1 wherever nothing else is said."""
    errors = {split: np.array(splits.get(split.replace(" ", "_"), [0.1] * len(records))) for split in SPLITS}
    named = {name: np.array(values) for name, values in (mechanisms or {}).items()}
    return LeftOut(tuple(f"run-{i}" for i in range(len(records))), errors, named)


def test_a_publication_whose_stack_is_nowhere_else_is_met_as_a_new_architecture(read: Read) -> None:
    # Two documents of MindSpeed-LLM and one of MindFormers, alone with its stack.
    records = [published(read(), "a"), published(read(), "b"), published(read(MINDFORMERS), "c")]
    found = near_log_errors(records, left_out(records, publication=[0.3, 0.3, 0.3]))
    assert found.tolist() == [0.3, 0.3, 0.1]


def test_steps_count_errors_in_bands_of_what_is_known(read: Read) -> None:
    # Twenty documents of two stacks, each 0.1 off either way. Left out, a stack errs by twice its band, its cells by three times,
    # the switch by 0.05: less than its publication, left out, already does.
    signs = np.array([(-1.0) ** i for i in range(20)])
    records = [published(read(MINDFORMERS if i % 4 > 1 else {}), f"{i}") for i in range(20)]
    band = 0.1 * (21 / 20 * 11 / 10) ** 0.5  # a scale told by twenty, and one by the ten of a side
    errors = left_out(
        records,
        {"switch x": [0.05, *[np.nan] * 19]},
        publication=(0.1 * signs).tolist(),
        architecture=(0.1 * signs).tolist(),
        framework=(2 * band * signs).tolist(),
        chip=(0.02 * signs).tolist(),
        combination=(3 * band * signs).tolist(),
    )
    steps = {step.kind: step for step in family_steps(records, errors)}
    factors = {kind: step.factor for kind, step in steps.items()}
    assert factors == pytest.approx({STACK: 2.0, CHIP: 1.0, COMBINATION: 3.0, MECHANISM: 1.0})
    assert {kind: step.num_groups for kind, step in steps.items()} == {STACK: 2, CHIP: 1, COMBINATION: 2, MECHANISM: 1}


def test_a_thing_whose_publication_errs_more_costs_as_much_as_that(read: Read) -> None:
    # Thirty documents 0.1 off either way but the last, 0.6 too fast. It alone has the switch, without which it errs by 0.05.
    records = [published(read(), f"{i}") for i in range(30)]
    publication = [*(0.1 * (-1.0) ** i for i in range(29)), -0.6]
    errors = left_out(records, {"switch x": [*[np.nan] * 29, -0.05]}, publication=publication, framework=publication)
    (high,) = {band.high for band in family_bands(records, errors)}
    assert high < 0.3
    steps = {step.kind: step for step in family_steps(records, errors)}
    assert steps[MECHANISM].factor == pytest.approx(0.6 / high)


def test_runs_that_never_teach_count_for_their_precision_alone(read: Read) -> None:
    # Twenty runs in BF16 err by 0.1; one in FP8 errs by four times their band. The switch costs nothing in BF16.
    signs = [(-1.0) ** i for i in range(20)]
    records = [published(read(), f"{i}") for i in range(20)] + [published(read({"training.precision": "fp8"}), "0")]
    usual, nothing = [0.1 * sign for sign in signs], [np.nan] * 19
    band = 0.1 * (21 / 20 * 11 / 10) ** 0.5  # a scale told by twenty, and one by the ten of a side
    mechanisms = {"precision fp8": [np.nan, *nothing, 4 * band], "switch x": [0.1, *nothing, 9.0]}
    errors = left_out(records, mechanisms, publication=[*usual, 0.1], architecture=[*usual, 0.1], framework=[*usual, 9.0])
    assert taught(records).tolist() == [True] * 20 + [False]
    steps = {step.kind: step for step in family_steps(records, errors)}
    assert steps[STACK].factor == 1.0
    assert steps[MECHANISM].factor == pytest.approx(4.0)
    assert "precision fp8" not in seen_mechanisms(records)
    assert all(band.num_runs == 20 for band in family_bands(records, errors))


def test_coverage_is_that_of_the_other_publications(read: Read) -> None:
    # Nineteen documents of one error each and one that is 50 % off: it alone is outside what the others give.
    records = [published(read({"model.vocab_size": 32000 + i}), f"document {i}") for i in range(20)]
    publication = [(-1) ** i * 0.05 for i in range(19)] + [0.5]
    inside = publication_inside(records, left_out(records, publication=publication))
    assert inside.tolist() == [True] * 19 + [False]


def test_a_lone_publication_is_judged_by_none(read: Read) -> None:
    records = [published(read(), "a")] * 3
    assert not publication_inside(records, left_out(records)).any()


def test_a_file_comes_back_as_it_was_written(read: Read) -> None:
    records = [published(read(), "a"), published(read(), "b")]
    held = (Ablation("", None, (0.05, 0.1)), Ablation("wave_loss", (0.06, 0.11), None))
    written = replace(left_out(records, {"switch x": [0.25, np.nan]}, rolling_origin=[np.nan, -0.12]), ablations=held)
    again = parse_left_out(left_out_text(written))
    assert (again.ids, again.ablations) == (written.ids, held)
    for part in ("splits", "mechanisms"):
        for name, errors in getattr(written, part).items():
            np.testing.assert_array_equal(getattr(again, part)[name], errors)
    assert left_out_text(again) == left_out_text(written)


def test_mechanisms_are_what_a_run_exercises(read: Read, moe: dict[str, Any]) -> None:
    dense = run_mechanisms(read({"strategy.features": ["flash_attention", "moe_grouped_gemm"]}))
    assert dense == {"precision bf16", "kind dense", "schedule 1f1b", "recompute none", "switch flash_attention"}
    sparse = run_mechanisms(read({"model.moe": moe, "strategy.moe_dispatcher": "alltoall", "strategy.zero_stage": 3}))
    assert {"kind moe", "dispatcher alltoall", "ZeRO 3"} <= sparse
