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
# Processes that tests start read what the first of them compiled, also where the environment says that nothing is kept beside
# the sources: compiling all of them takes longer than importing them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = str(HERE.parent / "build" / "bytecode")
GOLDEN = HERE / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files instead of comparing with them")


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
