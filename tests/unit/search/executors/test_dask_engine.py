"""A Dask cluster of this machine."""

import os
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from search.executors.executor import Executor, Piece
from search.executors.executor_address import executor_of
from search.sweep.start_points import num_known
from tests.property.test_executors import answered
from tests.search_workloads import MOE

SOON_S = 120.0
pytestmark = pytest.mark.filterwarnings("ignore")  # of an engine that starts and ends


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        address = {"host": "127.0.0.1", "dashboard_address": None}
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **address) as found:
            yield found


@pytest.fixture
def engine(cluster: Any) -> Iterator[Executor]:
    found = executor_of(cluster.scheduler_address.replace("tcp://", "dask://"))
    yield found
    found.close()


def test_the_answer_of_an_engine_is_that_of_one_process(engine: Executor) -> None:
    assert engine.room == 4
    assert engine.submit(num_known, 40).result(SOON_S) == 32
    with pytest.raises(TypeError):
        engine.submit(num_known, "40").result(SOON_S)
    assert answered(MOE, 16, "step_time", "any", engine) == answered(MOE, 16, "step_time", "any", None)


def test_a_call_whose_worker_is_killed_is_made_again(cluster: Any, engine: Executor) -> None:
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    pieces = [Piece(num_known, before) for before in (10, 20, 40)]
    for piece in pieces:
        piece.give(engine)
    assert all(piece.waited(SOON_S) for piece in pieces)
    assert [piece.result() for piece in pieces] == [5, 12, 32]
