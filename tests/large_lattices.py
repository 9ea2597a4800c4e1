"""Jobs whose lattices are too large for a minute."""

from __future__ import annotations

from typing import Any

# Numbers of layers, experts and devices that all have many divisors.
MODEL: dict[str, Any] = {
    "num_layers": 840,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "ffn_hidden_size": 12288,
    "vocab_size": 32000,
    "moe": {"num_experts": 720, "top_k": 8, "expert_ffn_hidden_size": 256},
}
LARGE: dict[str, Any] = {
    "model": MODEL,
    "cluster": {"hardware": "atlas-800t-a3", "num_devices": 720_720},
    "training": {"seq_length": 8192, "global_batch_size": 720_720},
    "software": {"target": "any"},
}
# The same with experts and a sequence so large that nothing fits.
INFEASIBLE = {
    **LARGE,
    "model": {**MODEL, "moe": {**MODEL["moe"], "expert_ffn_hidden_size": 8192}},
    "training": {"seq_length": 32_768, "global_batch_size": 720_720},
}
