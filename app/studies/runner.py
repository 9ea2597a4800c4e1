"""Runs one study that a worker has claimed: step by step, saved about once a second, to its end or to the next pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import structlog

from app.answers.assumptions import assumption_sentences
from app.answers.delivery import with_deliveries
from app.answers.judgement import judged_sentences
from app.answers.price import fill_intervals
from app.answers.schemas import Plan
from app.storage.away import DATABASE_AWAY
from app.storage.session import Database
from app.studies import queue, repository
from app.studies.queue import Lease, LeaseLostError, Outcome
from app.studies.resume import StoredStudy, StudySearch, checkpoint_of, continued
from app.studies.schemas import StudyResult
from app.text.documents import plain
from cost_models.shapes.workload import Workload, WorkloadError
from documents.errors import InputError
from meshplan import __version__
from search.plan import strategy_to_mapping
from search.result import EXPLAIN, Progress, SearchResult
from search.stepwise import run_to_end
from search.trials import Trial

UNUSABLE_INPUT = (InputError, WorkloadError)

log = structlog.get_logger()


class StudyRun:
    """One attempt at a study. ``should_stop`` is asked after every step and puts the study back into the queue."""

    def __init__(self, database: Database, lease: Lease, *, checkpoint_s: float, should_stop: Callable[[], bool]) -> None:
        self._database = database
        self._lease = lease
        self._checkpoint_s = checkpoint_s
        self._should_stop = should_stop
        self._num_saved_trials = 0
        self._saved_s = float("-inf")  # the first step is saved at once: it shows that the study gets on
        self._is_released = False

    def run(self) -> str:
        """How the attempt ended: a final state, or ``queued``.

        Raises ``LeaseLostError`` where another worker has the study, and ``DATABASE_AWAY`` where nobody can be told.
        """
        try:
            return self._run()
        except (LeaseLostError, *DATABASE_AWAY):
            raise
        except UNUSABLE_INPUT as error:
            return self._fail(f"{str(error).rstrip('.')}.")
        except Exception as error:
            log.exception("study failed", study=self._lease.study_id)
            return self._fail(f"Internal error: {type(error).__name__}: {error}")

    def _run(self) -> str:
        study = self._load()
        if not study.is_of_this_version:
            log.info("study starts over: its checkpoint is of another version", study=study.id)
            with self._database.write() as session:
                queue.start_over(session, self._lease)
            study = self._load()
        found = continued(study)
        self._num_saved_trials = len(study.trials)
        stopped_by = "interrupt" if self._is_cancelled() else self._advance(found)
        if self._is_released:
            return "queued"
        state = "cancelled" if stopped_by == "interrupt" else "completed"
        self._finish(found, state, found.search.result(stopped_by))
        return state

    def _load(self) -> StoredStudy:
        with self._database.read() as session:
            study = repository.find_study(session, self._lease.study_id)
            if study is None:
                raise LeaseLostError(self._lease.study_id)
            inputs = {
                name: getattr(study, name) for name in ("id", "job", "hardware_profile", "space", "calibration", "checkpoint")
            }
            return StoredStudy(**inputs, trials=tuple(vars(trial) for trial in repository.all_trials(session, study.id)))

    def _is_cancelled(self) -> bool:
        with self._database.read() as session:
            return queue.is_cancel_requested(session, self._lease)

    def _advance(self, found: StudySearch) -> str | None:
        def after_step(progress: Progress) -> bool:
            if progress.phase == EXPLAIN:
                return True  # all has been found: a worker that is to stop has an answer to give
            if self._is_cancelled():
                return False
            if self._should_stop():
                self._save(found, release=True)
                return False
            if time.monotonic() - self._saved_s >= self._checkpoint_s:
                self._save(found)
            return True

        return run_to_end(found.search, found.time_limit_s, after_step)

    def _save(self, found: StudySearch, *, release: bool = False) -> None:
        search = found.search
        with self._database.write() as session:
            queue.save(session, self._lease, asdict(search.progress), checkpoint_of(search), self._unsaved_trials(found))
            if release:
                queue.release(session, self._lease)
        self._num_saved_trials = len(search.trials)
        self._is_released = release
        self._saved_s = time.monotonic()

    def _finish(self, found: StudySearch, state: str, result: SearchResult) -> None:
        document = fill_intervals(found.job.workload, result.to_mapping(), [found.calibration])
        with_deliveries(found.job, document, [plan.parallel for plan in result.plans], [found.calibration])
        stored = StudyResult.model_validate({name: document[name] for name in StudyResult.model_fields})
        plans = [plain(Plan.model_validate(plan)) for plan in document["plans"]]
        best = result.plans[0].parallel if result.plans else None
        assumptions = [*assumption_sentences(found.job, found.own, best, "search"), *judged_sentences(found.job)]
        search = found.search
        with self._database.write() as session:
            queue.save(session, self._lease, asdict(search.progress), checkpoint_of(search), self._unsaved_trials(found))
            outcome = Outcome(state, plain(stored), plans, document["rejections"], assumptions=assumptions)
            queue.finish(session, self._lease, __version__, outcome)

    def _unsaved_trials(self, found: StudySearch) -> list[dict[str, Any]]:
        workload = found.job.workload
        return [_trial_row(workload, trial) for trial in found.search.trials[self._num_saved_trials :]]

    def _fail(self, reason: str) -> str:
        """What was saved stays: a failed study can be resumed from its checkpoint."""
        with self._database.write() as session:
            queue.finish(session, self._lease, __version__, Outcome("failed", error=reason))
        return "failed"


def _trial_row(workload: Workload, trial: Trial) -> dict[str, Any]:
    return {**trial.to_mapping(), "strategy": strategy_to_mapping(workload, trial.strategy)}
