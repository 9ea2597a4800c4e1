"""The answer of a search is the same whoever works on its chunks, in whatever order they are ready."""

import json
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_models.constants import prior_constants
from search.executors.executor import Executor, WorkerLostError
from search.executors.processes import Processes
from search.exhaustive.lattice_search import LatticeSearch
from search.exhaustive.lattice_state import LatticeState
from search.space.limits import SearchLimits
from search.space.search_space import search_space
from tests.search_workloads import DENSE, MOE, request, workload

CONSTANTS = prior_constants("ascend")
LIMITS = SearchLimits(tp=(1, 2), pp=(1, 2, 4), vpp=(1, 2), cp=(1,), etp=(1, 2), micro_batch_size=(1,))


class Whenever:
    """Calls functions as another process would, and has their results ready in any order; some processes die."""

    def __init__(self, seed: int, most: int) -> None:
        self._random, self._most = Random(seed), most  # no secret
        self._waiting: list[tuple[Future[Any], bytes]] = []
        self.num_called = 0

    grown_bytes = 0

    @property
    def room(self) -> int:
        self._random.shuffle(self._waiting)
        for _ in range(self._random.randint(0, len(self._waiting))):
            future, found = self._waiting.pop()
            if self._random.random() < 0.1:
                future.set_exception(WorkerLostError())
            else:
                future.set_result(pickle.loads(found))
        return self._random.randint(0, self._most)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        self._waiting.append((Future(), pickle.dumps(function(*arguments))))
        self.num_called += 1
        return self._waiting[-1][0]

    def close(self) -> None:
        pass


def answered(
    model: Any, num_devices: int, objective: str, target: str, executor: Executor | None, stop: int | None = None
) -> str:
    job = workload(model, num_devices=num_devices, target=target)
    space = search_space(job, LIMITS)
    asked = request(job, space, CONSTANTS, objective, top=5)
    given: dict[str, Any] = {} if executor is None else {"executor": executor}
    lattice, steps = LatticeSearch(asked, **given), 0
    while lattice.advance():
        steps += 1
        if steps == stop:  # and the rest in another process, from what was saved
            state = LatticeState.from_mapping(json.loads(json.dumps(lattice.checkpoint())), asked.criterion, 5)
            lattice = LatticeSearch(asked, state=state)
    return json.dumps(lattice.result().to_mapping())


@settings(max_examples=5, deadline=None)
@given(
    model=st.sampled_from([DENSE, MOE]),
    num_devices=st.sampled_from([8, 16]),
    objective=st.sampled_from(["step_time", "step_time", "memory_headroom"]),
    target=st.sampled_from(["any", "mindspeed-llm"]),
    most=st.integers(1, 9),
    seed=st.integers(0, 1000),
    stop=st.none() | st.integers(1, 12),
)
def test_the_answer_does_not_depend_on_who_prices_which_chunk_when(
    monkeypatch_waits: None, model: Any, num_devices: int, objective: str, target: str, most: int, seed: int, stop: int | None
) -> None:
    others = Whenever(seed, most)
    found = answered(model, num_devices, objective, target, others, stop)
    assert found == answered(model, num_devices, objective, target, None)


@pytest.fixture(scope="module")
def monkeypatch_waits() -> Any:
    """Nobody works while one waits here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("search.executors.executor.wait", lambda futures, timeout: None)
        yield


@pytest.mark.parametrize("number", [2, 3])
def test_processes_find_the_same(number: int) -> None:
    pool = Processes(number)
    try:
        while not pool.room:
            time.sleep(0.05)
        found = answered(MOE, 16, "step_time", "any", pool)
    finally:
        pool.close()
    assert found == answered(MOE, 16, "step_time", "any", None)
