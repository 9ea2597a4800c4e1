"""A Dask cluster of this machine."""

import operator
import os
import signal
import warnings
from collections.abc import Iterator

import pytest

from search.executors.address import executor_of
from search.executors.executor import Executor, Piece
from tests.property.test_executors import answered
from tests.search_workloads import MOE

SOON_S = 120.0


@pytest.fixture(scope="module")
def engine() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an engine that starts and ends
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster:
            found = executor_of(cluster.scheduler_address.replace("tcp://", "dask://"))
            yield found
            found.close()


pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_answer_of_an_engine_is_that_of_one_process(engine: Executor) -> None:
    assert engine.room == 4
    assert engine.submit(os.getpid).result(SOON_S) != os.getpid()
    with pytest.raises(ZeroDivisionError):
        engine.submit(operator.truediv, 1, 0).result(SOON_S)
    assert answered(MOE, 16, "step_time", "any", engine) == answered(MOE, 16, "step_time", "any", None)


def test_a_call_whose_worker_is_killed_is_made_again(engine: Executor) -> None:
    victim = engine.submit(os.getpid).result(SOON_S)
    piece = Piece(operator.add, 2, 3)
    os.kill(victim, signal.SIGKILL)
    piece.give(engine)
    assert piece.waited(SOON_S)
    assert piece.result() == 5
