"""The same heads the usual way: all of them side by side in one Plotly heatmap, uint8, on a page of its own.

`python -m streamlit run benchmarks/stitched.py`, then `?tokens=64&sentences=3`. Until a sentence is chosen the page
is one line of text and one control: what a Streamlit page costs before it shows anything.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch

import explorer
from benchmarks.case import BUILT, sentence


def stitched(pattern: Sequence[np.ndarray], *, meta: dict[str, int] | None = None) -> go.Figure:
    """One heatmap of all heads, a byte a cell: layers down, heads across, in each of them queries down, keys across.

    `pattern` is one [head, query, key] array a layer. Without names on the axes, of which Plotly draws few in time.
    """
    weights = np.concatenate([np.concatenate(list(heads), axis=1) for heads in pattern], axis=0)
    figure = go.Figure(go.Heatmap(z=np.rint(255 * np.sqrt(weights)).astype(np.uint8), zmin=0, zmax=255))
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(height=430, meta=meta, margin={"l": 30, "r": 0, "t": 10, "b": 30})


@st.cache_resource
def patterns(n_tokens: int, n_sentences: int) -> tuple[np.ndarray, ...]:
    """One array [sentence, head, query, key] a layer, made once for all readers."""
    torch.set_num_threads(1)
    model = explorer.build(BUILT, seed=0)
    run = explorer.run(model, model.batch([sentence(n_tokens, first) for first in range(n_sentences)]))
    return tuple(run.trace.pattern())


def main() -> None:
    """A list of sentences, and the figure of the chosen one."""
    st.text("All heads in one heatmap")
    n_tokens = int(st.query_params.get("tokens", 16))
    n_sentences = int(st.query_params.get("sentences", 1))
    runs = patterns(n_tokens, n_sentences)
    chosen = st.selectbox("Sentence", range(n_sentences), index=None, key="sentence")
    if chosen is not None:
        figure = stitched([heads[chosen] for heads in runs], meta={"sentence": chosen})
        st.plotly_chart(figure, key="stitched", theme=None)


if __name__ == "__main__":
    main()
