"""Any two runs side by side: their texts aligned token by token, and what is apart as numbers."""

from explorer.comparison.alignment import ABSENT, Alignment, align, common_tokens, match_sentence
from explorer.comparison.apart import TOLERANCE
from explorer.comparison.pair import Comparison, Parting, compare
from explorer.comparison.parameters import compare_parameters
from explorer.comparison.sides import Sides

__all__ = [
    "ABSENT",
    "TOLERANCE",
    "Alignment",
    "Comparison",
    "Parting",
    "Sides",
    "align",
    "common_tokens",
    "compare",
    "compare_parameters",
    "match_sentence",
]
