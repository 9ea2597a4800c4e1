"""Text on whether a strategy fits, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.answers.schemas import EstimateNumbers
from app.text.quantities import gibibytes, percent


def chance(probability: float) -> str:
    """A probability as text, never rounded to 0 or 100 %."""
    return percent(min(max(probability, 0.001), 0.999))


def memory_text(estimate: EstimateNumbers, job: Mapping[str, Any]) -> str:
    """The peak and its limit; the free memory, or the free memory needed for the job's confidence."""
    need, limit = gibibytes(estimate.peak_memory_bytes), gibibytes(estimate.memory_limit_bytes)
    confidence = f"{100 * job['search']['fit_confidence']:g} %"
    sure = chance(estimate.fits_probability)
    if estimate.fits:
        return f"{need} of {limit}: fits, {gibibytes(estimate.headroom_bytes)} stay free, {sure} sure ({confidence} is asked for)"
    kept = gibibytes(max(estimate.memory_limit_bytes - estimate.fit_limit_bytes, 0.0))
    return f"{need} of {limit}, of which {kept} are kept free to be {confidence} sure: DOES NOT FIT, {sure} sure"


def memory_sentence(estimate: EstimateNumbers, job: Mapping[str, Any]) -> str:
    """The interval of the peak, with the number of measured peaks behind it."""
    low, high = gibibytes(estimate.peak_memory_low_bytes), gibibytes(estimate.peak_memory_high_bytes)
    evidence = estimate.memory_evidence
    if evidence.num_runs:
        peaks = f"{evidence.num_runs} measured peak{'s' * (evidence.num_runs > 1)} of such models with {job['software']['stack']}"
    else:
        peaks = "peaks of other software or kinds of models"
    beyond = "".join(f"; {sentence}" for sentence in evidence.extrapolated)
    return f"80 % interval of the peak {low} to {high}, from {peaks}{beyond}."
