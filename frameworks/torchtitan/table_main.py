"""Fields of torchtitan's Python configurations for the parts of a plan [torchtitan-2026.08, config/configs.py]."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cost_models.shapes.switches import Feature
from frameworks.facts import Terms, switch
from frameworks.release import read_release
from frameworks.table import SwitchArgument
from frameworks.torchtitan.table import BY_OPERATOR, COMPILE, TABLE, TERMS

RELEASE_MAIN = read_release(Path(__file__).with_name("2026.08.json"))
TOKENS, STEP_TOKENS = "training.num_tokens_per_microbatch_per_dp_rank", "training.num_tokens_per_train_step"
CONTEXT, MICRO_BATCHES = "training.max_context_length", "parallelism.num_pp_microbatches"
NO_GRAPHS = "training.disable_cuda_graphs"
FAMILY, FLAVOR, ATTENTION = "model_spec.name", "model_spec.flavor", "model_spec.attn_backend"
LOSS, INNER_LOSS, CHUNKS = "loss", "loss.loss_fn", "loss.num_chunks"
CHUNKED, PLAIN = "ChunkedLossWrapper", "CrossEntropyLoss"
VOCABULARY = "global_vocab_size"  # of the loss; tensor parallelism needs it
CHECKPOINTS = "activation_checkpoint"
ALL_LAYERS, OPERATORS, NO_LAYER = "FullAC", "SelectiveAC", "None"
ASYNC_TP = "compile.enable_async_tensor_parallel"
TABLE_MAIN = replace(
    TABLE,
    columns={
        **{field: path for field, path in TABLE.columns.items() if field not in ("etp", "recompute", "micro_batch_size")},
        "micro_batch_size": TOKENS,
        "dispatcher": "model_spec.moe_comm_backend",
        "recompute": CHECKPOINTS,
    },
    switches=(SwitchArgument(Feature.TP_COMM_OVERLAP, ASYNC_TP, on=(True,), off=None, only=(COMPILE,)),),
    modules={BY_OPERATOR: OPERATORS},
)
TERMS_MAIN: Terms = {ASYNC_TP: switch(Feature.TP_COMM_OVERLAP), COMPILE: TERMS[COMPILE]}
