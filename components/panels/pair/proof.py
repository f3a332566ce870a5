"""The proof of both runs."""

import streamlit as st

from components import state
from components.panels.look import chart, explain
from components.panels.pair.tables import pair_numbers
from components.panels.pair.two import Two, in_one_table
from components.panels.proof import bars, claims_table, verdict


def show(two: Two) -> None:
    """How far each claim is from its tolerance, for each run."""
    tables = []
    for number, (column, (name, look)) in enumerate(zip(st.columns(2), two.looks.items(), strict=True)):
        table = claims_table(state.proof(look.answer))
        with column:
            st.markdown(f"**{name}: {verdict(table)}**")
            chart(bars(look, table), key=f"proof_{'ab'[number]}", alt=f"{name}: each claim against its tolerance")
        tables.append(table)
    explain("Each run is held against the equations of its own encoder.")
    pair_numbers(two, in_one_table(two, tables))
