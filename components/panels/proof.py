"""Proof: what this very run must fulfil, recomputed from its record, with the difference that is left."""

from typing import Final

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from components import state
from components.figures.proof import residue_bars
from components.panels.look import Look, chart, explain, numbers
from explorer.proof import Claim

HOLDS: Final = "holds"


def show(look: Look) -> None:
    """How far each claim is from its tolerance on the left, every claim in words on the right."""
    table = claims_table(state.proof(look.answer))
    st.subheader(verdict(table), anchor=False)
    left, right = st.columns([2, 3])
    with left:
        chart(bars(look, table), key="proof", alt="Difference of each claim as a share of its tolerance")
    with right:
        numbers(table, name="proof", downloads={"This table as CSV": lambda: table}, height=look.height - 60)
    explain(
        "Each claim is computed anew from the tensors that this run recorded, in float64 and without the encoder's own "
        "code, over real tokens of all sentences.",
        "The difference is the largest absolute one. A bar that stays left of the line is within its tolerance.",
    )


def claims_table(claims: list[Claim]) -> pd.DataFrame:
    """One row a claim: its number, whether it holds in words, by how much, and why this much is allowed."""
    return pd.DataFrame(
        {
            "number": range(1, len(claims) + 1),
            "result": [HOLDS if claim.holds else "does not hold" for claim in claims],
            "difference": [claim.difference for claim in claims],
            "tolerance": [claim.tolerance for claim in claims],
            "claim": [claim.claim for claim in claims],
            "why": [claim.why for claim in claims],
        }
    )


def bars(look: Look, table: pd.DataFrame) -> go.Figure:
    """Each claim's difference as a share of its tolerance."""
    return residue_bars(
        table["claim"].tolist(),
        table["difference"].to_numpy(),
        table["tolerance"].to_numpy(),
        palette=look.palette,
        height=look.height,
    )


def verdict(table: pd.DataFrame) -> str:
    """Whether all claims hold, and which do not."""
    failed = table[table["result"] != HOLDS]["number"]
    if failed.empty:
        return f"All {len(table)} claims hold for this run."
    return f"{len(failed)} of {len(table)} claims do not hold for this run: {', '.join(str(n) for n in failed)}."
