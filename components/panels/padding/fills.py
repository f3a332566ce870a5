"""Fill values in each precision, as the page writes them."""

import numpy as np
import pandas as pd

from components.theme import format_number


def precisions(table: pd.DataFrame) -> list[str]:
    """What −1e9 becomes in half precision, by what torch did just now: sentences for the table of `fills`."""
    rows = {(row["fill"], row["precision"]): row for _, row in table.iterrows()}
    half, single, infinite = rows[-1e9, "float16"], rows[-1e9, "float32"], rows[-np.inf, "float32"]
    return [
        f"In float16, −1e9 is stored as {format_number(half['stored'])}, and masked_fill {half['masked_fill']}.",
        f"A row in which every key is hidden is {infinite['no_key']} with −∞; with −1e9 in float32 it is "
        f"{single['no_key']}, which looks like an answer and is none.",
        "The table fills in place of the score, as masked_fill does.",
    ]


def written(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its fill values as they are written in code."""
    names = {-np.inf: "−∞", -1e9: "−1e9", -1e4: "−1e4"}
    return table.assign(fill=table["fill"].map(names))
