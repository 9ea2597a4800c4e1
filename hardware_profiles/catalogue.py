"""Finding profiles: those shipped here by name, a user's own by path."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from documents.errors import did_you_mean, show
from hardware_profiles.loader import load_profile
from hardware_profiles.schema import HardwareProfile, ProfileError

_ROOT = Path(__file__).resolve().parent


@cache
def _files() -> dict[str, Path]:
    paths = sorted(_ROOT.glob("*/*.yaml"))
    return {path.stem: path for path in paths}


def names() -> tuple[str, ...]:
    """The names of the shipped profiles, in alphabetical order."""
    return tuple(sorted(_files()))


@cache
def named(name: str) -> HardwareProfile:
    """The shipped profile of that name, never a file of the user's. Raises ``ProfileError`` with the nearest name."""
    files = _files()
    if name not in files:
        unknown = f"hardware {show(name)} is unknown{did_you_mean(name, files)}"
        raise ProfileError(f"{unknown}; known are {', '.join(names())}, or a path to a YAML file.")
    return load_profile(files[name])


def profile(reference: str | Path) -> HardwareProfile:
    """The profile of a name, or of a path to a YAML file (a ``Path``, or text with a separator or a YAML suffix).

    Raises ``ProfileError``. A caller that serves strangers uses ``named``, which reads no file of theirs.
    """
    if isinstance(reference, Path) or "/" in reference or "\\" in reference or reference.endswith((".yaml", ".yml")):
        path = Path(reference)
        try:
            path = path.resolve()
            status = path.stat()
        except (OSError, ValueError, RuntimeError):
            return load_profile(path)  # which says what is wrong with it
        return _loaded(path, status.st_mtime_ns, status.st_size)
    return named(reference)


@lru_cache(maxsize=32)
def _loaded(path: Path, modified_ns: int, size: int) -> HardwareProfile:
    return load_profile(path)
