"""Every norm at every token in both placements, with one scale of colours."""

from functools import partial

import pandas as pd
import streamlit as st

from components import controls, state
from components.labels import visible
from components.panels.beside.tables import with_placement
from components.panels.layernorm import QUANTITIES, UNITS, pick, with_names
from components.panels.look import Look, explain, numbers, token_matrix
from components.panels.overview import Scale, overview
from components.theme import format_number


def show(post: Look, pre: Look) -> None:
    """The overview of each. A click chooses norm and token for all views."""
    with st.container(horizontal=True, vertical_alignment="center"):
        quantity = controls.choice("quantity", "Shown", QUANTITIES, label_visibility="collapsed", width=300)
    looks = {"Post-LN": post, "Pre-LN": pre}
    tables = {
        name: state.table(look.answer, look.sentence, "layernorm", partial(with_names, look))
        for name, look in looks.items()
    }
    matrices = {}
    for name, look in looks.items():
        rows = list(dict.fromkeys(tables[name]["name"]))
        matrices[name] = (rows, token_matrix(tables[name], rows, "name", quantity, len(look.tokens)))
    scale = Scale.of([values for _, values in matrices.values()])
    for column, (name, look) in zip(st.columns(2), looks.items(), strict=True):
        rows, values = matrices[name]
        with column:
            overview(
                look,
                values,
                rows,
                key=f"norms_{name[:-3].lower()}",
                of=("both", quantity, scale),
                chosen_row=None,
                title=name,
                row_title="LayerNorm",
                quantity=QUANTITIES[quantity].lower(),
                unit=UNITS[quantity.partition("_")[0]],
                scale=scale,
                on_pick=partial(pick, look.head, rows),
            )
    largest = {name: table.iloc[int(table["var_in"].to_numpy().argmax())] for name, table in tables.items()}
    said = " ".join(
        f"{name}: the largest variance going in is {format_number(row['var_in'])}, at {visible(row['token'])} in "
        f"{row['name']}."
        for name, row in largest.items()
    )
    explain(
        said,
        *(_from_first_to_last(name, tables[name]) for name in looks),
        "In Post-LN a norm reads the sum of stream and sublayer, and what it gives is the stream. In Pre-LN it reads "
        "the stream and leaves it as it is. Both have one scale of colours.",
    )
    shown = with_placement({name: _per_norm(table, quantity) for name, table in tables.items()})
    numbers(shown, name="placements", downloads={"This table as CSV": lambda: shown})


def _per_norm(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Smallest, median and largest over the real tokens, one row a norm."""
    grouped = table.groupby("name", sort=False)[quantity]
    found = grouped.agg(smallest="min", median="median", largest="max").reset_index()
    return found.rename(columns={"name": "norm"})


def _from_first_to_last(placement: str, table: pd.DataFrame) -> str:
    """How the median variance going in changes from the first layer's norms to the last layer's."""
    inside = table[table["layer"].notna()]
    medians = inside.groupby("layer")["var_in"].median()
    return (
        f"{placement}: the median variance going in is {format_number(medians.iloc[0])} in layer 0 and "
        f"{format_number(medians.iloc[-1])} in layer {len(medians) - 1}."
    )
