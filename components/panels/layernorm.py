"""LayerNorm: what each norm measures at each token, and one of them opened."""

from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.figures.layernorm import gain_curves, norm_detail, token_strips
from components.labels import visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.look import Look, chart, explain, numbers, token_matrix
from components.theme import format_number
from explorer.loading import Norm
from explorer.stats.layernorm import token_moments

QUANTITIES: Final = {
    "std_in": "Standard deviation going in",
    "var_in": "Variance going in",
    "mean_in": "Mean going in",
    "std_out": "Standard deviation coming out",
    "mean_out": "Mean coming out",
}
PARTS: Final = {"tokens": "All tokens", "token": "One token", "parameters": "Gamma and beta"}
NAMED: Final = 3
"""Dimensions that are named in the figure and the text: those with the largest shares of the variance."""


def show(look: Look) -> None:
    """Norms x tokens on the left, the chosen norm on the right: all tokens, one token, or its parameters."""
    table = look.run.tables.layernorm(sentence=look.sentence)
    table.insert(0, "name", [norm_name(norm, layer) for norm, layer in zip(table["norm"], table["layer"], strict=True)])
    names = list(dict.fromkeys(table["name"]))
    with st.container(horizontal=True, vertical_alignment="center"):
        quantity = controls.choice(
            "quantity", "Shown in the overview", QUANTITIES, label_visibility="collapsed", width=270
        )
        name = _chosen_norm(names, look)
        part = controls.choice(
            "norm_show", "Of this norm", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
    left, right = st.columns(2)
    with left:
        _overview(look, table, names, name, quantity)
    with right:
        {"tokens": _all_tokens, "token": _one_token, "parameters": _parameters}[part](look, table, name)
    largest = table.sort_values("std_in").iloc[-1]
    explain(
        f"The largest variance going in is {format_number(largest['std_in'] ** 2)}, "
        f"at {visible(largest['token'])} in {largest['name']}. "
        f"The median is {format_number((table['std_in'] ** 2).median())}. Click a cell to open its token.",
        *_about(look, name, part),
    )
    if part == "tokens":
        shown = table[table["name"] == name].drop(columns="name")
    else:
        shown = _features(look, name) if part == "token" else _gains(look, name)
    numbers(
        shown,
        name="layernorm",
        downloads={"This table as CSV": lambda: shown, "All norms as CSV": lambda: look.run.tables.layernorm()},
    )


def norm_name(norm: str, layer: object) -> str:
    """How a norm is called on the page: `L3 norm1`, `embedding norm`, `final norm`."""
    return {"embed": "embedding norm", "final": "final norm"}.get(norm) or f"L{layer} {norm}"


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
    norm, layer = _parse(name)
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


def _all_tokens(look: Look, table: pd.DataFrame, name: str) -> None:
    of_norm = table[table["name"] == name].set_index("pos").reindex(range(len(look.tokens)))  # NaN: padding
    figure = norm_detail(
        of_norm["mean_in"].to_numpy(),
        of_norm["std_in"].to_numpy(),
        of_norm["mean_out"].to_numpy(),
        of_norm["std_out"].to_numpy(),
        look.tokens,
        palette=look.palette,
        token_padding=look.padding,
        title=name,
        height=look.height,
    )
    chart(figure, key="norm", alt=f"Mean and standard deviation of each token before and after {name}")


def _one_token(look: Look, _: pd.DataFrame, name: str) -> None:
    before, after = _values(look, name)
    figure = token_strips(
        before,
        after,
        palette=look.palette,
        named=_features(look, name)["dimension"].tolist()[:NAMED],
        title=f"{name}, {visible(look.tokens[look.token])}",
        height=look.height,
    )
    chart(figure, key="strips", alt=f"Every dimension of one token before and after {name}")


def _parameters(look: Look, _: pd.DataFrame, name: str) -> None:
    gamma, beta, _eps = _of_model(look, name)
    chart(
        gain_curves(gamma, beta, palette=look.palette, title=f"{name}: gamma and beta, sorted", height=look.height),
        key="gains",
        alt=f"Gamma and beta of {name}, sorted",
    )


def _values(look: Look, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The chosen token before and after this norm, `[d_model]` each."""
    trace, at = look.run.trace, (look.sentence, look.token)
    norm, layer = _parse(name)
    if norm == "embed":
        return trace.embedding("norm.in")[at], trace.embedding("norm.out")[at]
    if norm == "final":
        return trace.final_norm("in")[at], trace.final_norm("out")[at]
    assert layer is not None
    return trace.norm(norm, "in", layer)[at], trace.norm(norm, "out", layer)[at]


def _parse(name: str) -> tuple[Norm, int | None]:
    """The opposite of `norm_name`."""
    where, _, kind = name.rpartition(" ")
    if kind == "norm":
        return "embed" if where == "embedding" else "final", None
    return "norm1" if kind == "norm1" else "norm2", int(where[1:])


def _of_model(look: Look, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    norm, layer = _parse(name)
    return look.answer.model.norm_parameters(norm, layer)


def _features(look: Look, name: str) -> pd.DataFrame:
    """One row a dimension of the chosen token, the one with the largest share of the variance first."""
    before, after = _values(look, name)
    gamma, beta, _ = _of_model(look, name)
    centred = before.astype(np.float64) - before.mean(dtype=np.float64)
    total = float((centred**2).sum())
    table = pd.DataFrame(
        {
            "dimension": np.arange(len(before)),
            "before": before,
            "share_of_variance": centred**2 / total if total else np.zeros_like(centred),
            "gamma": gamma,
            "beta": beta,
            "after": after,
        }
    )
    return table.sort_values("share_of_variance", ascending=False, kind="stable", ignore_index=True)


def _gains(look: Look, name: str) -> pd.DataFrame:
    gamma, beta, _ = _of_model(look, name)
    return pd.DataFrame({"dimension": np.arange(len(gamma)), "gamma": gamma, "beta": beta})


def _about(look: Look, name: str, part: str) -> list[str]:
    """How to read the right side; for one token with the numbers of its most important dimension in the formula."""
    eps = _of_model(look, name)[2]
    rule = "out = (x − mean) / √(variance + eps) · gamma + beta, over the features of one token"
    if part == "tokens":
        return [f"LayerNorm: {rule}; here eps is {format_number(eps)}. Padding is left out."]
    if part == "parameters":
        return [f"{rule.capitalize()}. Gamma and beta are learned, one of each a dimension; a fresh norm has 1 and 0."]
    before, _ = _values(look, name)
    mean, std = (float(value.item()) for value in token_moments(before[None]))
    features = _features(look, name)
    first = features.iloc[0]
    named = ", ".join(
        f"{int(row['dimension'])} ({format_number(100 * row['share_of_variance'])} %)"
        for _, row in features.head(NAMED).iterrows()
    )
    number = format_number
    return [
        f"Dimensions with most of the variance: {named}.",
        f"For dimension {int(first['dimension'])}: ({number(first['before'])} − {number(mean)}) / "
        f"√({number(std**2)} + {number(eps)}) · {number(first['gamma'])} + {number(first['beta'])} = "
        f"{number(first['after'])}.",
        "eps is of no weight here: the variance is far larger."
        if std**2 > 1e4 * eps
        else "eps matters here: the variance is not far larger.",
    ]
