"""The frame of the page: its title and width, its style, the status line and the token ribbon."""

from collections.abc import Sequence
from html import escape
from typing import Final

import streamlit as st

from components import ribbon, state
from components.labels import as_sentence, markdown_escape, visible
from components.request import RUNS, Pair
from components.state import Answer
from components.theme import format_number, format_seconds, palette
from explorer import Run

NAMES: Final = {
    "minilm": "all-MiniLM-L6-v2, trained",
    "minilm-preln": "Pre-LN twin of all-MiniLM-L6-v2, trained",
    "built": "Built from scratch, untrained",
    "lab": "Trained in the laboratory",
}
"""The sources in the status line."""
ABOVE_AND_BELOW: Final = 360
"""Height that the rest of the page takes, in CSS pixels: what a figure must leave free to be seen whole."""

STYLE: Final = """<style>
[data-testid="stMainBlockContainer"] { padding: 1.6rem 1.25rem 2rem; }
[data-testid="stMainBlockContainer"] > [data-testid="stVerticalBlock"] { gap: .5rem; }
[data-testid="stHeader"] { background: transparent; height: 2rem; min-height: 2rem; pointer-events: none; }
[data-testid="stHeader"] button { pointer-events: auto; }
[data-testid="stSidebarHeader"] { height: 2rem; min-height: 2rem; margin: 0; padding: .25rem .5rem 0; }
[data-testid="stSidebarUserContent"] { padding-bottom: 2rem; }
[data-testid="stSidebarUserContent"] [data-testid="stVerticalBlock"] { gap: .6rem; }
.status { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font-variant-numeric: tabular-nums; font-size: .95rem; }
.note { border-left: 3px solid ACCENT; padding-left: .5rem; font-size: .95rem; }
.js-plotly-plot text { font-variant-numeric: tabular-nums; }
.name { font-size: 1.15rem; font-weight: 650; margin: 0; padding: 0; }
</style>"""

_WATCH_JS = """
export default function ({ data, parentElement, setTriggerValue }) {
  // The server learns of the theme with each rerun, but a change of theme alone causes none; of the height it knows
  // nothing. So what it drew for is compared with what is there, and told once where they differ.
  const steps = data.steps;
  let timer = 0;
  const look = () => {
    const style = getComputedStyle(parentElement.host ?? parentElement);
    const pen = document.createElement("canvas").getContext("2d");
    pen.fillStyle = style.getPropertyValue("--st-background-color").trim();
    const rgb = parseInt(pen.fillStyle.slice(1), 16);
    const luminance = 0.299 * ((rgb >> 16) & 255) + 0.587 * ((rgb >> 8) & 255) + 0.114 * (rgb & 255);
    const kind = luminance > 140 ? "light" : "dark";
    const height = steps.filter((step) => step + data.around <= window.innerHeight).pop() ?? steps[0];
    if (kind !== data.kind || height !== data.height) setTriggerValue("changed", { height });
  };
  const later = () => { clearTimeout(timer); timer = setTimeout(look, 200); };
  window.addEventListener("resize", later);
  look();
  return () => { clearTimeout(timer); window.removeEventListener("resize", later); };
}
"""

_screen = st.components.v2.component("screen", html="<i></i>", js=_WATCH_JS)


def set_up() -> None:
    """Title, width and style of the page."""
    st.set_page_config(page_title="Encoder Explorer", layout="wide", initial_sidebar_state=300)
    st.html(STYLE.replace("ACCENT", palette(state.theme_kind()).accent))


def watch_screen() -> None:
    """Draws figures anew when the reader changes between light and dark, and larger where the window is high."""
    _screen(
        key="screen",
        data={
            "kind": state.theme_kind(),
            "height": state.figure_height(),
            "steps": list(state.FIGURE_HEIGHTS),
            "around": ABOVE_AND_BELOW,
        },
        height=1,
        on_changed_change=state.screen_changed,
    )


def note(text: str) -> None:
    """Something the reader should know, in one line. Shown as it is: a link or a sentence in it is not formatted."""
    st.html(f'<div class="note" role="note">{escape(text)}</div>')


def notes_of_a(kept: Answer | None, answer: Answer) -> list[str]:
    """What the reader should know of A, where it is not said of B as well."""
    return [] if kept is None else [f"Run A: {note}" for note in kept.notes if note not in answer.notes]


def refusal(error: Exception) -> None:
    """Why there is no picture, in place of it."""
    st.error(markdown_escape(as_sentence(str(error))))


def status(answer: Answer, pair: Pair | None) -> None:
    """What was run, one line a run."""
    if pair is None or pair.names != RUNS:
        status_line(answer)
        return
    for name, shown in zip(RUNS, (state.answer(pair.a, paired=True), answer), strict=True):
        status_line(shown, name=name)


def status_line(answer: Answer, *, name: str = "") -> None:
    """Encoder, parameters, tokens, device and time, in one line. Of A and B the view of shapes has the parameters."""
    run, batch, config = answer.run, answer.run.batch, answer.run.config
    placement = "Pre-LN" if config.norm_placement == "pre" else "Post-LN"
    padding = f", {format_number(batch.n_padding)} padding" if batch.n_padding else ", no padding"
    mask = "" if run.use_mask or not batch.n_padding else " <b>(mask off)</b>"
    parts = [
        f"<b>{name + ' · ' if name else ''}{NAMES[answer.request.source]}</b>",
        f"{_count(config.n_layers, 'layer')} × {_count(config.n_heads, 'head')}, {placement}",
        *([] if name else [f"{format_number(answer.model.report.n_parameters)} parameters"]),
        f"{format_number(batch.n_real)} real tokens{padding}{mask}",
        *(["<b>causal</b>"] if run.causal else []),
        *([f"<b>{run.precision}</b>"] if run.precision != "float32" else []),
        *([f"<b>{_count(len(run.heads_off), 'head')} off</b>"] if run.heads_off else []),
        f"{run.device.upper()}, {format_seconds(run.seconds)}",
    ]
    st.html(f'<div class="status" role="status">{"".join(f"<span>{part}</span>" for part in parts)}</div>')


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def origin(answer: Answer, pair: Pair | None) -> None:
    """Where the parameters come from, and what of the file was not used: of what the controls ask for, or of both."""
    if pair is None:
        shown = {"": answer}
    else:
        both = (state.answer(asked, paired=True) for asked in (pair.a, pair.b))
        shown = {f"{name}: ": found for name, found in zip(pair.names, both, strict=True)}
    for name, found in shown.items():
        report = found.model.report
        checked = f" SHA-256 {report.sha256[:16]}…, checked." if report.sha256 else ""
        unused = f" In the file but not part of the encoder: {', '.join(report.unused)}." if report.unused else ""
        st.caption(markdown_escape(f"{name}{report.source}{checked}{unused}"))


def token_ribbon(run: Run, lines: Sequence[int], *, sentence: int, token: int) -> None:
    """The batch as the encoder reads it, one row a sentence. A click chooses sentence and token for all views."""
    batch = run.batch
    rows = []
    for names, offsets, padding in zip(batch.tokens, batch.offsets, batch.key_padding_mask.tolist(), strict=True):
        kinds = [
            "pad" if padded else "special" if start == end else "word"
            for (start, end), padded in zip(offsets, padding, strict=True)
        ]
        rows.append([(visible(name), kind) for name, kind in zip(names, kinds, strict=True)])
    ribbon.token_ribbon(rows, lines, sentence=sentence, token=token, on_pick=state.choose_token)
