"""LayerNorm: what each norm measures at each token, and one of them opened."""

from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.layernorm.parts import (
    about,
    all_tokens,
    common_mistakes,
    differences,
    features,
    gains,
    norm_name,
    one_token,
    parameters,
    parse,
)
from components.panels.look import Look, explain, numbers, token_matrix
from components.theme import format_number

QUANTITIES: Final = {
    "std_in": "Standard deviation going in",
    "var_in": "Variance going in",
    "mean_in": "Mean going in",
    "std_out": "Standard deviation coming out",
    "mean_out": "Mean coming out",
}
PARTS: Final = {"tokens": "All tokens", "token": "One token", "parameters": "Gamma and beta", "mistakes": "Mistakes"}


def show(look: Look) -> None:
    """Norms x tokens on the left, the chosen norm on the right: all tokens, one token, or its parameters."""
    table = look.run.tables.layernorm(sentence=look.sentence)
    table.insert(0, "name", [norm_name(norm, layer) for norm, layer in zip(table["norm"], table["layer"], strict=True)])
    names = list(dict.fromkeys(table["name"]))
    with st.container(horizontal=True, vertical_alignment="center"):
        quantity = controls.choice(
            "quantity", "Shown in the overview", QUANTITIES, label_visibility="collapsed", width=250
        )
        name = _chosen_norm(names, look)
        part = controls.choice(
            "norm_show", "Of this norm", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
    if part == "tokens":
        shown = table[table["name"] == name].drop(columns="name")
    else:
        shown = {"token": features, "parameters": gains, "mistakes": differences}[part](look, name)
    left, right = st.columns(2)
    with left:
        _overview(look, table, names, name, quantity)
    with right:
        draw = {"tokens": all_tokens, "token": one_token, "parameters": parameters, "mistakes": common_mistakes}[part]
        draw(look, shown, name)
    largest = table.sort_values("std_in").iloc[-1]
    explain(
        f"The largest variance going in is {format_number(largest['std_in'] ** 2)}, "
        f"at {visible(largest['token'])} in {largest['name']}. "
        f"The median is {format_number((table['std_in'] ** 2).median())}. Click a cell to open its token.",
        *about(look, name, part, shown),
    )
    numbers(
        shown,
        name="layernorm",
        downloads={"This table as CSV": lambda: shown, "All norms as CSV": lambda: look.run.tables.layernorm()},
    )


def _overview(look: Look, table: pd.DataFrame, names: list[str], name: str, quantity: str) -> None:
    """One statistic of every norm at every token. Logarithmic colour where it spans more than a factor of ten."""
    power = 2 if quantity.startswith("var") else 1
    values = token_matrix(table, names, "name", quantity.replace("var", "std"), len(look.tokens)) ** power
    centred = quantity.startswith("mean")
    largest = float(np.nanmax(np.abs(values))) or 1.0
    smallest = float(np.nanmin(np.abs(values)))
    log = not centred and largest > 10 * smallest

    def make() -> bytes:
        tokens = [visible(token) for token in look.tokens]
        return pack_matrix(
            Matrix(
                values=values,
                rows=names,
                cols=tokens,
                col_padding=look.padding,
                title="Every norm",
                row_title="LayerNorm",
                col_title="token",
                phrase=("in ", ", ", f": {QUANTITIES[quantity].lower()} "),
                unit={"std": "standard deviation", "var": "variance", "mea": "mean"}[quantity[:3]],
                low=-largest if centred else 0.0,
                high=largest,
                floor=max(smallest / largest, 1e-6) if log else 0.5,
                square=False,
                chosen_row=names.index(name),
                file=f"layernorm-{quantity}",
            )
        )

    matrix_canvas(
        state.payload(look.answer, look.sentence, ("norms", quantity, name), make),
        key="norms",
        height=look.height,
        scale="log" if log else "linear",
        marked=(None, look.token),
        on_pick=partial(_pick, look.head, names),
    )


def _pick(head: int, names: list[str], row: int | None, col: int | None) -> None:
    """A row chooses its norm, a column its token; a cell chooses both and opens the token."""
    if row is not None:
        _choose(head, names[row])
    if col is not None:
        state.put("token", col)
    if row is not None and col is not None:
        state.put("norm_show", "token")


def _choose(head: int, name: str) -> None:
    norm, layer = parse(name)
    if layer is not None:
        state.put("sel", (layer, head))
    state.put("norm_at", norm)


def _chosen_norm(names: list[str], look: Look) -> str:
    """One norm. Its layer is the layer that all views share."""
    wanted = norm_name(state.get("norm_at"), look.layer)
    name = wanted if wanted in names else norm_name("norm2", look.layer)
    if name != wanted:
        state.refuse_link("norm_at", "norm2")
    state.choose_elsewhere("norm_choice", "At full size", names, name, partial(_choose, look.head))
    return name
