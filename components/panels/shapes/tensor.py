"""One recorded value, opened: that of the chosen sentence, layer and head."""

from dataclasses import dataclass
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
    opened = Opened.of(look, site)
    opened.draw(look, key="tensor")
    size = sizes(look.run)[site]
    where = f"sentence {look.answer.lines[look.sentence]}{f' and head {look.head}' if opened.head else ''}"
    return per_row(look, opened.values), [
        f"{opened.name} is [{', '.join(f'{axis} {format_number(count)}' for axis, count in size.items())}]; "
        f"shown is its part of {where}.",
        "" if site == WEIGHTS else f"Colours end at the size that {CLEAR} % of the values stay below.",
        "Minus infinity, where the mask hides a key, is hatched." if opened.hidden else "",
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """The part of a recorded value that belongs to the chosen sentence, layer and head."""

    site: str
    name: str
    """With its layer and head: `L3 H1 attn.q`."""
    axes: list[str]
    values: np.ndarray
    """A row a token; NaN where a score is minus infinity."""
    layer: int | None
    head: bool
    """Whether each head has one of its own."""
    hidden: bool
    """Whether scores of hidden keys are in it."""

    @classmethod
    def of(cls, look: Look, site: str) -> "Opened":
        inside = f"layers.*.{site}" in SITES
        layer = look.layer if inside else None
        values = look.run.trace.tensor(site, layer)
        axes = SITES[f"layers.*.{site}" if inside else site].split()
        head = "head" in axes
        values = values[(look.sentence, look.head) if head else look.sentence]
        return cls(
            site=site,
            name=f"{f'L{look.layer} ' if inside else ''}{f'H{look.head} ' if head else ''}{site}",
            axes=axes,
            values=np.where(np.isfinite(values), values, np.nan),
            layer=layer,
            head=head,
            hidden=bool(np.isneginf(values).any()),
        )

    def end(self, padding: np.ndarray) -> float:
        """The size at which the colours end."""
        return 1.0 if self.site == WEIGHTS else clear_end(self.values[~padding])

    def _seen(self, run: Run) -> np.ndarray:
        """What is drawn: weights that a causal mask hides are no weights, and are hatched."""
        if not (run.causal and self.site == WEIGHTS):
            return self.values
        return np.where(np.triu(np.ones(self.values.shape, dtype=bool), k=1), np.nan, self.values)

    def draw(self, look: Look, *, key: str, title: str = "", end: float | None = None) -> None:
        """On a canvas, a row a token. `end` is where the colours end, if several have one scale."""
        high = end or self.end(look.padding)
        row_axis, col_axis = self.axes[-2:]
        square = col_axis == "key"

        def make() -> bytes:
            tokens = [visible(token) for token in look.tokens]
            return pack_matrix(
                Matrix(
                    values=self._seen(look.run),
                    rows=tokens,
                    cols=tokens if square else [str(number) for number in range(self.values.shape[1])],
                    title=title or self.name,
                    row_title=row_axis,
                    col_title=col_axis,
                    phrase=("in ", f", {'key' if square else col_axis} ", ": "),
                    unit="weight" if self.site == WEIGHTS else "score" if square else "value",
                    low=0.0 if self.site == WEIGHTS else -high,
                    high=high,
                    row_padding=look.padding,
                    col_padding=look.padding & look.run.use_mask if square else None,
                    square=square,
                    whole=True,
                    file=title or self.name,
                )
            )

        shown = ("tensor", self.site, self.layer, look.head if self.head else None, title, high)
        matrix_canvas(
            state.payload(look.answer, look.sentence, shown, make),
            key=key,
            height=look.height,
            marked=(look.token, None),
            on_pick=lambda pos, _: None if pos is None else state.put("token", pos),
        )


def per_row(look: Look, values: np.ndarray) -> pd.DataFrame:
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
