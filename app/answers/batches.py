"""Requests for the price of one strategy: requests of one job that arrive together are priced together."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from app.answers.price import JobPrices, is_far
from app.answers.schemas import MAX_STRATEGIES, EstimateRequest
from app.calibrations.stored import stored_calibrations
from app.jobs.job import Job, with_strategy
from app.jobs.requests import check_keys, parse_request
from app.text.json_documents import json_bytes
from cost_models.shapes.strategy import ParallelStrategy
from documents.errors import InputError, show
from documents.sentences import Sentence

if TYPE_CHECKING:
    from app.storage.session import Database


MAX_JOBS = 16  # jobs that are kept; each takes a few megabytes after many strategies
OF_ESTIMATE = ("strategies", "simulate", "advise", "memory_plan")  # keys of a request that do not belong to the job


class _Asked(NamedTuple):
    place: int
    job: Job
    strategy: ParallelStrategy


class EstimateBatches:
    """Answers in batches. The most recent jobs are kept in parsed form, with the prices of their layers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: OrderedDict[str, JobPrices] = OrderedDict()

    def answers(self, requests: Sequence[Mapping[str, Any]], *, advised: bool = True) -> list[bytes | InputError | None]:
        """The answer to each request; it does not depend on the other requests.

        Unless ``advised``, None is returned for a request that needs the next runs, which takes far longer.
        """
        found: dict[int, bytes | InputError | None] = {}
        together: dict[tuple[str, bool], tuple[JobPrices, list[_Asked]]] = {}
        for index, request in enumerate(requests):
            try:
                name, prices, job, is_advised = self._read(request)
                assert job.strategy is not None  # a job without a strategy is refused
                together.setdefault((name, is_advised), (prices, []))[1].append(_Asked(index, job, job.strategy))
            except InputError as error:
                found[index] = error
        for (_, is_advised), (prices, asked) in together.items():
            plans = [(one.job, one.strategy) for one in asked]
            documents = prices.documents(plans, advised=is_advised and advised, with_software=is_advised)
            for one, document in zip(asked, documents, strict=True):
                if isinstance(document, InputError):
                    found[one.place] = document
                else:
                    lacks_advice = is_advised and not advised and is_far(document, one.strategy)
                    found[one.place] = None if lacks_advice else json_bytes(document)
        return [found[index] for index in range(len(requests))]

    def _read(self, request: Mapping[str, Any]) -> tuple[str, JobPrices, Job, bool]:
        """The key of the kept job, its prices, the job with the strategy, and whether runs are advised."""
        check_keys(request, EstimateRequest.model_fields)
        is_advised = request.get("advise")
        if not isinstance(is_advised, bool | None):
            raise InputError(Sentence("advise: {} is not allowed; give true or false.", show(is_advised)))
        document = {key: value for key, value in request.items() if key not in ("strategy", *OF_ESTIMATE)}
        name, prices = self._prices(document)
        if request.get("strategy") is None:
            raise InputError(Sentence("strategy: missing; give one strategy, or up to {:,} in strategies.", MAX_STRATEGIES))
        return name, prices, with_strategy(prices.job, request["strategy"]), is_advised is not False

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
