"""The residual stream: how long each token's vector is on its way through the layers."""

import numpy as np
import streamlit as st

from components.figures.residual import norm_heatmap, stream_growth
from components.panels.look import Look, chart, explain, numbers, token_matrix
from components.theme import format_number


def show(look: Look) -> None:
    """Checkpoints x tokens on the left, growth over depth on the right."""
    run = look.run
    stream = run.tables.stream(sentence=look.sentence)
    stream["checkpoint"] = [_name(point, layer) for point, layer in zip(stream["point"], stream["layer"], strict=True)]
    names = list(dict.fromkeys(stream["checkpoint"]))
    values = token_matrix(stream, names, "checkpoint", "norm", len(look.tokens))  # [checkpoint, pos]
    table = run.tables.residual(sentence=look.sentence)
    added = table.groupby("layer")[["attn_out", "ff_out"]].mean()
    log = bool(np.nanmax(values) > 8 * np.nanmin(values))

    left, right = st.columns(2)
    with left:
        figure = norm_heatmap(
            values,
            names,
            look.tokens,
            palette=look.palette,
            token_padding=look.padding,
            log=log,
            height=look.height,
        )
        chart(figure, key="stream", alt="L2 norm of the residual stream at every checkpoint and token")
    mean = np.nanmean(values, axis=1)
    low, high = np.nanpercentile(values, [10, 90], axis=1)
    n_layers = run.config.n_layers
    with right:
        figure = stream_growth(
            names,
            mean,
            low,
            high,
            added["attn_out"].to_numpy(),
            added["ff_out"].to_numpy(),
            1 + 2 * np.arange(n_layers),
            2 + 2 * np.arange(n_layers),
            palette=look.palette,
            log=log,
            height=look.height,
        )
        chart(figure, key="growth", alt="Mean norm of the stream over depth, and what each sublayer adds")
    n_real = int((~look.padding).sum())
    last = 2 * n_layers
    explain(
        f"The mean L2 norm of the stream, over {n_real} real tokens, goes from {format_number(mean[0])} at {names[0]} "
        f"to {format_number(mean[last])} at {names[last]}.",
        _about_placement(run.config.norm_placement, bool(run.config.final_norm)),
        "Padding is left out of every mean.",
    )
    here = table[table["layer"] == look.layer]
    numbers(
        here,
        name="residual",
        downloads={
            "This table as CSV": lambda: here,
            "Checkpoints as CSV": lambda: run.tables.stream(),
            "All layers as CSV": lambda: run.tables.residual(),
        },
    )


def _name(point: str, layer: object) -> str:
    return "final norm" if point == "final" else f"L{layer} {point}"


def _about_placement(placement: str, final_norm: bool) -> str:
    if placement == "post":
        return "Post-LN: a LayerNorm follows each addition, so it sets the length of the stream anew each time."
    after = " The final norm resets it once, after the stack." if final_norm else ""
    return f"Pre-LN: no LayerNorm stands in the stream, so each addition stays in it.{after}"
