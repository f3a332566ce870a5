"""The stream over depth: how long it is and what is added to it, and which way it and its additions point."""

import numpy as np
import pandas as pd

from components.figures.directions import cosine_curves
from components.figures.residual import stream_growth
from components.panels.look import Look, chart
from components.panels.residual.checkpoints import Checkpoints
from components.theme import format_number

SPREAD = (10, 90)
"""The percentiles over tokens between which the band lies."""


def growth(look: Look, points: Checkpoints, stream: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The mean length of the stream at each checkpoint, its spread, and the mean length of what was added."""
    norms, added = (points.per_token(look, stream, value) for value in ("norm", "added"))
    table = over_depth(points, norms, "mean_norm")
    table["mean_added"] = _mean(added)
    log = bool(np.nanmax(norms) > 8 * np.nanmin(norms))
    attn, ff = _sublayers(points)
    figure = stream_growth(
        points.names,
        table["mean_norm"].to_numpy(),
        table["low"].to_numpy(),
        table["high"].to_numpy(),
        table["mean_added"].to_numpy()[attn],
        table["mean_added"].to_numpy()[ff],
        attn,
        ff,
        palette=look.palette,
        log=log,
        height=look.height,
    )
    chart(figure, key="growth", alt="Mean norm of the stream over depth, and what each sublayer adds")
    config = look.run.config
    last = 2 * config.n_layers
    table["n_tokens"] = n_real = int((~look.padding).sum())
    said = [
        f"The mean L2 norm of the stream, over {n_real} real tokens, goes from "
        f"{format_number(table['mean_norm'][0])} at {points.names[0]} "
        f"to {format_number(table['mean_norm'][last])} at {points.names[last]}.",
        about_placement(config.norm_placement, bool(config.final_norm)),
        "The band holds 10 to 90 percent of the tokens. Padding is left out.",
    ]
    return table, said


def directions(look: Look, points: Checkpoints, stream: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Cosines at each checkpoint: with the one before, between tokens, and of what was added with the stream."""
    turned, added = (points.per_token(look, stream, value) for value in ("turned", "added_cosine"))
    table = over_depth(points, turned, "mean_turned")
    table["similarity"] = look.run.tables.similarity(sentence=look.sentence)["cosine"].to_numpy()
    table["mean_added_cosine"] = _mean(added)
    attn, ff = _sublayers(points)
    figure = cosine_curves(
        points.names,
        table["mean_turned"].to_numpy(),
        table["low"].to_numpy(),
        table["high"].to_numpy(),
        table["similarity"].to_numpy(),
        table["mean_added_cosine"].to_numpy()[attn],
        table["mean_added_cosine"].to_numpy()[ff],
        attn,
        ff,
        palette=look.palette,
        height=look.height,
    )
    chart(figure, key="directions", alt="Cosines of the stream over depth")
    table["n_tokens"] = int((~look.padding).sum())
    before, after = table["similarity"].iloc[[0, -1]]
    alike = f"Between two different tokens the mean cosine goes from {format_number(before)} to {format_number(after)}"
    more = "more" if after > before else "less"
    said = [
        "A cosine of 1 is the same direction, 0 a right angle, −1 the opposite.",
        "" if np.isnan([before, after]).any() else f"{alike}: they have become {more} alike.",
        "What is added at a cosine below 0 takes from what is in the stream already.",
        about_placement(look.run.config.norm_placement, bool(look.run.config.final_norm)),
    ]
    return table, said


def about_placement(placement: str, final_norm: bool) -> str:
    """What the norm placement does to the stream."""
    if placement == "post":
        return "Post-LN: a LayerNorm follows each addition, so it sets the length of the stream anew each time."
    after = " The final norm resets it once, after the stack." if final_norm else ""
    return f"Pre-LN: no LayerNorm stands in the stream, so each addition stays in it.{after}"


def over_depth(points: Checkpoints, values: np.ndarray, name: str) -> pd.DataFrame:
    """Mean and spread over real tokens of `values [checkpoint, pos]`, one row a checkpoint."""
    known = ~np.isnan(values).all(axis=1)
    spread = np.full((2, len(values)), np.nan)
    spread[:, known] = np.nanpercentile(values[known], SPREAD, axis=1)
    return pd.DataFrame({"checkpoint": points.names, name: _mean(values), "low": spread[0], "high": spread[1]})


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over what is known of each row; NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)


def _sublayers(points: Checkpoints) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the checkpoints that follow attention, and feed-forward."""
    mid, post = ([n for n, (point, _) in enumerate(points.points) if point == wanted] for wanted in ("mid", "post"))
    return np.array(mid), np.array(post)
