"""Form of the decision records, of the changelog and of commit subjects, as CONTRIBUTING states them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from meshplan import __version__
from scripts.checks.commit_subject import faults

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
SECTIONS = ["Context", "Decision", "Alternatives", "Consequences"]
HEAD = re.compile(
    r"# ADR (\d+): [A-Z][^\n.]+\n\n- Status: (Proposed|Accepted|Superseded)([^\n]*)\n- Date: (20\d\d-\d\d-\d\d)\n\n"
)
KINDS = ["Incompatible changes", "Added", "Changed", "Fixed", "Removed", "Security"]
RELEASE = re.compile(r"^## \[(?P<version>[^\]]+)\](?P<rest>[^\n]*)$", re.MULTILINE)


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_a_decision_has_status_date_and_four_sections(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = HEAD.match(text)
    assert head is not None
    assert int(head[1]) == int(path.name[:4])
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE)[1:])


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == [*range(1, len(DECISIONS) + 1)]


def test_a_decision_that_is_superseded_and_the_one_that_does_so_name_each_other() -> None:
    statuses = {path.name: re.search(r"^- Status: .*$", path.read_text(encoding="utf-8"), re.MULTILINE) for path in DECISIONS}
    links = {name: {*re.findall(r"\(([^)]+\.md)\)", status[0])} for name, status in statuses.items() if status}
    assert len(links) == len(DECISIONS)
    pairs = {(name, other) for name, found in links.items() for other in found}
    assert pairs
    assert pairs == {(other, name) for name, other in pairs}


def _releases() -> dict[str, str]:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    starts = [*RELEASE.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {start["version"] + start["rest"]: text[start.end() : end] for start, end in zip(starts, ends, strict=True)}


def test_releases_have_a_date_and_the_first_is_this_version() -> None:
    first, *released = _releases()
    assert first == "Unreleased"
    assert released[0].split(" - ")[0] == __version__
    for name in released:
        assert re.fullmatch(r"\d+\.\d+\.\d+ - (20\d\d-\d\d-\d\d|never tagged)", name), name


@pytest.mark.parametrize("release", _releases())
def test_changes_are_in_the_sections_of_keep_a_changelog(release: str) -> None:
    body = _releases()[release]
    kinds = re.findall(r"^### (.*)$", body, re.MULTILINE)
    assert kinds == [kind for kind in KINDS if kind in kinds]
    assert re.findall(r"^#{1,2} |^#{4,} ", body, re.MULTILINE) == []
    for part in re.split(r"^### .*$", body, flags=re.MULTILINE)[1:]:
        assert re.search(r"^- ", part, re.MULTILINE)
        assert re.findall(r"^ +.*$", part, re.MULTILINE) == []  # one line a change


@pytest.mark.parametrize(
    "subject",
    ["Add a hardware profile", "Move rank lower bounds to the priced group", "Merge branch 'docs'", "Bring back", "Pass x"],
)
def test_an_imperative_subject_is_taken(subject: str) -> None:
    assert faults(subject) == []


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "What long lists of plans take less, told",
        "Nothing reads how long a timeline took to draw: out with it",
        "Added a profile",
        "Adds a profile",
        "Adding a profile",
        "add a profile",
        "Add a profile.",
        "Add " + "a" * 69,
    ],
)
def test_another_subject_is_refused(subject: str) -> None:
    assert len(faults(subject)) == 1


def test_the_hook_reads_the_message_that_git_gives_it(tmp_path: Path) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    hook = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    script = re.search(r"id: commit-subject\n(?: .*\n)*? +entry: \S+ (\S+)\n(?: .*\n)*? +stages: \[commit-msg\]", hook)
    assert script is not None
    for text, code in (("Add x\n\nWhy.\n# comment\n", 0), ("# comment\nAdd x\n", 0), ("Add x\nWhy.\n", 1), ("Added x\n", 1)):
        message.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, ROOT / script[1], message], capture_output=True, text=True, check=False)
        assert (done.returncode, bool(done.stdout)) == (code, bool(code)), text


def test_tests_that_contributing_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 30
    assert named - defined == set()
