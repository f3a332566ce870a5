"""One query of one head: how its products with every key become scores, and the scores weights."""

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.matrix import matrix_canvas, pack_matrix
from components.panels.attention.display import Display
from components.panels.attention.grid import about_score, grid, score_picker
from components.panels.attention.head import about_direction, about_padding
from components.panels.attention.matrices import product_matrix
from components.panels.attention.token import token_picker
from components.panels.look import Look, explain, numbers
from components.theme import format_number
from explorer.stats.queries import dot_products


def show(look: Look, display: Display, row: Any) -> None:
    """The grid, and the products of the chosen query with every key, dimension by dimension."""
    with row:
        token_picker(look)
        score = score_picker(look)
    left, right = st.columns(2)
    with left:
        grid(look, display, score=score)
    with right:
        key = ("queries", look.layer, look.head, look.token)
        matrix_canvas(
            state.payload(look.answer, look.sentence, key, lambda: pack_matrix(product_matrix(look, look.token))),
            key="products",
            height=look.height,
            on_pick=lambda row, col: state.put("token", row if row is not None else look.token),
        )
    table = _table(look)
    best = table.iloc[int(table["weight"].to_numpy().argmax())]
    explain(
        f"A row is a key, a column one of the {look.run.config.d_head} dimensions of the head. A cell is "
        "q[d] k[d] / √d_head, and the cells of a row sum to the score.",
        "Softmax turns the scores of all keys into weights, which sum to 1.",
        f"The largest score is {format_number(best['score'])}, and its weight {format_number(best['weight'])}.",
        "Click a key to make it the query.",
        about_padding(look),
        about_direction(look.run),
        about_score(),
    )

    def products() -> pd.DataFrame:
        trace, at = look.run.trace, (look.sentence, look.head)
        q, k = trace.q(look.layer)[at][look.token], trace.k(look.layer)[at]
        each = dot_products(q, k)
        keys, dims = np.meshgrid(table["pos"], np.arange(len(q)), indexing="ij")
        keys, dims = keys.ravel(), dims.ravel()
        columns = {"q": q[dims], "k": k[keys, dims], "product": each[keys, dims]}
        return pd.DataFrame({"key": keys, "token": [look.tokens[i] for i in keys], "dimension": dims, **columns})

    numbers(table, name="queries", downloads={"This table as CSV": lambda: table, "All products as CSV": products})


def _table(look: Look) -> pd.DataFrame:
    """One row a key that may be looked at: score and weight, and the dimension that adds most and takes most."""
    trace, at = look.run.trace, (look.sentence, look.head)
    keys = np.flatnonzero(~look.padding) if look.run.use_mask else np.arange(len(look.tokens))
    products = dot_products(trace.q(look.layer)[at][look.token], trace.k(look.layer)[at])[keys]
    every = np.arange(len(keys))
    most, least = products.argmax(axis=1), products.argmin(axis=1)
    return pd.DataFrame(
        {
            "pos": keys,
            "token": [look.tokens[key] for key in keys],
            "score": trace.scores(look.layer)[at][look.token, keys],
            "weight": look.pattern[look.token, keys],
            "largest_dimension": most,
            "largest_product": products[every, most],
            "smallest_dimension": least,
            "smallest_product": products[every, least],
        }
    )
