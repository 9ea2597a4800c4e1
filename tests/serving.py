"""Serving workloads with round numbers, and of presets."""

from typing import Any

from app.catalogue.models.presets import model_preset
from calibration.files.calibrations import calibration_for
from cost_models.serving.engine import Engine, ServingWorkload
from cost_models.shapes.traits import default_stack
from cost_models.shapes.workload import Cluster, ModelShape, Software, TrainingJob, Workload
from hardware_profiles.catalogue import named
from tests.networks import ascend_a2
from tests.workloads import DENSE, constants


def served(model: ModelShape = DENSE, *, cluster: Cluster | None = None, **engine: Any) -> ServingWorkload:
    """Neutral constants: reads at 0.84 of 1.6 TB/s, attention at 0.65 of 300 TFLOPS, matmuls at 250."""
    return ServingWorkload(model, cluster or ascend_a2(), constants(host_micro_batch_s=0.0), Engine(**engine))


def served_preset(model: str, hardware: str, num_devices: int, **engine: Any) -> ServingWorkload:
    """A preset on a shipped profile, with the shipped calibration."""
    profile, shape = named(hardware), model_preset(model).model
    cluster = Cluster(profile, num_devices)
    training = Workload(shape, TrainingJob(4096, 1), cluster, Software(default_stack(profile.family)))
    return ServingWorkload(shape, cluster, calibration_for(training, ()).constants_of(training), Engine(**engine))
