"""What changes when something in the encoder is switched off: two runs of the same batch, compared."""

import numpy as np
import pandas as pd

from explorer.errors import ConfigError
from explorer.run import Run
from explorer.stats.attention import total_variation
from explorer.stats.residual import cosine, distance, l2_norm, relative_distance
from explorer.tables import part, per_token


def output_change(before: Run, after: Run, *, sentence: int | None = None) -> pd.DataFrame:
    """One row a real token: how far its output moved.

    `change` is the L2 norm of the difference; `cosine` is that of the angle between the two outputs: 1 where they are
    equal, NaN where one of them is zero.

    Raises:
        ConfigError: If the runs are not of the same tokens and an encoder of the same size.
    """
    _refuse_different(before, after)
    rows = part(sentence, len(before.batch.sentences))
    one, other = before.output[rows], after.output[rows]
    measured = {
        "norm_before": l2_norm(one),
        "norm_after": l2_norm(other),
        "change": distance(one, other),
        "cosine": cosine(one, other),
    }
    return per_token(before.batch, rows, measured)


def attention_change(before: Run, after: Run, *, sentence: int | None = None) -> pd.DataFrame:
    """One row a layer, sentence and head: how much of its attention went to other keys, and whether it is `off`.

    `change` is the mean over real queries of the total variation of their rows, ½ Σₖ |w′[q, k] − w[q, k]|: 0 where
    nothing moved, 1 where all weight is on keys that had none. A head that is off keeps the pattern it computed.

    Raises:
        ConfigError: If the runs are not of the same tokens and an encoder of the same size.
    """
    _refuse_different(before, after)
    rows = part(sentence, len(before.batch.sentences))
    real = ~before.batch.key_padding_mask.numpy()[rows]
    frames = []
    for layer in range(before.config.n_layers):
        moved = total_variation(before.trace.pattern(layer)[rows], after.trace.pattern(layer)[rows])
        change = moved.mean(axis=-1, where=real[:, None, :])  # [batch, head]
        row, head = np.indices(change.shape).reshape(2, -1)
        off = [(layer, number) in after.heads_off for number in head]
        columns = {"sentence": row + rows.start, "layer": layer, "head": head, "off": off, "change": change[row, head]}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def stream_change(before: Run, after: Run, *, sentence: int | None = None) -> pd.DataFrame:
    """One row a layer and real token: how far its vector moved by the end of the layer, as a share of its length.

    `change` is ‖after − before‖ / ‖before‖ at `resid_post`: 0 in the layers below what was switched off. NaN where the
    vector was zero.

    Raises:
        ConfigError: If the runs are not of the same tokens and an encoder of the same size.
    """
    _refuse_different(before, after)
    rows = part(sentence, len(before.batch.sentences))
    frames = []
    for layer in range(before.config.n_layers):
        change = relative_distance(*(run.trace.resid("post", layer)[rows] for run in (before, after)))
        frames.append(per_token(before.batch, rows, {"change": change}, layer=layer))
    return pd.concat(frames, ignore_index=True)


def _refuse_different(before: Run, after: Run) -> None:
    one, other = before.batch, after.batch
    if (
        one.token_ids.shape != other.token_ids.shape
        or (one.token_ids != other.token_ids).any()
        or (one.key_padding_mask != other.key_padding_mask).any()
    ):
        raise ConfigError(
            f"the two runs are of different tokens ({list(one.token_ids.shape)} and {list(other.token_ids.shape)}, "
            "batch x pos); run the same batch twice"
        )
    for name in ("n_layers", "n_heads", "d_model"):
        found, wanted = getattr(after.config, name), getattr(before.config, name)
        if found != wanted:
            raise ConfigError(f"the two runs have {name} {wanted} and {found}; compare runs of one encoder")
