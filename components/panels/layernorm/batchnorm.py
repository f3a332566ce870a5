"""LayerNorm beside BatchNorm on the same activations: which axis is averaged, and what padding does to each."""

import numpy as np
import pandas as pd

from components import state
from components.labels import visible
from components.matrix import Matrix, Side, clear_end, matrix_canvas, pack_matrix
from components.panels.layernorm.names import batch_values_of, parameters_of
from components.panels.look import Look
from components.theme import format_number
from explorer.stats.layernorm import batch_norm, layer_norm, token_moments


def tokens(look: Look, name: str) -> None:
    """LayerNorm averages a row: one token over its features."""
    x = batch_values_of(look, name)[0][look.sentence]
    mean, std = token_moments(x)

    def make() -> bytes:
        high = clear_end(x[~look.padding])
        return pack_matrix(
            Matrix(
                values=x,
                rows=[visible(token) for token in look.tokens],
                cols=_dimensions(x),
                title=f"LayerNorm averages each token: what enters {name}",
                row_title="token",
                col_title="dimension",
                phrase=("in ", ", dimension ", ": "),
                unit="value",
                low=-high,
                high=high,
                row_padding=look.padding,
                sides=(Side("mean", mean), Side("std", std)),
                square=False,
                whole=True,
                file=f"layernorm-{name}",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("layernorm rows", name), make),
        key="layer_rows",
        height=look.height,
        marked=(look.token, None),
        on_pick=lambda pos, _: None if pos is None else state.put("token", pos),
    )


def features(look: Look, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """BatchNorm averages a row: one feature over all tokens of all sentences. The row shows those of this sentence."""
    x, padding = batch_values_of(look, name)[0], look.run.batch.key_padding_mask.numpy()
    gamma, beta, eps = parameters_of(look, name)
    found = batch_norm(x, padding, eps)
    sides = {"mean": found.mean, "std": np.sqrt(found.variance)}
    if padding.any():
        sides |= {"mean with pads": found.mean_padded, "std with pads": np.sqrt(found.variance_padded)}

    def make() -> bytes:
        high = clear_end(x[look.sentence][~look.padding])
        return pack_matrix(
            Matrix(
                values=x[look.sentence].T,
                rows=_dimensions(x),
                cols=[visible(token) for token in look.tokens],
                title=f"BatchNorm averages each feature: what enters {name}",
                row_title="dimension",
                col_title="token",
                phrase=("dimension ", ", in ", ": "),
                unit="value",
                low=-high,
                high=high,
                col_padding=look.padding,
                sides=tuple(Side(title, values) for title, values in sides.items()),
                square=False,
                whole=True,
                file=f"batchnorm-{name}",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("batchnorm rows", name), make),
        key="batch_rows",
        height=look.height,
        marked=(None, look.token),
        on_pick=lambda _, pos: None if pos is None else state.put("token", pos),
    )
    batch_change = np.abs(found.out_padded - found.out)[~padding].max(axis=0)
    alone = layer_norm(x[~padding], gamma, beta, eps)
    layer_change = np.abs(layer_norm(x, gamma, beta, eps)[~padding] - alone).max(axis=0)
    shown = pd.DataFrame(
        {
            "dimension": np.arange(len(batch_change)),
            **{side.replace(" ", "_"): values for side, values in sides.items()},
            "batchnorm_change": batch_change,
            "layernorm_change": layer_change,
        }
    )
    return shown, [
        "In both pictures a row is what is averaged: on the left one token over its features, on the right one feature "
        f"over the {int((~padding).sum())} real tokens of all sentences.",
        _about_padding(int(padding.sum()), float(batch_change.max()), float(layer_change.max())),
        "So LayerNorm gives a token the same in any company, and BatchNorm does not.",
    ]


def _about_padding(n_padding: int, batch_change: float, layer_change: float) -> str:
    if not n_padding:
        return "There is no padding here. Pad to more tokens to see what it does to each."
    return (
        f"Counting the {n_padding} padding tokens changes BatchNorm by up to {format_number(batch_change)} at a real "
        f"token, and LayerNorm by {format_number(layer_change)}."
    )


def _dimensions(x: np.ndarray) -> list[str]:
    return [str(dimension) for dimension in range(x.shape[-1])]
