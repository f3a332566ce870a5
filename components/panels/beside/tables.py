"""The numbers of both placements in one table."""

import pandas as pd


def with_placement(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables below each other, by the names of the placements; the first column says whose a row is."""
    table = pd.concat([part.assign(placement=name) for name, part in tables.items()], ignore_index=True)
    return table[["placement", *[column for column in table if column != "placement"]]]
