"""What is measured on: an encoder of 12 x 12 heads, and sentences of an exact number of tokens."""

from typing import Final

from explorer import EncoderConfig

LENGTHS: Final = (16, 64, 128, 256, 512)
BUILT: Final = EncoderConfig(n_layers=12, n_heads=12, d_model=96, d_ff=192)
"""Narrow, so that the forward pass is short beside what is measured; its heads are as many as those of BERT base."""
WORDS: Final = (
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "the",
    "dog",
    "ran",
    "to",
    "it",
    "with",
    "all",
    "of",
    "his",
)
"""Each is one token."""


def sentence(n_tokens: int, first: int = 0) -> str:
    """Words that make n tokens with [CLS] and [SEP] around them. Another first word makes another sentence."""
    return " ".join(WORDS[(first + i) % len(WORDS)] for i in range(n_tokens - 2))
