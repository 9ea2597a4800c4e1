"""Rules on switches: conditions under which an overlap or a fused operator has an effect."""

from __future__ import annotations

from cost_models.shapes.effective_switches import fuses_attention
from cost_models.shapes.switches import FUSIONS, Exclusive, Feature, alternatives
from documents.sentences import Sentence
from frameworks.rule import Rule, all_of, has_effect, none_of, one_of

ONE_MATMUL_FUSION = one_of(
    Exclusive.TENSOR_PARALLEL_MATMULS,
    "one_matmul_fusion",
    "[mindspeed, mc2.py; locl_coc.py; tp_2d.py]",
    Sentence("{} each replace the same matmuls and collectives: one of them", all_of([str(f.name).lower() for f in FUSIONS])),
    lambda on, s: Sentence("{} all replace the collectives of tp {}: choose 1", on, s.tp),
)

ONE_HIDDEN_EXCHANGE = one_of(
    Exclusive.EXPERT_EXCHANGE,
    "one_hidden_exchange",
    "[mindspeed-moe-overlap; mindspeed-fb-overlap]",
    Sentence(
        "{} each hide the same exchange of tokens: one of them",
        all_of([str(f.name).lower() for f in alternatives(Exclusive.EXPERT_EXCHANGE)]),
    ),
    lambda on, s: Sentence("{} all hide the exchange of tokens over ep {}: choose 1", on, s.ep),
)

FINE_GRAIN_INTERLEAVE = Rule(
    "fine_grain_interleave",
    "[mindformers-1.5, check_rules.py; mindformers-1.5, llama_interleave.py]",
    Sentence(
        "fine_grain_interleave cuts a micro batch in two halves: of its tokens, which needs "
        "sequence_parallel or cp above 1, or of "
        "an even micro_batch_size"
    ),
    lambda w, b: (
        has_effect(w, b, Feature.FINE_GRAIN_INTERLEAVE) & (b.sequence_parallel == 0) & (b.cp == 1) & (b.micro_batch_size % 2 != 0)
    ),
    lambda w, s: Sentence(
        "fine_grain_interleave cuts a micro batch in two halves, of its tokens with sequence_parallel or cp above 1 alone, and "
        "micro_batch_size is {}",
        s.micro_batch_size,
    ),
)

FUSED_ATTENTION = Rule(
    "fused_attention",
    "[transformer-engine, utils.py; flash-attention-2]",
    Sentence("flash_attention of a GPU runs in 16 bits or fewer, on devices with BF16 (from Ampere on)"),
    lambda w, b: none_of(b) if fuses_attention(w) else b.has(Feature.FLASH_ATTENTION),
    lambda w, s: Sentence(
        "flash_attention runs in 16 bits or fewer on GPUs with BF16; the job is {} on {}: switch it off",
        w.training.precision,
        w.cluster.profile.name,
    ),
)

RULES = (FUSED_ATTENTION, ONE_MATMUL_FUSION, ONE_HIDDEN_EXCHANGE, FINE_GRAIN_INTERLEAVE)
