"""What every test shares: reproducible Hypothesis runs and golden files."""

import gc
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# Pricing a batch compiles nothing but can be slow on a busy machine, so time limits would only make tests flaky.
settings.register_profile("check", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("check")  # `pytest --hypothesis-profile explore` overrides it

# A test sees the same environment on every machine: no settings of ours or of a CI system, one locale, one time zone. (readline
# sets COLUMNS where there is no terminal; rich and typer heed the rest.)
FOREIGN = re.compile(
    r"_?MESHPLAN_|OTEL_|CI$|CI_|GITHUB_|GITLAB_|GIT_|(COLUMNS|LINES|LANGUAGE|LANG|NO_COLOR|FORCE_COLOR|CLICOLOR.*|TERM_PROGRAM)$|LC_"
)
for name in filter(FOREIGN.match, tuple(os.environ)):
    del os.environ[name]
os.environ |= {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
time.tzset()
for name in ("NO_PROXY", "no_proxy"):  # servers that tests start are asked directly
    os.environ[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1", "localhost")))

# Collecting makes millions of objects that stay; looking for circles among them takes a quarter of its time.
gc.disable()

HERE = Path(__file__).parent
# This process and those that tests start read what the first of them compiled, also where the environment says that nothing is
# kept beside the sources: compiling all of them, with what pytest writes into assertions, takes longer than importing them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(HERE.parent / "build" / "bytecode")
sys.dont_write_bytecode = False
# The other cores have tests of their own: processes that a search starts here only take longer. (tests/commands.py: ``process``
# takes this away again, so that what a command does unasked is tested.)
os.environ["MESHPLAN_EXECUTOR"] = "serial"
os.environ["MESHPLAN_SEARCH_S"] = "600"  # on a busy machine the usual limit would cut searches whose end is tested
GOLDEN = HERE / "golden"
TOGETHER = ("browser", "validation")  # one server and browser, one validation of every run: their files share a worker
# Folders with tests of minutes start first, so that all workers end together; what is not named here is many small files.
LONGEST_FIRST = ("browser", "e2e", "validation", "mutation", "architecture", "workers", "storage", "property", "oracle", "api")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files instead of comparing with them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.relative_to(HERE).parts[0], len(places)))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """A group is a file, or a whole folder of ``TOGETHER``. (The marks of ``--dist loadgroup`` do nothing under pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0].removeprefix("tests/")
        folder = path.partition("/")[0]
        return folder if folder in TOGETHER else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    return Groups(config, log)


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with ``tests/golden/<name>``, or writes it there under ``--rewrite-golden``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} does not exist; `make golden` writes it"
        assert text == path.read_text(encoding="utf-8"), "if the change is meant, run `make golden` and review the diff"

    return check
