"""The number formats that an encoder can compute in."""

from typing import Final, Literal

import torch

from explorer.config import check_option

Precision = Literal["float32", "float64", "bfloat16", "float16"]

PRECISIONS: Final[dict[Precision, torch.dtype]] = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
"""Each precision as torch knows it; the usual one first."""


def dtype_of(precision: Precision) -> torch.dtype:
    """The type of parameters, buffers and every recorded number.

    Raises:
        ConfigError: If there is no such precision.
    """
    check_option("precision", precision, tuple(PRECISIONS))
    return PRECISIONS[precision]
