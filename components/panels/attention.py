"""Attention: every head of the sentence, and one of them at full size."""

from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.attention_grid import attention_grid
from components.figures.attention import attention_heatmap
from components.labels import visible
from components.panels.look import Look, chart, explain, numbers
from components.theme import format_number
from explorer.stats.heads import SCORES

TABLES: Final = {"queries": "Queries of this head", "heads": "Scores of all heads"}


def show(look: Look) -> None:
    """Layers x heads on the left, the chosen head on the right."""
    run, layer, head, padding = look.run, look.layer, look.head, look.padding
    left, right = st.columns(2)
    with left:
        attention_grid(
            state.grid_payload(look.answer, look.sentence),
            selected=(layer, head),
            on_pick=lambda layer, head: state.put("sel", (layer, head)),
            height=look.height,
        )
    with right:
        figure = attention_heatmap(
            look.pattern,
            look.tokens,
            palette=look.palette,
            layer=layer,
            head=head,
            query_padding=padding,
            key_padding=padding if run.use_mask else None,
            scale=look.scale,
            height=look.height,
        )
        chart(figure, key="head", alt=f"Attention of layer {layer}, head {head}: queries down, keys across")
    explain(
        "Each tile of the grid is one head. Choose one by click or with the arrow keys.",
        "In a map, a row is a token that looks (query) and a column a token that is looked at (key). Rows sum to 1.",
        _strongest_link(look),
        _about_padding(look),
    )

    kind = controls.choice(
        "table", "Table", TABLES, widget=st.segmented_control, label_visibility="collapsed", required=True
    )
    if kind == "heads":
        table = state.head_scores(look.answer, look.sentence)
    else:
        table = run.tables.attention(layer, head=head, sentence=look.sentence)
    numbers(
        table,
        name="attention",
        downloads={
            "This table as CSV": lambda: table,
            "Weights of this head as CSV": partial(_weights, look),
            "All heads as CSV": lambda: run.tables.attention(),
        },
    )
    if kind == "heads":
        explain("w[q, k] is the weight of key k in the row of query q. Padding is neither query nor neighbour.")
        st.text("\n".join(f"{score.label}: {score.formula}" for score in SCORES.values()))


def _weights(look: Look) -> pd.DataFrame:
    """The head as a table, a row a real query. Padded keys are left out where the mask hid them."""
    real = np.flatnonzero(~look.padding)
    keys = real if look.run.use_mask else np.arange(len(look.tokens))
    weights = pd.DataFrame(look.pattern[np.ix_(real, keys)], columns=[f"{key} {look.tokens[key]}" for key in keys])
    weights.insert(0, "query", [f"{query} {look.tokens[query]}" for query in real])
    return weights


def _strongest_link(look: Look) -> str:
    """The strongest weight from one word to another, special tokens and padding left out."""
    words = np.array([start < end for start, end in look.run.batch.offsets[look.sentence]])
    if words.sum() < 2:
        return ""
    links = np.where(np.outer(words, words) & ~np.eye(len(words), dtype=bool), look.pattern, -1)
    query, key = np.unravel_index(links.argmax(), links.shape)
    return (
        f"Special tokens aside, L{look.layer} H{look.head} attends most from {visible(look.tokens[query])} "
        f"to {visible(look.tokens[key])}: {format_number(links[query, key])}."
    )


def _about_padding(look: Look) -> str:
    padding = look.padding
    if not padding.any():
        return ""
    if look.run.use_mask:
        return "Padding gets no weight: its columns are exactly 0, and its rows mean nothing, so both are hatched."
    share = look.pattern[~padding][:, padding].sum(axis=-1).mean()
    return f"The mask is off: in this head, real tokens give {format_number(100 * share)} % of their weight to padding."
