"""A folder of answers: never two mixed, nothing of the user's touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.answers.folder import MANIFEST, AnswerFolder, answer_folder
from app.cli.main import main
from documents.errors import InputError

FIRST = {"report.json": "{}", "job.yaml": "a", "plan-1.job.yaml": "b", "plan-2.mindspeed-llm.sh": "c", "plan-12.job.yaml": "d"}
SECOND = {"report.json": "{1}", "job.yaml": "e", "plan-1.job.yaml": "f"}


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MANIFEST}


def saved(folder: Path, texts: dict[str, str], *, overwrite: bool = False) -> AnswerFolder:
    opened = answer_folder(folder, overwrite=overwrite)
    opened.write(texts)
    return opened


def test_a_folder_that_holds_another_answer_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    saved(tmp_path / "out", FIRST)
    with pytest.raises(InputError, match=r"--save-dir: .*out holds another answer \(job.yaml and 4 more\); give another folder"):
        answer_folder(tmp_path / "out", overwrite=False)
    assert files(tmp_path / "out") == FIRST


def test_overwriting_leaves_nothing_of_the_answer_before(tmp_path: Path) -> None:
    saved(tmp_path, FIRST)
    saved(tmp_path, SECOND, overwrite=True)
    assert files(tmp_path) == SECOND
    saved(tmp_path, FIRST, overwrite=True)
    assert files(tmp_path) == FIRST


def test_a_users_own_files_stay(tmp_path: Path) -> None:
    own = {"notes.txt": "mine", "plan-1.notes.md": "mine", "plan-x.sh": "mine"}
    for name, text in own.items():
        (tmp_path / name).write_text(text)
    saved(tmp_path, FIRST)
    saved(tmp_path, SECOND, overwrite=True)
    assert files(tmp_path) == {**own, **SECOND}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["job.yaml", "report.txt", "plan-3.mindformers.yaml"])
def test_a_file_that_is_called_as_ours_and_is_not_is_never_replaced(tmp_path: Path, name: str, overwrite: bool) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=f"--save-dir: .*{name} is not of an answer that meshplan saved here; move it"):
        answer_folder(tmp_path, overwrite=overwrite)
    assert files(tmp_path) == {name: "mine"}


def test_a_link_to_a_file_elsewhere_is_never_followed(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine")
    out = tmp_path / "out"
    saved(out, FIRST)
    (out / "job.yaml").unlink()
    (out / "job.yaml").symlink_to(tmp_path / "mine.yaml")
    with pytest.raises(InputError, match=r"job\.yaml is not of an answer"):
        answer_folder(out, overwrite=True)
    assert (tmp_path / "mine.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    "manifest",
    ["", "[]", '{"files": 3}', '{"files": ["../job.yaml", "/etc/passwd", "notes.txt", 7]}', "\x00", '{"files": ' + "[" * 9999],
)
def test_a_list_that_somebody_changed_removes_no_file_of_another_name(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "job.yaml").write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / MANIFEST).write_text(manifest)
    saved(out, SECOND, overwrite=True)
    assert files(out) == {**SECOND, "notes.txt": "mine"}
    assert (tmp_path / "job.yaml").read_text() == "mine"


def test_an_answer_of_a_version_that_kept_no_list_is_known_by_its_report(tmp_path: Path) -> None:
    report = json.dumps({"schema_version": 1, "job": {}, "proof": {}, "plans": []})
    older = {**FIRST, "report.json": report}
    for name, text in older.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="holds another answer"):
        answer_folder(tmp_path, overwrite=False)
    saved(tmp_path, SECOND, overwrite=True)
    assert files(tmp_path) == SECOND


def test_what_was_written_before_a_fault_is_known_as_ours(tmp_path: Path) -> None:
    opened = answer_folder(tmp_path, overwrite=False)
    (tmp_path / "plan-1.job.yaml").mkdir()  # appeared while the search ran
    with pytest.raises(InputError, match="cannot be written"):
        opened.write(SECOND)
    (tmp_path / "plan-1.job.yaml").rmdir()
    saved(tmp_path, FIRST, overwrite=True)
    assert files(tmp_path) == FIRST


SEARCH = (
    "search", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "8", "--seq-length", "4096", "--global-batch-size", "16",
    "--tp", "8", "--recompute", "full",
)  # fmt: skip


def test_a_second_search_needs_overwrite_and_leaves_its_own_files_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([*SEARCH, "--top", "3", "--save-dir", str(out)]) == 0
    capsys.readouterr()
    assert main([*SEARCH, "--top", "1", "--save-dir", str(out)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("meshplan: --save-dir: ")
    assert printed.err.count("\n") == 1
    assert main([*SEARCH, "--top", "1", "--pp", "1", "--save-dir", str(out), "--overwrite"]) == 0
    assert not [path.name for path in out.iterdir() if path.name.startswith("plan-2")]
    assert "plan-1.job.yaml" in files(out)


def test_overwrite_without_a_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SEARCH, "--overwrite"]) == 2
    assert capsys.readouterr().err == "meshplan: --overwrite: there is nothing to replace without --save-dir.\n"
