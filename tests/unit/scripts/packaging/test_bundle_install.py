"""The script that installs the archive for machines without a network, on archives of made-up wheels."""

from __future__ import annotations

import fcntl
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.packaging.make_bundle import write_texts
from tests.made_wheels import made_wheel, wheel_of_pip

TAG = f"cp3{sys.version_info.minor}"
MACHINE = platform.machine()
# Nothing of what these tests' own environment says to pip, and none of their bytecode: to it two versions made in one second
# are alike.
PLAIN = {"PATH": "/usr/bin:/bin"}
# Says its version; `hardware list` waits for whoever sets MADE_UP_WAIT, and fails in a version that is broken.
PROGRAM = """
import os, sys, time
def main():
    if "--version" in sys.argv:
        print("meshplan {version}")
    elif os.environ.get("MADE_UP_WAIT"):
        open(os.environ["MADE_UP_WAIT"], "w").close()
        time.sleep(60)
    elif "{version}" == "3.0":
        sys.exit("it is broken")
"""


def archive(folder: Path, version: str = "1.0", tag: str = TAG, machine: str = MACHINE) -> Path:
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    wheel_of_pip(wheels, folder.with_name(folder.name + "-pip"))
    made_wheel(wheels, "numpy", f"{tag}-{tag}-manylinux_2_17_{machine}")
    made_wheel(wheels, "psycopg", "py3-none-any")
    needs = ("numpy", 'psycopg; extra == "postgres"')
    program = {"made_up.py": PROGRAM.format(version=version)}
    made_wheel(wheels, "meshplan", "py3-none-any", *needs, version=version, files=program, command="made_up:main")
    write_texts(folder, [f"3.{sys.version_info.minor}"])
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(tmp_path_factory.mktemp("first") / "unpacked")


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive(tmp_path_factory.mktemp("second") / "unpacked", version="2.0")


def start(unpacked: Path, *words: str | Path, **variables: str) -> subprocess.Popen[str]:
    """The script in a process group of its own."""
    environment = {**PLAIN, "PYTHON": sys.executable, **variables}
    command = ["/bin/sh", unpacked / "install.sh", *words]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd="/"
    )


def install(unpacked: Path, *words: str | Path, **variables: str) -> tuple[int, str, str]:
    with start(unpacked, *words, **variables) as process:
        output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def refusal(unpacked: Path, *words: str | Path, **variables: str) -> str:
    """Its one line, of an installation that ended with 2 before it touched anything."""
    status, output, errors = install(unpacked, *words, **variables)
    assert (status, output) == (2, "")
    (line,) = errors.splitlines()
    assert line.startswith("meshplan: ")
    return line.removeprefix("meshplan: ")


def version_in(folder: Path) -> str:
    command = [folder / "bin/meshplan", "--version"]
    return subprocess.run(command, env=PLAIN, capture_output=True, text=True, check=True).stdout.strip()


def test_it_makes_an_environment_and_upgrades_it(first: Path, second: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    status, output, errors = install(first, folder)
    assert (status, errors) == (0, "")
    assert output.splitlines()[-1] == f"meshplan: 1.0 is in {folder}: {folder}/bin/meshplan --help"
    assert version_in(folder) == "meshplan 1.0"
    assert list(folder.glob("lib/python*/site-packages/psycopg-1.0.dist-info"))
    (folder / "stale").touch()
    status, output, errors = install(second, folder)
    assert (status, errors) == (0, "")
    assert output.splitlines()[-1] == f"meshplan: 2.0 is in {folder}, in place of 1.0: {folder}/bin/meshplan --help"
    assert version_in(folder) == "meshplan 2.0"
    assert {"stale", ".replaced"}.isdisjoint(path.name for path in folder.iterdir())


def test_it_heeds_nothing_of_the_users_pip_and_python(first: Path, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('a decoy')")
    (tmp_path / "pip.conf").write_text("[install]\ntarget = /nowhere\n")
    given = {"PIP_REQUIRE_VIRTUALENV": "1", "PIP_TARGET": "/nowhere", "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    status, _, errors = install(first, tmp_path / "made", PYTHONPATH=str(tmp_path), **given)
    assert (status, errors) == (0, "")


def test_an_upgrade_that_does_not_start_leaves_what_was_there(first: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    install(first, folder)
    status, _, errors = install(archive(tmp_path / "broken", version="3.0"), folder)
    assert status == 2
    assert errors.splitlines() == [
        "it is broken",
        "meshplan: what was installed does not start, as it says above.",
        f"meshplan: nothing was installed; {folder} is as it was.",
    ]
    assert version_in(folder) == "meshplan 1.0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_upgrade_is_undone_at_once_or_by_the_next_run(
    number: signal.Signals, first: Path, second: Path, tmp_path: Path
) -> None:
    folder, waits = tmp_path / "made", tmp_path / "waits"
    install(first, folder)
    with start(second, folder, MADE_UP_WAIT=str(waits)) as process:
        while not waits.exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, number)
        process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:
        assert version_in(folder) == "meshplan 1.0"
    assert (folder / ".replaced").exists() == (number == signal.SIGKILL)
    status, output, _ = install(second, folder)
    assert status == 0
    assert "in place of 1.0" in output
    assert version_in(folder) == "meshplan 2.0"


def test_an_interrupted_first_installation_leaves_nothing(first: Path, tmp_path: Path) -> None:
    folder, waits = tmp_path / "made", tmp_path / "waits"
    with start(first, folder, MADE_UP_WAIT=str(waits)) as process:
        while not waits.exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    assert not folder.exists()


def test_what_stands_in_the_way_is_one_sentence(first: Path, tmp_path: Path) -> None:
    assert refusal(first) == "usage: [PYTHON=/path/to/python3] sh install.sh FOLDER, as in: sh install.sh /opt/meshplan"
    assert refusal(first, "--help").startswith("usage: ")
    (tmp_path / "thesis").touch()
    assert refusal(first, tmp_path) == (
        f"{tmp_path} holds something that this script did not put there: name a new or an empty folder."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
    assert refusal(first, "/proc/meshplan").endswith(
        " may not write /proc/meshplan: name another folder, or let its owner run this."
    )
    assert refusal(first, "/proc/meshplan", LANG="zh_CN.UTF-8").endswith(
        "无权写入 /proc/meshplan：请换一个目录，或由其所有者运行。"
    )


def test_two_at_once_are_one_and_a_refusal(first: Path, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert refusal(first, tmp_path) == f"another installation is at work in {tmp_path}: wait for it."
    finally:
        os.close(descriptor)


def test_of_a_wrong_machine_or_python_it_says_what_there_is(first: Path, tmp_path: Path) -> None:
    other = archive(tmp_path / "machine", machine="ppc64le")
    assert refusal(other, tmp_path / "made") == f"this archive has no wheels for Linux on {MACHINE}: INSTALL.txt says for which."
    older = archive(tmp_path / "python", tag="cp39")
    assert refusal(older, tmp_path / "made") == (
        f"this archive is for Python 3.9, and there is {sys.executable} (Python {platform.python_version()}): "
        "install one, or name it with PYTHON=/path/to/python3."
    )
    assert " is for Python 3.9, and there is none: " in refusal(older, tmp_path / "made", PYTHON="/nowhere/python3")
    old_libc = tmp_path / "old-libc"
    old_libc.write_text(f'#!/bin/sh\ncase "$3" in *confstr*) echo glibc 2.17 ;; *) exec {sys.executable} "$@" ;; esac\n')
    old_libc.chmod(0o755)
    assert refusal(first, tmp_path / "made", PYTHON=str(old_libc)) == (
        "the wheels need glibc 2.28 or newer; this machine has glibc 2.17."
    )
    assert not (tmp_path / "made").exists()


def test_a_damaged_archive_is_not_installed(tmp_path: Path) -> None:
    unpacked = archive(tmp_path / "unpacked")
    (wheel,) = (unpacked / "wheels").glob("psycopg-*")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    said = f"the archive is damaged (wheels/{wheel.name}: FAILED): copy and unpack it again."
    assert refusal(unpacked, tmp_path / "made") == said
    wheel.unlink()
    assert "the archive is damaged (sha256sum: " in refusal(unpacked, tmp_path / "made")
    assert not (tmp_path / "made").exists()
