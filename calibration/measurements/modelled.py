"""Predicted times of timed cases: the formulas that price a layer, at exactly the sizes of the case."""

from __future__ import annotations

from calibration.measurements.cases import Case, Kind
from calibration.measurements.timing import Measured
from cost_models.constants import Constants
from cost_models.layer.compute import (
    ADD_BYTES,
    ATTENTION_BACKWARD_FLOPS,
    ELEMENT_BYTES,
    FP32_BYTES,
    READ_WRITE_BYTES,
    Device,
    fused_attention_s,
    matmul_s,
    vector_s,
)
from cost_models.layer.modules import UNFUSED_VECTOR_FACTOR
from cost_models.network.collectives import all_gather_s, all_reduce_s, all_to_all_s, reduce_scatter_s
from cost_models.network.tiers import Network
from cost_models.shapes.traits import default_stack
from cost_models.shapes.workload import Cluster, ModelShape, Software, TrainingJob, Workload
from hardware_profiles.schema import HardwareProfile

VECTOR_BYTES = {"norm": READ_WRITE_BYTES, "swiglu": ADD_BYTES, "add": ADD_BYTES, "cast": ELEMENT_BYTES + FP32_BYTES}
_COLLECTIVES = {
    "all_reduce": all_reduce_s,
    "all_gather": all_gather_s,
    "reduce_scatter": reduce_scatter_s,
    "all_to_all": all_to_all_s,
}
_OF_SHARDS = ("all_gather", "reduce_scatter")


def modelled_s(measured: Measured, profile: HardwareProfile, constants: Constants) -> float | None:
    """Seconds of one call of the case on this profile; None where the model has no formula or the profile no such rate.

    The profile's usual stack, of no particular year, on a cluster with one device for each rank.
    """
    case, n = measured.case, measured.case.by_name
    if case.precision not in profile.matmul_flops_per_s and case.kind in (Kind.MATMUL, Kind.GROUPED_MATMUL):
        return None
    device = _device(case, profile, constants)
    if case.kind is Kind.MATMUL:
        return float(matmul_s(n["rows"], n["columns"], n["depth"], device))
    if case.kind is Kind.GROUPED_MATMUL:
        found = float(matmul_s(n["rows"], n["columns"], n["depth"], device, groups=n["experts"]))
        launches = 0.0 if measured.is_fused else (n["experts"] - 1) * constants.kernel_s
        return found + launches
    if case.kind is Kind.ATTENTION:
        is_backward = case.operation.endswith("backward")
        forward_flops = case.flops / ATTENTION_BACKWARD_FLOPS if is_backward else case.flops
        return float(fused_attention_s(forward_flops, n["length"], n["head_dim"], device)[is_backward])
    if case.kind is Kind.VECTOR:
        factor = 1.0 if measured.is_fused else UNFUSED_VECTOR_FACTOR
        return float(vector_s(VECTOR_BYTES[case.operation] * n["tokens"] * n["width"] * factor, device))
    if case.kind is Kind.DISPATCH:
        return constants.host_kernel_s
    return _collective_s(case, profile, constants) if case.kind is Kind.COLLECTIVE else None


def _device(case: Case, profile: HardwareProfile, constants: Constants) -> Device:
    heads = case.by_name.get("heads", 1)
    model = ModelShape("measured", 1, heads, heads, heads, 1, 1, 1)  # no rate depends on it
    known = profile.matmul_flops_per_s
    precision = case.precision if case.precision in known else next(iter(known))
    training = TrainingJob(seq_length=1, global_batch_size=1, precision=precision)
    return Device.of(Workload(model, training, _cluster(case, profile), _software(profile)), constants)


def _software(profile: HardwareProfile) -> Software:
    return Software(stack=default_stack(profile.family))


def _cluster(case: Case, profile: HardwareProfile) -> Cluster:
    return Cluster(profile, num_devices=case.by_name.get("ranks", 1))


def _collective_s(case: Case, profile: HardwareProfile, constants: Constants) -> float:
    network = Network.of(
        _cluster(case, profile),
        intra_fraction=constants.intra_fraction,
        inter_fraction=constants.inter_fraction,
        call_latency_s=constants.collective_latency_s,
    )
    ranks, held = case.by_name["ranks"], case.by_name["message_bytes"]
    total = held * ranks if case.operation in _OF_SHARDS else held
    return float(_COLLECTIVES[case.operation](total, ranks, 1, network))
