"""One recorded value, opened: that of the chosen sentence, layer and head."""

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.diagram.layout import TOKEN_IDS
from components.labels import visible
from components.matrix import CLEAR, Matrix, clear_end, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.theme import format_number
from explorer import Run
from explorer.tape import SITES

WEIGHTS: Final = "attn.pattern"
IDS: Final = "token_ids"


def sizes(run: Run) -> dict[str, dict[str, int]]:
    """Axes and live sizes of every value of this run, layers alike; and of the token ids."""
    batch, pos = run.batch.token_ids.shape
    found = {TOKEN_IDS: {"batch": batch, "pos": pos}}
    table = run.trace.shapes()
    for site, axes, shape in zip(table["site"], table["axes"], table["shape"], strict=True):
        found[_short(site)] = dict(zip(axes.split(), shape, strict=True))
    return found


def chosen(look: Look) -> str:
    """The value that is open. One that this architecture has not gives way to the attention weights."""
    wanted = state.get("site")
    if wanted == IDS:
        return TOKEN_IDS
    if wanted not in sizes(look.run):
        state.refuse_link("site", WEIGHTS)
        return WEIGHTS
    return wanted


def show(look: Look) -> tuple[pd.DataFrame, list[str]]:
    """The values of the chosen sentence and head, a row a token; beside them what each row comes to."""
    site = chosen(look)
    if site == TOKEN_IDS:
        return _token_ids(look)
    inside = f"layers.*.{site}" in SITES
    values = look.run.trace.tensor(site, look.layer if inside else None)
    axes = SITES[f"layers.*.{site}" if inside else site].split()
    of_head = "head" in axes
    values = values[(look.sentence, look.head) if of_head else look.sentence]
    title = f"{f'L{look.layer} ' if inside else ''}{f'H{look.head} ' if of_head else ''}{site}"
    shown = np.where(np.isfinite(values), values, np.nan)  # a hidden key has a score of minus infinity

    def make() -> bytes:
        row_axis, col_axis = axes[-2:]
        tokens = [visible(token) for token in look.tokens]
        square = col_axis == "key"
        high = 1.0 if site == WEIGHTS else clear_end(shown[~look.padding])
        return pack_matrix(
            Matrix(
                values=shown,
                rows=tokens,
                cols=tokens if square else [str(number) for number in range(values.shape[1])],
                title=title,
                row_title=row_axis,
                col_title=col_axis,
                phrase=("in ", f", {'key' if square else col_axis} ", ": "),
                unit="weight" if site == WEIGHTS else "score" if square else "value",
                low=0.0 if site == WEIGHTS else -high,
                high=high,
                row_padding=look.padding,
                col_padding=look.padding & look.run.use_mask if square else None,
                square=square,
                whole=True,
                file=title,
            )
        )

    key = (site, look.layer if inside else None, look.head if of_head else None)
    matrix_canvas(
        state.payload(look.answer, look.sentence, ("tensor", *key), make),
        key="tensor",
        height=look.height,
        marked=(look.token, None),
        on_pick=lambda pos, _: None if pos is None else state.put("token", pos),
    )
    size = sizes(look.run)[site]
    where = f"sentence {look.answer.lines[look.sentence]}{f' and head {look.head}' if of_head else ''}"
    return _per_row(look, shown), [
        f"{title} is [{', '.join(f'{axis} {format_number(count)}' for axis, count in size.items())}]; "
        f"shown is its part of {where}.",
        "" if site == WEIGHTS else f"Colours end at the size that {CLEAR} % of the values stay below.",
        "Minus infinity, where the mask hides a key, is hatched." if np.isneginf(values).any() else "",
    ]


def _per_row(look: Look, values: np.ndarray) -> pd.DataFrame:
    """Smallest, mean, largest, standard deviation and length of each real token's values; hidden keys left out."""
    rows = [row[np.isfinite(row)].astype(np.float64) for row in values[~look.padding]]
    return pd.DataFrame(
        {
            "token": np.array(look.tokens, dtype=object)[~look.padding],
            "smallest": [row.min() for row in rows],
            "mean": [row.mean() for row in rows],
            "largest": [row.max() for row in rows],
            "std": [row.std() for row in rows],
            "l2_norm": [np.linalg.norm(row) for row in rows],
        }
    )


def _token_ids(look: Look) -> tuple[pd.DataFrame, list[str]]:
    """What the encoder reads, in words: ids are names, and no size that a colour could show."""
    ids = look.run.batch.token_ids[look.sentence].tolist()
    named = enumerate(zip(ids, look.tokens, strict=True))
    lines = [f"{pos:>4}  {number:>21,}  {visible(token)}" for pos, (number, token) in named]
    with st.container(height=look.height, key="token_ids"):
        st.text("\n".join(lines))
    shown = pd.DataFrame({"token": look.tokens, "token_id": ids, "padding": look.padding.astype(int)})
    batch, pos = look.run.batch.token_ids.shape
    return shown, [
        f"Token ids are [batch {batch}, pos {pos}]: the place in its row, the id, and the token that it stands for. "
        f"Shown is sentence {look.answer.lines[look.sentence]}. An id is a name; its size means nothing."
    ]


def _short(site: str) -> str:
    return site.split(".", 2)[2] if site.startswith("layers.") else site
