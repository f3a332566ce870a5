"""What padding does to a sentence: its run alone, compared with a run in which it is padded, token by token."""

import numpy as np
import pandas as pd
from jaxtyping import Int

from explorer.errors import ConfigError
from explorer.model.positions import position_ids
from explorer.run import Run
from explorer.stats.residual import l2_norm


def padding_difference(alone: Run, padded: Run, *, sentence: int = 0) -> pd.DataFrame:
    """One row a checkpoint and real token: how far padding moved its vector. Exactly 0 at the embedding.

    `alone` is a run of that one sentence without padding; `sentence` is its row in `padded`. Real tokens are paired in
    order, on whichever side the padding stands; `pos` is the place of a token in the padded row. Checkpoints are those
    of `Trace.checkpoints`. `difference` is the largest absolute difference of all dimensions, `relative` the L2 norm of
    the difference as a share of the norm alone: NaN where that is 0.

    With padding masked, what is left is rounding, near 1e-7. Without the mask it enters with the attention of layer 0.

    Raises:
        ConfigError: If the runs are not of the same tokens and the same architecture, or `alone` is not alone.
    """
    places = _paired(alone, padded, sentence)
    frames = []
    for point, layer in alone.trace.checkpoints():
        one = alone.trace.stream(point, layer)[0].astype(np.float64)
        other = padded.trace.stream(point, layer)[sentence, places].astype(np.float64)
        length = l2_norm(one)
        measured = {
            "difference": np.abs(other - one).max(axis=-1),
            "relative": np.divide(l2_norm(other - one), length, out=np.full_like(length, np.nan), where=length > 0),
        }
        frames.append(pd.DataFrame({"point": point, "layer": layer} | _tokens(alone, places) | measured))
    return pd.concat([frame.astype({"layer": "Int64"}) for frame in frames], ignore_index=True)


def padding_attention(alone: Run, padded: Run, *, sentence: int = 0) -> pd.DataFrame:
    """One row a layer, head and real query: how far padding moved its weights on real keys, and what went to padding.

    Runs and columns as in `padding_difference`. `difference` is the largest absolute difference over the real keys;
    `on_padding` is the sum of the weights on padding: exactly 0 where it is masked.

    Raises:
        ConfigError: If the runs are not of the same tokens and the same architecture, or `alone` is not alone.
    """
    places = _paired(alone, padded, sentence)
    frames = []
    for layer in range(alone.config.n_layers):
        one = alone.trace.pattern(layer)[0].astype(np.float64)
        rows = padded.trace.pattern(layer)[sentence][:, places].astype(np.float64)  # [head, real query, key]
        difference = np.abs(rows[:, :, places] - one).max(axis=-1)
        on_padding = np.delete(rows, places, axis=-1).sum(axis=-1)
        for head in range(alone.config.n_heads):
            measured = {"difference": difference[head], "on_padding": on_padding[head]}
            frames.append(pd.DataFrame({"layer": layer, "head": head} | _tokens(alone, places) | measured))
    return pd.concat(frames, ignore_index=True)


def _tokens(alone: Run, places: np.ndarray) -> dict[str, object]:
    """What names a real token. Positions count real tokens, so they are the same with padding and without."""
    position = position_ids(alone.batch.key_padding_mask).numpy()[0]
    return {"pos": places, "position": position, "token": alone.batch.tokens[0]}


def _paired(alone: Run, padded: Run, sentence: int) -> Int[np.ndarray, " real"]:
    """The places of the real tokens in the padded row, once it is certain that both runs are of the same ones."""
    if len(alone.batch.sentences) != 1 or alone.batch.n_padding:
        raise ConfigError(
            f"the first run has {len(alone.batch.sentences)} sentences and {alone.batch.n_padding} padding tokens; "
            "run the sentence by itself, without padding"
        )
    if not 0 <= sentence < len(padded.batch.sentences):
        raise ConfigError(f"there is no sentence {sentence}; the padded run has {len(padded.batch.sentences)}, from 0")
    if alone.config != padded.config:
        raise ConfigError("the two runs are of different architectures; compare runs of one encoder")
    places = np.flatnonzero(~padded.batch.key_padding_mask[sentence].numpy())
    one, other = alone.batch.token_ids[0].tolist(), padded.batch.token_ids[sentence].numpy()[places].tolist()
    if one != other:
        raise ConfigError(
            f"the two runs are of different tokens ({len(one)} alone, {len(other)} real ones in sentence {sentence} of "
            "the padded run); run the same sentence twice"
        )
    return places
