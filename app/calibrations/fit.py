"""Constants fitted to a user's runs, from a file or stored on the server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.http.problems import ServiceError
from calibration.files.calibrations import family_of, shipped_calibration
from calibration.fitting.robust_fit import Progress
from calibration.procedure.calibrate import SiteOutcome, calibrate_site
from calibration.records.training import RefusedRecord, RunRecord, read_run_records
from cost_models.shapes.traits import stacks_of
from documents.errors import InputError, show, unknown_name
from documents.sentences import Sentence
from hardware_profiles import catalogue
from hardware_profiles.schema import HardwareProfile, ProfileError

MAX_FIT_S = 120.0  # 200 runs converge in about a minute
_fitting = threading.Lock()  # a fit takes a pricing process for long: one at a time leaves the other to other requests


def check_stack(stack: str, family: str, field: str) -> None:
    """``InputError`` for a framework that does not run on devices of the family."""
    stacks = stacks_of(family)
    if stack not in stacks:
        raise unknown_name(field, stack, stacks, what=Sentence("software stack of {} devices", family))


def site_profile(hardware: str) -> HardwareProfile:
    """The profile of that name or file; ``InputError`` if there is none."""
    try:
        return catalogue.profile(hardware)
    except ProfileError as error:
        raise InputError(Sentence("--hardware: {}", error)) from None


def fit_of_file(runs: Path, hardware: str, stack: str, on_progress: Progress | None = None) -> SiteOutcome:
    """The shipped calibration fitted to the runs of a file; ``InputError`` if the fit can use none."""
    profile = site_profile(hardware)
    check_stack(stack, profile.family, "--stack")
    try:
        return calibrate_site(
            read_run_records(runs, _profile_of(profile, hardware)),
            shipped_calibration(family_of(profile.family)),
            hardware=profile.name,
            stack=stack,
            command=Sentence("meshplan calibrate {} --hardware {} --stack {}", runs.name, hardware, stack),
            on_progress=on_progress,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(Sentence("{}: {}", show(str(runs)), error)) from None


def _profile_of(own: HardwareProfile, reference: str) -> Callable[[str], HardwareProfile]:
    """A function that finds a profile by name; the user's file is found by its name and its path."""
    return lambda name: own if name in (own.name, reference) else catalogue.named(name)


@contextmanager
def only_fit() -> Iterator[None]:
    """Hold the place of the server's one fit; ``ServiceError`` if another holds it."""
    if not _fitting.acquire(blocking=False):
        raise ServiceError("unavailable", Sentence("Another calibration is being fitted."), headers={"Retry-After": "10"})
    try:
        yield
    finally:
        _fitting.release()


def fit_of_records(records: Sequence[RunRecord | RefusedRecord], hardware: str, stack: str) -> SiteOutcome:
    """The shipped calibration fitted to the runs; ``InputError`` if the fit can use none or takes too long."""
    if not records:
        raise InputError(
            Sentence(
                "hardware: no run of {} on {} of yours is stored; send some to POST /v1/runs first, or give `shared: true`.",
                stack,
                hardware,
            )
        )
    ends_s = time.monotonic() + MAX_FIT_S

    def stop_late(iteration: int, median: float) -> None:
        if time.monotonic() > ends_s:
            raise InputError(
                Sentence("hardware: the fit took more than {:.0f} s; fit these runs with `meshplan calibrate`.", MAX_FIT_S)
            )

    try:
        return calibrate_site(
            records,
            shipped_calibration(family_of(catalogue.named(hardware).family)),
            hardware=hardware,
            stack=stack,
            command="POST /v1/calibrations " + json.dumps({"hardware": hardware, "stack": stack}),
            on_progress=stop_late,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(Sentence("hardware: {}", error)) from None
