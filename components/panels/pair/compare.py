"""What differs between two runs: their settings, where they part, and which heads and tokens changed most."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls
from components.labels import visible
from components.matrix import clear_end
from components.panels.look import Look, explain
from components.panels.overview import Scale
from components.panels.pair.attention import about_heads, by_moved, draw_heads
from components.panels.pair.residual import about_distance, by_slot, distances, draw_distance
from components.panels.pair.settings import settings_table
from components.panels.pair.tables import ONE_SCALE, pair_numbers
from components.panels.pair.three import three
from components.panels.pair.two import Two
from components.panels.residual.checkpoints import checkpoint_name
from components.theme import format_number
from explorer.comparison import TOLERANCE, Parting
from explorer.stats.residual import cosine, sentence_vectors

WORDS: Final = 60
"""Height of the sentences above the pictures, in CSS pixels."""
PARTS: Final = {"summary": "Summary", "outputs": "Outputs"}
TABLES: Final = {"heads": "Heads", "tokens": "Tokens", "settings": "Settings"}


def show(two: Two) -> None:
    """The summary, or the outputs."""
    with st.container(horizontal=True, vertical_alignment="center"):
        part = controls.choice(
            "pair_show", "Show", PARTS, widget=st.segmented_control, label_visibility="collapsed", required=True
        )
    SHOW[part](two)


def _summary(two: Two) -> None:
    """Where the streams part on the left, which heads attend elsewhere on the right; words first."""
    settings = settings_table(two)
    heads = two.table("heads", two.comparison.heads)
    rows, stream = distances(two)
    tokens = stream.sort_values("relative", ascending=False, kind="stable", na_position="last", ignore_index=True)
    explain(_about_settings(two, settings), about_parting(two), _about_equal(two))
    left, right = st.columns(2)
    height = two.a.height - WORDS
    with left:
        draw_distance(two, by_slot(two, stream, rows, "relative"), rows, key="distance", height=height)
    with right:
        draw_heads(two, heads, key="moved", height=height)
    explain(
        about_distance(two, tokens) if tokens["relative"].notna().any() else "",
        about_heads(two, heads),
        two.about_tokens(),
    )
    kind = controls.choice(
        "pair_table", "Table", TABLES, widget=st.segmented_control, label_visibility="collapsed", required=True
    )
    tables = {"heads": by_moved(two, heads), "tokens": tokens.drop(columns=["point", "layer"]), "settings": settings}
    pair_numbers(
        two,
        tables[kind],
        downloads={
            "Heads as CSV": lambda: tables["heads"],
            "Tokens as CSV": lambda: tokens,
            "Settings as CSV": lambda: settings,
        },
    )


def _about_settings(two: Two, settings: pd.DataFrame) -> str:
    if settings.empty:
        return f"{two.names[0]} and {two.names[1]} have the same settings."
    said = "; ".join(
        f"{setting.lower()}: {a} → {b}"
        for setting, a, b in zip(settings["setting"], settings["setting_a"], settings["setting_b"], strict=True)
    )
    return f"What differs, {two.names[0]} → {two.names[1]}: {said}."


def about_parting(two: Two) -> str:
    """The first place where the two streams are no longer alike."""
    found = two.comparison.parting()
    if found is None:
        return f"At every aligned token the streams agree to {format_number(TOLERANCE)} of their length."
    where = checkpoint_name(found.point, found.layer)
    return f"They part at {where}: {_reason(two, found)}"


def _reason(two: Two, found: Parting) -> str:
    a, b = (look.run.config.d_model for look in (two.a, two.b))
    return {
        "moved": f"“{visible(found.token or '')}” moves by {format_number(found.relative)} of its length, the most of "
        "all tokens there.",
        "d_model": f"the streams are {a} and {b} wide, so their vectors cannot be subtracted.",
        "only_a": f"only {two.names[0]} has it.",
        "only_b": f"only {two.names[1]} has it.",
    }[found.reason]


def _about_equal(two: Two) -> str:
    return "Every number of both is exactly the same." if two.comparison.equal else ""


def _outputs(two: Two) -> None:
    """What each token has become: all dimensions of the output, and how far it is from that of the other run."""
    values = two.spread([look.run.output[look.sentence] for look in (two.a, two.b)])
    table = two.comparison.outputs().sort_values(
        "relative", ascending=False, kind="stable", na_position="last", ignore_index=True
    )
    end = max(clear_end(_real(look)) for look in (two.a, two.b))
    three(
        two,
        values,
        key="outputs",
        of="output",
        titles=[f"{name} · output" for name in two.names] + [two.difference],
        scale=Scale(end, signed=True, log=False, floor=0.5),
        height=two.a.height,
        end=clear_end(values.difference[two.alignment.shared]),
        marked=(two.slot, None),
        row_paddings=[two.alignment.padding_a, two.alignment.padding_b, two.padding],
        rows=two.tokens,
        cols=[str(number) for number in range(values.a.shape[1])],
        row_title="pos",
        col_title="d_model",
        phrase=("in ", ", dimension ", ": "),
        unit="value",
        square=False,
        whole=True,
        on_pick=lambda row, _: two.pick(row),
    )
    explain(_about_outputs(two, table), _about_sentences(two), two.about_tokens(), ONE_SCALE)
    pair_numbers(two, table)


def _about_outputs(two: Two, table: pd.DataFrame) -> str:
    known = table[table["relative"].notna()]
    if known.empty:
        return "The outputs have different widths, so they cannot be subtracted."
    if (known["change"] == 0).all():
        return "The outputs are exactly equal at every aligned token."
    first = known.iloc[0]
    return (
        f"The output moves most at “{visible(first['token'])}”: by {format_number(first['relative'])} of its length. "
        f"The cosine between both outputs is {format_number(known['cosine'].mean())} on average over {len(known)} "
        f"aligned tokens, and {format_number(known['cosine'].min())} at least."
    )


def _about_sentences(two: Two) -> str:
    """How alike the vectors of the two sentences are."""
    if two.a.run.config.d_model != two.b.run.config.d_model:
        return ""
    a, b = (sentence_vectors(look.run.output[[look.sentence]], look.padding[np.newaxis]) for look in (two.a, two.b))
    by_mean, by_cls = (float(cosine(*vectors)[0]) for vectors in ((a.mean, b.mean), (a.cls, b.cls)))
    return (
        f"As sentence vectors they have a cosine of {format_number(by_mean)} by the mean of their real tokens, and of "
        f"{format_number(by_cls)} by [CLS]."
    )


def _real(look: Look) -> np.ndarray:
    return look.run.output[look.sentence][~look.padding]


SHOW: Final[dict[str, Callable[[Two], None]]] = {"summary": _summary, "outputs": _outputs}
