"""Both blocks, and any value of one beside that of the other."""

import pandas as pd
import streamlit as st

from components import controls, state
from components.panels.beside.tables import with_placement
from components.panels.look import Look, explain, numbers
from components.panels.shapes import diagram
from components.panels.shapes.tensor import Opened, per_row, sizes
from components.theme import format_number
from explorer.stats import cost_by_part

PARTS = {"cost": "Blocks", "tensor": "Tensor"}


def show(post: Look, pre: Look) -> None:
    """The diagram of each; a click opens the value in both, with one scale of colours."""
    looks = {"Post-LN": post, "Pre-LN": pre}
    part = controls.choice(
        "shape_show", "Show", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
    )
    table = _tensors(looks) if part == "tensor" else _blocks(looks)
    numbers(table, name="placements", downloads={"This table as CSV": lambda: table})


def _blocks(looks: dict[str, Look]) -> pd.DataFrame:
    for column, (name, look) in zip(st.columns(2), looks.items(), strict=True):
        with column:
            diagram(look, key=f"block_{name[:-3].lower()}", height=look.height)
    costs = {name: cost_by_part(look.run.tables.shapes()) for name, look in looks.items()}
    norms = {name: int(cost["parameters"][cost["part"] == "norms"].item()) for name, cost in costs.items()}
    explain(
        "Post-LN adds, then normalises: the norm stands in the stream. Pre-LN normalises what a sublayer reads and "
        "leaves the stream alone; a final norm follows the stack.",
        f"Parameters of norms: {format_number(norms['Post-LN'])} in Post-LN, {format_number(norms['Pre-LN'])} in "
        "Pre-LN. All else costs the same. Click a value to open it in both.",
    )
    return with_placement(costs)


def _tensors(looks: dict[str, Look]) -> pd.DataFrame:
    site = state.get("site")
    if any(site not in sizes(look.run) for look in looks.values()):
        explain(f"{site} is not a value of both. Choose another in the blocks.")
        return with_placement({name: cost_by_part(look.run.tables.shapes()) for name, look in looks.items()})
    opened = {name: Opened.of(look, site) for name, look in looks.items()}
    end = max(opened[name].end(look.padding) for name, look in looks.items())
    for column, (name, look) in zip(st.columns(2), looks.items(), strict=True):
        with column:
            opened[name].draw(look, key=f"tensor_{name[:-3].lower()}", title=f"{name} · {opened[name].name}", end=end)
    explain("The same value of both placements, with one scale of colours.", "Click a row to choose its token.")
    return with_placement({name: per_row(look, opened[name].values) for name, look in looks.items()})
