"""Shapes of published models with local attention, gates and biases, from their configurations [transformers-main]."""

from dataclasses import replace

from cost_models.shapes.model_constants import ModelConstants, RouterConstants
from cost_models.shapes.workload import LocalAttention, MlaShape, ModelShape, MoeShape, SparseAttention

MISTRAL_7B = ModelShape(
    name="mistral-7b",
    num_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=14336,
    vocab_size=32000,
    local_attention=LocalAttention("window", window=4096),
)
GEMMA_2_9B = ModelShape(
    name="gemma-2-9b",
    num_layers=42,
    hidden_size=3584,
    num_attention_heads=16,
    num_query_groups=8,
    kv_channels=256,
    ffn_hidden_size=14336,
    vocab_size=256000,
    tied_embeddings=True,
    sandwich_norm=True,
    local_attention=LocalAttention("window", full_attention_every=2, window=4096),
    constants=ModelConstants(attention_softcap=50.0),
)
GEMMA_2_27B = replace(
    GEMMA_2_9B,
    name="gemma-2-27b",
    num_layers=46,
    hidden_size=4608,
    num_attention_heads=32,
    num_query_groups=16,
    kv_channels=128,
    ffn_hidden_size=36864,
)
GEMMA_3_12B = ModelShape(
    name="gemma-3-12b",
    num_layers=48,
    hidden_size=3840,
    num_attention_heads=16,
    num_query_groups=8,
    kv_channels=256,
    ffn_hidden_size=15360,
    vocab_size=262208,
    tied_embeddings=True,
    sandwich_norm=True,
    qk_layernorm=True,
    local_attention=LocalAttention("window", full_attention_every=6, window=1024),
)
GEMMA_3_27B = replace(
    GEMMA_3_12B,
    name="gemma-3-27b",
    num_layers=62,
    hidden_size=5376,
    num_attention_heads=32,
    num_query_groups=16,
    kv_channels=128,
    ffn_hidden_size=21504,
)
GPT_OSS_20B = ModelShape(
    name="gpt-oss-20b",
    num_layers=24,
    hidden_size=2880,
    num_attention_heads=64,
    num_query_groups=8,
    kv_channels=64,
    ffn_hidden_size=2880,
    vocab_size=201088,
    attention_bias=True,
    moe=MoeShape(num_experts=32, top_k=4, expert_ffn_hidden_size=2880, expert_biases=True),
    local_attention=LocalAttention("window", full_attention_every=2, window=128),
    constants=ModelConstants(attention_output_bias=True, attention_sinks=True),
)
GPT_OSS_120B = replace(
    GPT_OSS_20B,
    name="gpt-oss-120b",
    num_layers=36,
    moe=MoeShape(num_experts=128, top_k=4, expert_ffn_hidden_size=2880, expert_biases=True),
)
QWEN3_NEXT_80B = ModelShape(
    name="qwen3-next-80b-a3b",
    num_layers=48,
    hidden_size=2048,
    num_attention_heads=16,
    num_query_groups=2,
    kv_channels=256,
    ffn_hidden_size=5120,
    vocab_size=151936,
    qk_layernorm=True,
    attention_output_gate=True,
    moe=MoeShape(num_experts=512, top_k=10, expert_ffn_hidden_size=512, num_shared_experts=1, shared_expert_ffn_hidden_size=512),
    local_attention=LocalAttention(
        "linear",
        full_attention_every=4,
        num_key_heads=16,
        num_value_heads=32,
        key_head_dim=128,
        value_head_dim=128,
        conv_kernel=4,
    ),
    constants=ModelConstants(router=RouterConstants(shared_expert_gate=True)),
)
MINIMAX_TEXT_01 = ModelShape(
    name="minimax-text-01",
    num_layers=80,
    hidden_size=6144,
    num_attention_heads=64,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=9216,
    vocab_size=200064,
    moe=MoeShape(num_experts=32, top_k=2, expert_ffn_hidden_size=9216),
    local_attention=LocalAttention(
        "linear", full_attention_every=8, num_key_heads=64, num_value_heads=64, key_head_dim=128, value_head_dim=128
    ),
)
GLM_4_5 = ModelShape(
    name="glm-4.5",
    num_layers=92,
    hidden_size=5120,
    num_attention_heads=96,
    num_query_groups=8,
    kv_channels=128,
    ffn_hidden_size=12288,
    vocab_size=151552,
    mtp_num_layers=1,
    qk_layernorm=True,
    attention_bias=True,
    moe=MoeShape(
        num_experts=160,
        top_k=8,
        expert_ffn_hidden_size=1536,
        num_shared_experts=1,
        shared_expert_ffn_hidden_size=1536,
        num_leading_dense_layers=3,
    ),
)
KIMI_K2 = ModelShape(
    name="kimi-k2",
    num_layers=61,
    hidden_size=7168,
    num_attention_heads=64,
    num_query_groups=64,
    kv_channels=192,
    ffn_hidden_size=18432,
    vocab_size=163840,
    mla=MlaShape(q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
    moe=MoeShape(
        num_experts=384,
        top_k=8,
        expert_ffn_hidden_size=2048,
        num_shared_experts=1,
        shared_expert_ffn_hidden_size=2048,
        num_leading_dense_layers=1,
    ),
)
DEEPSEEK_V3_2 = ModelShape(
    name="deepseek-v3.2",
    num_layers=61,
    hidden_size=7168,
    num_attention_heads=128,
    num_query_groups=128,
    kv_channels=192,
    ffn_hidden_size=18432,
    vocab_size=129280,
    mla=MlaShape(q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
    moe=MoeShape(
        num_experts=256,
        top_k=8,
        expert_ffn_hidden_size=2048,
        num_shared_experts=1,
        shared_expert_ffn_hidden_size=2048,
        num_leading_dense_layers=3,
    ),
    sparse_attention=SparseAttention(num_index_heads=64, index_head_dim=128, top_k=2048),
)
GLM_5 = replace(
    DEEPSEEK_V3_2,
    name="glm-5",
    num_layers=78,
    hidden_size=6144,
    num_attention_heads=64,
    num_query_groups=64,
    kv_channels=256,
    ffn_hidden_size=12288,
    vocab_size=154880,
    mla=MlaShape(q_lora_rank=2048, kv_lora_rank=512, qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256),
    sparse_attention=SparseAttention(num_index_heads=32, index_head_dim=128, top_k=2048),
)
