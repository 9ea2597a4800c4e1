"""The page on changes of layout beside published times."""

import re

import pytest

from app.language.choice import Language
from scripts.case_studies.write_layout_switching import EXCHANGES, PAGES, tables, with_tables


@pytest.mark.parametrize("language", PAGES)
def test_the_page_has_the_tables_of_this_version(language: Language) -> None:
    page = PAGES[language].read_text(encoding="utf-8")
    assert with_tables(page, tables(language)) == page, "`make docs` writes the tables"


def rows(name: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in tables("en")[name].splitlines()[2:]]


def test_no_published_exchange_is_faster_than_its_links_and_none_is_predicted_far_off() -> None:
    for row, published in zip(rows("exchanges"), EXCHANGES, strict=True):
        seconds, predicted, links = float(row[2]), float(row[3]), float(row[5])
        assert links < seconds, row
        assert predicted / seconds < (1.15 if published.is_calibrated else 2.0), row
        left_out = re.fullmatch(r"([+-]\d+)%", row[6])
        assert left_out is None or abs(int(left_out[1])) <= 20, row
