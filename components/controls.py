"""The controls: sidebar and text box in, one validated request out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import streamlit as st

from components import page, state
from components.address import DEFAULT_TEXT, MAX_CHARACTERS, MAX_FF, MAX_PAD, MAX_WIDTH
from components.labels import shorten, visible
from components.request import TRAINED, Request
from explorer import PRESETS, Model
from explorer.config import CLASSROOM, LIMITS, divisors
from explorer.device import available
from explorer.weights.seeded import MAX_SEED

SOURCES: Final = {"minilm": "Trained MiniLM", "minilm-preln": "Trained MiniLM", "built": "Built from scratch"} | {
    "lab": "Trained in the laboratory"
}
TWINS: Final = {"minilm": "Post-LN (published)", "minilm-preln": "Pre-LN (our twin)"}
PLACEMENTS: Final = {"post": "Post-LN", "pre": "Pre-LN"}
ACTIVATIONS: Final = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}
POSITIONS: Final = {"sinusoidal": "Sinusoidal", "learned": "Learned", "none": "None"}
FINAL_NORMS: Final = {"auto": "As the placement asks", "true": "On", "false": "Off"}
INITIALISATIONS: Final = {"xavier": "Xavier uniform", "normal": "Normal (0, 0.02)"}
COLOUR_OF_WEIGHTS: Final = "Colour of weights, from 0 to 1"
SCALES: Final = {"linear": "Linear", "sqrt": "Square root", "log": "Logarithmic"}
UNITS: Final = {"tokens": "Tokens, as the encoder sees them", "words": "Words, as typed"}
SPECIAL: Final = {
    "shown": "Shown",
    "hidden": "Hidden, weights as they are",
    "renormalised": "Hidden, rows made to sum to 1",
}
PAIR_PARTS: Final = {
    "all": "All of it",
    "aa": "A looks at A",
    "ab": "A looks at B",
    "ba": "B looks at A",
    "bb": "B looks at B",
}
SIDES: Final = {"right": "Right", "left": "Left"}
DIRECTIONS: Final = {False: "Bidirectional", True: "Causal"}
ABOUT_A: Final = "Then change anything. Every view shows A, B (what the controls ask for) and their difference."
ABOUT_BOTH: Final = "Pre-LN beside Post-LN, in every view: the same text, all else held, one scale."
ABOUT_KEPT: Final = "Two runs are compared already, A and B. Forget A to compare the placements."
ABOUT_CAUSAL: Final = "Causal: a token looks at itself and at what stands before it, as in a decoder."
NUMBERS: Final = {
    "float32": "float32",
    "float64": "float64, double",
    "bfloat16": "bfloat16, half",
    "float16": "float16, half",
}
DEVICES: Final = {"auto": "Automatic", "cpu": "CPU", "cuda": "CUDA GPU", "mps": "Apple GPU"}
MAX_HEADS: Final = 128
"""The narrowest tile that the attention grid can draw on a small screen is one pixel of a head."""
BUILT_PRESETS: Final = ("classroom", "paper base")


def text_box() -> None:
    """The sentences, as typed."""
    state.draw(
        "text",
        st.text_area,
        "Sentences, one a line; A [SEP] B is a pair. Ctrl+Enter runs them.",
        fit=lambda text: text[:MAX_CHARACTERS],
        max_chars=MAX_CHARACTERS,
        height=84,
        placeholder=DEFAULT_TEXT,
    )


def sidebar() -> None:
    """Everything but the text."""
    with st.sidebar:
        st.html('<p class="name">Encoder Explorer</p>')
        source = _source()
        if source == "lab":
            _laboratory_encoder()
        elif source in TRAINED:
            _trained_encoder(source)
        else:
            _built_encoder()
        st.markdown("**Padding**")
        _number("pad_to", "Pad to", 0, MAX_PAD, help="Number of tokens. 0 pads to the longest sentence.")
        state.draw(
            "mask",
            st.toggle,
            "Hide padding (mask)",
            fit=bool,
            help="Off: padding is attended to like any token. That is what the mask is for.",
        )
        with st.expander("Padding side, direction, device"):
            choice("pad_side", "Padding side", SIDES)
            choice("causal", "Attention", DIRECTIONS, widget=st.segmented_control, required=True, help=ABOUT_CAUSAL)
            here = {key: DEVICES[key] for key in ("auto", *sorted(available()))}
            choice("device", "Run on", here, instead="cpu")
            choice("precision", "Numbers", NUMBERS)
        _compare(source)


def _compare(source: str) -> None:
    """Two runs side by side: what is kept as A and what the controls ask for, or both placements."""
    st.markdown("**Compare**")
    kept = bool(state.get("a"))
    if source != "lab":
        state.draw(
            "beside",
            st.toggle,
            "Show both placements",
            fit=bool,
            disabled=kept,
            help=ABOUT_KEPT if kept else ABOUT_BOTH,
        )
    with st.container(horizontal=True, gap="small"):
        if kept:
            st.button("Swap A and B", key="swap", on_click=state.swap)
            st.button("Forget A", key="forget_a", on_click=state.forget_a)
        st.button("Keep B as A" if kept else "Keep this run as A", key="keep_a", on_click=state.keep_as_a, help=ABOUT_A)


def request() -> Request:
    """What the reader asks for now.

    Raises:
        ConfigError: If the architecture cannot be built.
    """
    sidebar()
    text_box()
    return state.request_now()


def view_picker(names: Mapping[str, str]) -> str:
    """Which view is shown."""
    return choice("view", "View", names, widget=st.segmented_control, label_visibility="collapsed", required=True)


def colour_options() -> None:
    """How the weights of two runs are coloured."""
    with st.popover("Options"):
        choice("scale", COLOUR_OF_WEIGHTS, SCALES)


def attention_options(*, pair: bool) -> None:
    """How attention is shown: colours, words, special tokens, and the parts of a sentence pair where there is one."""
    with st.popover("Options"):
        choice("scale", COLOUR_OF_WEIGHTS, SCALES)
        choice("units", "Rows and columns", UNITS)
        choice("special", "Special tokens [CLS] and [SEP]", SPECIAL)
        if pair:
            choice("pair", "Part of the sentence pair", PAIR_PARTS)


def sentence_picker(sentences: Sequence[str], lines: Sequence[int]) -> int:
    """Which sentence of the batch is looked at, named by its line. Nothing is drawn where there is only one."""
    if len(sentences) == 1:
        if state.get("sentence") > 0:
            state.refuse_link("sentence", 0)
            state.keep("sentence", 0)
        return 0
    return state.draw(
        "sentence",
        st.selectbox,
        "Sentence",
        list(range(len(sentences))),
        fit=_within(0, len(sentences) - 1),
        bounds=(*sentences, *lines),
        format_func=lambda row: f"{lines[row]}: {shorten(visible(sentences[row]), 60)}",
        label_visibility="collapsed",
    )


def _source() -> str:
    loaded = state.loaded_source()
    found = state.trained(loaded)
    if not isinstance(found, Model):
        page.note(str(found))
        offered = ["built"]
    else:
        offered = [loaded, "built"]
    if state.kept_trained():
        offered.append("lab")
    return choice("source", "Encoder", {name: SOURCES[name] for name in offered}, on_change=_source_changed)


def _source_changed() -> None:
    """Each source keeps its own number of layers."""
    state.swap_layers(state.now("source"))


def _trained_encoder(source: str) -> None:
    """MiniLM: the number of layers to run and the placement of the norms are free. The rest is shown, and fixed."""
    whole = TRAINED[source]
    _layers("Layers (run the first)", whole.n_layers, whole.n_layers)
    st.selectbox("Heads", [str(whole.n_heads)], disabled=True, key="fixed Heads")
    names = {label: name for name, label in TWINS.items()}
    state.choose_elsewhere(
        "placement",
        "Norm placement",
        list(names),
        TWINS[source],
        lambda label: state.put("source", names[label]),
        labelled=True,
    )
    st.caption(
        f"Trained weights fix the rest: width {whole.d_model}, feed-forward {whole.d_ff:,}, "
        f"{ACTIVATIONS[whole.activation]}, {POSITIONS[whole.positions].lower()} positions, "
        f"{'a' if whole.final_norm else 'no'} final norm. Build from scratch to change it."
    )


def _laboratory_encoder() -> None:
    """What was trained in the laboratory: nothing of it is free."""
    kept = state.kept_trained()
    assert kept is not None  # else it is not offered
    _, trained = kept
    config = trained.model.config
    fixed = {"Layers": config.n_layers, "Heads": config.n_heads, "Norm placement": PLACEMENTS[config.norm_placement]}
    for label, value in fixed.items():
        st.selectbox(label, [str(value)], disabled=True, key=f"laboratory {label}")
    st.caption(f"{trained.settings.task.asks} Type letters.")


def _built_encoder() -> None:
    _layers("Layers", LIMITS["n_layers"][1], CLASSROOM.n_layers)
    d_model = state.now("d_model")  # its control comes further down
    heads = [divisor for divisor in divisors(d_model) if divisor <= MAX_HEADS]
    state.draw(
        "heads",
        st.selectbox,
        "Heads",
        heads,
        fit=lambda wanted: min(heads, key=lambda n: (abs(n - wanted), n)),
        bounds=d_model,
        help=f"Only divisors of the model width ({d_model}) are offered, up to {MAX_HEADS}.",
    )
    choice("norm", "Norm placement", PLACEMENTS)
    with st.expander("Widths, activation, positions, seed"):
        st.selectbox(
            "Start from",
            BUILT_PRESETS,
            index=None,
            placeholder="Choose a preset",
            format_func=str.capitalize,
            key="preset",
            on_change=_apply_preset,
        )
        _number("d_model", "Model width", 1, MAX_WIDTH)
        _number("d_ff", "Feed-forward width", 1, MAX_FF)
        choice("activation", "Activation", ACTIVATIONS)
        choice("positions", "Positions", POSITIONS)
        choice("final_norm", "Final norm", FINAL_NORMS)
        choice("init", "Initial weights", INITIALISATIONS)
        _number("seed", "Seed", 0, MAX_SEED)


def _layers(label: str, most: int, usual: int) -> None:
    n_layers = state.draw(
        "layers",
        st.slider,
        label,
        fit=lambda wanted: min(max(wanted or usual, 1), most),
        bounds=(label, most),
        min_value=1,
        max_value=most,
    )
    state.keep("layers", 0 if n_layers == usual else n_layers)


def _apply_preset() -> None:
    """Puts the preset's values into the controls; they stay free to change."""
    name = state.take("preset")
    if name is None:
        return
    config = PRESETS[name]
    values = {
        "layers": config.n_layers,
        "heads": config.n_heads,
        "d_model": config.d_model,
        "d_ff": config.d_ff,
        "activation": config.activation,
        "norm": config.norm_placement,
        "positions": config.positions,
        "final_norm": "auto",
    }
    for key, value in values.items():
        state.put(key, value)


def choice(
    key: str,
    label: str,
    options: Mapping[Any, str],
    *,
    widget: Callable[..., Any] = st.selectbox,
    instead: Any = None,
    **kwargs: Any,
) -> Any:
    """One of some values, shown under their labels. `instead`, or the first, stands in for one that is not offered."""
    stand_in = next(iter(options)) if instead is None else instead
    return state.draw(
        key,
        widget,
        label,
        list(options),
        fit=lambda value: value if value in options else stand_in,
        bounds=tuple(options),
        format_func=options.__getitem__,
        **kwargs,
    )


def part_elsewhere(parameter: str, key: str, options: Mapping[str, str]) -> str:
    """Which part of a view of two runs is shown, under the parameter of the view of one, which may be any part of that.

    The first stands in for a part that is not offered here; the parameter keeps it.
    """
    kept = state.get(parameter)
    wanted = kept if kept in options else next(iter(options))
    if st.session_state.get(key) != wanted:
        st.session_state[key] = wanted
    st.segmented_control(
        "Show",
        list(options),
        default=wanted,
        format_func=options.__getitem__,
        key=key,
        on_change=lambda: state.put(parameter, st.session_state[key]),
        label_visibility="collapsed",
        required=True,
    )
    return wanted


def _number(key: str, label: str, low: int, high: int, **kwargs: Any) -> int:
    return state.draw(
        key, st.number_input, label, fit=_within(low, high), min_value=low, max_value=high, step=1, **kwargs
    )


def _within(low: int, high: int) -> Any:
    return lambda value: min(max(value, low), high) if isinstance(value, int) else low
