"""Inference: time of prefill and decode steps, capacity of the key/value cache, and the flow of requests through an instance.

``engine`` has the inputs (``ServingWorkload``, ``ServingLayout``, ``Engine``), ``steps`` the times (``decode_step_s``,
``prefill_s`` and their parts), ``memory`` what fits (``kv_capacity_tokens``), ``batching`` whole rollouts (``batched_times``).
"""
