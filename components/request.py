"""What a reader asked for, as one hashable value, and the run that answers it."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Literal

from explorer import MINILM, EncoderConfig
from explorer.text import Batch, PaddingSide

Source = Literal["minilm", "built"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The settings of one run. `layers` below a trained encoder's depth means its first layers."""

    source: Source
    config: EncoderConfig
    seed: int
    init: Literal["xavier", "normal"]
    text: str
    pad_to: int
    """Number of tokens; 0 means the longest sentence."""
    pad_side: PaddingSide
    mask: bool
    device: str

    @property
    def model_key(self) -> Hashable:
        """What fixes the parameters."""
        return (
            (self.source, self.config) if self.source == "minilm" else (self.source, self.config, self.seed, self.init)
        )

    def run_key(self, batch: Batch) -> Hashable:
        """What fixes every number and every label of the run: parameters, token ids, mask, device, letters.

        Two texts may be the same tokens, such as `A` and `a`. A run carries its text, so they are two runs: nobody
        must see what somebody else typed.
        """
        ids, mask = batch.token_ids.numpy(), batch.key_padding_mask.numpy()
        return self.model_key, batch.sentences, ids.shape, ids.tobytes(), mask.tobytes(), self.mask, self.device


def minilm_config(n_layers: int) -> EncoderConfig:
    """The published architecture, cut after its first layers."""
    return replace(MINILM, n_layers=n_layers)
