"""The archive for machines without a network; the fetching itself is `make bundle`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from scripts.packaging.make_bundle import ARCHITECTURES, PIP, download_command, write_archive, write_texts
from tests.made_wheels import made_wheel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    wheels = tmp_path / "meshplan-1" / "wheels"
    wheels.mkdir(parents=True)
    for name in ("b-1.whl", "a-1.whl"):
        (wheels / name).write_text(name)
    write_texts(wheels.parent, ["3.11", "3.12"])
    return wheels.parent


def test_what_is_in_it_is_checked_as_it_says(folder: Path) -> None:
    text = (folder / "INSTALL.txt").read_text()
    assert "Linux (glibc 2.28 or newer) on x86_64 and aarch64 and Python 3.11, 3.12" in text
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=folder, check=False).returncode == 0
    assert len((folder / "SHA256SUMS").read_text().splitlines()) == 4
    (folder / "wheels" / "a-1.whl").write_text("changed")
    assert subprocess.run(check, cwd=folder, capture_output=True, check=False).returncode == 1


def test_the_same_wheels_are_the_same_archive_and_belong_to_nobody(folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "one" / "x.tar", tmp_path / "two" / "x.tar"
    write_archive(folder, first)
    (folder / "wheels" / "a-1.whl").touch()
    (folder / "wheels" / "a-1.whl").chmod(0o600)
    write_archive(folder, second)
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        names = archive.getnames()
        assert all((member.uid, member.mtime) == (0, 0) for member in archive)
    head = ["meshplan-1", "meshplan-1/INSTALL.txt", "meshplan-1/SHA256SUMS", "meshplan-1/install.sh", "meshplan-1/wheels"]
    assert names == [*head, "meshplan-1/wheels/a-1.whl", "meshplan-1/wheels/b-1.whl"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pip_takes_the_wheels_of_the_other_machine(architecture: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    own = made_wheel(tmp_path, "meshplan", "py3-none-any", "madeup-compiled", 'madeup-driver; extra == "postgres"')
    for each in ARCHITECTURES:
        made_wheel(store, "madeup_compiled", f"cp311-cp311-manylinux_2_17_{each}")
        made_wheel(store, "madeup_driver", f"cp39-abi3-manylinux_2_28_{each}")
    made_wheel(store, "madeup_compiled", "cp312-cp312-manylinux_2_17_aarch64")
    made_wheel(store, "pip", "py3-none-any", version=PIP.removeprefix("pip=="))
    command = download_command(own, tmp_path / "got", architecture, "3.11")
    assert command[0] == sys.executable
    done = subprocess.run([*command, "--no-index", "--find-links", store], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "got").iterdir()) == [
        f"madeup_compiled-1.0-cp311-cp311-manylinux_2_17_{architecture}.whl",
        f"madeup_driver-1.0-cp39-abi3-manylinux_2_28_{architecture}.whl",
        "meshplan-1.0-py3-none-any.whl",
        f"{PIP.replace('==', '-')}-py3-none-any.whl",
    ]
