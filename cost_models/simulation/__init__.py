"""The pipeline task by task: the second fidelity, over the same layer costs."""
