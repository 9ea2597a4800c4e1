"""Source trees of the frameworks, at the commits that a launch file names."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Top-level folders that only this repository has; all names of an entry must exist.
MARKS = {
    "NVIDIA/Megatron-LM": "megatron/core",
    "Ascend/MindSpeed-LLM": "mindspeed_llm",
    "Ascend/MindSpeed": "mindspeed",
    "mindspore-lab/mindformers": "mindformers",
}
SPELLINGS = ("{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/origin/{}")


class UncheckedError(Exception):
    """The check did not reach the framework; the message is one sentence."""


@dataclass(frozen=True)
class Tree:
    """Files of a repository at a commit ("": a folder without git)."""

    repository: str
    path: Path
    commit: str

    @property
    def label(self) -> str:
        return f"{self.repository} {self.commit[:8]}".rstrip()


@dataclass
class Checkouts:
    """Repositories by name; ``scratch`` gets a tree for each requested commit."""

    given: Mapping[str, Path]
    scratch: Path
    _trees: dict[tuple[str, str], Tree] = field(default_factory=dict)

    def tree(self, repository: str, revision: str) -> Tree:
        if (repository, revision) not in self._trees:
            self._trees[repository, revision] = self._made(repository, revision)
        return self._trees[repository, revision]

    def _made(self, repository: str, revision: str) -> Tree:
        path = self.given.get(repository)
        if path is None:
            raise UncheckedError(f"No checkout of {repository} was given.")
        directory = git_directory(path)
        if directory is None:
            return Tree(repository, path, "")
        commit = _commit(directory, revision)
        if commit is None:
            raise UncheckedError(f"{path} has no revision {revision} of {repository}.")
        place = self.scratch / "trees" / hashlib.sha256(f"{repository} {commit}".encode()).hexdigest()[:16]
        done = place / ".complete"
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            with subprocess.Popen(["git", "-C", directory, "archive", commit], stdout=subprocess.PIPE) as archive:
                subprocess.run(["tar", "-x", "-C", place], stdin=archive.stdout, check=True)
            if archive.returncode:
                raise UncheckedError(f"git archive of {repository} {revision} failed.")
            done.touch()
        return Tree(repository, place, commit)


def git_directory(path: Path) -> Path | None:
    """The git directory of a work tree, or the path itself if it is one."""
    candidates = (path, path / ".git", path / "repo")
    return next((each for each in candidates if (each / "HEAD").is_file() and (each / "objects").is_dir()), None)


def _commit(directory: Path, revision: str) -> str | None:
    for spelling in SPELLINGS:
        name = f"{spelling.format(revision)}^{{commit}}"
        asked = subprocess.run(
            ["git", "-C", directory, "rev-parse", "--verify", "--quiet", name], capture_output=True, text=True, check=False
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return None


def repository_of(path: Path) -> str:
    """The repository of a checkout, by its folders."""
    directory = git_directory(path)
    for repository, mark in MARKS.items():
        if directory is None:
            there = (path / mark).is_dir()
        else:
            asked = ["git", "-C", str(directory), "cat-file", "-e", f"HEAD:{mark}"]
            there = subprocess.run(asked, capture_output=True, check=False).returncode == 0
        if there:
            return repository
    raise UncheckedError(f"{path} holds none of {', '.join(MARKS)}.")
