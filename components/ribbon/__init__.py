"""The batch as the encoder reads it: a row a sentence, a box a token, each to be chosen."""

from components.ribbon.mount import read_pick, token_ribbon

__all__ = ["read_pick", "token_ribbon"]
