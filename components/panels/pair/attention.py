"""The same head in both runs and the difference; below, how far all heads differ."""

from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.attention.ablation import off_buttons
from components.panels.look import Look, explain
from components.panels.overview import Scale
from components.panels.pair.tables import ONE_SCALE, pair_numbers
from components.panels.pair.three import three
from components.panels.pair.two import Two
from components.request import RUNS
from components.theme import format_number
from explorer.comparison import Sides

STRIP: Final = 150
"""Height of what stands below the maps."""
SHARED: Final = 100
"""How much of it comes off the height of the maps."""


def show(two: Two) -> None:
    """A head of each and their difference, where a click chooses a token; below all heads, where it chooses a head."""
    _maps(two)
    heads = two.table("heads", two.comparison.heads)
    left, right = st.columns([4, 1])
    with left:
        draw_heads(two, heads, key="moved", height=STRIP)
    with right, st.container(gap="xxsmall"):
        if two.names == RUNS:
            off_buttons(two.b, two.b.run.heads_off, whole_page=True)
        controls.colour_options()
    explain(
        about_heads(two, heads),
        _about_placements(two),
        two.about_tokens(),
        _about_hidden(two),
        _about_direction(two),
        ONE_SCALE,
    )
    pair_numbers(
        two,
        by_moved(two, heads),
        downloads={
            "This table as CSV": lambda: by_moved(two, heads),
            "Weights of this head as CSV": partial(weights, two),
        },
    )


def _maps(two: Two) -> None:
    layer, head = two.asked.layer, two.asked.head
    values = _visible(two, two.comparison.pattern(layer, head))
    name = f"L{layer} H{head}"
    titles = [_title(label, look, name) for label, look in two.looks.items()]
    hidden = [two.alignment.padding_a & two.a.run.use_mask, two.alignment.padding_b & two.b.run.use_mask]
    three(
        two,
        values,
        key="head",
        of=(layer, head),
        titles=[*titles, f"{two.difference} · {name}"],
        scale=Scale(1.0, signed=False, log=False, floor=1e-4),
        colours=state.get("scale"),
        height=two.a.height - SHARED,
        marked=(two.slot, None),
        row_paddings=[two.alignment.padding_a, two.alignment.padding_b, two.padding],
        col_paddings=[*hidden, hidden[0] & hidden[1]],
        rows=two.tokens,
        cols=two.tokens,
        row_title="query (looks)",
        col_title="key (is looked at)",
        phrase=("query ", " attends to key ", ": "),
        on_pick=lambda row, col: two.pick(col if row is None else row),
    )


def _visible(two: Two, values: Sides) -> Sides:
    """The weights without those that a causal mask hides; the difference without those that both hide."""
    places = (two.alignment.a, two.alignment.b)
    hidden = [look.run.causal & (place > place[:, None]) for look, place in zip((two.a, two.b), places, strict=True)]
    hidden.append(hidden[0] & hidden[1])
    return Sides(*(np.where(none, np.nan, part) for none, part in zip(hidden, values, strict=True)))


def _title(label: str, look: Look, name: str) -> str:
    config = look.run.config
    if look.layer >= config.n_layers or look.head >= config.n_heads:
        return f"{label} has no {name}"
    return f"{label} · {name}{': off' if (look.layer, look.head) in look.run.heads_off else ''}"


def draw_heads(two: Two, heads: pd.DataFrame, *, key: str, height: int) -> None:
    """How much weight of each head would have to move, layers x heads. A click chooses the head."""
    n_layers, n_heads = two.comparison.n_layers, two.comparison.n_heads
    moved = heads.pivot(index="layer", columns="head", values="moved").to_numpy(dtype=np.float64)

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=moved,
                rows=[f"L{layer}" for layer in range(n_layers)],
                cols=[f"H{head}" for head in range(n_heads)],
                title="Weight that would have to move",
                row_title="layer",
                col_title="head",
                phrase=("in ", " ", f": weight of {two.names[0]} that would have to move to give {two.names[1]} "),
                unit="weight",
                high=float(np.nanmax(moved, initial=0)) or 1.0,
                square=False,
                whole=True,
                file="moved-weight",
            )
        )

    matrix_canvas(
        two.payload((key, height), make),
        key=key,
        height=height,
        marked=(two.asked.layer, two.asked.head),
        on_pick=partial(_choose_head, two),
    )


def _choose_head(two: Two, row: int | None, col: int | None) -> None:
    layer, head = two.asked.layer, two.asked.head
    state.put("sel", (layer if row is None else row, head if col is None else col))


def by_moved(two: Two, heads: pd.DataFrame) -> pd.DataFrame:
    """The heads that changed most first, those that only one run has last; in words which runs have it, and off."""
    ordered = heads.sort_values("moved", ascending=False, kind="stable", na_position="last", ignore_index=True)
    a, b = two.names
    words = {(True, True): f"{a} and {b}", (True, False): a, (False, True): b, (False, False): "none"}
    said = {
        what: [words[pair] for pair in zip(ordered[f"{what}_a"], ordered[f"{what}_b"], strict=True)]
        for what in ("in", "off")
    }
    return ordered[["layer", "head", "moved"]].assign(there_in=said["in"], off_in=said["off"])


def about_heads(two: Two, heads: pd.DataFrame) -> str:
    """How far the chosen head moved, all heads on average, and the one that moved most."""
    known = by_moved(two, heads)[lambda table: table["moved"].notna()]
    if known.empty:
        return f"No head of {two.names[0]} has one of {two.names[1]} to stand beside."
    if known["moved"].iloc[0] == 0:
        return "All heads attend in exactly the same way."
    layer, head = two.asked.layer, two.asked.head
    here = known[(known["layer"] == layer) & (known["head"] == head)]["moved"]
    chosen = f"In L{layer} H{head} {format_number(here.iloc[0])} of 1 would have to move" if len(here) else ""
    first = known.iloc[0]
    return (
        f"{chosen or 'The chosen head is in one run only'}; over all heads "
        f"{format_number(known['moved'].mean())} on average, and most in L{first['layer']} H{first['head']}: "
        f"{format_number(first['moved'])}."
    )


def _about_placements(two: Two) -> str:
    """Why both placements look as they do."""
    if two.names == RUNS:
        return ""
    if two.a.answer.model.report.trained:
        return (
            "The twin was trained to attend as the published encoder does, so the heads look alike. "
            "What differs is the stream that they read and write."
        )
    return (
        "Both have the same random weights. Already in layer 0 Pre-LN reads the embeddings normalised and Post-LN as "
        "they are; deeper down each reads a stream of its own."
    )


def _about_hidden(two: Two) -> str:
    """What hatches mean where there is padding."""
    if not two.padding.any():
        return ""
    hides = [name for name, look in two.looks.items() if look.run.use_mask and look.padding.any()]
    if not hides:
        return "No mask hides the padding: its columns have weight like any other."
    return f"Padding is hatched; {' and '.join(hides)} {'gives' if len(hides) == 1 else 'give'} it no weight at all."


def _about_direction(two: Two) -> str:
    """Which of them is causal, if one is."""
    causal = [name for name, look in two.looks.items() if look.run.causal]
    if not causal:
        return ""
    return (
        f"What stands after the query is hatched in {' and '.join(causal)}: causal attention gives it no weight at all."
    )


def weights(two: Two) -> pd.DataFrame:
    """A row for each query and key that either has."""
    a, b, difference = two.comparison.pattern(two.asked.layer, two.asked.head)
    query, key = np.nonzero(np.isfinite(a) | np.isfinite(b))
    tokens = np.array(two.tokens, dtype=object)
    return pd.DataFrame(
        {
            "query_slot": query,
            "query": tokens[query],
            "key_slot": key,
            "key": tokens[key],
            "weight_a": a[query, key],
            "weight_b": b[query, key],
            "difference": difference[query, key],
        }
    )
