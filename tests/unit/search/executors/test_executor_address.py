"""What `--executor` takes, and what it says of everything else."""

import socket
import sys

import pytest

from documents.errors import InputError
from search.executors.executor import SERIAL
from search.executors.executor_address import executor_of
from search.executors.processes import Processes


def test_addresses() -> None:
    assert executor_of("serial") is SERIAL
    assert isinstance(executor_of("process://2"), Processes)
    assert executor_of(None).room == 0, "a search that has just begun needs no processes"


@pytest.mark.parametrize(
    "address",
    ["process://0", "process://257", "process://9999", "process://-1", "process://", "threads", "", "dask://", "dask://host"],
)
def test_others_are_refused_with_what_is_allowed(address: str) -> None:
    with pytest.raises(InputError, match=r"^--executor: .* is not allowed; give serial, process://N with N from 1 to 256"):
        executor_of(address, "--executor")


def test_an_engine_that_does_not_answer_is_named() -> None:
    pytest.importorskip("distributed")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    with pytest.raises(InputError, match=f"no Dask scheduler answers at dask://127.0.0.1:{port}"):
        executor_of(f"dask://127.0.0.1:{port}")


def test_without_the_extra_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"needs Dask, which is not installed; pip install 'meshplan\[dask\]'"):
        executor_of("dask://127.0.0.1:8786")
