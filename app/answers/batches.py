"""Requests for the price of one strategy: requests of one job that arrive together are priced together."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from app.answers.parts import Part
from app.answers.price import JobPrices, is_far
from app.answers.schemas import MAX_STRATEGIES, EstimateRequest
from app.calibrations.stored import stored_calibrations
from app.jobs.job import Job, with_strategy
from app.jobs.requests import check_keys, parse_request
from app.text.json_documents import json_bytes
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InputError
from documents.sentences import Sentence

if TYPE_CHECKING:
    from app.storage.session import Database


MAX_JOBS = 16  # jobs that are kept; each takes a few megabytes after many strategies
OF_ESTIMATE = ("strategies", "simulate", "advise", "memory_plan")  # keys of a request that do not belong to the job
_ADVICE: frozenset[Part] = frozenset({"next_runs"})


class _Asked(NamedTuple):
    place: int
    job: Job
    strategy: ParallelStrategy


class EstimateBatches:
    """Answers in batches. The most recent jobs are kept in parsed form, with the prices of their layers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: OrderedDict[str, JobPrices] = OrderedDict()

    def answers(
        self, requests: Sequence[tuple[Mapping[str, Any], frozenset[Part]]], *, advised: bool = True
    ) -> list[bytes | InputError | None]:
        """The answer to each request, with the parts that it asks for; it does not depend on the other requests.

        Unless ``advised``, None is returned for a request that needs the next runs, which takes far longer.
        """
        found: dict[int, bytes | InputError | None] = {}
        together: dict[tuple[str, frozenset[Part]], tuple[JobPrices, list[_Asked]]] = {}
        for index, (request, parts) in enumerate(requests):
            try:
                name, prices, job = self._read(request)
                assert job.strategy is not None  # a job without a strategy is refused
                together.setdefault((name, parts), (prices, []))[1].append(_Asked(index, job, job.strategy))
            except InputError as error:
                found[index] = error
        for (_, parts), (prices, asked) in together.items():
            plans = [(one.job, one.strategy) for one in asked]
            documents = prices.documents(plans, explained=parts if advised else parts - _ADVICE)
            for one, document in zip(asked, documents, strict=True):
                if isinstance(document, InputError):
                    found[one.place] = document
                else:
                    lacks_advice = not advised and _ADVICE <= parts and is_far(document, one.strategy)
                    found[one.place] = None if lacks_advice else json_bytes(document)
        return [found[index] for index in range(len(requests))]

    def _read(self, request: Mapping[str, Any]) -> tuple[str, JobPrices, Job]:
        """The key of the kept job, its prices, and the job with the strategy."""
        check_keys(request, EstimateRequest.model_fields)
        document = {key: value for key, value in request.items() if key not in ("strategy", *OF_ESTIMATE)}
        name, prices = self._prices(document)
        if request.get("strategy") is None:
            raise InputError(Sentence("strategy: missing; give one strategy, or up to {:,} in strategies.", MAX_STRATEGIES))
        return name, prices, with_strategy(prices.job, request["strategy"])

    def _prices(self, document: Mapping[str, Any]) -> tuple[str, JobPrices]:
        name = json.dumps(document)
        if name in self._jobs:
            self._jobs.move_to_end(name)
            return name, self._jobs[name]
        job = parse_request(document)
        prices = JobPrices(job, stored_calibrations(self._database, job))
        if job.calibration is None:  # a stored calibration may be deleted before the next request
            self._jobs[name] = prices
            if len(self._jobs) > MAX_JOBS:
                self._jobs.popitem(last=False)
        return name, prices
