"""What is chosen in the padding view: the width, the side, the head; and where a token of the page stands in it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from components import controls, state
from components.address import MAX_PAD
from components.labels import visible
from components.panels.look import Look
from explorer import Batch

SIDES: Final = {"right": "Pads right", "left": "Pads left"}


@dataclass(frozen=True, slots=True)
class Shown:
    """The numbers of a part, how to read them, and what else can be downloaded."""

    table: pd.DataFrame
    said: list[str]
    downloads: dict[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)


def lengths_of(look: Look) -> list[int]:
    """The number of real tokens of each sentence."""
    return (~look.run.batch.key_padding_mask).sum(dim=1).tolist()


def width_for(look: Look, *, every: bool) -> int:
    """The width to which the sentence, or every sentence, is padded: what was asked for, brought into its bounds."""
    lowest, most, usual = _bounds(look, every)
    return min(max(state.now("padded_to") or usual, lowest), most)


def _bounds(look: Look, every: bool) -> tuple[int, int, int]:
    """The smallest and largest width that shows padding, and the one that stands in for 0.

    That is the width of the page's own batch where it pads, else half as much again as the longest sentence.
    """
    lengths = lengths_of(look) if every else [lengths_of(look)[look.sentence]]
    longest = max(lengths)
    most = max(longest, min(look.run.config.max_len, MAX_PAD))
    lowest = min(longest + (min(lengths) == longest), most)
    row = look.run.batch.token_ids.shape[1]
    return lowest, most, min(row if row > min(lengths) else longest + max(1, longest // 2), most)


def padding_pickers(look: Look, *, every: bool) -> None:
    """To how many tokens it is padded, and on which side."""
    lowest, most, usual = _bounds(look, every)
    widths = [0, *range(lowest, most + 1)]
    state.draw(
        "padded_to",
        st.selectbox,
        "Padded to",
        widths,
        fit=lambda wanted: min(max(wanted, lowest), most) if wanted else 0,
        bounds=(lowest, most, usual),
        format_func=lambda width: f"Width {width or usual}{'' if width else ' (usual)'}",
        label_visibility="collapsed",
        width=160,
    )
    controls.choice("padded_side", "Padding side", SIDES, label_visibility="collapsed", width=122)


def head_picker(look: Look) -> None:
    """The head that all views share, chosen from a list."""
    config = look.run.config
    heads = [f"L{layer} H{head}" for layer in range(config.n_layers) for head in range(config.n_heads)]

    def choose(name: str) -> None:
        state.put("sel", divmod(heads.index(name), config.n_heads))

    wanted = f"L{look.layer} H{look.head}"
    state.choose_elsewhere("padding_head", "Head", heads, wanted, choose, width=135)


def ways_of(look: Look) -> state.Ways:
    """The chosen sentence in three ways.

    Raises:
        ExplorerError: If it cannot be run so.
    """
    return state.padded_ways(look.answer, look.sentence, width_for(look, every=False), state.now("padded_side"))


def real_places(padding: np.ndarray) -> np.ndarray:
    """Where the real tokens stand in a row."""
    return np.flatnonzero(~padding)


def padding_of(answer: state.Answer) -> np.ndarray:
    """Which tokens of a batch of one sentence are padding."""
    return answer.run.batch.key_padding_mask[0].numpy()


def names_of(batch: Batch) -> list[str]:
    """The tokens of a batch of one sentence, as they are written on the page."""
    return [visible(token) for token in batch.tokens[0]]


def number_of(look: Look) -> int:
    """Which real token of the sentence is chosen, counted from 0."""
    return int(np.searchsorted(real_places(look.padding), look.token))


def token_chooser(look: Look, padding: np.ndarray) -> Callable[[int | None], None]:
    """What chooses the token of the page that stands at a place of a row with this padding; padding chooses nothing."""
    return partial(_choose, real_places(look.padding), real_places(padding))


def _choose(on_page: np.ndarray, here: np.ndarray, place: int | None) -> None:
    if place is not None and place in here:
        state.put("token", int(on_page[np.searchsorted(here, place)]))
