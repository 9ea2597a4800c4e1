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


def export_sentences(found: Sequence[ExportDocument]) -> list[str]:
    """What files can state of a plan by tensor; where none can, why."""
    return [each.why for each in found if each.strategy is not None] or [each.why for each in found]
