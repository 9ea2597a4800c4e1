"""A stored plan with its original inputs: workload, space and constants of its study, and its strategy."""

from __future__ import annotations

from functools import partial

import numpy as np

from app.answers.files import USUAL_DEVICES_PER_NODE, plan_files
from app.answers.simulation import PlayedStep, play
from app.answers.trace import trace_text
from app.jobs.job import SCHEMA_VERSION
from app.language.choice import Language, said
from app.plans.schemas import PlanAnalysis, PlanLaunch, PlanTimeline
from app.plans.timeline import timeline_document
from app.storage.session import Database
from app.studies import service
from app.studies.errors import StudyConflict
from app.studies.stored_plan import stored_plan
from cost_models.simulation.step_times import simulate
from cost_models.step.composition import estimate
from documents.sentences import Sentence
from hardware_profiles.loader import parse_profile
from hardware_profiles.schema import ProfileError
from meshplan import __version__
from search.explain.plan_analysis import plan_analysis


def launch(database: Database, study_id: str, plan_id: str, language: Language) -> PlanLaunch:
    """The plan's launch arguments and launch files, with comments in the language."""
    with database.read() as session:
        plan = service.get_plan(session, study_id, plan_id)
        study = service.get_study(session, study_id)
    try:
        per_node = parse_profile(study.hardware_profile, Sentence("study {}", study_id)).devices_per_node
    except ProfileError:
        per_node = USUAL_DEVICES_PER_NODE
    texts = plan_files(plan, study.job, per_node, partial(said, language=language))
    files = [{"framework": framework, "name": name, "text": text} for framework, name, text in texts]
    return PlanLaunch.model_validate({**{name: plan[name] for name in ("plan_id", "launchable_on", "launch")}, "files": files})


def analysis(database: Database, study_id: str, plan_id: str) -> PlanAnalysis:
    plan = stored_plan(database, study_id, plan_id)
    price = simulate if plan.document["estimate"]["fidelity"] == "simulated" else estimate
    with np.errstate(all="ignore"):  # prices of an extreme job's neighbours may not be finite
        found = plan_analysis(plan.workload, plan.space, plan.strategy, plan.constants, price)
    told = {"schema_version": SCHEMA_VERSION, "plan_id": plan_id, "version": __version__, **found}
    return PlanAnalysis.model_validate(told)


def plan_timeline(database: Database, study_id: str, plan_id: str) -> PlanTimeline:
    """A stored plan's step, in the form of the dashboard."""
    return timeline_document(plan_step(database, study_id, plan_id))


def plan_step(database: Database, study_id: str, plan_id: str) -> PlayedStep:
    """Simulate a stored plan; ``StudyConflict`` if that is impossible."""
    plan = stored_plan(database, study_id, plan_id)
    try:
        return play(plan.workload, plan.strategy, plan.constants)
    except ValueError as error:
        raise StudyConflict(Sentence("The plan has no timeline: {}.", error)) from None


def plan_trace(database: Database, study_id: str, plan_id: str) -> str:
    """A stored plan's step as a trace."""
    return trace_text(plan_step(database, study_id, plan_id))
