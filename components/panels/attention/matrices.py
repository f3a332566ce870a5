"""The matrices of the attention view: one head, sums over heads, one token in all heads, one query's products."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from components.labels import visible
from components.matrix import Matrix, Side
from components.panels.attention.display import Display
from components.panels.look import Look
from explorer import Run
from explorer.stats.queries import dot_products
from explorer.stats.rollout import SUMS

ATTENDS = ("query ", " attends to key ", ": ")


def head_matrix(run: Run, look: Look, display: Display, *, title: str = "", file: str = "") -> Matrix:
    """The chosen head: queries down, keys across."""
    values, _ = display.apply(run.trace.pattern(look.layer)[look.sentence, look.head])
    values = _seen(run, display, values)
    name = f"L{look.layer} H{look.head}"
    return Matrix(
        values=values,
        title=(title or name) + display.suffix,
        phrase=ATTENDS,
        file=file or name.replace(" ", "-"),
        row_title="query (looks)",
        col_title="key (is looked at)",
        **_sides(display),
    )


def sum_matrix(look: Look, display: Display, name: str) -> Matrix:
    """All heads of the chosen layer, or of it and those below, as one matrix. Padding is left out of the sum."""
    run, what = look.run, SUMS[name]
    values = np.full((len(look.tokens), len(look.tokens)), np.nan, dtype=np.float32)
    real = np.flatnonzero(~look.padding)
    first = 0 if what.over_layers else look.layer
    patterns = (
        run.trace.pattern(layer)[look.sentence][:, real[:, None], real[None, :]]
        for layer in range(first, look.layer + 1)
    )
    values[np.ix_(real, real)] = what.of(patterns)
    shown, _ = display.apply(np.nan_to_num(values))
    return Matrix(
        values=_seen(run, display, shown),
        title=f"{what.label}, {'L0 to ' if what.over_layers else ''}L{look.layer}{display.suffix}",
        phrase=ATTENDS if not what.over_layers else ("position ", " after this layer, from input ", ": "),
        file=f"{name}-L{look.layer}",
        row_title="query (looks)" if not what.over_layers else f"position after L{look.layer}",
        col_title="key (is looked at)" if not what.over_layers else "input token",
        **(_sides(display) | {"col_padding": display.padding[display.cols]}),
    )


def token_matrix(look: Look, display: Display, place: int, *, into: bool) -> Matrix:
    """Every head a row: where the token in that row looks; `into`: who looks at the token in that column."""
    n_layers, n_heads = look.run.config.n_layers, look.run.config.n_heads
    weights = [values[:, :, place] if into else values[:, place] for values in _layers(look, display)]
    name = (display.col_names if into else display.row_names)[place]
    return Matrix(
        values=np.concatenate(weights),
        rows=[f"L{layer} H{head}" for layer in range(n_layers) for head in range(n_heads)],
        cols=display.row_names if into else display.col_names,
        col_padding=display.row_padding if into else display.col_padding,
        title=(f"Who looks at “{name}”" if into else f"Where “{name}” looks") + display.suffix,
        row_title="head",
        col_title="query (looks)" if into else "key (is looked at)",
        phrase=("in ", f", {_isolated(name)} {'is attended to by' if into else 'attends to'} ", ": "),
        square=False,
        row_group=n_heads,
        chosen_row=look.layer * n_heads + look.head,
        file="who-looks-at-it" if into else "where-it-looks",
    )


def product_matrix(look: Look, query: int) -> Matrix:
    """One query against every key: q[d] k[d] / sqrt(d_head) for each dimension; beside it their sum, and the weight."""
    trace, at = look.run.trace, (look.sentence, look.head)
    products = dot_products(trace.q(look.layer)[at][query], trace.k(look.layer)[at])
    if look.run.causal:
        products[query + 1 :] = np.nan
    scores = trace.scores(look.layer)[at][query]
    tokens = [visible(token) for token in look.tokens]
    high = float(np.nanmax(np.abs(products))) or 1.0
    return Matrix(
        values=products,
        rows=tokens,
        cols=[str(d) for d in range(products.shape[1])],
        title=f"L{look.layer} H{look.head}, query “{tokens[query]}”",
        row_title="key",
        col_title="dimension d of the head",
        phrase=("key ", ", dimension ", ": q[d] k[d] / √d_head = "),
        unit="q[d] k[d] / √d_head",
        low=-high,
        high=high,
        square=False,
        row_padding=look.padding & look.run.use_mask,
        sides=(Side("score", scores), Side("weight", look.pattern[query])),
        file=f"query-key-L{look.layer}-H{look.head}",
    )


def _layers(look: Look, display: Display) -> Iterator[np.ndarray]:
    for layer in range(look.run.config.n_layers):
        yield _seen(look.run, display, display.apply(look.run.trace.pattern(layer)[look.sentence])[0])


def _seen(run: Run, display: Display, values: np.ndarray) -> np.ndarray:
    """The weights `[*axes, row, col]`, without those that a causal mask hides: they are no weights, not small ones."""
    return np.where(display.after, np.nan, values) if run.causal else values


def _sides(display: Display) -> dict[str, Any]:
    return {
        "rows": display.row_names,
        "cols": display.col_names,
        "row_padding": display.row_padding,
        "col_padding": display.col_padding,
    }


def _isolated(name: str) -> str:
    """A right-to-left name between isolates cannot turn the sentence around it."""
    return f"\u2068{name}\u2069"
