"""A whole training with drifting expert loads, as a document and for a person."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from app.answers.price import priced
from app.answers.provenance import job_fields, priced_with
from app.answers.schemas import PricedWith
from app.answers.strategies import StrategyDocument
from app.calibrations.constants import constants_for
from app.experts.counts import model_experts
from app.experts.schemas import DriftInterval, DriftTerms, ExpertDriftDocument, PlacedDocument
from app.experts.service import expert_strategy
from app.jobs.job import Job
from app.text.terminal import plain_table
from calibration.files.calibrations import Calibration
from cost_models.constants import Constants
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.workload import Workload
from cost_models.step.result import Estimate
from documents.errors import InputError
from documents.quantities import column_seconds, percent, seconds
from documents.sentences import Sentence, word
from meshplan import __version__
from search.experts.drift import DriftedTraining, drifted_training
from search.experts.generated import Router
from search.experts.placement import in_order
from search.experts.plan import Terms
from search.experts.priced import nodes_of_group, prices_of
from search.plans.plan import strategy_to_mapping

MAX_PLACES = 2_000_000  # limit on layers x experts x domains, and on layers x experts x ranks: seconds of work
DEFAULT_STEPS = 20_000


def played(
    workload: Workload, strategy: ParallelStrategy, terms: DriftTerms, steps: int, own: Sequence[Calibration] = ()
) -> tuple[DriftedTraining, float]:
    """A training of ``steps`` steps with the spread of its router, and its step with equal ranks. [s]"""
    model, training = workload.model, workload.training
    num_layers, num_experts = model_experts(model, "model")
    if num_layers * num_experts * max(terms.domains, strategy.ep) > MAX_PLACES:
        raise InputError(
            Sentence("model: {:,} layers of {:,} experts are more than a simulation takes.", num_layers, num_experts)
        )
    spread = training.expert_spread or model.expert_spread()
    assert spread is not None
    assert model.moe is not None
    copies = min(training.seq_length * training.global_batch_size * model.moe.top_k, 2**62)
    num_nodes = nodes_of_group(workload, strategy, num_experts)

    def estimate(given: Workload, batch: StrategyBatch, constants: Constants) -> Estimate:
        return priced(given, batch, own)

    router = Router.drawn(spread, num_layers, terms.domains, terms.seed)
    first = router.counts(copies)
    prices, _, balanced_s = prices_of(
        workload,
        strategy,
        constants_for(workload, own),
        estimate,
        first / first.sum(axis=1, keepdims=True),
        in_order(num_layers, num_experts, strategy.ep),
        num_nodes,
    )
    limits = Terms(num_nodes, terms.valid_steps, terms.max_copies)
    return drifted_training(router, copies, strategy.ep, steps, prices, limits), balanced_s


def expert_drift_document(job: Job, terms: DriftTerms, own: Sequence[Calibration] = ()) -> ExpertDriftDocument:
    """What planning once and planning again are worth over a training of the job."""
    workload, strategy = job.workload, expert_strategy(job)
    tokens, steps = workload.training.train_tokens, terms.steps
    if steps is None:
        steps = DEFAULT_STEPS if tokens is None else max(round(tokens / workload.training.step_tokens), 1)
    found, balanced_s = played(workload, strategy, terms, steps, own)
    ways = (
        ("in_order", found.in_order_s, found.load_in_order),
        ("planned_once", found.planned_once_s, found.load_planned_once),
        ("replanned", found.replanned_s, found.load_replanned),
    )
    return ExpertDriftDocument(
        **job_fields(job, own, strategy, "strategy"),
        version=__version__,
        priced_with=PricedWith(**priced_with(workload, own)),
        strategy=StrategyDocument.model_validate(strategy_to_mapping(workload, strategy)),
        num_steps=steps,
        interval_steps=found.interval_steps,
        step_time_balanced_s=balanced_s,
        placed={
            name: PlacedDocument(
                step_time_s=balanced_s + exposed_s,
                load=float(loads.mean()),
                gain_fraction=(balanced_s + found.in_order_s) / (balanced_s + exposed_s) - 1.0,
            )
            for name, exposed_s, loads in ways
        },
        num_plans=sum(found.is_planned),
        moves_s=found.moves_s,
        intervals_of_steps=[
            DriftInterval(first_step=number * found.interval_steps, in_order=a, planned_once=b, replanned=c, is_planned=planned)
            for number, (a, b, c, planned) in enumerate(
                zip(
                    found.load_in_order.tolist(),
                    found.load_planned_once.tolist(),
                    found.load_replanned.tolist(),
                    found.is_planned,
                    strict=True,
                )
            )
        ],
    )


def print_expert_drift(console: Console, document: ExpertDriftDocument) -> None:
    console.print(
        Sentence(
            "{}: {:,} steps, the loads looked at every {:,}.",
            document.strategy.name,
            document.num_steps,
            document.interval_steps,
        ),
        markup=False,
    )
    console.print()
    table = plain_table("experts", ">fullest rank over the mean", ">step", ">speed")
    times = column_seconds(placed.step_time_s for placed in document.placed.values())
    for (name, placed), time_text in zip(document.placed.items(), times, strict=True):
        table.add_row(word(name), f"{placed.load:.3f}", time_text, f"+{percent(placed.gain_fraction)}")
    console.print(table)
    console.print()
    last = max((one.first_step for one in document.intervals_of_steps if one.is_planned), default=None)
    if last is None:
        console.print(Sentence("No plan pays for its moves."))
        return
    console.print(
        Sentence(
            "{:,} plans, the last after {:,} steps; all moves take {}, and are in the step above.",
            document.num_plans,
            last + document.interval_steps,
            seconds(document.moves_s),
        ),
        markup=False,
    )
