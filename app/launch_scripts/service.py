"""The price of a script's own plan, the best plan for the same model, batch and devices, and the changes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.answers.open_fields import warnings_of
from app.answers.open_lengths import shortest_fractions, with_shortest_samples
from app.answers.price import fill_intervals, priced, refusal
from app.answers.provenance import job_fields, priced_with
from app.answers.recommended import recommended_plan
from app.answers.schemas import EstimateNumbers, Plan, SearchDocument
from app.answers.search import search_document
from app.answers.simulation import can_simulate
from app.answers.strategies import StrategyDocument
from app.calibrations.stored import stored_calibrations
from app.jobs.fields import StrategySection
from app.jobs.job import Job
from app.jobs.requests import MAX_SEARCH_S, MAX_SERVED_LAYERS, check_keys
from app.jobs.strategy import strategy_from_section
from app.launch_scripts.launch import Given
from app.launch_scripts.patch import Patched, patched
from app.launch_scripts.reading import ReadScript, read_script_job
from app.launch_scripts.schemas import NotUnderstood, ScriptRequest, TuneDocument, TunedPlan
from app.text.json_documents import plain
from calibration.files.calibrations import Calibration
from cost_models.shapes.canonical import canonical
from cost_models.shapes.strategy import ParallelStrategy, StrategyBatch
from cost_models.shapes.switches import UNPRICED_FEATURES
from documents.checking import check
from documents.errors import InputError
from documents.quantities import percent
from documents.sentences import Sentence, joined
from frameworks.framework import ReadingError
from frameworks.legality import violations
from frameworks.target import ANY
from hardware_profiles import catalogue
from meshplan import __version__
from search.executors.executor import SERIAL, Executor
from search.plans.plan import estimates_to_mappings, plan_id, strategy_to_mapping
from search.ranking.ties import ties
from search.session.progress import ProgressCallback

if TYPE_CHECKING:
    from app.storage.session import Database

LEAST_DOUBT = 0.01  # from this probability on, a plan that may not fit may have been run all the same


def tune_request(body: Mapping[str, Any], database: Database) -> TuneDocument:
    """The answer to a request body; ``InputError`` if the script cannot be read."""
    check_keys(body, ScriptRequest.model_fields)
    request = check(ScriptRequest, body)
    if request.hardware not in catalogue.names():
        raise catalogue.unknown("hardware", request.hardware)
    given = Given("script", request.set or {}, request.files or {})
    read = read_script_job(
        request.script,
        given,
        catalogue.named(request.hardware),
        request.hardware,
        devices=request.devices,
        target=request.target,
        vocab_size=request.vocab_size,
        assume=dict(request.assume or {}),
        sections={"search": {"time_limit_s": MAX_SEARCH_S}},
    )
    if read.job.workload.model.num_layers > MAX_SERVED_LAYERS:
        raise InputError(
            Sentence("script: a model of {:,} layers; tune it with the command line.", read.job.workload.model.num_layers)
        )
    return tune_document(read, own=stored_calibrations(database, read.job))


def tune_document(
    read: ReadScript,
    on_progress: ProgressCallback | None = None,
    *,
    own: Sequence[Calibration] = (),
    executor: Executor = SERIAL,
) -> TuneDocument:
    """Tuned launch script, as ``meshplan tune --json`` prints it."""
    job, workload = read.job, read.job.workload
    strategy = job.strategy
    assert strategy is not None  # a script has one
    broken = violations(workload, read.said)
    if any(each.job_only for each in broken):  # no change of the plan helps
        raise refusal(workload, read.said, is_script=True)
    found = search_document(job, on_progress, own=own, executor=executor)
    is_played = not found.plans or found.plans[0].estimate.fidelity == "simulated"
    estimate = None if violations(workload, strategy, ANY) else _estimate(job, strategy, own, is_played=is_played)
    best, kept = None, None
    if found.plans:
        best = _with_own_switches(job, _proposed(found, None if broken else estimate))
    is_kept = best is None or (not broken and estimate is not None and _is_no_gain(estimate, best))
    warnings = [*warnings_of(job), *job.warnings]
    changed = Patched(read.launch, (), is_exact=True)
    if best is not None and not is_kept:
        kept = None if broken or estimate is None else _may_run(job, estimate, best)
        if kept is None:
            changed, best, kept = _startable(read, best, None if broken else estimate, own)
            warnings += changed.left
            if changed.changes and not changed.is_exact:
                warnings.append(
                    Sentence(
                        "The changed script does not say the whole of the best plan: a part of it stands where it is not "
                        "changed. The price is that of the changed script."
                    )
                )
    document = {
        **job_fields(job, own),
        "assumptions": found.assumptions,
        "warnings": warnings,
        "version": __version__,
        "priced_with": priced_with(workload, own),
        "target": read.framework.target.label,
        "strategy": strategy_to_mapping(workload, strategy),
        "estimate": without_verdict(estimate) if estimate and read.ignored else estimate,
        "violations": [Sentence("{}: {}", violation.rule, violation.sentence) for violation in broken],
        "best": None if best is None else _best(read, estimate, best, found, is_kept=is_kept),
        "speedup": None if best is None or estimate is None else _speedup(estimate, best, is_kept=is_kept),
        "speedup_error_fraction": None if is_kept or best is None else _paired_error(estimate, best, found),
        "why": None if found.baseline is None else found.baseline.why,
        "kept": kept,
        "tie": None if broken else _tie(estimate, found),
        "nearest": found.nearest,
        "changes": changed.changes,
        "diff": _diff(read.launch.text, changed.launch.text),
        "script": changed.launch.text,
        "not_understood": not_understood(read),
        "ignored": ignored(read),
    }
    if read.ignored and isinstance(document["best"], TunedPlan):
        best_estimate = EstimateNumbers.model_validate(without_verdict(plain(document["best"].estimate)))
        document["best"] = document["best"].model_copy(update={"estimate": best_estimate})
    return TuneDocument.model_validate(document)


def _proposed(found: SearchDocument, estimate: Mapping[str, Any] | None) -> Plan:
    """The plan that the search recommends; the fastest one if the script's own is as fast as that, and less sure to fit.

    A script whose plan is as fast as the recommended one is changed only for a plan that is measurably faster, or for one that
    is faster and surer to fit.
    """
    plan = recommended_plan(found)
    if estimate is None or not estimate["fits"] or plan.estimate.step_time_s < estimate["step_time_s"]:
        return plan
    fastest = min(found.plans, key=lambda each: each.estimate.step_time_s)
    error = 0.0 if found.paired_error is None else found.paired_error.fraction
    is_tie = ties(estimate["step_time_s"], fastest.estimate.step_time_s, error)
    return plan if is_tie and estimate["fits_probability"] >= fastest.estimate.fits_probability else fastest


def _tie(estimate: Mapping[str, Any] | None, found: SearchDocument) -> str | None:
    """A sentence if the script's own plan is not measurably slower than the fastest."""
    error, fastest = found.paired_error, next((plan.estimate for plan in found.plans if plan.fastest), None)
    if error is None or fastest is None or estimate is None or not estimate["fits"] or estimate["fidelity"] != fastest.fidelity:
        return None
    slower = estimate["step_time_s"] / fastest.step_time_s - 1.0
    if not 0.0 < slower < error.fraction:
        return None
    return Sentence(
        "Your plan is not measurably slower than the fastest: {} lie below the paired error of {} ({}).",
        percent(slower),
        percent(error.fraction),
        error.basis,
    )


def _paired_error(estimate: Mapping[str, Any] | None, best: Plan, found: SearchDocument) -> float | None:
    """Paired error of the script's step time and that of the best."""
    if estimate is None or found.paired_error is None or estimate["fidelity"] != best.estimate.fidelity:
        return None
    return found.paired_error.fraction


def _strategy_of(job: Job, plan: Plan | TunedPlan) -> ParallelStrategy:
    return strategy_from_section(check(StrategySection, plain(plan.strategy)), job.workload)


def _with_own_switches(job: Job, best: Plan) -> Plan:
    """The plan with those switches of the script that do not affect the price, if legal: there is no reason to remove them."""
    assert job.strategy is not None
    strategy = _strategy_of(job, best)
    kept = replace(strategy, features=strategy.features | (job.strategy.features & UNPRICED_FEATURES))
    if violations(job.workload, kept):
        return best
    mapping = strategy_to_mapping(job.workload, kept)
    return best.model_copy(update={"plan_id": plan_id(job.workload, kept), "strategy": StrategyDocument.model_validate(mapping)})


def _estimate(job: Job, strategy: ParallelStrategy, own: Sequence[Calibration], *, is_played: bool) -> dict[str, Any]:
    """The price of the script's plan, simulated like the best plan unless it has too many tasks."""
    is_played = is_played and can_simulate(job.workload, strategy)
    numbers = priced(job.workload, StrategyBatch.of([strategy]), own, simulated=is_played)
    (document,) = fill_intervals(job.workload, estimates_to_mappings(job.workload, numbers), own, [strategy])
    with_shortest_samples(document, *shortest_fractions(job, [strategy], own))
    return dict(document)


def _is_no_gain(estimate: Mapping[str, Any], best: Plan) -> bool:
    """Whether the script's own plan fits and is as fast as the best."""
    return bool(estimate["fits"]) and estimate["step_time_s"] <= best.estimate.step_time_s


def _speedup(estimate: Mapping[str, Any], best: Plan, *, is_kept: bool) -> float:
    return 1.0 if is_kept else float(estimate["step_time_s"] / best.estimate.step_time_s)


def _best(read: ReadScript, estimate: Mapping[str, Any] | None, best: Plan, found: SearchDocument, *, is_kept: bool) -> TunedPlan:
    strategy, own = read.job.strategy, is_kept and estimate is not None
    assert strategy is not None
    workload = read.job.workload
    return TunedPlan.model_validate(
        {
            "plan_id": plan_id(workload, strategy) if own else best.plan_id,
            "strategy": strategy_to_mapping(workload, strategy) if own else plain(best.strategy),
            "estimate": estimate if own else plain(best.estimate),
            "proved_best": found.proof.proved_best and (_is_plan(read.job, found.proof.plan_id, found) if own else best.fastest),
            "stopped_by": found.proof.stopped_by,
        }
    )


def _is_plan(job: Job, identity: str | None, found: SearchDocument) -> bool:
    """Whether the script's own plan is that plan of the search, but for switches that do not affect the price."""
    assert job.strategy is not None
    own = plan_id(job.workload, job.strategy)
    return any(own in (plan.plan_id, _with_own_switches(job, plan).plan_id) for plan in found.plans if plan.plan_id == identity)


def _may_run(job: Job, estimate: Mapping[str, Any], best: Plan) -> str | None:
    """A sentence if the script's own plan may fit after all, and no plan that surely fits is faster: it is not replaced."""
    sure, limit = estimate["fits_probability"], job.settings.fit_confidence
    slower = best.estimate.step_time_s / estimate["step_time_s"] - 1.0
    if estimate["fits"] or slower < 0.0 or sure < LEAST_DOUBT:
        return None
    return Sentence(
        "The script is left as it is: no plan that fits with {} is faster. Yours fits with {}; if it runs, keep it, and if it "
        "runs out of memory, change to {}, which is {} slower.",
        percent(limit),
        percent(sure),
        best.strategy.name,
        percent(slower),
    )


def _startable(
    read: ReadScript, best: Plan, estimate: Mapping[str, Any] | None, own: Sequence[Calibration]
) -> tuple[Patched, Plan, str | None]:
    """The changed script, the plan that it says, and a sentence if it is left as it is: the framework would refuse it.

    The changed script is read again: its arguments are held against the release, and its plan against the rules. A plan that is
    not the whole of the best one is priced as it is read.
    """
    job, workload = read.job, read.job.workload
    untouched, num_devices = Patched(read.launch, (), is_exact=True), workload.cluster.num_devices
    changed = patched(read.launch, read.framework, workload, read.said, _strategy_of(job, best), num_devices)
    reasons = [*changed.refused, *_cut_unknown_layers(read, best)]
    if not reasons and not changed.is_exact:
        try:
            said = canonical(workload, read.framework.read(changed.launch.arguments, num_devices))
        except ReadingError as error:
            reasons = [str(error)]
        else:
            reasons = [violation.sentence for violation in violations(workload, said)]
            if not reasons:
                best = _as_read(job, best, said, own)
                if estimate is not None and (_is_no_gain(estimate, best) or not best.estimate.fits):
                    return untouched, best, Sentence("The script is left as it is: what can be changed in it saves nothing.")
    if not reasons:
        return changed, best, None
    sentence = Sentence(
        "The script is left as it is: {} would refuse {} beside its arguments: {}.",
        read.framework.target.label,
        best.strategy.name,
        joined("; ", (reason.rstrip(".") for reason in reasons)),
    )
    return untouched, best, sentence


def _cut_unknown_layers(read: ReadScript, best: Plan) -> Iterator[str]:
    """A sentence if an argument that the price leaves out makes layers of its own, and the plan places layers anew."""
    strategy, unpriced = read.job.strategy, read.framework.release.unpriced_by_name
    assert strategy is not None
    names = [entry.text for entry in read.ignored if "model" in unpriced.get(entry.text, {"": "model"}).values()]
    if names and strategy_to_mapping(read.job.workload, strategy)["layer_layout"] != best.strategy.layer_layout:
        yield Sentence("{} makes layers that are not known here, nor where a pipeline may cut them", joined(" and ", names))


def _as_read(job: Job, best: Plan, said: ParallelStrategy, own: Sequence[Calibration]) -> Plan:
    """The plan that a changed script says, with its own price."""
    numbers = _estimate(job, said, own, is_played=best.estimate.fidelity == "simulated")
    mapping = strategy_to_mapping(job.workload, said)
    update = {
        "plan_id": plan_id(job.workload, said),
        "strategy": StrategyDocument.model_validate(mapping),
        "estimate": type(best.estimate).model_validate(numbers),
    }
    return best.model_copy(update=update)


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "script", Sentence("script, changed")
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def without_verdict(estimate: Mapping[str, Any]) -> dict[str, Any]:
    """An estimate of a script of which a part is ignored: whether it fits is not known."""
    return {**estimate, "fits": None, "fits_probability": None}


def ignored(read: ReadScript) -> list[NotUnderstood]:
    """Arguments that the price leaves out as asked."""
    return [NotUnderstood(line=entry.line, text=entry.text, reason=entry.reason) for entry in read.ignored]


def refuse_unstartable(read: ReadScript) -> None:
    """Raise ``InputError`` for a script whose plan breaks a rule, if only by recompute without effect."""
    if violations(read.job.workload, read.said):
        raise refusal(read.job.workload, read.said, is_script=True)


def not_understood(read: ReadScript) -> list[NotUnderstood]:
    """Parts of the script that were passed over, in the order of its lines."""
    passed = sorted(dict.fromkeys(read.not_understood), key=lambda entry: entry.line or 0)
    return [NotUnderstood(line=entry.line, text=entry.text, reason=entry.reason) for entry in passed]
