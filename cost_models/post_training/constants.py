"""Constants of the post-training model, in addition to the constants of training and serving, each with its source."""

from __future__ import annotations

from cost_models.shapes.traits import device_traits
from documents.late_methods import dataclass
from hardware_profiles.schema import HardwareProfile


@dataclass(frozen=True)
class PostTrainingConstant:
    """One constant: its meaning, unit, range of published values, value and source."""

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    value: float
    source: str
    basis: str = "measured"


CONSTANTS: tuple[PostTrainingConstant, ...] = (
    PostTrainingConstant("remainder_fraction", "reward, data and book-keeping of a step, over all its other parts", "1",
                         0.03, 0.07, 0.05, "[verl-docs, fully_async]: a step less generation, log-probabilities and update"),
    PostTrainingConstant("rollout_device_factor", "device time of decode inside a rollout over that of a tuned service", "1",
                         1.0, 2.5, 1.75, "[verl-docs; nemo-rl]: a fit; sampling, log-probabilities of samples, wrapped weights"),
    PostTrainingConstant("forward_factor", "a pass for the old log-probabilities over the forward part of an update", "1",
                         1.0, 3.4, 1.45, "[verl-docs, two asynchronous modes]: old_log_prob over update_actor; entropy too"),
    PostTrainingConstant("step_log_error_gpu", "what |ln(measured / predicted)| of four published steps in five stays below", "1",
                         0.1, 1.5, 0.37, "[verl-docs; nemo-rl; areal]: systems left out, docs/post-training.md"),
    PostTrainingConstant("step_log_error_ascend", "the same on Ascend", "1",
                         0.1, 1.5, 1.07, "[mindspeed-rl; rl-fusion]: throughputs, lengths not published", "lengths assumed"),
)  # fmt: skip


@dataclass(frozen=True)
class ReshardEngine:
    """A way to send weights from the training layout to the rollout's: bytes of the whole model a second into every instance."""

    name: str
    meaning: str
    gpu_bytes_per_s: float
    ascend_bytes_per_s: float
    source: str
    basis: str = "measured"

    def bytes_per_s(self, profile: HardwareProfile) -> float:
        """Rate on devices of the profile's family. [B/s]"""
        value: float = getattr(self, f"{device_traits(profile).priors}_bytes_per_s")
        return value


ENGINES: dict[str, ReshardEngine] = {
    engine.name: engine
    for engine in (
        ReshardEngine("per-tensor", "one broadcast a parameter", 3.9e9, 3.9e9,
                      "[verl-docs, checkpoint_engine: Qwen3-30B-A3B, 16 + 16 H20]; Ascend as on GPUs"),
        ReshardEngine("bucketed", "broadcasts of buckets over NCCL, NIXL or HCCL", 8.5e9, 5.3e9,
                      "[verl-docs, checkpoint_engine: 30 receivers on H100 and 910C]"),
        ReshardEngine("pipelined", "buckets, with copies and conversion behind the broadcast", 13.9e9, 16.5e9,
                      "[verl-docs, checkpoint_engine: H20; 910C with the kimi backend]"),
        ReshardEngine("sharded", "every rank sends its shard, each node receives the model once", 63e9, 63e9,
                      "[checkpoint-engine, README: four models on H800 and H20]; Ascend as on GPUs"),
    )
}  # fmt: skip
DEFAULT_ENGINE = "sharded"


@dataclass(frozen=True)
class SwitchTime:
    """Seconds of one piece of work that a change of layout repeats, as a range of published values for each kind of device.

    No range is narrow, so the value is its geometric mean. A job can give the seconds of its own site.
    """

    name: str
    meaning: str
    gpu_range_s: tuple[float, float]
    ascend_range_s: tuple[float, float]
    source: str
    basis: str = "measured"

    def range_s(self, profile: HardwareProfile) -> tuple[float, float]:
        """The smallest and the largest value on devices of the profile's family."""
        found: tuple[float, float] = getattr(self, f"{device_traits(profile).priors}_range_s")
        return found


SWITCH_TIMES: dict[str, SwitchTime] = {
    entry.name: entry
    for entry in (
        SwitchTime("group_s", "a process group is made, by all ranks of its side in turn", (1e-3, 0.5), (1e-3, 33.0),
                   "[yunchang-174]: below 0.5 s on GPUs and 33 s on 16 NPUs, with the communicator; the low ends, a round trip "
                   "to a store, are assumed", "assumed"),
        SwitchTime("communicator_s", "a rank opens a communicator at its first use", (0.3, 4.1), (0.3, 4.1),
                   "[nccl-init]: 20 of 8 ranks in 6.1 s; 0.66 s of 8, 1.08 s of 16, 2 s of 8, 4.1 s of 32; Ascend as on GPUs"),
        SwitchTime("graph_s", "a decode graph is captured", (0.05, 0.4), (0.97, 2.0),
                   "[vllm-graphs]: 0.057 s a graph and 35 in 14 s; [vllm-ascend-graphs]: 39 in 38 s and 11 in 22 s"),
    )
}  # fmt: skip
SLOW_HOST_COPY_BYTES_PER_S = (
    2.2e9  # of a device: 15.3 GB of weights to the host in 7 s [verl-docs, checkpoint_engine: kimi on 910C]
)
LARGEST_GRAPH = 512  # tokens [vllm, max_cudagraph_capture_size]


def constant(name: str) -> float:
    """The value of one entry of ``CONSTANTS``, a factor or a fraction; an unknown name raises ``KeyError``."""
    return {entry.name: entry.value for entry in CONSTANTS}[name]


def step_log_error(profile: HardwareProfile) -> PostTrainingConstant:
    """The error of steps on devices of the profile's family; its basis is not ``measured`` if their lengths are unknown."""
    name = f"step_log_error_{device_traits(profile).priors}"
    return next(entry for entry in CONSTANTS if entry.name == name)
