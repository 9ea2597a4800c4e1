"""Models with the constants of their published config.json, for tests of what the Megatron family is told of them."""

from __future__ import annotations

from cost_models.shapes.model_constants import ModelConstants, RopeScaling, RouterConstants
from cost_models.shapes.workload import MlaShape, ModelShape, MoeShape

SILU: dict[str, str] = {"activation": "silu", "normalization": "rmsnorm"}
LLAMA_31 = ModelShape(
    "llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256,
    constants=ModelConstants(
        norm_epsilon=1e-5, rotary_base=500000.0, max_position_embeddings=131072, **SILU,
        rope_scaling=RopeScaling("llama3", 8.0, 8192, low_freq_factor=1.0, high_freq_factor=4.0),
    ),
)  # fmt: skip
QWEN_30B = ModelShape(
    "qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936, qk_layernorm=True, moe=MoeShape(128, 8, 768),
    constants=ModelConstants(
        norm_epsilon=1e-6, rotary_base=1e6, max_position_embeddings=40960, **SILU,
        router=RouterConstants("softmax", normalize_topk=True, topk_scale=1.0, expert_bias=False),
    ),
)  # fmt: skip
GLM_4 = ModelShape(
    "glm4-9b", 40, 4096, 32, 2, 128, 13696, 151552, attention_bias=True,
    constants=ModelConstants(
        norm_epsilon=1.5625e-07, rotary_base=10000.0, rotary_fraction=0.5, rotary_interleaved=True, max_position_embeddings=8192,
        **SILU,
    ),
)  # fmt: skip
DEEPSEEK_V3 = ModelShape(
    "deepseek-v3", 61, 7168, 128, 128, 192, 18432, 129280, mtp_num_layers=1, mla=MlaShape(1536, 512, 128, 64, 128),
    moe=MoeShape(256, 8, 2048, 1, 2048, 3, num_groups=8, group_topk=4),
    constants=ModelConstants(
        norm_epsilon=1e-6, rotary_base=10000.0, max_position_embeddings=163840, **SILU,
        rope_scaling=RopeScaling("yarn", 40.0, 4096, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0),
        router=RouterConstants("sigmoid", normalize_topk=True, topk_scale=2.5, expert_bias=True),
    ),
)  # fmt: skip
DEEPSEEK_V2_LITE = ModelShape(
    "deepseek-v2-lite", 27, 2048, 16, 16, 192, 10944, 102400, mla=MlaShape(0, 512, 128, 64, 128),
    moe=MoeShape(64, 6, 1408, 2, 2816, 1),
    constants=ModelConstants(
        norm_epsilon=1e-6, rotary_base=10000.0, max_position_embeddings=163840, **SILU,
        rope_scaling=RopeScaling("yarn", 40.0, 4096, beta_fast=32.0, beta_slow=1.0, mscale=0.707, mscale_all_dim=0.707),
        router=RouterConstants("softmax", normalize_topk=False, topk_scale=1.0, expert_bias=False),
    ),
)  # fmt: skip
GPT_3 = ModelShape(
    "gpt3-175b", 96, 12288, 96, 96, 128, 49152, 51200, gated_linear_unit=False, tied_embeddings=True, learned_positions=True,
    constants=ModelConstants(
        norm_epsilon=1e-5, activation="gelu_tanh", normalization="layernorm", max_position_embeddings=2048
    ),
)  # fmt: skip
STATED = (LLAMA_31, QWEN_30B, GLM_4, DEEPSEEK_V3, DEEPSEEK_V2_LITE, GPT_3)
