"""``meshplan calibrate`` and the commands that take its file, on published runs of one cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.calibrations.schemas import CalibrateDocument
from app.cli.main import main
from app.exit_codes import BAD_INPUT, DONE

RUNS = Path(__file__).resolve().parents[4] / "calibration" / "runs" / "ascend.jsonl"
SITE = ("--hardware", "atlas-900-a2-podc", "--stack", "mindspeed-llm")
JOB = ("llama-2-7b", "--hardware", "atlas-900-a2-podc", "--devices", "8", "--global-batch-size", "64", "--tp", "8")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs of MindSpeed-LLM on that cluster, and one that was superseded."""
    rows = [json.loads(line) for line in RUNS.read_text("utf-8").splitlines()]
    fitting = [r for r in rows if r["cluster"]["hardware"] == SITE[1] and r["software"]["framework"].startswith("MindSpeed")]
    chosen = [r for r in fitting if r["is_latest_for_config"] and not r["suspect"] and r["training"]["seq_length"] < 32768][:6]
    older = next(r for r in fitting if not r["is_latest_for_config"])
    path = tmp_path_factory.mktemp("site") / "runs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [*chosen, older]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(runs: Path) -> Path:
    path = runs.parent / "own.json"
    assert main(["calibrate", str(runs), *SITE, "--output", str(path)]) == DONE
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert main([*map(str, arguments), "--json"]) == DONE
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main([*map(str, arguments)]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("meshplan: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_it_reports_what_was_learned(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "calibrate", runs, *SITE, "--output", tmp_path / "own.json")
    CalibrateDocument.model_validate(document)
    assert document["num_runs"] == 6
    assert len(document["rows"]) == 6
    (refused,) = document["refused"]
    assert "older publication" in refused["reason"]
    assert document["errors"]["fitted"]["mean_abs_error_fraction"] < document["errors"]["before"]["mean_abs_error_fraction"]
    learned = {entry["name"]: entry["learned_fraction"] for entry in document["constants"]}
    assert learned["matmul_fraction"] > 0.05
    assert all(0.0 <= fraction < 1.0 for fraction in learned.values())
    assert any("cannot narrow the intervals" in sentence for sentence in document["warnings"])
    factor = document["time_factor"]
    assert factor["num_runs"] == 6
    assert factor["value"] != 1.0
    assert (tmp_path / "own.json").is_file()


def test_it_prints_tables(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(runs), *SITE, "--output", str(tmp_path / "own.json")]) == DONE
    captured = capsys.readouterr()
    for part in ("6 runs of mindspeed-llm", "refused ", "matmul_fraction", "left out", "shipped calibration", "--calibration"):
        assert part in captured.out
    assert "cluster.time_factor = " in captured.out
    assert "fit step 1" in captured.err


def test_a_run_of_a_slow_cluster_gives_the_factor_that_explains_it(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = json.loads(runs.read_text("utf-8").splitlines()[0])
    row["measured"] = {"step_time_s": 3.0 * answer(capsys, "validate", runs)["rows"][0]["predicted_step_time_s"]}
    slow = tmp_path / "slow.jsonl"
    slow.write_text(json.dumps(row), encoding="utf-8")
    arguments = ("calibrate", slow, *SITE, "--output", tmp_path / "own.json")
    factor = answer(capsys, *arguments)["time_factor"]
    assert factor["num_inside"] == 0
    assert factor["value"] >= 2.999  # host time is not multiplied
    assert main([*map(str, arguments), "--overwrite"]) == DONE
    assert f"--cluster-time-factor {factor['value']:.3f}." in capsys.readouterr().out


def test_an_estimate_takes_the_file_and_names_it(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = answer(capsys, "estimate", *JOB)
    own = answer(capsys, "estimate", *JOB, "--calibration", written)
    assert own["estimate"]["step_time_s"] != shipped["estimate"]["step_time_s"]
    assert any(sentence.startswith("software.calibration = ") for sentence in own["assumptions"])
    assert own["estimate"]["evidence"]["num_runs"] == shipped["estimate"]["evidence"]["num_runs"] + 6
    assert own["estimate"]["step_time_low_s"] < own["estimate"]["step_time_s"] < own["estimate"]["step_time_high_s"]


def test_a_job_file_names_the_calibration_that_lies_beside_it(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = json.loads(json.dumps(answer(capsys, "estimate", *JOB)["job"]))
    job["software"]["calibration"] = written.name
    path = written.parent / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    found, flagged = answer(capsys, "estimate", path), answer(capsys, "estimate", *JOB, "--calibration", written)
    assert found["estimate"] == flagged["estimate"]
    assert found["job"] == flagged["job"]
    assert found["job"]["software"]["calibration"] == str(written)
    assert found["priced_with"]["calibration"] in next(s for s in found["assumptions"] if s.startswith("software.calibration"))
    job["software"]["calibration"] = "0123456789ab"
    path.write_text(json.dumps(job), encoding="utf-8")
    assert "'0123456789ab' is no file here" in refusal(capsys, "estimate", path)


def test_a_search_and_a_validation_take_the_file(written: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "search", *JOB, "--pp", "1", "--vpp", "1", "--cp", "1", "--calibration", written)
    assert any(sentence.startswith("software.calibration = ") for sentence in found["assumptions"])
    before = answer(capsys, "validate", runs)
    after = answer(capsys, "validate", runs, "--calibration", written)
    assert [row["id"] for row in before["rows"]] == [row["id"] for row in after["rows"]]
    assert before["rows"] != after["rows"]


def test_a_file_for_other_hardware_or_software_is_refused(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = [*JOB[:2], "atlas-800t-a2", *JOB[3:]]
    assert "but the job runs mindspeed-llm on atlas-800t-a2" in refusal(capsys, "estimate", *elsewhere, "--calibration", written)
    assert "but the job runs mindformers" in refusal(capsys, "search", *JOB, "--stack", "mindformers", "--calibration", written)
    assert "--server" in refusal(capsys, "search", *JOB, "--server", "http://localhost:1", "--calibration", written)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("none.jsonl", *SITE), "none.jsonl: no such file"),
        ((RUNS, "--hardware", "atlas-900-a2-pod", "--stack", "mindspeed-llm"), "did you mean 'atlas-900-a2-podc'"),
        ((RUNS, "--hardware", "atlas-900-a2-podc", "--stack", "mindspeed"), "did you mean 'mindspeed-llm'"),
        ((RUNS, "--hardware", "atlas-900-a2-podc", "--stack", "megatron-lm"), "known: mindformers, mindspeed-llm"),
        ((RUNS, "--hardware", "atlas-800-910a", "--stack", "mindformers"), "no record can teach anything"),
        ((RUNS, *SITE, "--output", "nowhere/own.json"), "--output: nowhere/own.json is in no folder that exists"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str | Path, ...], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert part in refusal(capsys, "calibrate", *arguments)


def test_a_broken_calibration_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "own.json"
    broken.write_text("{}", encoding="utf-8")
    assert "software.calibration (--calibration): " in refusal(capsys, "estimate", *JOB, "--calibration", broken)
    assert "no such file" in refusal(capsys, "validate", RUNS, "--calibration", tmp_path / "none.json")


def test_an_estimate_says_its_interval_and_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *JOB, "--details"]) == DONE
    text = " ".join(capsys.readouterr().out.split())
    assert "(80 %: " in text
    assert "measured runs of such models with mindspeed-llm on atlas-900-a2-podc" in text


def test_a_validation_shows_every_row_on_request(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(runs), "--rows"]) == DONE
    text = capsys.readouterr().out
    assert "80 % interval" in text
    assert all(json.loads(line)["id"] in text for line in runs.read_text("utf-8").splitlines())


def test_a_calibration_that_is_here_already_is_replaced_only_if_asked(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    earlier = Path("atlas-900-a2-podc.mindspeed-llm.calibration.json")
    earlier.write_text("mine", encoding="utf-8")
    assert f"--output: {earlier} exists already" in refusal(capsys, "calibrate", runs, *SITE)
    assert earlier.read_text(encoding="utf-8") == "mine"
    assert main(["calibrate", str(runs), *SITE, "--overwrite"]) == DONE
    assert earlier.read_text(encoding="utf-8") != "mine"


def test_validate_lists_what_became_of_flags(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = json.loads(runs.read_text(encoding="utf-8").splitlines()[0])
    row["software"]["raw_flags"] = ["use-flash-attn", "manual-gc", "triangle-attn", "warp-drive=9"]
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    assert main(["validate", str(path), "--flags"]) == DONE
    printed = " ".join(capsys.readouterr().out.split())
    for words in (
        "manual-gc the host's garbage collection",
        "triangle-attn attention is priced unfused",
        "not understood warp-drive=9",
    ):
        assert words in printed
    assert "Not understood, by runs: warp-drive=9 (1)" in printed
    (found,) = answer(capsys, "validate", path)["rows"]
    assert found["flags"]["not_understood"] == ["warp-drive=9"]
    assert {"flag": "use-flash-attn", "meaning": "flash_attention"} in found["flags"]["read"]
