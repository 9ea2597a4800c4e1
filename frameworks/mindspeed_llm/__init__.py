"""MindSpeed-LLM, which runs on Megatron-LM and MindSpeed."""
