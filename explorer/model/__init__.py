"""The encoder: pure functions, thin modules, one code path."""

from explorer.model.encoder import Encoder, build_encoder

__all__ = ["Encoder", "build_encoder"]
