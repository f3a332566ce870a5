"""All heads of the sentence, with a score of each where one is chosen."""

from typing import Final

import numpy as np

from components import controls, state
from components.attention_grid import GridScore, attention_grid, pack
from components.panels.attention.display import Display
from components.panels.look import Look
from explorer.stats.heads import SCORES

SCORE_CHOICES: Final = {"none": "Score in the grid: none"} | {name: score.label for name, score in SCORES.items()}


def score_picker(look: Look) -> GridScore | None:
    """The score that the grid carries, if one is chosen."""
    name = controls.choice("score", "Score in the grid", SCORE_CHOICES, label_visibility="collapsed", width=210)
    return None if name == "none" else grid_score(look, name)


def about_score() -> str:
    """What the numbers in the grid are, if there are any."""
    name = state.get("score")
    return "" if name == "none" else f"Numbers in the grid, {SCORES[name].label}: {SCORES[name].formula}."


def grid(
    look: Look, display: Display, *, score: GridScore | None, off: frozenset[tuple[int, int]] = frozenset()
) -> None:
    """All heads. Choosing one moves the choice in every view."""

    run = look.run

    def shown(layer: int) -> np.ndarray:
        return display.apply(run.trace.pattern(layer)[look.sentence])[0]

    def make() -> bytes:
        patterns = [shown(layer) for layer in range(run.config.n_layers)]
        return pack(
            patterns,
            tokens=display.row_names,
            keys=display.col_names,
            query_padding=display.row_padding,
            key_padding=display.col_padding,
            masked=run.use_mask,
        )

    attention_grid(
        state.payload(look.answer, look.sentence, ("grid", display.key), make),
        selected=(look.layer, look.head),
        on_pick=lambda layer, head: state.put("sel", (layer, head)),
        height=look.height,
        score=score,
        off=off,
        exact=lambda layer, head: shown(layer)[head],
    )


def grid_score(look: Look, name: str) -> GridScore:
    """A score of every head. Weights run to 1, entropy to the largest that is possible, distance to the largest."""
    table = state.head_scores(look.answer, look.sentence)
    values = table.pivot(index="layer", columns="head", values=name).to_numpy()
    n_keys = int((~look.padding).sum()) if look.run.use_mask else len(look.tokens)
    high = {"entropy": np.log(max(n_keys, 2)), "distance": max(float(np.nanmax(values)), 1.0)}.get(name, 1.0)
    return GridScore(label=SCORES[name].label, values=values, high=float(high))
