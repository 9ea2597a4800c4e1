"""Inference: what a step of prefill or decode takes, what memory holds of keys and values, how requests pass an instance.

``engine`` has the inputs (``ServingWorkload``, ``ServingLayout``, ``Engine``), ``steps`` the times (``decode_step_s``,
``prefill_s`` and their parts), ``memory`` what fits (``kv_capacity_tokens``), ``batching`` whole rollouts (``batched_times``).
"""
