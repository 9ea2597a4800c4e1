"""MindSpeed-LLM on MindSpeed."""
