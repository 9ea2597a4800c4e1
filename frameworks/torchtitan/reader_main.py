"""Reads fields of torchtitan's Python configurations as a strategy and as a whole job; missing ones have main's defaults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cost_models.shapes.strategy import ParallelStrategy
from documents.sentences import Sentence
from frameworks.framework import ReadingError, ReadJob
from frameworks.torchtitan.checkpoints import BY_OPERATORS, OVER_SHARDS, WITH_EXPERTS, Mode
from frameworks.torchtitan.dialect import MAIN
from frameworks.torchtitan.reader import Reading
from frameworks.torchtitan.table_main import (
    ALL_LAYERS,
    ATTENTION,
    CHECKPOINTS,
    CHUNKED,
    CHUNKS,
    CONTEXT,
    FAMILY,
    FLAVOR,
    INNER_LOSS,
    LOSS,
    MICRO_BATCHES,
    NO_GRAPHS,
    OPERATORS,
    PLAIN,
    STEP_TOKENS,
    TOKENS,
    VOCABULARY,
)
from frameworks.unread import CHANGES, Unread


class MainReading(Reading):
    """Options by path, each with its value in JSON."""

    dialect = MAIN
    family, size = FAMILY, FLAVOR

    @property
    def etp(self) -> int:
        """An expert on several ranks is never divided [torchtitan-2026.08, distributed/parallel_dims.py:282]."""
        return 1

    @property
    def seq_length(self) -> int:
        """Tokens of a sample."""
        length = self.number(CONTEXT)
        if (reason := self.flavor.too_long(length)) is not None:
            raise ReadingError(reason)
        return length

    @property
    def micro_batch_size(self) -> int:
        """Samples of a micro batch, with or without a pipeline."""
        tokens = self.number(TOKENS)
        if tokens % self.seq_length:
            raise ReadingError(Sentence("{} {} does not divide by samples of {} tokens", TOKENS, tokens, self.seq_length))
        return tokens // self.seq_length

    @property
    def at_once(self) -> int:
        """Samples of a data-parallel rank in one pass of the pipeline, or of the layers without one."""
        return self.micro_batch_size * (self.number(MICRO_BATCHES) if self.pp > 1 else 1)

    @property
    def global_batch_size(self) -> int:
        """Samples of a step [torchtitan-2026.08, trainer.py:419]. A pipeline that runs several times a step has no price."""
        given, once = self.number(STEP_TOKENS, low=-1), self.at_once * self.dp * self.seq_length
        if given == 0 or (given > 0 and given % once):
            raise ReadingError(Sentence("{} {} does not divide by {} tokens of a pass", STEP_TOKENS, given, once))
        if self.pp > 1 and given > once:
            raise ReadingError(
                Sentence("{} {} runs the pipeline {} times a step, which has no price", STEP_TOKENS, given, given // once)
            )
        return max(given, once) // self.seq_length

    @property
    def loss_chunks(self) -> int:
        """Chunks of the loss, 0 for a loss of all tokens at once."""
        loss = self.value(LOSS)
        if loss not in (CHUNKED, PLAIN):
            raise ReadingError(Sentence("loss is {}, which has no price; give {} or {}", str(loss)[:80], CHUNKED, PLAIN))
        if loss == PLAIN:
            return 0
        if self.value(INNER_LOSS) != PLAIN:
            raise ReadingError(
                Sentence("{} is {}, which has no price; give {}", INNER_LOSS, str(self.value(INNER_LOSS))[:80], PLAIN)
            )
        return self.number(CHUNKS)

    def check_vocabulary(self) -> None:
        """Raises ``ReadingError`` if the loss has other rows than the model [torchtitan-2026.08, components/loss.py:134]."""
        rows = self.flavor.model.vocab_size
        for name in (f"{LOSS}.{VOCABULARY}", f"{INNER_LOSS}.{VOCABULARY}"):
            if self.options.get(name, rows) not in (rows, None):
                raise ReadingError(
                    Sentence(
                        "{} is {}, and {} {} has {} rows",
                        name,
                        str(self.options[name])[:80],
                        self.flavor.name,
                        self.flavor.flavor,
                        rows,
                    )
                )

    def strategy(self) -> ParallelStrategy:
        """The strategy. Raises ``ReadingError`` for experts over a part of the ranks, which main refuses of any model.

        [torchtitan-2026.08, distributed/parallel_dims.py:188]
        """
        name, ranks = self.table.columns["ep"], self.shards * self.cp * self.tp
        if ranks % (ep := self.number(name)):
            raise ReadingError(Sentence("{} {} does not divide the {} ranks that share the weights", name, ep, ranks))
        return super().strategy()

    def mode(self) -> Mode:
        """The activation checkpoints."""
        mode = self.value(CHECKPOINTS)
        return BY_OPERATORS if mode == OPERATORS else Mode("full" if mode == ALL_LAYERS else "none")


def read(arguments: Sequence[str], num_devices: int | None = None) -> ParallelStrategy:
    """The strategy of ``path=value`` arguments; ``num_devices`` where the shards are what is left of them."""
    return MainReading(arguments, num_devices).strategy()


def read_job(arguments: Sequence[str], num_devices: int | None = None) -> ReadJob:
    """The job of ``path=value`` arguments; raises ``ReadingError``."""
    reading = MainReading(arguments, num_devices)
    reading.check_vocabulary()
    return reading.job(_assumed(reading), _by_default(reading), (FLAVOR,))


def _by_default(reading: MainReading) -> Iterator[Unread]:
    """What main does unless a file says otherwise, and the price does not have."""
    if not reading.value(NO_GRAPHS):
        yield Unread(NO_GRAPHS, CHANGES["cost"] + Sentence(": CUDA graphs, which main records by default, have no price"))
    if reading.mode() == BY_OPERATORS and (reading.flavor.model.moe is not None or reading.tp > 1):
        yield Unread(CHECKPOINTS, WITH_EXPERTS if reading.flavor.model.moe is not None else OVER_SHARDS)
    if "optimizer" not in reading.options:
        yield Unread("optimizer", CHANGES["cost"])


def _assumed(reading: MainReading) -> Iterator[str]:
    """Sentences on what is priced in another form."""
    yield Sentence("{} attention is priced as PyTorch's fused attention", reading.value(ATTENTION))
