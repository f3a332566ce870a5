"""What is looked at, and the parts that all views share."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from components.labels import csv_safe, visible
from components.state import Answer
from components.theme import Palette, format_number
from explorer import Run
from explorer.stats.heads import SCORES

MOST_ROWS = 1000
"""Of a table on the page. A number for each norm at each of 512 tokens would take a third of a second at each click."""
PICTURE_FIRST = 0.06
"""Seconds that a table waits. What comes together is laid out together: the picture would be seen 100 ms later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One run, and the sentence, layer and head that the reader chose in it."""

    answer: Answer
    sentence: int
    layer: int
    head: int
    token: int
    """Its place in the row: a real token."""
    palette: Palette
    height: int
    """Of the large figures, in CSS pixels."""

    @property
    def run(self) -> Run:
        return self.answer.run

    @property
    def tokens(self) -> list[str]:
        """The tokens of the sentence, padding included."""
        return self.run.batch.tokens[self.sentence]

    @property
    def pattern(self) -> np.ndarray:
        """Attention weights of the chosen head, `[query, key]`."""
        return self.run.trace.pattern(self.layer)[self.sentence, self.head]

    @property
    def padding(self) -> np.ndarray:
        """Which of them are padding, `[pos]`."""
        return self.run.batch.key_padding_mask[self.sentence].numpy()


def chart(figure: go.Figure, *, key: str, alt: str) -> None:
    """One figure at its own height, exported as a sharp picture and never sent anywhere."""
    st.plotly_chart(
        figure,
        key=f"{key}_figure",
        theme=None,
        alt=alt,
        config={
            "displaylogo": False,
            "showSendToCloud": False,
            "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
            "toImageButtonOptions": {"format": "svg", "filename": f"encoder-explorer-{key}"},
        },
    )


def explain(*sentences: str) -> None:
    """How to read the figure. Plain text: what a reader typed is shown as typed."""
    st.text(" ".join(sentence for sentence in sentences if sentence))


HEADINGS = {
    "run": "Run",
    "setting": "Setting",
    "there_in": "There in",
    "off_in": "Off in",
    "name": "Name",
    "status": "Status",
    "largest_difference": "Largest difference",
    "placement": "Placement",
    "depth": "Layers",
    "n_steps": "Steps",
    "accuracy": "Accuracy",
    "weight_on_right": "Weight where the answer stands",
    "n_asked": "Letters asked",
    "loss": "Loss (nats)",
    "gradient_norm": "Gradient of the last W₂",
    "first_layer_norm": "Gradient of the first W₂",
    "moved": "Weight that would have to move",
    "part": "Part",
    "step": "Step",
    "site": "Recorded as",
    "axes": "Axes",
    "shape": "Shape",
    "bytes": "Bytes",
    "parameters": "Parameters",
    "flops": "FLOPs",
    "layer": "Layer",
    "head": "Head",
    "norm": "Norm",
    "position": "Position",
    "token": "Token",
    "entropy": "Entropy (nats)",
    "max_entropy": "Largest possible",
    "n_keys": "Keys",
    "strongest_key": "Looks most at",
    "strongest_position": "At position",
    "strongest_weight": "Weight",
    "strongest_query": "Looked at most by",
    "weight_from_query": "With weight",
    "sum_of_row": "Sum of the row",
    "score": "Score q · k / √d_head",
    "weight": "Weight",
    "largest_dimension": "Adds most: dimension",
    "largest_product": "Product",
    "smallest_dimension": "Takes most: dimension",
    "smallest_product": "Product there",
    "mistake": "Mistake",
    "formula": "What is written",
    "dimension": "Dimension",
    "before": "Before",
    "share_of_variance": "Share of the variance",
    "gamma": "Gamma",
    "beta": "Beta",
    "after": "After",
    "number": "No.",
    "result": "Result",
    "claim": "Claim",
    "difference": "Largest difference",
    "tolerance": "Tolerance",
    "why": "Why this tolerance",
    "norm_before": "Norm before",
    "norm_after": "Norm after",
    "change": "Norm of the change",
    "cosine": "Cosine before and after",
    "mean_in": "Mean going in",
    "std_in": "Std going in",
    "mean_out": "Mean coming out",
    "std_out": "Std coming out",
    "mean_normalised": "Mean before gamma, beta",
    "std_normalised": "Std before gamma, beta",
    "eps_share": "Share of eps under the root",
    "var_in": "Variance going in",
    "normalised": "Before gamma, beta",
    "smallest": "Smallest",
    "low": "10th percentile",
    "median": "Median",
    "high": "90th percentile",
    "largest": "Largest",
    "largest_at": "Largest at",
    "mean": "Mean",
    "std": "Std",
    "mean_with_pads": "Mean, padding counted",
    "std_with_pads": "Std, padding counted",
    "batchnorm_change": "Padding changes BatchNorm by",
    "layernorm_change": "Padding changes LayerNorm by",
    "right": "Right",
    "wrong": "With the mistake",
    "mistake_difference": "Difference",
    "checkpoint": "Checkpoint",
    "l2_norm": "L2 norm",
    "mean_norm": "Mean L2 norm",
    "turned": "Cosine with the checkpoint before",
    "mean_turned": "Mean cosine with the checkpoint before",
    "added": "L2 norm of what is added",
    "mean_added": "Mean L2 norm of what is added",
    "added_cosine": "Cosine of what is added with the stream",
    "mean_added_cosine": "Mean cosine of what is added",
    "similarity": "Mean cosine between tokens",
    "n_tokens": "Tokens",
    "strongest_dimension": "Dimension furthest from 0",
    "strongest_value": "Its value",
    "share_of_length": "Its share of the squared norm",
    "first_axis": "First axis",
    "second_axis": "Second axis",
    "first_sentence": "Sentence",
    "second_sentence": "And",
    "sentence_cosine": "Cosine",
    "value": "Size",
    "parameters_share": "Share of parameters",
    "flops_share": "Share of FLOPs",
    "attention_parameters": "Parameters of attention",
    "feed_forward_parameters": "Parameters of feed-forward",
    "projection_flops": "FLOPs of projections",
    "score_flops": "FLOPs of scores and weighted sum",
    "attention_flops": "FLOPs of attention",
    "feed_forward_flops": "FLOPs of feed-forward",
    "attention_bytes": "Bytes of attention weights",
    "token_id": "Token id",
    "padding": "Padding",
    "masked_difference": "Masked: difference",
    "unmasked_difference": "Not masked: difference",
    "masked_relative": "Masked: share of the norm",
    "unmasked_relative": "Not masked: share of the norm",
    "masked_weights": "Masked: weights differ by",
    "unmasked_weights": "Not masked: weights differ by",
    "masked_on_padding": "Masked: weight on padding",
    "unmasked_on_padding": "Not masked: weight on padding",
    "query": "Query",
    "fill": "Fill value",
    "precision": "Precision",
    "stored": "Stored as",
    "masked_fill": "masked_fill",
    "largest_hidden": "Largest weight on a hidden key",
    "smallest_sum": "Smallest sum of a row",
    "largest_sum": "Largest sum of a row",
    "no_key": "A row without any key",
    "n_batches": "Batches",
    "batches": "Sentences × width",
    "batch_flops": "FLOPs of all batches",
    "n_padding": "Padding tokens",
    "token_share": "Share of tokens that is padding",
    "flop_share": "Share of FLOPs spent on padding",
    "saving": "FLOPs saved",
    "suggested": "Suggested",
    "sentence_text": "Sentence",
    "pads_cosine": "Pads counted: cosine",
    "pads_distance": "Pads counted: distance",
    "unmasked_cosine": "Mask off: cosine",
    "unmasked_distance": "Mask off: distance",
    "both_cosine": "Both: cosine",
    "both_distance": "Both: distance",
    "cls_cosine": "[CLS], mask off: cosine",
    "cls_distance": "[CLS], mask off: distance",
    "resid_pre": "Stream entering (resid_pre)",
    "resid_mid": "Between (resid_mid)",
    "resid_post": "Leaving (resid_post)",
    "attn_out": "Attention adds",
    "ff_out": "Feed-forward adds",
}


def numbers(
    table: pd.DataFrame, *, name: str, downloads: dict[str, Callable[[], pd.DataFrame]], height: int = 250
) -> None:
    """The numbers behind the figure, and their downloads as CSV. The files are made when they are asked for.

    Of a long table the page has the first rows, and says so.
    """
    time.sleep(PICTURE_FIRST)
    if len(table) > MOST_ROWS:
        explain(f"The table has the first {MOST_ROWS:,} of {len(table):,} rows; the file has all.")
    headings = HEADINGS | {score: SCORES[score].label for score in SCORES if score != "entropy"}
    shown = table.head(MOST_ROWS).drop(columns=["sentence", "pos"], errors="ignore").rename(columns=headings)
    for column in shown.select_dtypes(["object", "string"]).columns:
        shown[column] = shown[column].map(visible)
    st.dataframe(_written(shown), key=f"{name}_table", hide_index=True, height=height)
    with st.container(horizontal=True):
        for label, make in downloads.items():
            file = label.removesuffix(" as CSV").lower().replace(" ", "-")
            st.download_button(
                label,
                data=partial(_csv, make),
                file_name=f"encoder-explorer-{name}-{file}.csv",
                mime="text/csv",
                on_click="ignore",
                key=f"{name}_{file}",
            )


def _written(table: pd.DataFrame) -> Any:
    """A table whose numbers are written as everywhere on the page, and sorted as numbers.

    Only the texts of the cells are made. `Styler.format` makes HTML of every cell first: at 512 rows that took longer
    than all else that a click needs. Streamlit asks for a real Styler and reads no more than this of it.
    """
    columns = [[_formatted(cell) for cell in table[name].tolist()] for name in table]

    def texts(*_: Any) -> dict[str, Any]:
        rows = enumerate(zip(*columns, strict=True))
        body = [[{"id": f"row{r}_col{c}", "display_value": text} for c, text in enumerate(row)] for r, row in rows]
        return {"body": body}

    styler: Any = table.style
    styler._compute = lambda: styler
    styler._translate = texts
    return styler


def _formatted(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return format_number(None if cell is pd.NA else cell)


def _csv(make: Callable[[], pd.DataFrame]) -> bytes:
    """UTF-8 with a mark, so that spreadsheets read accents, and no cell that they would run as a formula."""
    return csv_safe(make()).to_csv(index=False).encode("utf-8-sig")


def token_matrix(table: pd.DataFrame, rows: Sequence[Hashable], row: str, value: str, n_pos: int) -> np.ndarray:
    """A tidy table as `[row, pos]`, in the order of `rows`. NaN where a token is padding."""
    return (
        table.pivot(index=row, columns="pos", values=value).reindex(index=list(rows), columns=range(n_pos)).to_numpy()
    )
