"""LayerNorm: what each norm measures at each token."""

from typing import Final

import streamlit as st

from components import controls, state
from components.figures.layernorm import norm_detail, norm_overview
from components.labels import visible
from components.panels.look import Look, chart, explain, numbers, token_matrix
from components.theme import format_number

QUANTITIES: Final = {
    "std_in": "Standard deviation going in",
    "mean_in": "Mean going in",
    "std_out": "Standard deviation coming out",
    "mean_out": "Mean coming out",
}


def show(look: Look) -> None:
    """Norms x tokens on the left, the chosen norm on the right."""
    run = look.run
    table = run.tables.layernorm(sentence=look.sentence)
    table.insert(0, "name", [norm_name(norm, layer) for norm, layer in zip(table["norm"], table["layer"], strict=True)])
    names = list(dict.fromkeys(table["name"]))
    left, right = st.columns(2)
    with left:
        overviews = {quantity: f"Overview: {name.lower()}" for quantity, name in QUANTITIES.items()}
        quantity = controls.choice("quantity", "Shown in the overview", overviews, label_visibility="collapsed")
    with right:
        name = _chosen_norm(names, look)
    with left:
        figure = norm_overview(
            token_matrix(table, names, "name", quantity, len(look.tokens)),
            names,
            look.tokens,
            palette=look.palette,
            quantity=QUANTITIES[quantity].lower(),
            token_padding=look.padding,
            log=quantity.startswith("std"),
            selected_norm=names.index(name),
            height=look.height,
        )
        chart(figure, key="norms", alt=f"{QUANTITIES[quantity]} at every norm and token")
    of_norm = table[table["name"] == name].drop(columns="name")
    with right:
        by_position = of_norm.set_index("pos").reindex(range(len(look.tokens)))  # NaN where a token is padding
        figure = norm_detail(
            by_position["mean_in"].to_numpy(),
            by_position["std_in"].to_numpy(),
            by_position["mean_out"].to_numpy(),
            by_position["std_out"].to_numpy(),
            look.tokens,
            palette=look.palette,
            token_padding=look.padding,
            title=name,
            height=look.height,
        )
        chart(figure, key="norm", alt=f"Mean and standard deviation of each token before and after {name}")
    largest = table.sort_values("std_in").iloc[-1]
    explain(
        "A LayerNorm takes one token's features, subtracts their mean and divides by sqrt(variance + eps), "
        f"with eps {format_number(run.config.norm_eps)}. Then gamma scales and beta shifts each feature.",
        f"The largest standard deviation going in is {format_number(largest['std_in'])}, "
        f"at {visible(largest['token'])} in {largest['name']}. "
        f"The median is {format_number(table['std_in'].median())}.",
    )
    numbers(
        of_norm,
        name="layernorm",
        downloads={"This table as CSV": lambda: of_norm, "All norms as CSV": lambda: run.tables.layernorm()},
    )


def norm_name(norm: str, layer: object) -> str:
    """How a norm is called on the page: `L3 norm1`, `embedding norm`, `final norm`."""
    return {"embed": "embedding norm", "final": "final norm"}.get(norm) or f"L{layer} {norm}"


def _chosen_norm(names: list[str], look: Look) -> str:
    """One norm. Its layer is the layer that all views share."""
    wanted = norm_name(state.get("norm_at"), look.layer)
    name = wanted if wanted in names else norm_name("norm2", look.layer)
    if name != wanted:
        state.refuse_link("norm_at", "norm2")

    def choose(chosen: str) -> None:
        where, _, kind = chosen.rpartition(" ")
        if kind != "norm":
            state.put("sel", (int(where[1:]), look.head))
        state.put("norm_at", kind if kind != "norm" else {"embedding": "embed", "final": "final"}[where])

    state.choose_elsewhere("norm_choice", "At full size", names, name, choose)
    return name
