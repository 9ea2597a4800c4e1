"""The Chinese pages follow the English ones: the same commands, code, headings and links, so that neither drifts away unseen."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAIRS = {
    "README.md": "README.zh.md",
    "docs/example.md": "docs/zh/example.md",
    "docs/tutorial.md": "docs/zh/tutorial.md",
    "docs/faq.md": "docs/zh/faq.md",
    "docs/glossary.md": "docs/zh/glossary.md",
    "docs/cli.md": "docs/zh/cli.md",
    "docs/launch.md": "docs/zh/launch.md",
    "docs/check.md": "docs/zh/check.md",
    "docs/compare-trace.md": "docs/zh/compare-trace.md",
    "docs/dashboard.md": "docs/zh/dashboard.md",
    "docs/goodput.md": "docs/zh/goodput.md",
    "docs/layout-switching.md": "docs/zh/layout-switching.md",
    "docs/measuring.md": "docs/zh/measuring.md",
    "docs/operations.md": "docs/zh/operations.md",
    "docs/post-training.md": "docs/zh/post-training.md",
    "docs/recipes.md": "docs/zh/recipes.md",
    "docs/security.md": "docs/zh/security.md",
    "docs/studies.md": "docs/zh/studies.md",
    "docs/sweep.md": "docs/zh/sweep.md",
    "docs/tune.md": "docs/zh/tune.md",
    "docs/verify.md": "docs/zh/verify.md",
    "docs/verification.md": "docs/zh/verification.md",
}
RUN = re.compile(r"^```(console|json|python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _code(name: str) -> list[tuple[str, str]]:
    """Its blocks that are run or copied, without their comments, which are in the language of the page."""
    return [(kind, re.sub(r"\s+#\s.*$", "", block, flags=re.MULTILINE)) for kind, block in RUN.findall(_text(name))]


def _headings(name: str) -> list[str]:
    return [line.split(" ")[0] for line in FENCED.sub("", _text(name)).splitlines() if re.match(r"#+ ", line)]


def _terms(name: str) -> list[str]:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in _text(name).splitlines() if line.startswith("| ")]
    return [row for row in rows if row not in ("word", "field", "术语")]


@pytest.mark.parametrize("english", PAIRS)
def test_commands_and_code_are_the_same(english: str) -> None:
    assert _code(PAIRS[english]) == _code(english)


@pytest.mark.parametrize("english", PAIRS)
def test_sections_are_the_same(english: str) -> None:
    assert _headings(PAIRS[english]) == _headings(english)


def test_the_glossaries_explain_the_same_words() -> None:
    assert _terms("docs/zh/glossary.md") == _terms("docs/glossary.md")


@pytest.mark.parametrize("english", PAIRS)
def test_each_page_leads_to_the_other(english: str) -> None:
    chinese = ROOT / PAIRS[english]
    to_chinese = re.findall(r"\[中文\]\(([^)]+)\)", _text(english))
    to_english = re.findall(r"\[English\]\(([^)]+)\)", _text(PAIRS[english]))
    assert [((ROOT / english).parent / link).resolve() for link in to_chinese] == [chinese]
    assert [(chinese.parent / link).resolve() for link in to_english] == [ROOT / english]


@pytest.mark.parametrize("chinese", PAIRS.values())
def test_a_chinese_page_leads_to_chinese_pages(chinese: str) -> None:
    own = {(ROOT / english).resolve(): (ROOT / page).resolve() for english, page in PAIRS.items()}
    linked = [(ROOT / chinese).parent / link for link in re.findall(r"\]\(([\w./-]+\.md)", FENCED.sub("", _text(chinese)))]
    assert [str(link) for link in linked if own.get(link.resolve()) not in (None, (ROOT / chinese).resolve())] == []


@pytest.mark.parametrize("english", PAIRS)
def test_the_chinese_table_of_pages_names_what_the_english_one_does(english: str) -> None:
    assert f"({english})" not in _text("README.md") or f"({PAIRS[english]})" in _text("README.zh.md")


@pytest.mark.parametrize("chinese", PAIRS.values())
def test_every_paragraph_is_in_chinese(chinese: str) -> None:
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", FENCED.sub("", _text(chinese)))
    long = [text for text in re.split(r"\n\s*\n", prose) if len(re.findall(r"[A-Za-z]{3,}", text)) > 8]
    assert [text for text in long if not re.search(r"[\u4e00-\u9fff]{4}", text)] == []
