"""The cost of the order of a job's sequences and the gain of a better order, as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from app.answers.price import priced
from app.answers.provenance import job_fields, priced_with
from app.answers.schemas import PricedWith
from app.answers.strategies import StrategyDocument
from app.calibrations.constants import constants_for
from app.calibrations.stored import stored_calibrations
from app.jobs.job import Job
from app.jobs.requests import check_keys, parse_request
from app.sequences.lengths import Histogram, Ints, lengths_of, samples
from app.sequences.schemas import OrderDocument, SequencePlanDocument, SequencePlanRequest, SequenceTerms
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.shapes.strategy import StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from documents.checking import check
from documents.errors import InfeasibleStrategyError, InputError
from documents.sentences import Sentence
from frameworks.legality import violations
from meshplan import __version__
from search.plans.plan import strategy_to_mapping
from search.sequences.order import MAX_SEQUENCES, Spread, packed_fractions
from search.sequences.priced import SequencePlan, sequence_plan

if TYPE_CHECKING:
    from app.storage.session import Database


MAX_PLACES = 500_000  # sequences of all steps
MAX_HANDED_OUT = 10**9  # sequences x replicas of all steps


def sequence_plan_document(
    job: Job, given: Ints | Histogram, terms: SequenceTerms, own: Sequence[Calibration] = ()
) -> tuple[SequencePlanDocument, SequencePlan]:
    """The document for a job whose samples have these lengths."""
    workload, strategy, training = job.workload, job.strategy, job.workload.training
    if strategy is None:
        raise InputError(Sentence("strategy: missing; give one."))
    broken = violations(workload, strategy)
    if broken:
        raise InfeasibleStrategyError(Sentence("strategy: {} ({}).", broken[0].sentence.rstrip("."), broken[0].rule))
    batch = training.global_batch_size
    if batch > MAX_SEQUENCES or batch * terms.steps > MAX_PLACES:
        most = MAX_PLACES // batch if batch <= MAX_SEQUENCES else 0
        raise InputError(
            Sentence("terms.steps (--steps): {:,} steps of {:,} sequences; give at most {:,}.", terms.steps, batch, most)
        )
    if batch * strategy.dp * terms.steps > MAX_HANDED_OUT:
        raise InputError(
            Sentence(
                "terms.steps (--steps): {:,} steps of {:,} sequences on {:,} replicas; give fewer.",
                terms.steps,
                batch,
                strategy.dp,
            )
        )
    lengths, is_whole = samples(given, batch * training.seq_length * terms.steps, terms.seed)
    fractions = packed_fractions(lengths, training.seq_length, batch * terms.steps).reshape(terms.steps, batch)

    def estimate(changed: Workload, rows: StrategyBatch, constants: Constants) -> Estimate:
        return priced(changed, rows, own)

    found = sequence_plan(workload, strategy, constants_for(workload, own), estimate, fractions)
    balanced_s = float(found.balanced_s.mean())
    before, after = (
        _order(*one) for one in ((found.before, found.before_s, balanced_s), (found.after, found.after_s, balanced_s))
    )
    document = SequencePlanDocument(
        **job_fields(job, own, strategy, "strategy"),
        version=__version__,
        priced_with=PricedWith(**priced_with(workload, own)),
        strategy=StrategyDocument.model_validate(strategy_to_mapping(workload, strategy)),
        num_steps=terms.steps,
        num_replicas=strategy.dp,
        num_microbatches=int(StrategyBatch.of([strategy]).num_microbatches(batch)[0]),
        is_drawn=not is_whole,
        mean_squared_length_fraction=float(fractions.mean()),
        mean_length=float(lengths.mean()),
        balanced_step_time_s=balanced_s,
        before=before,
        after=after,
        recovered_fraction=1.0 - after.exposed_s / before.exposed_s if before.exposed_s > 1e-9 * balanced_s else None,
    )
    return document, found


def _order(spread: Spread, times_s: np.ndarray, balanced_s: float) -> OrderDocument:
    return OrderDocument(
        replica_load=float(spread.replicas.mean()),
        micro_batch_load=float(spread.micro_batches.mean()),
        step_time_s=float(times_s.mean()),
        exposed_s=float(times_s.mean()) - balanced_s,
        slowest_step_time_s=float(times_s.max()),
    )


def plan_request(document: Mapping[str, Any], database: Database) -> SequencePlanDocument:
    """The answer to a request body; ``InputError`` if nothing can be planned."""
    check_keys(document, SequencePlanRequest.model_fields)
    own = ("lengths", "histogram", "terms")
    if document.get("lengths") is None and document.get("histogram") is None:
        raise InputError(Sentence("lengths: missing; give lengths or histogram."))
    terms = check(SequenceTerms, document.get("terms") or {}, "terms")
    job = parse_request({key: value for key, value in document.items() if key not in own})
    given = lengths_of(document, "body")
    return sequence_plan_document(job, given, terms, stored_calibrations(database, job))[0]
