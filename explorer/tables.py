"""The statistics of one run as tidy tables: one observation a row, padding left out."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from explorer.model.positions import position_ids
from explorer.stats.attention import attention_entropy
from explorer.stats.heads import head_scores
from explorer.stats.layernorm import layer_norm, token_moments
from explorer.stats.residual import cosine, l2_norm, mean_cosine
from explorer.text import Batch
from explorer.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The tables of one run, of all its sentences or of the one that is named. Everything counts from 0.

    `position` is the position that the encoder gave to the token, counted over real tokens; `pos` is its place in the
    row. They differ only where padding stands on the left.
    """

    trace: Trace
    batch: Batch
    use_mask: bool

    def attention(
        self, layer: int | None = None, *, head: int | None = None, sentence: int | None = None
    ) -> pd.DataFrame:
        """One row a layer, head and real query: its entropy in nats, the maximum possible, and its strongest key.

        `n_keys` is the number of keys it may attend to: the real ones, or all where the mask was off; of these, in a
        causal run, those at or before it.
        """
        rows = part(sentence, len(self.batch.sentences))
        heads = part(head, self.trace.config.n_heads)
        padding = self.batch.key_padding_mask.numpy()[rows]
        position = position_ids(self.batch.key_padding_mask).numpy()[rows]
        tokens = np.array(self.batch.tokens, dtype=object)[rows]
        padded_keys = padding if self.use_mask else np.zeros_like(padding)
        n_seen = (~self.trace.hidden_keys()[rows]).sum(axis=-1)  # [batch, query]
        frames = []
        for number in range(self.trace.config.n_layers) if layer is None else [layer]:
            pattern = self.trace.pattern(number)[rows, heads]  # [batch, head, query, key]
            entropy = attention_entropy(pattern, padded_keys, causal=self.trace.causal)
            row, which, query = np.nonzero(np.broadcast_to(~padding[:, None, :], entropy.shape))
            strongest = pattern.argmax(axis=-1)[row, which, query]
            n_keys = n_seen[row, query]
            frames.append(
                pd.DataFrame(
                    {
                        "sentence": row + rows.start,
                        "layer": number,
                        "head": which + heads.start,
                        "pos": query,
                        "position": position[row, query],
                        "token": tokens[row, query],
                        "entropy": entropy[row, which, query],
                        "max_entropy": np.log(n_keys),
                        "n_keys": n_keys,
                        "strongest_key": tokens[row, strongest],
                        "strongest_position": position[row, strongest],
                        "strongest_weight": pattern[row, which, query, strongest],
                    }
                )
            )
        return pd.concat(frames, ignore_index=True)

    def heads(self, layer: int | None = None, *, sentence: int | None = None) -> pd.DataFrame:
        """One row a layer and head: where its real queries look. Columns as in `explorer.stats.heads.SCORES`."""
        rows = part(sentence, len(self.batch.sentences))
        padding = self.batch.key_padding_mask.numpy()[rows]
        roles = {name: where[rows] for name, where in self.batch.roles().items()}
        frames = []
        for number in range(self.trace.config.n_layers) if layer is None else [layer]:
            scores = head_scores(self.trace.pattern(number)[rows], padding, roles, causal=self.trace.causal)
            row, head = np.indices((len(padding), self.trace.config.n_heads)).reshape(2, -1)
            columns = {name: values[row, head] for name, values in scores.items()}
            frames.append(pd.DataFrame({"sentence": row + rows.start, "layer": number, "head": head, **columns}))
        return pd.concat(frames, ignore_index=True)

    def layernorm(self, *, sentence: int | None = None) -> pd.DataFrame:
        """One row a norm and real token: mean and population std of what goes in and what comes out.

        `norm` is `embed`, `norm1`, `norm2` or `final`; `layer` is <NA> for the first and the last of them. What is
        `_normalised` is between: (x - mean) / sqrt(var + eps), before gamma and beta. Its std is 1 but for eps, whose
        share in the root is `eps_share`, eps / (var + eps): near 0, and 1 for a constant token.
        """
        rows = part(sentence, len(self.batch.sentences))
        trace, config = self.trace, self.trace.config
        eps = config.norm_eps

        def moments(norm_in: np.ndarray, norm_out: np.ndarray) -> dict[str, np.ndarray]:
            values = norm_in[rows]
            normalised = layer_norm(values, np.ones(config.d_model), np.zeros(config.d_model), eps)
            sides = {"in": values, "normalised": normalised, "out": norm_out[rows]}
            measured: dict[str, np.ndarray] = {}
            for side, array in sides.items():
                measured[f"mean_{side}"], measured[f"std_{side}"] = token_moments(array)
            return measured | {"eps_share": eps / (measured["std_in"] ** 2 + eps)}

        frames = []
        if config.embedding_norm:
            measured = moments(trace.embedding("norm.in"), trace.embedding("norm.out"))
            frames.append(self._per_token(rows, measured, norm="embed"))
        for layer in range(config.n_layers):
            for name in ("norm1", "norm2"):
                measured = moments(trace.norm(name, "in", layer), trace.norm(name, "out", layer))
                frames.append(self._per_token(rows, measured, norm=name, layer=layer))
        if config.final_norm:
            measured = moments(trace.final_norm("in"), trace.final_norm("out"))
            frames.append(self._per_token(rows, measured, norm="final"))
        return pd.concat(frames, ignore_index=True)

    def residual(self, *, sentence: int | None = None) -> pd.DataFrame:
        """One row a layer and real token: L2 norms of the stream, and of what attention and feed-forward add."""
        rows, trace = part(sentence, len(self.batch.sentences)), self.trace
        frames = []
        for layer in range(trace.config.n_layers):
            streams = {f"resid_{point}": trace.resid(point, layer) for point in ("pre", "mid", "post")}
            streams |= {"attn_out": trace.attn_out(layer), "ff_out": trace.ff_out(layer)}
            measured = {name: l2_norm(values[rows]) for name, values in streams.items()}
            frames.append(self._per_token(rows, measured, layer=layer))
        return pd.concat(frames, ignore_index=True)

    def stream(self, *, sentence: int | None = None) -> pd.DataFrame:
        """One row a checkpoint of the residual stream and real token: its length, and how it came from the one before.

        Checkpoints are those of `Trace.checkpoints`. `norm` is the L2 norm. `turned` is the cosine between the token's
        vector here and at the checkpoint before: 1 where its length alone has changed, 0 after a right angle. `added`
        is the L2 norm of what attention (at `mid`) or feed-forward (at `post`) added on the way, and `added_cosine` its
        cosine with the stream that it was added to: below 0 it takes from what is there, 0 adds something new. NaN
        where there is no checkpoint before, or nothing was added.
        """
        rows, trace = part(sentence, len(self.batch.sentences)), self.trace
        frames = []
        before: np.ndarray | None = None
        for point, layer in trace.checkpoints():
            stream = trace.stream(point, layer)[rows]
            none = np.full(stream.shape[:-1], np.nan)
            measured = {"norm": l2_norm(stream), "turned": none, "added": none, "added_cosine": none}
            if before is not None:
                measured["turned"] = cosine(stream, before)
                if point != "final":
                    added = (trace.attn_out(layer) if point == "mid" else trace.ff_out(layer))[rows]
                    measured |= {"added": l2_norm(added), "added_cosine": cosine(added, before)}
            frames.append(self._per_token(rows, measured, layer=layer, point=point))
            before = stream
        return pd.concat(frames, ignore_index=True)

    def similarity(self, *, sentence: int | None = None) -> pd.DataFrame:
        """One row a checkpoint and sentence: mean cosine between its `n_tokens` real tokens, NaN where there is one.

        Checkpoints as in `stream`.
        """
        rows = part(sentence, len(self.batch.sentences))
        padding = self.batch.key_padding_mask.numpy()[rows]
        frames = []
        for point, layer in self.trace.checkpoints():
            cosines = mean_cosine(self.trace.stream(point, layer)[rows], padding)
            columns = {"point": point, "n_tokens": (~padding).sum(axis=1), "cosine": cosines}
            frames.append(pd.DataFrame({"sentence": np.arange(len(padding)) + rows.start, "layer": layer, **columns}))
        return pd.concat([frame.astype({"layer": "Int64"}) for frame in frames], ignore_index=True)

    def shapes(self) -> pd.DataFrame:
        """Every site with its shape, bytes, parameters and FLOPs: see `Trace.shapes`."""
        return self.trace.shapes()

    def _per_token(
        self, rows: slice, measured: dict[str, np.ndarray], *, layer: int | None = None, **labels: str
    ) -> pd.DataFrame:
        return per_token(self.batch, rows, measured, layer=layer, **labels).astype({"layer": "Int64"})


def per_token(batch: Batch, rows: slice, measured: dict[str, np.ndarray], **labels: object) -> pd.DataFrame:
    """One row a real token of these sentences: sentence, the labels, pos, position, token, and what was measured.

    What was measured is `[batch, pos]`, of these sentences only.
    """
    row, pos = np.nonzero(~batch.key_padding_mask.numpy()[rows])
    sentence = row + rows.start
    return pd.DataFrame(
        {
            "sentence": sentence,
            **labels,
            "pos": pos,
            "position": position_ids(batch.key_padding_mask).numpy()[sentence, pos],
            "token": [batch.tokens[s][p] for s, p in zip(sentence, pos, strict=True)],
            **{name: values[row, pos] for name, values in measured.items()},
        }
    )


def part(number: int | None, count: int) -> slice:
    """The one that is named, or all. A slice, so that nothing is copied."""
    return slice(0, count) if number is None else slice(number, number + 1)
