"""A user's hardware profile: a known profile with their collective benchmarks and matmul rates."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from calibration.measurements.collective_logs import MAX_LOG_BYTES, CollectiveLog, CollectiveLogError, parse_collective_log
from calibration.measurements.files import Measurements, read_measurements
from calibration.measurements.op_summaries import MAX_FILE_BYTES, OperatorRate, OpSummaryError, best_matmuls, parse_op_summary
from calibration.measurements.rates import collectives, matmul_rates
from documents.bounds import MAX_RANKS
from documents.errors import InputError, cause_of, show
from documents.reading import opened
from documents.sentences import Sentence, all_plain
from hardware_profiles.loader import parse_profile_text
from hardware_profiles.schema import HardwareProfile, ProfileError
from hardware_profiles.writer import profile_document

LARGE_MATMUL_FLOPS = 1e11  # 4,096 x 4,096 x 3,072: in smaller ones, launch and ragged tiles hide the rate of the cores


def measured_profile(
    profile: HardwareProfile,
    name: str,
    curves: Sequence[tuple[str, CollectiveLog]],
    matmuls: Mapping[str, OperatorRate],
    rates_from: tuple[str, Path] | None = None,
    compute_capability: float | None = None,
) -> str:
    """The profile as YAML, under a new name: each curve in the innermost tier that joins its ranks, each rate of ``rates_from``.

    ``curves`` come with the names of their files; ``rates_from`` is the flag that gave the rates, and its file.
    ``compute_capability`` is the measured device's, for a profile that states none.
    """
    document: dict[str, Any] = profile_document(profile)
    document["name"] = name
    if compute_capability is not None and profile.compute_capability is None:
        stated = {"source": "own-measurement", "basis": "measured"}
        document["compute_capability"] = {"value": compute_capability, "unit": "1", **stated}
    for file, log in curves:
        tier = document["tiers"][_tier_index(profile, log.group_size)]
        others = [c for c in tier.get("curves", []) if (c["op"], int(c["group_size"]["value"])) != (log.op, log.group_size)]
        tier["curves"] = [*others, _curve(log, file)]
    for precision, rate in matmuls.items():
        assert rates_from is not None
        written = _matmul_rate(profile, precision, rate, *rates_from)
        document.setdefault("achievable_matmul_flops_per_s", {})[precision] = written
    text: str = yaml.safe_dump(all_plain(document), sort_keys=False, allow_unicode=True, width=130)
    try:
        parse_profile_text(text, f"{name}.yaml")
    except ProfileError as error:
        raise InputError(Sentence("{}: {}", rates_from[0] if rates_from else "--curve", error)) from None
    return text


def rates_of(op_summary: Path | None, measurements: Measurements | None) -> tuple[OperatorRate, ...]:
    """The operator rates of one of the two files; ``InputError`` if it has none."""
    if op_summary is not None:
        return read_op_summary(op_summary)
    return () if measurements is None else matmul_rates(measurements)


def curves_of(
    given: Sequence[str], path: Path | None = None, measurements: Measurements | None = None
) -> list[tuple[str, CollectiveLog]]:
    """Curves of logs, ``OPERATION:RANKS=LOG`` each, and of the measurements at ``path``, with the names of their files."""
    logs = [(log_path.name, log) for log_path, log in map(_read, given)]
    return logs + ([] if path is None or measurements is None else [(path.name, log) for log in collectives(measurements)])


def measurements_of(path: Path, profile: HardwareProfile) -> Measurements:
    """Read the file of ``meshplan hardware measure``; ``InputError`` if it is none, or of another kind of device."""
    try:
        found = read_measurements(path)
    except InputError as error:
        raise InputError(Sentence("--measurements: {}", error)) from None
    wanted = "npu" if profile.family == "ascend" else "cuda"
    if found.device.kind != wanted:
        raise InputError(
            Sentence(
                "--measurements: {} is of {}, a {} device, and {} is of family {}; name the hardware that was measured.",
                path.name,
                show(found.device.name),
                found.device.kind,
                profile.name,
                profile.family,
            )
        )
    capability = found.device.compute_capability
    if None not in (capability, profile.compute_capability) and capability != profile.compute_capability:
        raise InputError(
            Sentence(
                "--measurements: {} is of a device of compute capability {}, and {} has {}; name the hardware that was measured.",
                path.name,
                capability,
                profile.name,
                profile.compute_capability,
            )
        )
    if not matmul_rates(found) and not collectives(found):
        raise InputError(
            Sentence("--measurements: {} has no matmul and no collective of two sizes; measure one of the two.", path.name)
        )
    return found


def read_op_summary(path: Path) -> tuple[OperatorRate, ...]:
    """The operator rates in a file of msprof; ``InputError`` without any."""
    try:
        with opened(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                raise InputError(
                    Sentence("--op-summary: {} is larger than {} MiB; cut it to one step.", path, MAX_FILE_BYTES // 2**20)
                )
            return parse_op_summary(io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline=""))
    except OSError as error:
        raise InputError(Sentence("--op-summary: {} cannot be read: {}.", path, cause_of(error))) from None
    except OpSummaryError as error:
        raise InputError(Sentence("--op-summary: {}: {}", path, error)) from None


def written_matmuls(profile: HardwareProfile, rates: Sequence[OperatorRate]) -> dict[str, OperatorRate]:
    """The fastest large matmul of each precision that the profile has."""
    large = [rate for rate in rates if rate.flops >= LARGE_MATMUL_FLOPS]
    return {name: rate for name, rate in best_matmuls(large).items() if name in profile.matmul_flops_per_s}


def _matmul_rate(profile: HardwareProfile, precision: str, rate: OperatorRate, flag: str, file: Path) -> dict[str, Any]:
    peak = profile.matmul_flops_per_s[precision]
    if rate.flops_per_s > peak:
        raise InputError(
            Sentence(
                "{}: {} reaches {:,.1f} TFLOPS, more than the {} peak {:,.1f} of {}; name the hardware that was measured.",
                flag,
                rate.shapes[:60],
                rate.flops_per_s / 1e12,
                precision,
                peak / 1e12,
                profile.name,
            )
        )
    note = Sentence(
        "{:.1f} % of peak: median of {} matmuls {} in {}", 100 * rate.flops_per_s / peak, rate.count, rate.shapes[:100], file.name
    )
    tflops = float(f"{rate.flops_per_s / 1e12:.4g}")
    return {"value": tflops, "unit": "TFLOPS", "source": "own-measurement", "basis": "measured", "note": note}


def _read(given: str) -> tuple[Path, CollectiveLog]:
    what, equals, file = given.partition("=")
    op, colon, ranks = what.partition(":")
    if not (equals and colon and file and ranks.isascii() and ranks.isdigit() and 2 <= int(ranks[:9]) <= MAX_RANKS):
        raise InputError(
            Sentence("--curve: {} is not allowed; give OPERATION:RANKS=LOG, as in all_reduce:8=all_reduce.log.", show(given))
        )
    path = Path(file)
    try:
        with opened(path) as log:
            content = log.read(MAX_LOG_BYTES + 1)
        if len(content) > MAX_LOG_BYTES:
            raise InputError(Sentence("--curve: {} is larger than the {} bytes that a log may have.", path, MAX_LOG_BYTES))
        return path, parse_collective_log(content.decode(errors="replace"), op, int(ranks))
    except OSError as error:
        raise InputError(Sentence("--curve: {} cannot be read: {}.", path, cause_of(error))) from None
    except CollectiveLogError as error:
        raise InputError(Sentence("--curve: {}: {}", path, error)) from None


def _tier_index(profile: HardwareProfile, group_size: int) -> int:
    joining = (i for i, tier in enumerate(profile.tiers) if tier.domain_devices is None or group_size <= tier.domain_devices)
    return next(joining, len(profile.tiers) - 1)


def _curve(log: CollectiveLog, file: str) -> dict[str, Any]:
    stated = {"source": "own-measurement", "basis": "measured", "note": Sentence("from {}", file)}
    return {
        "op": log.op,
        "group_size": {"value": log.group_size, "unit": "1", **stated},
        "message_bytes": {"value": list(log.message_bytes), "unit": "B", **stated},
        "time_s": {"value": list(log.time_us), "unit": "us", **stated},
    }
