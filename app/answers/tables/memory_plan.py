"""Recompute and swap tensor by tensor, as tables."""

from __future__ import annotations

from rich.console import Console

from app.answers.schemas import MemoryPlanDocument, MicroBatchPlan
from app.answers.step_schemas import StageTensors, TensorPrice
from app.answers.tables.by_tensor import export_sentences
from app.text.terminal import plain_table
from documents.quantities import gibibytes, percent, seconds
from documents.sentences import Sentence

MILLISECONDS = 1e3


def print_memory_plan(console: Console, document: MemoryPlanDocument) -> None:
    """Tables of the tensors with their prices, and of the tensors that each virtual stage drops for each micro batch size."""
    console.print(Sentence("\nWhat a layer keeps of a micro batch"), style="bold", markup=False)
    columns = ("layers", "tensor", "kept", Sentence("again, ms"), Sentence("swap, ms"), Sentence("computed again by"))
    table = plain_table(*columns)
    for each in document.tensors:
        table.add_row(*_tensor_row(each))
    console.print(table)
    for plan in document.micro_batches:
        _print_micro_batch(console, plan)


def _tensor_row(each: TensorPrice) -> tuple[str, ...]:
    again = "" if each.recompute_s is None else _milliseconds(each.recompute_s)
    return each.kind, each.tensor, gibibytes(each.kept_bytes), again, _milliseconds(each.swap_s), each.computed_by or ""


def _print_micro_batch(console: Console, plan: MicroBatchPlan) -> None:
    console.print(Sentence("\nMicro batch {}", plan.micro_batch_size), style="bold", markup=False)
    if plan.estimate is None or plan.whole_step_time_s is None:
        console.print(plan.refused or "", markup=False)
        return
    step_s, whole_s = plan.estimate.step_time_s, plan.whole_step_time_s
    if not plan.stages:
        console.print(Sentence("{} a step; everything fits as it is.", seconds(step_s)), markup=False)
        return
    console.print(
        Sentence(
            "{} a step, {} above what keeping everything would take; peak "
            "{}, {} of activations saved on the "
            "fullest rank, {} ms a micro batch on the rank that pays most, at most "
            "{} ms above the least; {} a device on the host.",
            seconds(step_s),
            percent(step_s / whole_s - 1.0),
            gibibytes(plan.estimate.peak_memory_bytes),
            percent(plan.saved_fraction or 0.0),
            _milliseconds(plan.added_s or 0.0),
            _milliseconds(plan.gap_s or 0.0),
            gibibytes(plan.host_bytes or 0.0),
        ),
        markup=False,
    )
    table = plain_table("virtual stage", "layers", "recomputed", "swapped", "kept", "saved", "ms")
    for stage in plan.stages:
        table.add_row(*_stage_row(stage))
    console.print(table)
    for sentence in export_sentences(plan.exports):
        console.print(sentence, markup=False)


def _stage_row(stage: StageTensors) -> tuple[str, ...]:
    saved = stage.recomputed_bytes + stage.swapped_bytes
    return (
        Sentence("{}.{}", stage.stage, stage.chunk),
        Sentence("{} {}", stage.layers, stage.kind),
        " ".join(stage.recompute),
        " ".join(stage.swap),
        gibibytes(stage.whole_bytes - saved),
        percent(saved / stage.whole_bytes),
        _milliseconds(stage.added_s),
    )


def _milliseconds(seconds_: float) -> str:
    return f"{MILLISECONDS * seconds_:.2f}"
