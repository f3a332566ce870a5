"""One norm opened: at all tokens, at one token, beside all other norms, and its parameters."""

from typing import Final

import numpy as np
import pandas as pd

from components import state
from components.figures.distribution import distribution
from components.figures.layernorm import gain_curves, norm_detail, token_strips
from components.labels import visible
from components.panels.layernorm.names import parameters_of, values_of
from components.panels.look import Look, chart, token_matrix
from components.theme import format_number
from explorer.stats.layernorm import token_terms, variance_shares

NAMED: Final = 3
"""Dimensions that are named in the figure and the text: those with the largest shares of the variance."""
RULE: Final = "out = (x − mean) / √(variance + eps) · gamma + beta, over the features of one token"
SPREAD_OF: Final = {
    "std_in": "standard deviation going in",
    "var_in": "variance going in",
    "mean_in": "mean going in",
    "std_normalised": "standard deviation before gamma, beta",
    "mean_normalised": "mean before gamma, beta",
    "std_out": "standard deviation coming out",
    "mean_out": "mean coming out",
    "eps_share": "eps / (variance + eps)",
}


def all_tokens(look: Look, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Mean and standard deviation of each token, entering and leaving."""
    shown = table[table["name"] == name].drop(columns=["name", "var_in"])
    of_norm = shown.set_index("pos").reindex(range(len(look.tokens)))  # NaN: padding
    figure = norm_detail(
        of_norm["mean_in"].to_numpy(),
        of_norm["std_in"].to_numpy(),
        of_norm["mean_out"].to_numpy(),
        of_norm["std_out"].to_numpy(),
        look.tokens,
        palette=look.palette,
        token_padding=look.padding,
        title=name,
        height=look.height,
    )
    chart(figure, key="norm", alt=f"Mean and standard deviation of each token before and after {name}")
    eps = parameters_of(look, name)[2]
    return shown, [f"LayerNorm: {RULE}; here eps is {format_number(eps)}. Padding is left out."]


def one_token(look: Look, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Every dimension of the chosen token, entering and leaving, and the formula with its numbers."""
    before, after = values_of(look, name)
    gamma, beta, eps = parameters_of(look, name)
    shown = pd.DataFrame(
        {
            "dimension": np.arange(len(before)),
            "before": before,
            "share_of_variance": np.nan_to_num(variance_shares(before)),  # a constant token has no variance to share
            "normalised": token_terms(before, gamma, beta, eps).normalised,
            "gamma": gamma,
            "beta": beta,
            "after": after,
        }
    ).sort_values("share_of_variance", ascending=False, kind="stable", ignore_index=True)
    figure = token_strips(
        before,
        after,
        palette=look.palette,
        named=shown["dimension"].tolist()[:NAMED],
        title=f"{name}, {visible(look.tokens[look.token])}",
        height=look.height,
    )
    chart(figure, key="strips", alt=f"Every dimension of one token before and after {name}")
    return shown, _formula(before, gamma, beta, eps, shown)


def spread(look: Look, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """How the statistic of the overview is distributed over the tokens, norm by norm."""
    quantity = state.get("quantity")
    names = list(dict.fromkeys(table["name"]))
    values = token_matrix(table, names, "name", quantity, len(look.tokens))
    real = values[:, ~look.padding]
    log = bool((real >= 0).all() and real.max() > 10 * real.min())
    figure = distribution(
        values,
        names,
        look.tokens,
        quantity=SPREAD_OF[quantity],
        palette=look.palette,
        token_padding=look.padding,
        log=log,
        selected_row=names.index(name),
        title="Every norm, over all tokens",
        height=look.height,
    )
    chart(figure, key="spread", alt=f"Distribution over tokens of the {SPREAD_OF[quantity]}, at every norm")
    low, tenth, median, ninetieth, high = np.percentile(real, [0, 10, 50, 90, 100], axis=1)
    tokens = np.array(look.tokens, dtype=object)[~look.padding]
    shown = pd.DataFrame(
        {
            "norm": names,
            "smallest": low,
            "low": tenth,
            "median": median,
            "high": ninetieth,
            "largest": high,
            "largest_at": tokens[real.argmax(axis=1)],
        }
    )
    return shown, [f"Each point is one of {real.shape[1]} real tokens: its {SPREAD_OF[quantity]}."]


def parameters(look: Look, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """Gamma and beta, sorted."""
    gamma, beta, _ = parameters_of(look, name)
    shown = pd.DataFrame({"dimension": np.arange(len(gamma)), "gamma": gamma, "beta": beta})
    chart(
        gain_curves(gamma, beta, palette=look.palette, title=f"{name}: gamma and beta, sorted", height=look.height),
        key="gains",
        alt=f"Gamma and beta of {name}, sorted",
    )
    return shown, [f"LayerNorm: {RULE}. Gamma and beta are learned, one of each a dimension; a fresh norm has 1 and 0."]


def _formula(before: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float, shown: pd.DataFrame) -> list[str]:
    terms = token_terms(before, gamma, beta, eps)
    first = shown.iloc[0]
    named = ", ".join(
        f"{int(each['dimension'])} ({format_number(100 * each['share_of_variance'])} %)"
        for _, each in shown.head(NAMED).iterrows()
    )
    number = format_number
    return [
        f"Dimensions with most of the variance: {named}.",
        f"For dimension {int(first['dimension'])}: ({number(first['before'])} − {number(terms.mean)}) / "
        f"√({number(terms.variance)} + {number(eps)}) · {number(first['gamma'])} + {number(first['beta'])} = "
        f"{number(first['after'])}.",
        "eps is of no weight here: the variance is far larger."
        if terms.variance > 1e4 * eps
        else "eps matters here: the variance is not far larger.",
    ]
