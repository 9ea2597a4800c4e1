"""What rules strategies out before their activations are counted is never more than what they need."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.composition import estimate, estimate_priced, peaks
from cost_models.step.priced_groups import priced_batch
from search.space.enumeration import Rejections, charge_illegal, chunks, option_rules
from search.space.limits import SearchLimits
from search.space.memory_saving_forms import memory_saving_forms
from search.space.search_space import search_space
from tests.search_workloads import DENSE, MOE, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 4), vpp=(1, 2), etp=(1,), micro_batch_size=(1,))


def some(job: Workload, number: int = 400) -> StrategyBatch:
    """Legal strategies from all over the lattice."""
    rows, rejected = np.random.default_rng(0), Rejections()
    parts = []
    for chunk in chunks(job, search_space(job, LIMITS), rejected):
        legal = charge_illegal(job, chunk.batch, option_rules(job), rejected)
        parts += [legal.row(row) for row in rows.integers(len(legal), size=20).tolist()] if len(legal) else []
    return StrategyBatch.of(parts[:number])


MADE = [(job, some(job)) for job in (workload(MOE, num_devices=16), workload(DENSE, num_devices=8))]


@given(st.sampled_from(MADE), st.floats(0.0, 1.0))
@settings(max_examples=20)
def test_peaks_are_exact_up_to_what_is_enough_and_above_it_beyond(case: tuple[Workload, StrategyBatch], quantile: float) -> None:
    job, batch = case
    whole = estimate(job, batch, CONSTANTS).peak_memory_bytes
    enough = float(np.quantile(whole, quantile))
    found = peaks(priced_batch(job, batch, CONSTANTS), enough)
    near = whole <= enough
    assert found.peak_bytes[near] == pytest.approx(whole[near], rel=1e-12)
    assert (found.peak_bytes[~near] > enough * (1 - 1e-12)).all()
    assert (found.peak_bytes <= whole * (1 + 1e-12)).all()


@pytest.mark.parametrize(("job", "batch"), MADE)
def test_no_leaner_form_needs_less_than_weights_and_gradients(job: Workload, batch: StrategyBatch) -> None:
    kept = peaks(priced_batch(job, batch, CONSTANTS)).kept_bytes
    forms = memory_saving_forms(job, batch, search_space(job).leaner)
    assert forms is not None
    lean, origin = forms
    assert (estimate(job, lean, CONSTANTS).peak_memory_bytes > kept[origin]).all()


@pytest.mark.parametrize(("job", "batch"), MADE)
def test_times_without_memory_are_the_same_times(job: Workload, batch: StrategyBatch) -> None:
    priced = priced_batch(job, batch, CONSTANTS)
    whole, times = estimate_priced(priced), estimate_priced(priced, memory=False)
    assert times.step_time_s.tolist() == whole.step_time_s.tolist()
    assert times.step_time_lower_bound_s.tolist() == whole.step_time_lower_bound_s.tolist()
    assert np.isnan(times.peak_memory_bytes).all()
