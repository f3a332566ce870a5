"""What common mistakes would make of one norm: all of them compared, or one switched on at the chosen token."""

from typing import Final

import numpy as np
import pandas as pd

from components import controls, state
from components.figures.layernorm import difference_bars, token_strips
from components.labels import visible
from components.panels.layernorm.names import batch_values_of, parameters_of
from components.panels.layernorm.parts import RULE
from components.panels.look import Look, chart
from components.theme import format_number
from explorer.stats.layernorm import MISTAKES, Mistake, mistakes

CHOICES: Final = {"all": "All mistakes compared"} | {name: what.label for name, what in MISTAKES.items()}


def picker() -> None:
    """Which mistake is switched on."""
    controls.choice("mistake", "Mistake", CHOICES, label_visibility="collapsed", width=215)


def show(look: Look, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """The largest difference that each mistake makes, or what one of them makes of the chosen token."""
    wanted = state.get("mistake")
    padding = look.run.batch.key_padding_mask.numpy()
    made = mistakes(batch_values_of(look, name)[0], *parameters_of(look, name), padding)
    return _compared(look, name, made) if wanted == "all" else _switched_on(look, name, wanted, made[wanted])


def _compared(look: Look, name: str, made: dict[str, Mistake]) -> tuple[pd.DataFrame, list[str]]:
    shown = pd.DataFrame(
        {
            "mistake": [MISTAKES[key].label for key in made],
            "difference": [mistake.difference for mistake in made.values()],
            "formula": [MISTAKES[key].formula for key in made],
        }
    )
    figure = difference_bars(
        shown["mistake"].tolist(),
        shown["difference"].to_numpy(),
        palette=look.palette,
        title=f"{name}: what common mistakes change",
        height=look.height,
    )
    chart(figure, key="mistakes", alt=f"Largest difference that each common mistake makes in {name}")
    return shown, [
        f"Right is {RULE}, with the variance of all features and not of a sample.",
        "Each bar is the largest difference that a mistake makes at a real token of any sentence.",
        "LayerNorm needs no mask: it never looks at another token. BatchNorm averages each feature over all "
        "tokens, so padding that is counted changes every token.",
    ]


def _switched_on(look: Look, name: str, key: str, mistake: Mistake) -> tuple[pd.DataFrame, list[str]]:
    at = (look.sentence, look.token)
    right, wrong = mistake.right[at], mistake.out[at]
    shown = pd.DataFrame(
        {"dimension": np.arange(len(right)), "right": right, "wrong": wrong, "mistake_difference": wrong - right}
    )
    shown = shown.sort_values("mistake_difference", key=np.abs, ascending=False, kind="stable", ignore_index=True)
    token = visible(look.tokens[look.token])
    figure = token_strips(
        right,
        wrong,
        row_names=("right", "with the mistake"),
        palette=look.palette,
        named=shown["dimension"].tolist()[:1] if shown["mistake_difference"].iloc[0] else [],
        title=f"{name}, {token}: {MISTAKES[key].label}",
        height=look.height,
    )
    chart(figure, key="switched", alt=f"One token after {name}, right and with a mistake")
    compared = "BatchNorm over real tokens" if key == "no_mask" else RULE
    return shown, [
        f"Above: {compared}. Below: {MISTAKES[key].formula}.",
        f"The largest difference is {format_number(float(np.abs(wrong - right).max()))} at {token}, and "
        f"{format_number(mistake.difference)} at any real token.",
    ]
