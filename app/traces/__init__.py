"""A measured step beside the predicted one."""
