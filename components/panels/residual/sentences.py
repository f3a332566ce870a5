"""What becomes of the stream: one vector a sentence, and how alike the sentences are."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd

from components import controls, state
from components.labels import shorten, visible
from components.matrix import Matrix, matrix_canvas, pack_matrix
from components.panels.look import Look
from components.panels.residual.checkpoints import Checkpoints
from components.state import Answer
from components.theme import format_number
from explorer.stats.residual import SentenceVectors, cosine_matrix, sentence_vectors

POOLINGS: Final = {"mean": "Mean of tokens", "cls": "[CLS] token"}

TITLES: Final = {"mean": "Sentences, by the mean of their tokens", "cls": "Sentences, by their [CLS]"}


def pooling_picker() -> None:
    """How a sentence becomes one vector."""
    controls.choice("pooling", "Sentence vector", POOLINGS, label_visibility="collapsed", width=180)


def show(look: Look, points: Checkpoints, stream: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The cosine between every two of the typed sentences."""
    pooling = state.get("pooling")
    cosines = cosine_matrix(getattr(_vectors(look), pooling))
    cosine_map(look, look.answer, cosines, key="sentences", title=TITLES[pooling], file=f"sentences-{pooling}")
    return _pairs(look, cosines), _said(look, pooling, cosines)


def cosine_map(
    look: Look,
    answer: Answer,
    cosines: np.ndarray,
    *,
    key: str,
    title: str,
    file: str,
    height: int | None = None,
) -> None:
    """The cosine between every two sentences of a run of the page's text. A click chooses a sentence."""
    names = sentence_names(look, 24)

    def make() -> bytes:
        return pack_matrix(
            Matrix(
                values=cosines,
                rows=names,
                cols=names,
                title=title,
                row_title="sentence",
                col_title="sentence",
                phrase=("", " and ", ": cosine "),
                unit="cosine",
                low=-1.0,
                high=1.0,
                written=True,
                chosen_row=look.sentence,
                file=file,
            )
        )

    matrix_canvas(
        state.payload(answer, look.sentence, (key, file, answer.lines), make),
        key=key,
        height=height or look.height,
        on_pick=lambda first, second: state.put("sentence", second if first is None else first),
    )


def sentence_names(look: Look, most: int) -> list[str]:
    """The line of each sentence, and its first letters."""
    return [f"{line}: {shorten(visible(text), most)}" for line, text in _lines(look)]


def downloads(look: Look, part: str) -> dict[str, Callable[[], pd.DataFrame]]:
    """The vectors themselves, where sentences are shown."""
    if part != "sentences":
        return {}

    def vectors(pooling: str) -> pd.DataFrame:
        values = getattr(_vectors(look), f"{pooling}_unit")
        table = pd.DataFrame(values, columns=[f"d{dimension}" for dimension in range(values.shape[1])])
        table.insert(0, "sentence_text", [text for _, text in _lines(look)])
        return table

    return {
        "Mean vectors as CSV": lambda: vectors("mean"),
        "CLS vectors as CSV": lambda: vectors("cls"),
    }


def _vectors(look: Look) -> SentenceVectors:
    return sentence_vectors(look.run.output, look.run.batch.key_padding_mask.numpy())


def _lines(look: Look) -> list[tuple[int, str]]:
    return list(zip(look.answer.lines, look.run.batch.sentences, strict=True))


def _pairs(look: Look, cosines: np.ndarray) -> pd.DataFrame:
    """One row two different sentences, the most alike first; the sentence with itself where there is one alone."""
    texts = [f"{line}: {text}" for line, text in _lines(look)]
    first, second = np.triu_indices(len(texts), k=1 if len(texts) > 1 else 0)
    table = pd.DataFrame(
        {
            "first_sentence": [texts[i] for i in first],
            "second_sentence": [texts[i] for i in second],
            "sentence_cosine": cosines[first, second],
        }
    )
    return table.sort_values("sentence_cosine", ascending=False, kind="stable", ignore_index=True)


def _said(look: Look, pooling: str, cosines: np.ndarray) -> list[str]:
    made = {
        "mean": "A sentence's vector is the mean of its real tokens in the output: padding is left out.",
        "cls": "A sentence's vector is that of its [CLS] token in the output.",
    }[pooling]
    trained = (
        "This encoder was trained so that the mean says what a sentence means."
        if look.answer.model.report.trained
        else "This encoder is untrained, so likeness of meaning is not to be expected."
    )
    if len(cosines) == 1:
        return [made, "Type a second sentence on a line of its own to compare.", trained]
    pairs = _pairs(look, cosines).iloc[0]
    return [
        made,
        f"Most alike, at a cosine of {format_number(pairs['sentence_cosine'])}: {visible(pairs['first_sentence'])} and "
        f"{visible(pairs['second_sentence'])}",
        trained,
    ]
