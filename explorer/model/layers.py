"""One encoder layer, in either norm placement. Both own the same parameters; only the order differs."""

from typing import Final

from jaxtyping import Bool, Float
from torch import Tensor, nn

from explorer.model.attention import SelfAttention
from explorer.model.feedforward import FeedForward
from explorer.model.norms import LayerNorm
from explorer.tape import Tape


class EncoderLayer(nn.Module):
    """The parts of a layer. The subclasses say in which order they act.

    `hidden` is the attention mask of the pass: see `explorer.model.attention.attention_mask`.
    """

    def __init__(self, *, d_model: int, n_heads: int, d_ff: int, activation: str, norm_eps: float, bias: bool) -> None:
        super().__init__()
        self.attn = SelfAttention(d_model=d_model, n_heads=n_heads, bias=bias)
        self.ff = FeedForward(d_model=d_model, d_ff=d_ff, activation=activation, bias=bias)
        self.norm1 = LayerNorm(d_model, eps=norm_eps, bias=bias)
        self.norm2 = LayerNorm(d_model, eps=norm_eps, bias=bias)


class PostLNLayer(EncoderLayer):
    """x1 = LN1(x + A(x)), out = LN2(x1 + F(x1)): the stream is normalised after each addition.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], hidden: Bool[Tensor, "#batch 1 #pos pos"] | None, *, tape: Tape
    ) -> Float[Tensor, "batch pos d_model"]:
        resid_pre = tape("resid_pre", x)
        attn_out = tape("attn_out", self.attn(resid_pre, hidden, tape=tape.scope("attn")))
        resid_mid = tape("resid_mid", self.norm1(resid_pre + attn_out, tape=tape.scope("norm1")))
        ff_out = tape("ff_out", self.ff(resid_mid, tape=tape.scope("ff")))
        return tape("resid_post", self.norm2(resid_mid + ff_out, tape=tape.scope("norm2")))


class PreLNLayer(EncoderLayer):
    """x1 = x + A(LN1 x), out = x1 + F(LN2 x1): the stream itself is never normalised.

    Source: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", table 1.
    """

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], hidden: Bool[Tensor, "#batch 1 #pos pos"] | None, *, tape: Tape
    ) -> Float[Tensor, "batch pos d_model"]:
        resid_pre = tape("resid_pre", x)
        normed = self.norm1(resid_pre, tape=tape.scope("norm1"))
        attn_out = tape("attn_out", self.attn(normed, hidden, tape=tape.scope("attn")))
        resid_mid = tape("resid_mid", resid_pre + attn_out)
        normed = self.norm2(resid_mid, tape=tape.scope("norm2"))
        ff_out = tape("ff_out", self.ff(normed, tape=tape.scope("ff")))
        return tape("resid_post", resid_mid + ff_out)


LAYERS: Final[dict[str, type[EncoderLayer]]] = {"post": PostLNLayer, "pre": PreLNLayer}
