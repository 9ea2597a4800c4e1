"""A report says what its answer says, in both languages, and stands alone."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from lxml import html  # type: ignore[import-untyped]

from app.answers.schemas import SearchDocument
from app.answers.search import search_document
from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE
from app.jobs.job import parse_job
from app.reports.report import Form, Language, report, vocabulary
from app.text.json_documents import json_text
from documents.quantities import gibibytes, seconds

ROOT = Path(__file__).parents[4]
JOB: dict[str, Any] = {
    "model": "llama-2-7b",
    "cluster": {"hardware": "atlas-800t-a2", "num_devices": 8},
    "training": {"seq_length": 4096, "global_batch_size": 64, "train_tokens": 1e11},
    "search": {"tp": [1, 2], "cp": 1, "recompute": ["none", "full"], "top": 5},
    "delivery": {"mtbf_s": 1e6, "spares": 2},
}
ON = date(2026, 11, 23)


@pytest.fixture(scope="module")
def answer() -> SearchDocument:
    return search_document(parse_job(JOB))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("form", ["html", "pdf-ready", "markdown"])
def test_a_report_holds_the_figures_of_its_answer(answer: SearchDocument, form: Form, language: Language) -> None:
    text = report(answer, form, language, ON)
    best = answer.plans[0]
    for figure in (seconds(best.estimate.step_time_s), gibibytes(best.estimate.peak_memory_bytes), "llama-2-7b", "2026-11-23"):
        assert figure in text
    for plan in answer.plans:
        assert seconds(plan.estimate.step_time_s) in text
    names = {each.rule.replace("_", " ") for each in answer.rejections}
    chinese = json.loads((ROOT / "app/language/zh/rules.json").read_text(encoding="utf-8"))
    assert all((name if language == "en" else chinese[name]) in text for name in names)
    assert "--tensor-model-parallel-size" in text
    assert best.delivery is not None
    assert f"{best.delivery.effective_time_fraction:.1%}" in text
    assert bool(re.search("[\u4e00-\u9fff]", text)) == (language == "zh")
    assert "{" not in text.split("<style>")[0]


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_what_calls_the_figures_into_question_stands_before_the_plans(answer: SearchDocument, form: Form) -> None:
    doubtful = answer.model_copy(update={"warnings": ["site-a is unvalidated: no measured training run backs its numbers."]})
    text = report(doubtful, form, "en", ON)
    assert text.index("In short") < text.index("site-a is unvalidated") < text.index("The best plans")


def test_a_page_stands_alone(answer: SearchDocument) -> None:
    page = html.fromstring(report(answer, "html", "zh", ON))
    assert page.get("lang") == "zh-CN"
    assert page.xpath("//script | //link | //img | //*[@src] | //*[@href]") == []
    assert all(picture.get("aria-label") for picture in page.xpath("//svg"))
    widths = [float(piece.get("width")) for piece in page.xpath("(//svg)[1]//rect")]
    assert min(widths) > 0
    assert "@page" in report(answer, "pdf-ready", "en", ON)


@pytest.mark.parametrize(("language", "job_line"), [("en", "How to train llama-2-7b"), ("zh", "llama-2-7b 在 8")])
def test_a_study_that_has_a_name_is_titled_by_it(answer: SearchDocument, language: Language, job_line: str) -> None:
    page = html.fromstring(report(answer, "html", language, ON, "Tender A & B"))
    assert [page.findtext(".//title"), page.findtext(".//h1")] == ["Tender A & B"] * 2
    assert page.xpath("//h1/following-sibling::p")[0].text.startswith(job_line)
    title, _, below, *_ = report(answer, "markdown", language, ON, "<b>Tender").splitlines()
    assert title == "# \\<b\\>Tender"
    assert below.startswith(job_line)
    unnamed = html.fromstring(report(answer, "html", language, ON))
    assert unnamed.findtext(".//h1").startswith(job_line)
    assert unnamed.xpath("//h1/following-sibling::p")[0].get("class") == "muted"


def test_what_comes_from_outside_is_escaped(answer: SearchDocument) -> None:
    job = json.loads(json.dumps(answer.job))
    job["model"]["name"] = "<script>alert(1)</script>"
    hostile = answer.model_copy(update={"job": job, "warnings": ["a | b <img src=x>"]})
    assert "<script>" not in report(hostile, "html", "en", ON)
    assert not re.search(r"(?<!\\)<img", report(hostile, "markdown", "en", ON))
    assert "a \\| b" in report(hostile, "markdown", "en", ON)


def test_an_answer_without_a_plan_is_a_report_too() -> None:
    job = {**JOB, "model": "llama-2-70b", "cluster": {**JOB["cluster"], "num_devices": 1}, "search": {}}
    answer = search_document(parse_job(job))
    assert answer.nearest is not None
    text = report(answer, "html", "en", ON)
    assert "There is no plan" in text
    assert "<svg" not in text


def test_names_of_parts_are_those_of_the_dashboard() -> None:
    for language in ("en", "zh"):
        strings = json.loads((ROOT / "dashboard" / "src" / "locales" / language / "common.json").read_text())
        assert {part: names[language] for part, names in vocabulary()["parts"].items()} == strings["part"]


def test_sentences_take_the_same_values_in_both_languages() -> None:
    for texts in vocabulary()["words"].values():
        assert set(re.findall("{(.*?)}", texts["en"])) == set(re.findall("{(.*?)}", texts["zh"]))


def test_the_command_writes_a_file_from_a_saved_answer(
    answer: SearchDocument, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, page = tmp_path / "answer.json", tmp_path / "page.html"
    saved.write_text(json_text(answer))
    assert main(["report", str(saved), "--output", str(page)]) == DONE
    assert page.read_text().startswith("<!doctype html>")
    assert main(["report", str(saved), "--format", "markdown"]) == DONE
    assert capsys.readouterr().out.startswith("# How to train llama-2-7b")
    saved.write_text('{"plans": []}')
    for wrong in ([str(saved)], [str(tmp_path / "none.json")], [str(saved), "--format", "pdf"], ["0" * 16]):
        assert main(["report", *wrong]) == BAD_INPUT
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert captured.out == ""


def test_a_chinese_report_leaves_no_word_of_ours_in_english(answer: SearchDocument) -> None:
    """Names of parts, units of days, and what pictures say; names of fields, switches, rules and launch arguments stay."""
    page = html.fromstring(report(answer, "html", "zh", ON))
    drawn = " ".join(page.xpath("//svg//text()"))
    assert re.findall(r"(?i)other|step|memory", drawn) == []
    assert "其他" in drawn
    assert re.search(r"训练时长：.+ 天）", page.text_content())
