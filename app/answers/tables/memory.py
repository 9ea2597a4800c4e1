"""Text on whether a strategy fits, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.answers.schemas import EstimateNumbers
from documents.quantities import gibibytes, percent
from documents.sentences import Sentence, joined


def chance(probability: float | None) -> str:
    """A probability as text, never rounded to 0 or 100 %."""
    if probability is None:
        return Sentence("unknown")
    return percent(min(max(probability, 0.001), 0.999))


def memory_text(estimate: EstimateNumbers, job: Mapping[str, Any]) -> str:
    """The peak and its limit; the free memory, or the free memory needed for the job's confidence."""
    need, limit = gibibytes(estimate.peak_memory_bytes), gibibytes(estimate.memory_limit_bytes)
    confidence = f"{100 * job['search']['fit_confidence']:g} %"
    if estimate.fits is None:
        return Sentence("{} of {}, without a verdict of fit", need, limit)
    sure = chance(estimate.fits_probability)
    if estimate.fits:
        return Sentence(
            "{} of {}: fits, {} stay free, {} sure ({} is asked for)",
            need,
            limit,
            gibibytes(estimate.headroom_bytes),
            sure,
            confidence,
        )
    kept = gibibytes(max(estimate.memory_limit_bytes - estimate.fit_limit_bytes, 0.0))
    return Sentence("{} of {}, with {} reserved to be {} sure: DOES NOT FIT, {} sure", need, limit, kept, confidence, sure)


def memory_sentence(estimate: EstimateNumbers, job: Mapping[str, Any]) -> str:
    """The interval of the peak, with the number of measured peaks behind it."""
    low, high = gibibytes(estimate.peak_memory_low_bytes), gibibytes(estimate.peak_memory_high_bytes)
    evidence = estimate.memory_evidence
    if evidence.num_runs:
        peaks = Sentence(
            "{} measured peak{} of such models with {}",
            evidence.num_runs,
            "s" * (evidence.num_runs > 1),
            job["software"]["stack"],
        )
    else:
        peaks = Sentence("peaks of other software or kinds of models")
    beyond = joined("", [Sentence("; {}", sentence) for sentence in evidence.extrapolated])
    return Sentence("80 % interval of the peak {} to {}, from {}{}.", low, high, peaks, beyond)
