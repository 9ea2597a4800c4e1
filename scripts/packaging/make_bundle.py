"""Writes an archive that installs meshplan without a network: its wheel and its dependencies, for two architectures."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from meshplan import __version__

ARCHITECTURES = ("x86_64", "aarch64")
# Versions of the C library, newest first: a wheel for an older one runs on a newer one.
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_24", "manylinux_2_17", "manylinux2014")
EXTRAS = "postgres,telemetry,dask"  # install.sh installs the first; the others are optional
PIP = "pip==26.3"  # installs the rest, so that the machine needs no pip
INSTALLER = ROOT / "scripts" / "packaging" / "bundle_install.sh"
INSTALL = """\
meshplan {version}, for Linux (glibc 2.28 or newer) on {architectures} and Python {pythons}. Without a network:

    sh install.sh /opt/meshplan

makes /opt/meshplan, a virtual environment of its own, with PostgreSQL's driver; any other new folder will do. It checks the
archive against SHA256SUMS first, and upgrades an earlier version. OpenTelemetry and Dask are in the archive, too:

    /opt/meshplan/bin/pip install --no-index --find-links wheels 'meshplan[telemetry,dask]'

无网络安装：运行 sh install.sh /opt/meshplan（或其他新目录）。脚本先按 SHA256SUMS 校验安装包；目录中已有旧版本时直接升级。
"""


def built_wheel(folder: Path) -> Path:
    """Our own wheel, which runs on any machine."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (wheel,) = folder.glob("meshplan-*.whl")
    return wheel


def download_command(wheel: Path, folder: Path, architecture: str, python: str) -> list[str]:
    """The command that fetches the wheels for one architecture and Python, in the versions of constraints.txt."""
    abi = f"cp{python.replace('.', '')}"
    return [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
        "--constraint", str(ROOT / "constraints.txt"), "--dest", str(folder),
        *(part for platform in PLATFORMS for part in ("--platform", f"{platform}_{architecture}")),
        "--implementation", "cp", "--python-version", python, "--abi", abi, "--abi", "abi3", "--abi", "none",
        f"{wheel}[{EXTRAS}]", PIP,
    ]  # fmt: skip


def write_texts(folder: Path, pythons: Sequence[str]) -> None:
    """Write the instructions and the hashes of the files."""
    text = INSTALL.format(version=__version__, architectures=" and ".join(ARCHITECTURES), pythons=", ".join(pythons))
    (folder / "INSTALL.txt").write_text(text, encoding="utf-8")
    shutil.copyfile(INSTALLER, folder / "install.sh")
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    sums = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def write_archive(folder: Path, target: Path) -> None:
    """Write the folder as an archive with the same bytes for any user and time."""

    def nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w") as archive:  # wheels are compressed already
        for path in (folder, *sorted(folder.rglob("*"))):
            archive.add(path, arcname=path.relative_to(folder.parent).as_posix(), recursive=False, filter=nobody)


def fill(folder: Path, wheel: Path, architectures: Sequence[str], pythons: Sequence[str]) -> None:
    """Put our wheel, the wheels for these machines and Pythons, and the texts into the folder."""
    for architecture in architectures:
        for python in pythons:
            subprocess.run(download_command(wheel, folder / "wheels", architecture, python), check=True)
    write_texts(folder, pythons)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pythons", default="3.11", help="versions of Python, with commas")
    pythons = parser.parse_args().pythons.split(",")
    folder = ROOT / "build" / "bundle" / f"meshplan-{__version__}"
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    fill(folder, built_wheel(wheels), ARCHITECTURES, pythons)
    target = ROOT / "dist" / f"{folder.name}-offline.tar"
    write_archive(folder, target)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.0f} MB, {len(list(wheels.iterdir()))} wheels")
    print(f"SHA-256 {hashlib.sha256(target.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
