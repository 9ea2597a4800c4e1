"""Reads options of the FSDP2 backend as a whole job: model, strategy, batch, and what of them is not understood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cost_models.layer.edges import LOSS_CHUNK_TOKENS
from cost_models.shapes.router_balance import RouterBalance
from cost_models.shapes.training_task import PRETRAIN, Task, TrainingTask
from cost_models.shapes.workload import ModelShape
from documents.sentences import Sentence
from frameworks.framework import NamedModel, ReadingError, ReadJob
from frameworks.mindspeed_llm_fsdp2.families import TYPES
from frameworks.mindspeed_llm_fsdp2.patterns import EXPERTS, LAYERS, NAMES_NOTHING, SHARDED, num_layers_of
from frameworks.mindspeed_llm_fsdp2.reader import Reading
from frameworks.mindspeed_llm_fsdp2.table import (
    CHUNKED_LOSS,
    DETERMINISTIC,
    FIXED_ROUTER,
    LOADER,
    MIXTURE,
    MODEL_ID,
    PATH,
    RECOMPUTE,
    RECOMPUTED,
    RELEASE,
    SEQUENCE,
    STAGE,
    TABLE,
)
from frameworks.options import as_given
from frameworks.unread import CHANGES, Unread, unread

# Names of modules that are understood, in any order; other ones change what is sharded apart.
_PATTERNS = {
    "parallel.fsdp_modules": SHARDED,
    "parallel.ep_modules": EXPERTS,
    "parallel.ep_fsdp_modules": EXPERTS,
    "parallel.hook_modules": (LAYERS,),
    "parallel.ignored_modules": (NAMES_NOTHING,),
}
_PACKING = ("data.packing", "data.neat_packing", "data.reset_attention_mask")


def named_model(arguments: Sequence[str]) -> NamedModel:
    """The model by the path in ``path=value`` arguments; raises ``ReadingError``."""
    reading = Reading(arguments, None)
    path = reading.value(PATH)
    if not path:
        raise ReadingError(Sentence("{} is missing; give the script that starts the file with it", PATH))
    return NamedModel(PATH, str(path), MODEL_ID, reading.model_id, TYPES[reading.model_id])


def no_model(_arguments: Sequence[str], _num_devices: int | None = None) -> ReadJob:
    """No job: a file names its model, and states no sizes."""
    raise ReadingError(Sentence("{} names a model, and the file states no sizes", PATH))


def read_job(arguments: Sequence[str], num_devices: int | None, model: ModelShape) -> ReadJob:
    """The job of ``path=value`` arguments for the model that they name; raises ``ReadingError``."""
    reading = Reading(arguments, num_devices)
    forced = bool(reading.value(FIXED_ROUTER)) and reading.ep > 1  # of the exchange alone
    return ReadJob(
        model,
        reading.strategy(),
        reading.number(SEQUENCE),
        reading.global_batch_size,
        "bf16",
        tuple(_assumed(reading)),
        router_balance=RouterBalance.FORCED if forced else None,
        unread=(*_special(reading), *unread(RELEASE, {name: as_given(value) for name, value in reading.options.items()})),
        uneven=tuple(_uneven(reading)),
        task=TrainingTask(Task.SFT) if reading.value(STAGE) == "sft" else PRETRAIN,
    )


def _special(reading: Reading) -> Iterator[Unread]:
    """Options of which some values, or values beside others, have no price."""
    for name, known in _PATTERNS.items():
        given = reading.patterns(name)
        if given and ({*given} - {*known} if name == "parallel.ignored_modules" else {*given} != {*known}):
            yield Unread(name, CHANGES["cost"])
    if reading.value(RECOMPUTE) and num_layers_of(reading.patterns(RECOMPUTED) or [LAYERS]) is None:
        yield Unread(RECOMPUTED, CHANGES["cost"])
    # Layers of transformers take no loss by parts [mindspeed-llm, fsdp2/train/trainer.py:717].
    if reading.model_id and reading.value(STAGE) == "pt" and reading.value(CHUNKED_LOSS) not in (None, LOSS_CHUNK_TOKENS):
        yield Unread(CHUNKED_LOSS, CHANGES["memory"])
    fused = reading.value(TABLE.columns["dispatcher"]) == "fused" and reading.ep > 1
    if fused and reading.model_id == MIXTURE and not reading.value("optimization.moe_grouped_gemm"):
        yield Unread(TABLE.columns["dispatcher"], CHANGES["cost"])


def _uneven(reading: Reading) -> Iterator[str]:
    """Options that put samples together, or leave them as short as they are."""
    packed = [name for name in _PACKING if reading.value(name)]
    yield from packed
    if not packed and reading.value(LOADER) == "lf":
        yield LOADER


def _assumed(reading: Reading) -> Iterator[str]:
    """Sentences on what is priced in another form."""
    if reading.value(DETERMINISTIC):
        yield Sentence("{} is on; kernels are priced as the fast ones", DETERMINISTIC)
    if reading.ep > 1:
        yield Sentence(
            "{} {}: experts are priced with the number formats and the resharding of the other weights",
            TABLE.columns["ep"],
            reading.ep,
        )
