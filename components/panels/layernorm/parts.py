"""One norm opened: at all tokens, at one token, its parameters, and what common mistakes would make of it."""

from typing import Final

import numpy as np
import pandas as pd

from components.figures.layernorm import difference_bars, gain_curves, norm_detail, token_strips
from components.labels import visible
from components.panels.look import Look, chart
from components.theme import format_number
from explorer.loading import Norm
from explorer.stats.layernorm import MISTAKES, mistakes, token_terms, variance_shares

NAMED: Final = 3
"""Dimensions that are named in the figure and the text: those with the largest shares of the variance."""


def norm_name(norm: str, layer: object) -> str:
    """How a norm is called on the page: `L3 norm1`, `embedding norm`, `final norm`."""
    return {"embed": "embedding norm", "final": "final norm"}.get(norm) or f"L{layer} {norm}"


def parse(name: str) -> tuple[Norm, int | None]:
    """The opposite of `norm_name`."""
    where, _, kind = name.rpartition(" ")
    if kind == "norm":
        return "embed" if where == "embedding" else "final", None
    return "norm1" if kind == "norm1" else "norm2", int(where[1:])


def all_tokens(look: Look, shown: pd.DataFrame, name: str) -> None:
    """Mean and standard deviation of each token, entering and leaving."""
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


def one_token(look: Look, shown: pd.DataFrame, name: str) -> None:
    """Every dimension of the chosen token, entering and leaving."""
    before, after = _values(look, name)
    figure = token_strips(
        before,
        after,
        palette=look.palette,
        named=shown["dimension"].tolist()[:NAMED],
        title=f"{name}, {visible(look.tokens[look.token])}",
        height=look.height,
    )
    chart(figure, key="strips", alt=f"Every dimension of one token before and after {name}")


def parameters(look: Look, shown: pd.DataFrame, name: str) -> None:
    """Gamma and beta, sorted."""
    gamma, beta = (shown[column].to_numpy() for column in ("gamma", "beta"))
    chart(
        gain_curves(gamma, beta, palette=look.palette, title=f"{name}: gamma and beta, sorted", height=look.height),
        key="gains",
        alt=f"Gamma and beta of {name}, sorted",
    )


def common_mistakes(look: Look, shown: pd.DataFrame, name: str) -> None:
    """How much each of the common mistakes would change."""
    figure = difference_bars(
        shown["mistake"].tolist(),
        shown["difference"].to_numpy(),
        palette=look.palette,
        title=f"{name}: what common mistakes change",
        height=look.height,
    )
    chart(figure, key="mistakes", alt=f"Largest difference that each common mistake makes in {name}")


def features(look: Look, name: str) -> pd.DataFrame:
    """One row a dimension of the chosen token, the one with the largest share of the variance first."""
    before, after = _values(look, name)
    gamma, beta, _ = _of_model(look, name)
    table = pd.DataFrame(
        {
            "dimension": np.arange(len(before)),
            "before": before,
            "share_of_variance": np.nan_to_num(variance_shares(before)),  # a constant token has no variance to share
            "gamma": gamma,
            "beta": beta,
            "after": after,
        }
    )
    return table.sort_values("share_of_variance", ascending=False, kind="stable", ignore_index=True)


def gains(look: Look, name: str) -> pd.DataFrame:
    """One row a dimension: its gamma and beta."""
    gamma, beta, _ = _of_model(look, name)
    return pd.DataFrame({"dimension": np.arange(len(gamma)), "gamma": gamma, "beta": beta})


def differences(look: Look, name: str) -> pd.DataFrame:
    """One row a common mistake: its formula, and the largest difference to the right one over real tokens."""
    made = mistakes(_batch_values(look, name)[0], *_of_model(look, name), look.run.batch.key_padding_mask.numpy())
    return pd.DataFrame(
        {
            "mistake": [MISTAKES[key].label for key in made],
            "difference": [mistake.difference for mistake in made.values()],
            "formula": [MISTAKES[key].formula for key in made],
        }
    )


def about(look: Look, name: str, part: str, shown: pd.DataFrame) -> list[str]:
    """How to read the right side; for one token with the numbers of its most important dimension in the formula."""
    gamma, beta, eps = _of_model(look, name)
    rule = "out = (x − mean) / √(variance + eps) · gamma + beta, over the features of one token"
    if part == "tokens":
        return [f"LayerNorm: {rule}; here eps is {format_number(eps)}. Padding is left out."]
    if part == "parameters":
        return [f"{rule.capitalize()}. Gamma and beta are learned, one of each a dimension; a fresh norm has 1 and 0."]
    if part == "mistakes":
        return [
            f"Right is {rule}, with the variance of all features and not of a sample.",
            "Each bar is the largest difference that a mistake makes at a real token of any sentence.",
            "LayerNorm needs no mask: it never looks at another token. BatchNorm averages each feature over all "
            "tokens, so padding that is counted changes every token.",
        ]
    terms = token_terms(_values(look, name)[0], gamma, beta, eps)
    first = shown.iloc[0]
    named = ", ".join(
        f"{int(row['dimension'])} ({format_number(100 * row['share_of_variance'])} %)"
        for _, row in shown.head(NAMED).iterrows()
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


def _values(look: Look, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The chosen token before and after this norm, `[d_model]` each."""
    before, after = _batch_values(look, name)
    return before[look.sentence, look.token], after[look.sentence, look.token]


def _batch_values(look: Look, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All tokens of all sentences before and after this norm, `[batch, pos, d_model]` each."""
    trace = look.run.trace
    norm, layer = parse(name)
    if norm == "embed":
        return trace.embedding("norm.in"), trace.embedding("norm.out")
    if norm == "final":
        return trace.final_norm("in"), trace.final_norm("out")
    assert layer is not None
    return trace.norm(norm, "in", layer), trace.norm(norm, "out", layer)


def _of_model(look: Look, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    norm, layer = parse(name)
    return look.answer.model.norm_parameters(norm, layer)
