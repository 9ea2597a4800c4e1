"""Plans by tensor, and what files can state of them, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.answers.schemas import ExportDocument, SearchDocument
from documents.quantities import percent, seconds
from documents.sentences import Sentence


def by_tensor_sentences(document: SearchDocument) -> Iterator[str]:
    """Sentences on the fastest choice of single tensors, which the proof does not cover."""
    if document.by_tensor:
        best = document.by_tensor[0]
        numbers = best.estimate
        rank = next((plan.rank for plan in document.plans if plan.plan_id == best.of_plan_id), None)
        of_plan = "" if rank is None else Sentence(" of plan {}", rank)
        yield (
            Sentence(
                "Recompute and swap by tensor{}, micro batch {}: {} a step, "
                "{} shorter, {} of activation memory saved for "
                "{:.1f} ms a micro batch; outside of the proof (meshplan estimate --memory-plan).",
                of_plan,
                best.micro_batch_size,
                seconds(numbers.step_time_s),
                percent(best.gain_fraction),
                percent(best.saved_fraction),
                1e3 * best.added_s,
            )
        )
        yield from export_sentences(best.exports)
        yield from filter(None, (slower_sentence(document, export) for export in best.exports))


def slower_sentence(document: SearchDocument, export: ExportDocument) -> str | None:
    """A sentence where a file of a plan by tensor is not faster than that of a plan of the list, which is to be used."""
    if export.launch is None or export.estimate is None:
        return None
    of_target = [plan for plan in document.plans if export.target in plan.launchable_on]
    fastest = min(of_target, key=lambda plan: plan.estimate.step_time_s, default=None)
    if fastest is None or fastest.estimate.step_time_s > export.estimate.step_time_s:
        return None
    return Sentence(
        "{}: use the file of plan {}, {} a step; that of the plan by tensor takes {}.",
        export.target,
        fastest.rank,
        seconds(fastest.estimate.step_time_s),
        seconds(export.estimate.step_time_s),
    )


def export_sentences(found: Sequence[ExportDocument]) -> list[str]:
    """What files can state of a plan by tensor; where none can, why."""
    return [each.why for each in found if each.strategy is not None] or [each.why for each in found]
