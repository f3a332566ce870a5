"""Sentence vectors: the mean without padding, the mean that counts it, and [CLS]."""

from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import state
from components.panels.look import Look
from components.panels.padding.chosen import Shown, lengths_of, width_for
from components.panels.residual.sentences import cosine_map, sentence_names
from components.theme import format_number
from explorer.stats.residual import SentenceVectors, cosine, cosine_matrix, l2_norm, sentence_vectors

AROUND: Final = 160
"""Height of a matrix without its cells, in CSS pixels."""
LARGEST: Final = 96
"""Height of its largest cells."""


def show(look: Look) -> Shown:
    """Cosines between the sentences by the right mean and by the one that counts padding. The run is masked."""
    width, side = width_for(look, every=True), state.now("padded_side")
    masked, unmasked = state.padded_batch(look.answer, width, side)
    right, wrong = _vectors(masked), _vectors(unmasked)
    with_columns = zip(
        st.columns(2),
        (
            ("pool_right", "Mean of real tokens", right.mean),
            ("pool_wrong", "Mean, padding counted", right.mean_with_pads),
        ),
        strict=True,
    )
    for column, (key, title, vectors) in with_columns:
        with column:
            # Few sentences need no more height than their cells.
            height = min(look.height, AROUND + LARGEST * len(vectors))
            cosine_map(look, masked, cosine_matrix(vectors), key=key, title=title, file=title, height=height)
    table = errors(look, width, right, wrong)
    return Shown(table, _said(look, width, right, table), {"Vectors as CSV": lambda: _all_vectors(look, right)})


def _vectors(answer: state.Answer) -> SentenceVectors:
    return sentence_vectors(answer.run.output, answer.run.batch.key_padding_mask.numpy())


def errors(look: Look, width: int, right: SentenceVectors, unmasked: SentenceVectors) -> pd.DataFrame:
    """One row a sentence: how far each wrong vector is from the right one, as cosine and as L2 distance."""
    lengths = np.array(lengths_of(look))
    wrong = {
        "pads": (right.mean_with_pads, right.mean),
        "unmasked": (unmasked.mean, right.mean),
        "both": (unmasked.mean_with_pads, right.mean),
        "cls": (unmasked.cls, right.cls),
    }
    columns = {}
    for name, (vectors, true) in wrong.items():
        columns[f"{name}_cosine"] = cosine(true, vectors)
        columns[f"{name}_distance"] = l2_norm(vectors - true)
    return pd.DataFrame(
        {"sentence_text": sentence_names(look, 60), "n_tokens": lengths, "n_padding": width - lengths, **columns}
    )


def _all_vectors(look: Look, right: SentenceVectors) -> pd.DataFrame:
    """Each vector of each sentence, not divided by its length."""
    frames = []
    for pooling in ("mean", "mean_with_pads", "cls"):
        values = getattr(right, pooling)
        table = pd.DataFrame(values, columns=[f"d{dimension}" for dimension in range(values.shape[1])])
        table.insert(0, "pooling", pooling)
        table.insert(0, "sentence_text", list(look.run.batch.sentences))
        frames.append(table)
    return pd.concat(frames, ignore_index=True)


def _said(look: Look, width: int, right: SentenceVectors, table: pd.DataFrame) -> list[str]:
    if not table["n_padding"].any():
        return [f"Every sentence fills all {width} places: there is no padding that a mean could count."]
    number = format_number
    worst = table.iloc[int(table["pads_distance"].to_numpy().argmax())]
    line = worst["sentence_text"].partition(":")[0]
    said = [
        f"All sentences are padded to {width} tokens, and the encoder ran with its mask: every real token is right. "
        "The mean is taken after it, and needs the mask again.",
        f"Counting the padding is worst for sentence {line}: with {int(worst['n_padding'])} padding tokens beside "
        f"{int(worst['n_tokens'])} real ones its vector has a cosine of {number(worst['pads_cosine'])} with the right "
        f"one, and lies {number(worst['pads_distance'])} away from it.",
    ]
    count = len(table)
    if count > 1:
        pairs = np.triu_indices(count, k=1)
        moved = np.abs(cosine_matrix(right.mean_with_pads) - cosine_matrix(right.mean))[pairs]
        first, second = pairs[0][moved.argmax()], pairs[1][moved.argmax()]
        lines = look.answer.lines
        before, after = (float(cosine_matrix(vectors)[pairs].mean()) for vectors in (right.mean, right.mean_with_pads))
        said.append(
            f"The mean cosine between two different sentences goes from {number(before)} to {number(after)}"
            f"{': what is padded most comes to look alike' if after > before else ''}."
        )
        said.append(
            f"Cosines between sentences move by up to {number(float(moved.max()))} (sentences {lines[first]} and "
            f"{lines[second]})."
        )
    return [
        *said,
        "[CLS] is one real token: with the mask no padding reaches it, so no pooling can go wrong. Without the mask it "
        f"is off by up to {number(float(table['cls_distance'].max()))}.",
    ]
