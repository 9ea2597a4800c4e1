"""The wheel: what is in it, and that its command runs from anywhere beside packages of the same names."""

import platform
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import meshplan
from scripts.packaging import build_site, make_bundle
from scripts.packaging.wheel_site import IN_WHEEL

ROOT = Path(__file__).resolve().parents[2]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
TREE = "meshplan/_tree/"

Run = Callable[..., subprocess.CompletedProcess[str]]


def run(command: list[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload]
    assert result.returncode == 0, f"{command} exited {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result  # type: ignore[no-any-return]


def packages_of_the_checkout() -> set[str]:
    """Top-level folders that are importable and part of the product."""
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    return found - {"benchmarks", "scripts", "tests"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds the wheel and borrows this one's dependencies: no network, no copies."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel])
    purelib = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).stdout.strip()
    (Path(purelib) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def decoys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's own packages that bear our names."""
    folder = tmp_path_factory.mktemp("decoys")
    for name in packages_of_the_checkout() - {"meshplan"}:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('the decoy {name} was imported')\n", encoding="utf-8")
    return folder


def test_pyproject_lists_every_package_of_the_checkout() -> None:
    assert set(WHEEL["only-include"]) == packages_of_the_checkout()
    assert WHEEL["sources"] == {name: TREE + name for name in packages_of_the_checkout() - {"meshplan"}}


def test_the_image_is_built_from_every_package_of_the_checkout() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    pages = {name for name in build_site.BESIDE if "/" not in name}
    wheel = {"LICENSE", "THIRD_PARTY.md", "requirements.txt", "pyproject.toml", "docs", "scripts"}
    assert packages_of_the_checkout() | pages | wheel == kept


def test_the_wheel_adds_one_name_to_site_packages(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert tops == {"meshplan", f"meshplan-{meshplan.__version__}.dist-info"}


def test_the_wheel_holds_every_source_and_data_file(names: set[str]) -> None:
    expected = {
        (path.relative_to(ROOT) if package == "meshplan" else TREE / path.relative_to(ROOT)).as_posix()
        for package in packages_of_the_checkout()
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.is_relative_to(build_site.SITE)
    }
    assert {name for name in names if ".dist-info/" not in name and not name.startswith(IN_WHEEL)} == expected


def test_the_wheel_carries_the_documentation_site_and_grows_little_by_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        site = [entry for entry in archive.infolist() if entry.filename.startswith(IN_WHEEL)]
    assert {f"{IN_WHEEL}/{name}" for name in ("index.html", "tutorial.html", "zh/tutorial.html", "search.js")} < {
        entry.filename for entry in site
    }
    assert sum(entry.compress_size for entry in site) < 2_700_000


def test_the_wheel_carries_the_licence_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"meshplan-{meshplan.__version__}.dist-info"
        assert "Apache License" in archive.read(f"{info}/licenses/LICENSE").decode()
        assert archive.read(f"{info}/licenses/THIRD_PARTY.md") == (ROOT / "THIRD_PARTY.md").read_bytes()
        assert "meshplan = meshplan.__main__:main" in archive.read(f"{info}/entry_points.txt").decode()


@pytest.mark.parametrize("start", [["bin/meshplan"], ["bin/python", "-m", "meshplan"]], ids=["command", "module"])
def test_the_command_runs_from_the_root_folder_beside_packages_of_the_same_names(
    environment: Path, decoys: Path, start: list[str]
) -> None:
    command = [environment / start[0], *start[1:]]
    variables = {"PYTHONPATH": str(decoys), "PATH": "/usr/bin:/bin"}
    shown = run([*command, "--help"], cwd="/", env=variables).stdout
    assert "search" in shown
    listed = run([*command, "hardware", "list"], cwd="/", env=variables).stdout
    assert "atlas-800t-a2" in listed  # data files are found inside the wheel


def test_a_spawned_process_finds_our_packages_and_not_the_decoys(environment: Path, decoys: Path, tmp_path: Path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "from unittest import mock\n"
        "def where(_):\n"
        "    import cost_models\n"
        "    return cost_models.__file__\n"
        "if __name__ == '__main__':\n"
        "    from meshplan.__main__ import main\n"
        "    with mock.patch.object(sys, 'argv', ['meshplan', '--help']):\n"
        "        try:\n"
        "            main()\n"
        "        except SystemExit:\n"
        "            pass\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print('from', *pool.map(where, [0]))\n",
        encoding="utf-8",
    )
    shown = run([environment / "bin" / "python", script], cwd="/", env={"PYTHONPATH": str(decoys)}).stdout
    assert f"{TREE}cost_models/__init__.py" in shown.splitlines()[-1]


def answers(command: list[str | Path]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


@pytest.mark.slow
def test_the_archive_installs_and_estimates_without_a_network(wheel: Path, tmp_path: Path) -> None:
    if not answers([sys.executable, "-m", "pip", "download", "--no-deps", "--dest", tmp_path / "pip", make_bundle.PIP]):
        pytest.skip("no index of packages answers, from which the archive's wheels would come")
    apart = ["unshare", "--user", "--map-root-user", "--net"]
    if not answers([*apart, "true"]):
        pytest.skip("no namespace without a network can be made here")
    folder = tmp_path / "archive"
    (folder / "wheels").mkdir(parents=True)
    shutil.copy(wheel, folder / "wheels")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    make_bundle.fill(folder, folder / "wheels" / wheel.name, [platform.machine()], [version])
    variables = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}
    said = run([*apart, "sh", folder / "install.sh", tmp_path / "made"], cwd="/", env=variables).stdout
    assert f"meshplan: {meshplan.__version__} is in {tmp_path}/made: " in said
    words = ["estimate", "llama-2-7b", "--hardware", "atlas-800t-a2", "--devices", "64", "--tp", "8", "--json"]
    answer = run([*apart, tmp_path / "made/bin/meshplan", *words], cwd="/", env=variables).stdout
    assert answer == run([sys.executable, "-m", "meshplan", *words], cwd=ROOT).stdout
    run([*apart, tmp_path / "made/bin/python", "-c", "import psycopg; assert psycopg.pq.__impl__ == 'binary'"], env=variables)
