"""The encoder: embeddings, a stack of layers, and the final norm where there is one."""

from collections.abc import Sequence
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from explorer.config import EncoderConfig
from explorer.errors import MaskError, TextError
from explorer.model.attention import attention_mask
from explorer.model.embeddings import Embeddings, FixedPositions, OpenVocabulary, embedding_scale
from explorer.model.layers import LAYERS
from explorer.model.norms import LayerNorm
from explorer.model.positions import position_ids as count_positions
from explorer.model.positions import sinusoidal_positions
from explorer.tape import SILENT, Tape

QUOTED: Final = 40
"""Letters of a sentence that a message quotes."""


class Encoder(nn.Module):
    """Token ids in, one vector a token out."""

    def __init__(self, *, embed: Embeddings, layers: list[nn.Module], final_norm: LayerNorm | None, max_len: int):
        super().__init__()
        self.embed = embed
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm
        self.max_len = max_len

    def forward(
        self,
        token_ids: Int[Tensor, "batch pos"],
        key_padding_mask: Bool[Tensor, "batch pos"] | None = None,
        *,
        position_ids: Int[Tensor, "batch pos"] | None = None,
        segment_ids: Int[Tensor, "batch pos"] | None = None,
        causal: bool = False,
        tape: Tape = SILENT,
    ) -> Float[Tensor, "batch pos d_model"]:
        """One vector a token, after the final norm where there is one.

        Positions are counted over real tokens unless given; segments are all 0 unless given. Where `causal`, a token
        sees itself and what stands before it, and nothing that stands after it.

        Raises:
            MaskError: If the mask is not bool, not of the shape of `token_ids`, hides a whole sequence, or leaves a
                query without a key.
            TextError: If there are more positions than `max_len`.
        """
        if token_ids.shape[1] > self.max_len:
            raise TextError(f"{token_ids.shape[1]:,} tokens are more than max_len ({self.max_len:,}); shorten the text")
        if key_padding_mask is not None:
            check_mask(key_padding_mask, token_ids, causal=causal)
        if position_ids is None:
            position_ids = count_positions(
                torch.zeros_like(token_ids, dtype=torch.bool) if key_padding_mask is None else key_padding_mask
            )
        if segment_ids is None:
            segment_ids = torch.zeros_like(token_ids)
        hidden = attention_mask(key_padding_mask, causal=causal, n_pos=token_ids.shape[1], device=token_ids.device)

        x = self.embed(token_ids, position_ids, segment_ids, tape=tape.scope("embed"))
        for number, layer in enumerate(self.layers):
            x = layer(x, hidden, tape=tape.scope(f"layers.{number}"))
        return x if self.final_norm is None else self.final_norm(x, tape=tape.scope("final_norm"))

    def first(self, n_layers: int) -> "Encoder":
        """The encoder that stops after its first n layers. It shares all parameters; the final norm stays."""
        shorter = Encoder(
            embed=self.embed, layers=list(self.layers[:n_layers]), final_norm=self.final_norm, max_len=self.max_len
        )
        return shorter.train(self.training)


def check_mask(
    key_padding_mask: Tensor, token_ids: Tensor, *, causal: bool = False, sentences: Sequence[str] = ()
) -> None:
    """Refuses what is not a padding mask of these tokens. `sentences` are quoted where they are given.

    With `causal`, padding at the start of a sequence is refused too: its first query could look at itself alone, and
    is hidden. The softmax over no key is NaN, and in the next layer 0 · NaN reaches every token.

    Raises:
        MaskError: If it is not bool, has another shape, a sequence has no real token, or a query no key.
    """
    if key_padding_mask.dtype != torch.bool:
        raise MaskError(
            f"key_padding_mask must be bool with True = padding, not {key_padding_mask.dtype}; "
            "from a mask with 1 = real token, write (mask == 0)"
        )
    if key_padding_mask.shape != token_ids.shape:
        raise MaskError(
            f"key_padding_mask has shape {list(key_padding_mask.shape)}, token_ids {list(token_ids.shape)}; "
            "they must be equal"
        )
    empty = key_padding_mask.all(dim=1).nonzero().flatten().tolist()
    if empty:
        raise MaskError(f"sequence {empty[0]} has no real token; leave it out, or invert the mask if True meant real")
    if causal:
        _refuse_queries_without_keys(key_padding_mask, sentences)


def _refuse_queries_without_keys(key_padding_mask: Tensor, sentences: Sequence[str]) -> None:
    before_the_first = key_padding_mask.long().cumprod(dim=1).sum(dim=1).tolist()  # [batch]
    for number, n_queries in enumerate(before_the_first):
        if n_queries:
            subject = f"the sentence {_quoted(sentences[number])}" if sentences else f"sequence {number}"
            raise MaskError(
                f"{subject} has {n_queries} {'query' if n_queries == 1 else 'queries'} without a key: "
                "causal attention hides what stands after a token, and what stands before the first word is padding, "
                "which the mask hides; pad on the right, leave padding out, or use bidirectional attention"
            )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= QUOTED else text[:QUOTED] + "…")


def build_encoder(config: EncoderConfig) -> Encoder:
    """An encoder of this architecture without parameters, in eval mode: they are on the `meta` device until filled.

    Nothing is drawn here, so the global random generator is left alone. `explorer.weights` fills encoders.
    """

    def norm() -> LayerNorm:
        return LayerNorm(config.d_model, eps=config.norm_eps, bias=config.bias)

    embed = Embeddings(
        tokens=_token_vectors(config),
        positions=_position_vectors(config),
        segments=_table(config.n_segments, config.d_model) if config.n_segments else None,
        norm=norm() if config.embedding_norm else None,
        scale=embedding_scale(config.d_model, config.scale_embeddings),
    )
    layers: list[nn.Module] = [
        LAYERS[config.norm_placement](
            d_model=config.d_model,
            n_heads=config.n_heads,
            d_ff=config.d_ff,
            activation=config.activation,
            norm_eps=config.norm_eps,
            bias=config.bias,
        )
        for _ in range(config.n_layers)
    ]
    final_norm = norm() if config.final_norm else None
    return Encoder(embed=embed, layers=layers, final_norm=final_norm, max_len=config.max_len).eval()


def _token_vectors(config: EncoderConfig) -> nn.Module:
    if config.vocab_size is None:
        return OpenVocabulary(config.d_model)
    return _table(config.vocab_size, config.d_model)


def _position_vectors(config: EncoderConfig) -> nn.Module | None:
    if config.positions == "learned":
        return _table(config.max_len, config.d_model)
    if config.positions == "sinusoidal":
        return FixedPositions(sinusoidal_positions(config.max_len, config.d_model).float())
    return None


def _table(n_rows: int, d_model: int) -> nn.Embedding:
    # Not nn.Embedding(...): its random rows, drawn on `meta`, make torch import a library for 2 seconds.
    return nn.Embedding.from_pretrained(torch.empty(n_rows, d_model, device="meta"), freeze=False)
