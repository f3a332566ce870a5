"""Proof: what this very run must fulfil, recomputed from its record, with the difference that is left."""

import pandas as pd
import streamlit as st

from components import state
from components.figures.proof import residue_bars
from components.panels.look import Look, chart, explain, numbers


def show(look: Look) -> None:
    """How far each claim is from its tolerance on the left, every claim in words on the right."""
    claims = state.proof(look.answer)
    failed = [number for number, claim in enumerate(claims, start=1) if not claim.holds]
    table = pd.DataFrame(
        {
            "number": range(1, len(claims) + 1),
            "result": ["holds" if claim.holds else "does not hold" for claim in claims],
            "difference": [claim.difference for claim in claims],
            "tolerance": [claim.tolerance for claim in claims],
            "claim": [claim.claim for claim in claims],
            "why": [claim.why for claim in claims],
        }
    )
    st.subheader(_verdict(len(claims), failed), anchor=False)
    left, right = st.columns([2, 3])
    with left:
        figure = residue_bars(
            table["claim"].tolist(),
            table["difference"].to_numpy(),
            table["tolerance"].to_numpy(),
            palette=look.palette,
            height=look.height,
        )
        chart(figure, key="proof", alt="Difference of each claim as a share of its tolerance")
    with right:
        numbers(table, name="proof", downloads={"This table as CSV": lambda: table}, height=look.height - 60)
    explain(
        "Each claim is computed anew from the tensors that this run recorded, in float64 and without the encoder's own "
        "code, over real tokens of all sentences.",
        "The difference is the largest absolute one. A bar that stays left of the line is within its tolerance.",
    )


def _verdict(count: int, failed: list[int]) -> str:
    if not failed:
        return f"All {count} claims hold for this run."
    which = ", ".join(str(number) for number in failed)
    return f"{len(failed)} of {count} claims do not hold for this run: {which}."
