"""Lookup of hardware profiles: shipped ones by name, a user's own by path."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from documents.errors import InputError, did_you_mean, holding, plain, show, spelled_like
from documents.sentences import Sentence, joined
from hardware_profiles.loader import load_profile
from hardware_profiles.schema import HardwareProfile, ProfileError

_ROOT = Path(__file__).resolve().parent
MAKERS = ("huawei", "ascend", "nvidia", "amd", "instinct")  # possible prefixes of a device's name, in this order


@cache
def _files() -> dict[str, Path]:
    paths = sorted(_ROOT.glob("*/*.yaml"))
    return {path.stem: path for path in paths}


def names() -> tuple[str, ...]:
    """The names of the shipped profiles, in alphabetical order."""
    return tuple(sorted(_files()))


def known_name(text: str) -> str | None:
    """The name of the shipped profile that is meant: in any case, with any marks."""
    return spelled_like(text, names())


@cache
def named(name: str) -> HardwareProfile:
    """The shipped profile of that name, in any case and with any marks; never reads a user's file.

    Raises ``ProfileError`` with the nearest name.
    """
    files = _files()
    known = known_name(name)
    if known is None:
        unknown_name = Sentence("hardware {} is unknown{}", show(name), suggestion(name))
        raise ProfileError(Sentence("{}; known are {}, or a path to a YAML file.", unknown_name, joined(", ", names())))
    return load_profile(files[known])


def unknown(field: str, name: str) -> InputError:
    """The error for a name that is not in ``names()``, in a field that takes no path."""
    return InputError(
        Sentence("{}: {} is no known hardware profile{}; known: {}.", field, show(name), suggestion(name), joined(", ", names()))
    )


def suggestion(name: str) -> str:
    """A remark with the profiles that the user may have meant; empty if nothing is similar.

    These are profiles whose device or name contains the given name, else the nearest name.
    """
    wanted = _without_maker(name)
    devices = {known: named(known).device for known in names()}
    found = [known for known in names() if holding(wanted, [devices[known]])] or holding(wanted, names())
    if not found:  # a device name with a suffix: Ascend910B3-64GB
        found = [known for known in names() if len(_without_maker(devices[known])) > 2 and holding(devices[known], [name])]
    said = joined(" or ", (Sentence("{!r} ({})", known, devices[known]) for known in found))
    return Sentence(" (did you mean {}?)", said) if found else did_you_mean(name, names())


def _without_maker(name: str) -> str:
    wanted = plain(name)
    for maker in MAKERS:
        wanted = wanted.removeprefix(maker)
    return wanted


def profile(reference: str | Path) -> HardwareProfile:
    """The profile of a name, or of a path to a YAML file (a ``Path``, or text with a separator or a YAML suffix).

    Raises ``ProfileError``. A caller that serves untrusted users must use ``named``, which never reads their files.
    """
    if isinstance(reference, Path) or "/" in reference or "\\" in reference or reference.endswith((".yaml", ".yml")):
        path = Path(reference)
        try:
            path = path.resolve()
            status = path.stat()
        except (OSError, ValueError, RuntimeError):
            return load_profile(path, named)  # raises an error that names the problem
        return _loaded(path, status.st_mtime_ns, status.st_size)
    return named(reference)


def shown_name(reference: str) -> str:
    """The name of the profile of a name or path; the reference itself if it cannot be read, or is a file with a shipped name."""
    try:
        name = profile(reference).name
    except ProfileError:
        return reference
    return reference if name in names() else name


@lru_cache(maxsize=32)
def _loaded(path: Path, modified_ns: int, size: int) -> HardwareProfile:
    return load_profile(path, named)
