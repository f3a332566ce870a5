"""LayerNorm: what each norm measures at each token, and one of them opened."""

from collections.abc import Callable
from functools import partial
from typing import Final

import pandas as pd
import streamlit as st

from components import controls, state
from components.labels import visible
from components.panels.layernorm import batchnorm, mistakes, parts
from components.panels.layernorm.names import norm_name, parse
from components.panels.look import Look, explain, numbers, token_matrix
from components.panels.overview import overview
from components.theme import format_number

QUANTITIES: Final = {
    "std_in": "Standard deviation going in",
    "var_in": "Variance going in",
    "mean_in": "Mean going in",
    "std_normalised": "Standard deviation before gamma and beta",
    "mean_normalised": "Mean before gamma and beta",
    "std_out": "Standard deviation coming out",
    "mean_out": "Mean coming out",
    "eps_share": "Share of eps under the root",
}
UNITS: Final = {"std": "standard deviation", "var": "variance", "mean": "mean", "eps": "share of eps"}
PARTS: Final = {
    "tokens": "Tokens",
    "token": "One token",
    "distribution": "Spread",
    "parameters": "γ and β",
    "batchnorm": "BatchNorm",
    "mistakes": "Mistakes",
}
Part = Callable[[Look, pd.DataFrame, str], tuple[pd.DataFrame, list[str]]]
SHOW: Final[dict[str, Part]] = {
    "tokens": parts.all_tokens,
    "token": parts.one_token,
    "distribution": parts.spread,
    "parameters": parts.parameters,
    "batchnorm": batchnorm.features,
    "mistakes": mistakes.show,
}


def show(look: Look) -> None:
    """Norms x tokens on the left, the chosen norm on the right. BatchNorm has LayerNorm beside it instead."""
    table = state.table(look.answer, look.sentence, "layernorm", partial(with_names, look))
    names = list(dict.fromkeys(table["name"]))
    with st.container(horizontal=True, vertical_alignment="center"):
        now = state.now("norm_show")
        if now == "mistakes":
            mistakes.picker()
        elif now != "batchnorm":  # it has no overview
            controls.choice("quantity", "Shown in the overview", QUANTITIES, label_visibility="collapsed", width=215)
        name = _chosen_norm(names, look)
        part = controls.choice(
            "norm_show", "Of this norm", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
    left, right = st.columns(2)
    with left:
        if part == "batchnorm":
            batchnorm.tokens(look, name)
        else:
            _overview(look, table, names, name, state.get("quantity"))
    with right:
        shown, said = SHOW[part](look, table, name)
    explain(*([] if part == "batchnorm" else _largest(table)), *said)
    numbers(
        shown,
        name="layernorm",
        downloads={"This table as CSV": lambda: shown, "All norms as CSV": look.run.tables.layernorm},
    )


def with_names(look: Look) -> pd.DataFrame:
    """What every norm measures at each real token of the sentence, with the norm's name and the variance going in."""
    table = look.run.tables.layernorm(sentence=look.sentence)
    table.insert(0, "name", [norm_name(norm, layer) for norm, layer in zip(table["norm"], table["layer"], strict=True)])
    return table.assign(var_in=table["std_in"] ** 2)


def _largest(table: pd.DataFrame) -> list[str]:
    """Where the variance going in is largest, and where eps has most to say."""
    largest, eps = (table.iloc[int(table[name].to_numpy().argmax())] for name in ("var_in", "eps_share"))
    return [
        f"The largest variance going in is {format_number(largest['var_in'])}, "
        f"at {visible(largest['token'])} in {largest['name']}. "
        f"The median is {format_number(table['var_in'].median())}. Click a cell to open its token.",
        f"eps has most weight at {visible(eps['token'])} in {eps['name']}: "
        f"{format_number(100 * eps['eps_share'])} % of what is under the root.",
    ]


def _overview(look: Look, table: pd.DataFrame, names: list[str], name: str, quantity: str) -> None:
    """One statistic of every norm at every token."""
    overview(
        look,
        token_matrix(table, names, "name", quantity, len(look.tokens)),
        names,
        key="norms",
        of=quantity,
        chosen_row=names.index(name),
        title="Every norm",
        row_title="LayerNorm",
        quantity=QUANTITIES[quantity].lower(),
        unit=UNITS[quantity.partition("_")[0]],
        on_pick=partial(pick, look.head, names),
    )


def pick(head: int, names: list[str], row: int | None, col: int | None) -> None:
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
    state.choose_elsewhere("norm_choice", "At", names, name, partial(_choose, look.head), width=165)
    return name
