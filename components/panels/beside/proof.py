"""The proof of both runs."""

import streamlit as st

from components import state
from components.panels.beside.tables import with_placement
from components.panels.look import Look, chart, explain, numbers
from components.panels.proof import bars, claims_table, verdict


def show(post: Look, pre: Look) -> None:
    """How far each claim is from its tolerance, for each placement."""
    tables = {}
    for column, (name, look) in zip(st.columns(2), {"Post-LN": post, "Pre-LN": pre}.items(), strict=True):
        table = claims_table(state.proof(look.answer))
        with column:
            st.markdown(f"**{name}: {verdict(table)}**")
            chart(bars(look, table), key=f"proof_{name[:-3].lower()}", alt=f"{name}: each claim against its tolerance")
        tables[name] = table
    explain("Each run is held against the equations of its own placement.")
    shown = with_placement(tables)
    numbers(shown, name="placements", downloads={"This table as CSV": lambda: shown})
