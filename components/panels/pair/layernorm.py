"""Every norm at every token in both runs, and the difference."""

from functools import partial

import pandas as pd
import streamlit as st

from components import controls, state
from components.labels import visible
from components.panels.layernorm import QUANTITIES, UNITS, pick, with_names
from components.panels.layernorm.names import norm_name
from components.panels.look import Look, explain
from components.panels.overview import Scale
from components.panels.pair.tables import ONE_SCALE, about_largest, pair_numbers, tidy
from components.panels.pair.three import three_overviews
from components.panels.pair.two import Two
from components.theme import format_number


def show(two: Two) -> None:
    """One quantity of every norm at every token. A click chooses norm and token for all views."""
    with st.container(horizontal=True, vertical_alignment="center"):
        quantity = controls.choice("quantity", "Shown", QUANTITIES, label_visibility="collapsed", width=300)
    tables = _table(two.a), _table(two.b)
    found, values = two.slots(tables, ("norm", "layer"), quantity)
    rows = [norm_name(str(norm), layer) for norm, layer in found]
    three_overviews(
        two,
        values,
        rows,
        key="norms",
        of=quantity,
        scale=Scale.of([values.a, values.b]),
        row_title="LayerNorm",
        quantity=QUANTITIES[quantity].lower(),
        unit=UNITS[quantity.partition("_")[0]],
        on_pick=partial(_pick, two, rows),
    )
    largest = {
        name: table.iloc[int(table["var_in"].to_numpy().argmax())]
        for name, table in zip(two.names, tables, strict=True)
    }
    shown = tidy(two, values, rows, "norm")
    explain(
        *(
            f"{name}: the largest variance going in is {format_number(row['var_in'])}, at {visible(row['token'])} in "
            f"{row['name']}."
            for name, row in largest.items()
        ),
        about_largest(two, shown, "norm", QUANTITIES[quantity].lower()),
        two.about_tokens(),
        ONE_SCALE,
    )
    pair_numbers(two, shown)


def _pick(two: Two, rows: list[str], row: int | None, col: int | None) -> None:
    pick(two.asked.head, rows, row, None)
    two.pick(col)


def _table(look: Look) -> pd.DataFrame:
    return state.table(look.answer, look.sentence, "layernorm", partial(with_names, look))
