"""Triton without a device: launches are noted and left out.

A Triton kernel writes into tensors that Python has made before, so that the framework's own code around it decides what is held.
"""

from __future__ import annotations

from typing import Any

from execution.running import used


class Launched:
    """A kernel: ``kernel[grid](...)`` does nothing."""

    def __init__(self, function: Any) -> None:
        self.fn, self.__name__ = function, getattr(function, "__name__", "kernel")

    def __getitem__(self, _grid: Any) -> Any:
        return lambda *_values, **_keywords: used(f"Triton kernel {self.__name__}")

    def __call__(self, *_values: Any, **_keywords: Any) -> None:
        used(f"Triton kernel {self.__name__}")


def jit(function: Any = None, **_keywords: Any) -> Any:
    """The decorator of kernels."""
    return jit if function is None else function if isinstance(function, Launched) else Launched(function)


def decorator(*_values: Any, **_keywords: Any) -> Any:
    """A decorator with arguments around ``jit``."""
    return lambda kernel: kernel


class Word:
    """A name of the language: it can be read, and used as an annotation."""

    def __init__(self, *_values: Any, **_keywords: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Word()

    def __call__(self, *_values: Any, **_keywords: Any) -> Any:
        return Word()


def modules() -> dict[str, dict[str, Any]]:
    """Modules of the package and their names."""
    words = {
        name: Word()
        for name in (
            "constexpr",
            "math",
            "dtype",
            "float32",
            "bfloat16",
            "int32",
            "int64",
            "float16",
            "uint32",
            "uint64",
            "tensor",
            "extra",
        )
    }
    return {
        "triton": {
            "__version__": "3.5.0",
            "jit": jit,
            "autotune": decorator,
            "heuristics": decorator,
            "Config": Word,
            "cdiv": lambda a, b: -(-a // b),
            "next_power_of_2": lambda n: 1 << max(n - 1, 0).bit_length(),
        },
        "triton.language": words,
    }
