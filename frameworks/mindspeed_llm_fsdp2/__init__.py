"""`mindspeed-llm-fsdp2` on PyTorch: rules, and YAML files of MindSpeed-LLM's FSDP2 backend (master)."""
