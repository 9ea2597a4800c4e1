"""Wheels made on the spot: enough for pip to resolve and install, and nothing to fetch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

_NO_FILES: Mapping[str, str] = {}


def made_wheel(
    folder: Path,
    name: str,
    tag: str,
    *requires: str,
    version: str = "1.0",
    files: Mapping[str, str] = _NO_FILES,
    command: str = "",
) -> Path:
    """A wheel with these files, whose command of its own name, where it has one, is ``command`` (module:function)."""
    folder.mkdir(exist_ok=True)
    path, info = folder / f"{name}-{version}-{tag}.whl", f"{name}-{version}.dist-info"
    with ZipFile(path, "w") as wheel:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: postgres"]
        wheel.writestr(f"{info}/METADATA", "\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires), ""]))
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        if command:
            wheel.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {command}\n")
        for each, text in files.items():
            wheel.writestr(each, text)
        wheel.writestr(f"{info}/RECORD", "")
    return path


def wheel_of_pip(folder: Path, kept_in: Path) -> Path:
    """Stands for pip, and calls that of these tests, in ``kept_in``: to install a whole pip takes longer than the rest."""
    kept_in.mkdir()
    (kept_in / "pip").symlink_to(str(distribution("pip").locate_file("pip")), target_is_directory=True)
    program = f"import sys\nsys.path[0] = {str(kept_in)!r}\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
    return made_wheel(folder, "pip", "py3-none-any", files={"pip/__main__.py": program})
