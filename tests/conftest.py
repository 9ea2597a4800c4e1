"""What every test shares: reproducible Hypothesis runs and golden files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Pricing a batch compiles nothing but can be slow on a busy machine, so time limits would only make tests flaky.
settings.register_profile("check", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("check")  # `pytest --hypothesis-profile explore` overrides it

for name in ("COLUMNS", "LINES"):  # readline sets them where there is no terminal; tables are as wide as COLUMNS says
    os.environ.pop(name, None)

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
# Coverage doubles the time of what it watches: these reach as much of the code as all tests, for a tenth more of a whole run.
COVERED = (HERE / "unit", HERE / "api")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files instead of comparing with them")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("_cov"):
        for item in items:
            if not any(item.path.is_relative_to(folder) for folder in COVERED):
                item.add_marker("no_cover")


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
