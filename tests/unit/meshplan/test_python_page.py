"""docs/python.md against meshplan: what it offers is on the page, as the sources have it now. tests/e2e runs its examples."""

from types import FunctionType

import meshplan
from meshplan import client, errors, local, server_records
from scripts.pages.write_python import ROOT, page, reference

PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")


def test_the_reference_is_that_of_the_sources() -> None:
    assert page(PAGE) == PAGE, "run `make docs` and review the diff of docs/python.md"


def test_all_that_can_be_imported_from_meshplan_is_on_the_page() -> None:
    made = PAGE[PAGE.index("<!-- reference") :]
    headings = {line.removeprefix("## ") for line in made.splitlines() if line.startswith("## ")}
    own = {
        name
        for module in (server_records, client, errors, local)
        for name, value in vars(module).items()
        if isinstance(value, type | FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    assert headings == own
    assert set(meshplan._EXPORTED) <= headings
    assert all(hasattr(meshplan, name) for name in (*meshplan._EXPORTED, "__version__"))


def test_every_public_method_is_on_the_page_with_its_parameters() -> None:
    methods = [name for name in dir(client.Client) if not name.startswith("_")]
    assert len(methods) > 20
    assert [name for name in methods if f"- `{name}(" not in PAGE] == []


def test_a_method_is_written_as_it_is_called() -> None:
    source = '''
class Tool:
    """Works with ``care``."""

    size: int

    def __init__(self, name: str = "a") -> None: ...

    @property
    def weight(self) -> float:
        """How heavy it is. [kg]"""

    def use(self, times: int, *, hard: bool = False) -> list[str]:
        """Uses it.

        Twice is more than once.
        """

    def _hide(self) -> None: ...
'''
    assert reference(source) == (
        "## Tool\n\nWorks with `care`.\n\n- `size: int`\n- `Tool(name: str = 'a')`\n"
        "- `weight -> float`: How heavy it is. [kg]\n"
        "- `use(times: int, *, hard: bool = False) -> list[str]`: Uses it.\n  Twice is more than once.\n"
    )
