"""What a reader asked for, as one hashable value, and the run that answers it."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final, Literal

from explorer import MINILM, MINILM_PRELN, EncoderConfig
from explorer.text import Batch, PaddingSide

Source = Literal["minilm", "minilm-preln", "built", "lab"]
TRAINED: Final = {"minilm": MINILM, "minilm-preln": MINILM_PRELN}
"""Encoders whose parameters are loaded: the published one, Post-LN, and its Pre-LN twin. They share a tokenizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The settings of one run. `layers` below a trained encoder's depth means its first layers."""

    source: Source
    config: EncoderConfig
    seed: int
    """Of what is built. Of what was trained in the laboratory the number that it got: no two have the same."""
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
        loaded = self.source in TRAINED
        return (self.source, self.config) if loaded else (self.source, self.config, self.seed, self.init)

    def run_key(self, batch: Batch) -> Hashable:
        """What fixes every number and every label of the run: parameters, token ids, mask, device, letters.

        Two texts may be the same tokens, such as `A` and `a`. A run carries its text, so they are two runs: nobody
        must see what somebody else typed.
        """
        ids, mask = batch.token_ids.numpy(), batch.key_padding_mask.numpy()
        return self.model_key, batch.sentences, ids.shape, ids.tobytes(), mask.tobytes(), self.mask, self.device


def trained_config(source: str, n_layers: int) -> EncoderConfig:
    """The architecture of a trained encoder, cut after its first layers."""
    return replace(TRAINED[source], n_layers=n_layers)


def other_placement(request: Request) -> Request:
    """The same with the norms on the other side of the sublayers, and all else held.

    A trained encoder becomes its twin. A built one keeps its seed; its final norm follows the placement, unless it was
    asked for against it.
    """
    config = request.config
    if request.source in TRAINED:
        twin: Source = "minilm" if request.source == "minilm-preln" else "minilm-preln"
        return replace(request, source=twin, config=trained_config(twin, config.n_layers))
    pre = config.norm_placement == "pre"
    final_norm = None if config.final_norm == pre else config.final_norm
    other = replace(config, norm_placement="post" if pre else "pre", final_norm=final_norm)
    return replace(request, config=other)
