"""Compute capability of a GPU: as its profile states it, or the least that the precisions of its profile imply."""

from __future__ import annotations

from collections.abc import Mapping

from documents.errors import InputError
from documents.sentences import Sentence
from hardware_profiles.schema import HardwareProfile

# The oldest devices of a family whose matrix units multiply in each precision [cuda-gpus; transformer-engine,
# quantization.py; transformer-engine-rocm, quantization.py].
OLDEST: Mapping[str, Mapping[str, float]] = {
    "nvidia": {"fp16": 7.0, "bf16": 8.0, "tf32": 8.0, "fp8": 8.9, "nvfp4": 10.0},
    "amd": {"bf16": 9.0, "fp8": 9.4, "mxfp4": 9.5},
}


def least_capability(profile: HardwareProfile) -> float:
    """The capability that the profile states, or else the oldest that has all of its precisions; 0 for other families."""
    if profile.compute_capability is not None:
        return profile.compute_capability
    oldest = OLDEST.get(profile.family, {})
    return max((oldest.get(precision, 0.0) for precision in profile.matmul_flops_per_s), default=0.0)


def lacks_capability(profile: HardwareProfile) -> bool:
    """Whether the profile is of a GPU whose capability nobody stated."""
    return profile.compute_capability is None and profile.family in OLDEST


def check_capability(profile: HardwareProfile) -> None:
    """Raises ``InputError`` for a capability of other devices than GPUs, and for rates that devices of it do not have."""
    stated = profile.compute_capability
    if stated is None:
        return
    if profile.family not in OLDEST:
        raise InputError(Sentence("compute_capability: it is of GPUs, and the family is {}; leave it out.", profile.family))
    for precision, oldest in OLDEST[profile.family].items():
        if precision in profile.matmul_flops_per_s and stated < oldest:
            raise InputError(
                Sentence(
                    "matmul_flops_per_s.{}: matrix units have it from compute capability {} on, and compute_capability is {}.",
                    precision,
                    oldest,
                    stated,
                )
            )
