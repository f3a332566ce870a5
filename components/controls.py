"""The controls: sidebar and text box in, one validated request out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import streamlit as st

from components import page, state
from components.address import DEFAULT_TEXT, MAX_CHARACTERS, MAX_FF, MAX_PAD, MAX_WIDTH
from components.labels import shorten, visible
from components.request import TRAINED, Request, trained_config
from explorer import PRESETS, EncoderConfig, Model
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
DEVICES: Final = {"auto": "Automatic", "cpu": "CPU", "cuda": "CUDA GPU", "mps": "Apple GPU"}
MAX_HEADS: Final = 128
"""The narrowest tile that the attention grid can draw on a small screen is one pixel of a head."""
BUILT_PRESETS: Final = ("classroom", "paper base")


def text_box() -> str:
    """The sentences, as typed."""
    return state.draw(
        "text",
        st.text_area,
        "Sentences, one a line; A [SEP] B is a pair. Ctrl+Enter runs them.",
        fit=lambda text: text[:MAX_CHARACTERS],
        max_chars=MAX_CHARACTERS,
        height=84,
        placeholder=DEFAULT_TEXT,
    )


def sidebar() -> dict[str, Any]:
    """Everything but the text: the fields of a request."""
    with st.sidebar:
        st.html('<p class="name">Encoder Explorer</p>')
        source = _source()
        if source == "lab":
            config, seed, init = _laboratory_encoder()
        else:
            config, seed, init = _trained_encoder(source) if source in TRAINED else _built_encoder()
            state.draw(
                "beside",
                st.toggle,
                "Show both placements",
                fit=bool,
                help="Pre-LN beside Post-LN, in every view: the same text, all else held, one scale.",
            )
        st.markdown("**Padding**")
        pad_to = _number("pad_to", "Pad to", 0, MAX_PAD, help="Number of tokens. 0 pads to the longest sentence.")
        mask = state.draw(
            "mask",
            st.toggle,
            "Hide padding (mask)",
            fit=bool,
            help="Off: padding is attended to like any token. That is what the mask is for.",
        )
        with st.expander("Padding side and device"):
            pad_side = choice("pad_side", "Padding side", SIDES)
            here = {key: DEVICES[key] for key in ("auto", *sorted(available()))}
            device = choice("device", "Run on", here, instead="cpu")
    return {
        "source": source,
        "config": config,
        "seed": seed,
        "init": init,
        "pad_to": pad_to,
        "pad_side": pad_side,
        "mask": mask,
        "device": device,
    }


def request() -> Request:
    """What the reader asks for now.

    Raises:
        ConfigError: If the architecture cannot be built.
    """
    fields = sidebar()
    return Request(text=text_box(), **fields)


def view_picker(names: Mapping[str, str]) -> str:
    """Which view is shown."""
    return choice("view", "View", names, widget=st.segmented_control, label_visibility="collapsed", required=True)


def attention_options(*, pair: bool) -> None:
    """How attention is shown: colours, words, special tokens, and the parts of a sentence pair where there is one."""
    with st.popover("Options"):
        choice("scale", "Colour of weights, from 0 to 1", SCALES)
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


def _trained_encoder(source: str) -> tuple[EncoderConfig, int, str]:
    """MiniLM: the number of layers to run and the placement of the norms are free. The rest is shown, and fixed."""
    whole = TRAINED[source]
    n_layers = _layers("Layers (run the first)", whole.n_layers, whole.n_layers)
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
    return trained_config(source, n_layers), 0, "xavier"


def _laboratory_encoder() -> tuple[EncoderConfig, int, str]:
    """What was trained in the laboratory: nothing of it is free."""
    kept = state.kept_trained()
    assert kept is not None  # else it is not offered
    number, trained = kept
    config = trained.model.config
    fixed = {"Layers": config.n_layers, "Heads": config.n_heads, "Norm placement": PLACEMENTS[config.norm_placement]}
    for label, value in fixed.items():
        st.selectbox(label, [str(value)], disabled=True, key=f"laboratory {label}")
    st.caption(f"{trained.settings.task.asks} Type letters.")
    return config, number, "xavier"


def _built_encoder() -> tuple[EncoderConfig, int, str]:
    n_layers = _layers("Layers", LIMITS["n_layers"][1], CLASSROOM.n_layers)
    d_model = state.now("d_model")  # its control comes further down
    heads = [divisor for divisor in divisors(d_model) if divisor <= MAX_HEADS]
    n_heads = state.draw(
        "heads",
        st.selectbox,
        "Heads",
        heads,
        fit=lambda wanted: min(heads, key=lambda n: (abs(n - wanted), n)),
        bounds=d_model,
        help=f"Only divisors of the model width ({d_model}) are offered, up to {MAX_HEADS}.",
    )
    placement = choice("norm", "Norm placement", PLACEMENTS)
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
        d_ff = _number("d_ff", "Feed-forward width", 1, MAX_FF)
        activation = choice("activation", "Activation", ACTIVATIONS)
        positions = choice("positions", "Positions", POSITIONS)
        final_norm = choice("final_norm", "Final norm", FINAL_NORMS)
        init = choice("init", "Initial weights", INITIALISATIONS)
        seed = _number("seed", "Seed", 0, MAX_SEED)
    config = EncoderConfig(
        n_layers=n_layers,
        n_heads=n_heads,
        d_model=d_model,
        d_ff=d_ff,
        norm_placement=placement,
        activation=activation,
        positions=positions,
        final_norm={"auto": None, "true": True, "false": False}[final_norm],
    )
    return config, seed, init


def _layers(label: str, most: int, usual: int) -> int:
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
    return n_layers


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
    options: Mapping[str, str],
    *,
    widget: Callable[..., Any] = st.selectbox,
    instead: str | None = None,
    **kwargs: Any,
) -> Any:
    """One of some words, shown under their labels. `instead`, or the first, stands in for one that is not offered."""
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


def _number(key: str, label: str, low: int, high: int, **kwargs: Any) -> int:
    return state.draw(
        key, st.number_input, label, fit=_within(low, high), min_value=low, max_value=high, step=1, **kwargs
    )


def _within(low: int, high: int) -> Any:
    return lambda value: min(max(value, low), high) if isinstance(value, int) else low
