"""The statistics of one run as tidy tables: one observation a row, padding left out."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explorer.stats.attention import attention_entropy
from explorer.stats.layernorm import token_moments
from explorer.stats.residual import l2_norm
from explorer.text import Batch
from explorer.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The tables of one run. `sentence`, `position` and `layer` count from 0; a position counts the row's tokens."""

    trace: Trace
    batch: Batch
    use_mask: bool

    def attention(self, layer: int | None = None) -> pd.DataFrame:
        """One row a layer, head and real query: its entropy in nats, the maximum possible, and its strongest key.

        All layers where none is named.
        `n_keys` is the number of keys it may attend to: the real ones, or all where the mask was off.
        """
        padding = self.batch.key_padding_mask.numpy()
        hidden_keys = padding if self.use_mask else np.zeros_like(padding)
        tokens = np.array(self.batch.tokens, dtype=object)
        frames = []
        for number in range(self.trace.config.n_layers) if layer is None else [layer]:
            pattern = self.trace.pattern(number)  # [batch, head, query, key]
            entropy = attention_entropy(pattern, hidden_keys)
            sentence, head, query = np.nonzero(np.broadcast_to(~padding[:, None, :], entropy.shape))
            strongest = pattern.argmax(axis=-1)[sentence, head, query]
            n_keys = (~hidden_keys).sum(axis=-1)[sentence]
            frames.append(
                pd.DataFrame(
                    {
                        "sentence": sentence,
                        "layer": number,
                        "head": head,
                        "position": query,
                        "token": tokens[sentence, query],
                        "entropy": entropy[sentence, head, query],
                        "max_entropy": np.log(n_keys),
                        "n_keys": n_keys,
                        "strongest_key": tokens[sentence, strongest],
                        "strongest_position": strongest,
                        "strongest_weight": pattern[sentence, head, query, strongest],
                    }
                )
            )
        return pd.concat(frames, ignore_index=True)

    def layernorm(self) -> pd.DataFrame:
        """One row a norm and real token: mean and population std of what goes in and what comes out.

        `norm` is `embed`, `norm1`, `norm2` or `final`; `layer` is <NA> for the first and the last of them.
        """

        def moments(norm_in: np.ndarray, norm_out: np.ndarray) -> dict[str, np.ndarray]:
            (mean_in, std_in), (mean_out, std_out) = token_moments(norm_in), token_moments(norm_out)
            return {"mean_in": mean_in, "std_in": std_in, "mean_out": mean_out, "std_out": std_out}

        trace, config = self.trace, self.trace.config
        frames = []
        if config.embedding_norm:
            frames.append(
                self._per_token(moments(trace.embedding("norm.in"), trace.embedding("norm.out")), norm="embed")
            )
        for layer in range(config.n_layers):
            for name in ("norm1", "norm2"):
                measured = moments(trace.norm(name, "in", layer), trace.norm(name, "out", layer))
                frames.append(self._per_token(measured, norm=name, layer=layer))
        if config.final_norm:
            frames.append(self._per_token(moments(trace.final_norm("in"), trace.final_norm("out")), norm="final"))
        return pd.concat(frames, ignore_index=True)

    def residual(self) -> pd.DataFrame:
        """One row a layer and real token: L2 norms of the stream, and of what attention and feed-forward add."""
        trace = self.trace
        frames = []
        for layer in range(trace.config.n_layers):
            measured = {f"resid_{point}": l2_norm(trace.resid(point, layer)) for point in ("pre", "mid", "post")}
            measured |= {"attn_out": l2_norm(trace.attn_out(layer)), "ff_out": l2_norm(trace.ff_out(layer))}
            frames.append(self._per_token(measured, layer=layer))
        return pd.concat(frames, ignore_index=True)

    def stream(self) -> pd.DataFrame:
        """One row a checkpoint of the residual stream and real token: its L2 norm.

        Checkpoints are `pre` of layer 0, then `mid` and `post` of each layer, then `final` where there is a final
        norm. What enters a later layer is the `post` of the layer before.
        """
        trace = self.trace
        frames = [self._per_token({"norm": l2_norm(trace.resid("pre", 0))}, point="pre", layer=0)]
        for layer in range(trace.config.n_layers):
            for point in ("mid", "post"):
                frames.append(self._per_token({"norm": l2_norm(trace.resid(point, layer))}, point=point, layer=layer))
        if trace.config.final_norm:
            frames.append(self._per_token({"norm": l2_norm(trace.final_norm("out"))}, point="final"))
        return pd.concat(frames, ignore_index=True)

    def shapes(self) -> pd.DataFrame:
        """Every site with its shape, bytes, parameters and FLOPs: see `Trace.shapes`."""
        return self.trace.shapes()

    def _per_token(self, measured: dict[str, np.ndarray], *, layer: int | None = None, **labels: str) -> pd.DataFrame:
        sentence, position = np.nonzero(~self.batch.key_padding_mask.numpy())
        return pd.DataFrame(
            {
                "sentence": sentence,
                "layer": pd.array([layer] * len(sentence), dtype="Int64"),
                **labels,
                "position": position,
                "token": [self.batch.tokens[s][p] for s, p in zip(sentence, position, strict=True)],
                **{name: values[sentence, position] for name, values in measured.items()},
            }
        )
