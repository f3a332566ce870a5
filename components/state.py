"""The only home of session keys, query parameters and what sessions share: models, runs and the gate before them."""

import gc
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd
import streamlit as st
import torch
from streamlit import runtime
from streamlit.runtime.scriptrunner_utils.script_run_context import get_script_run_ctx

import explorer
from components import address
from components.address import NUMBER
from components.cache import BoundedCache
from components.labels import as_sentence
from components.request import RUNS, TRAINED, Pair, Request, existing, placements, request_of
from components.worker import Worker
from explorer import ExplorerError, Model, Run, TextError, WeightsError
from explorer.device import choose
from explorer.lab.trained import Trained
from explorer.proof import Claim
from explorer.proof import proof as prove
from explorer.run import check_memory
from explorer.stats import count_parameters
from explorer.text import Batch, PaddingSide

logger = logging.getLogger(__name__)

MAX_RUN_BYTES: Final = 640 * 2**20
"""A run above this is refused before it starts: 24 layers of 12 heads, 384 wide, fit up to 512 tokens."""
RUNS_BYTES: Final = 2**30
"""All runs that are kept for all sessions."""
MAX_PAIR_RUN_BYTES: Final = RUNS_BYTES // 2
"""Where two runs are compared, both must fit into what is kept: else each click would run one of them anew."""
MAX_MODEL_PARAMETERS: Final = 120_000_000
MAX_SENTENCES: Final = 64
PARALLEL_RUNS: Final = 2
SWITCH: Final = 0.001
"""Seconds after which a busy thread lets another run: so a picture is sent while the script still writes its table."""
FIGURE_HEIGHTS: Final = (430, 520, 620, 720)

_numbers = itertools.count(1)
_gate = threading.BoundedSemaphore(PARALLEL_RUNS)


# What all sessions share ---------------------------------------------------------------------------------------------


Reading = tuple[Batch, tuple[int, ...], tuple[str, ...]]
"""The sentences as an encoder reads them, their lines, and what to tell the reader where something had to give."""

TOKEN_BYTES: Final = 200
"""About what one token takes in a batch: its id, name, place in the text and flags."""


@dataclass(frozen=True)
class Shared:
    """One for the whole server. Everything in it is read-only or locks itself."""

    models: BoundedCache[Model]
    batches: BoundedCache[Reading]
    runs: BoundedCache[Run]
    payloads: BoundedCache[bytes]
    tables: BoundedCache[pd.DataFrame]
    proofs: BoundedCache[list[Claim]]


@st.cache_resource
def shared() -> Shared:
    """Bounded by number and by bytes, so that memory stays flat however many sentences are typed."""
    return Shared(
        models=BoundedCache(max_entries=8, max_bytes=2**30, size_of=lambda model: 4 * model.report.n_parameters),
        batches=BoundedCache(
            max_entries=256, max_bytes=32 * 2**20, size_of=lambda reading: TOKEN_BYTES * reading[0].token_ids.numel()
        ),
        runs=BoundedCache(max_entries=32, max_bytes=RUNS_BYTES, size_of=lambda run: run.n_bytes),
        payloads=BoundedCache(max_entries=512, max_bytes=128 * 2**20, size_of=len),
        tables=BoundedCache(max_entries=64, max_bytes=16 * 2**20, size_of=lambda kept: int(kept.memory_usage().sum())),
        proofs=BoundedCache(max_entries=64, max_bytes=2**20, size_of=len),
    )


@st.cache_resource
def trained(name: str = "minilm") -> Model | WeightsError:
    """A trained encoder, or the reason why it cannot be had here."""
    try:
        return explorer.load(name)
    except WeightsError as error:
        logger.warning("%s", error)
        return error


@st.cache_resource
def warm() -> None:
    """What the first visitor would otherwise wait for: the trained encoder, and one run through it.

    One thread a product keeps sessions from stalling each other.
    """
    torch.set_num_threads(1)
    sys.setswitchinterval(SWITCH)
    _log_forward_passes()
    model = trained()
    if isinstance(model, Model):
        explorer.run(model, model.batch(["Warm."]))


@st.cache_resource
def settle() -> None:
    """What is alive after the start stays alive: the garbage collector need not look at it again.

    Streamlit calls the collector after every rerun. Nobody waits for this: it goes last.
    """
    gc.collect()
    gc.freeze()


def _log_forward_passes() -> None:
    """One line on the server's log for each forward pass: choosing what to look at must write none."""
    log = logging.getLogger("explorer")
    log.setLevel(logging.INFO)
    if not log.handlers:
        log.addHandler(logging.StreamHandler())


def model_for(request: Request) -> Model:
    """The encoder of this request, shared by all who ask for the same one.

    Raises:
        ExplorerError: If it cannot be built or loaded.
    """
    if request.source in TRAINED:
        model = trained(request.source)
        if isinstance(model, WeightsError):
            raise model
        return shared().models.get(request.model_key, lambda: model.first_layers(request.config.n_layers))
    if request.source == "lab":
        return _trained_here(request.seed).model
    return shared().models.get(request.model_key, lambda: _build(request))


def _build(request: Request) -> Model:
    if (needed := count_parameters(request.config)) > MAX_MODEL_PARAMETERS:
        raise explorer.MemoryLimitError(
            f"This encoder would have {needed:,} parameters, and {MAX_MODEL_PARAMETERS:,} are allowed here. "
            "Choose fewer layers or smaller widths."
        )
    with _gate:
        return explorer.build(request.config, seed=request.seed, init=request.init)


def batch_for(request: Request, model: Model) -> Reading:
    """The sentences as this encoder reads them: kept from before, for every click asks for them.

    Raises:
        TextError: If there is nothing to run.
    """
    key = (request.model_key, request.text, request.pad_to, request.pad_side)
    return shared().batches.get(key, lambda: _read(request, model))


def _read(request: Request, model: Model) -> Reading:
    found = explorer.sentences_of(request.text)
    lines, sentences = tuple(line for line, _ in found), [sentence for _, sentence in found]
    if len(sentences) > MAX_SENTENCES:
        raise TextError(
            f"{len(sentences):,} sentences are more than the {MAX_SENTENCES} that are run at once. Leave out some."
        )
    if not sentences:
        raise TextError("There is no sentence to run. Type at least one word in the box above.")
    batch = model.batch(sentences, padding_side=request.pad_side)
    notes = []
    for line, n_cut in zip(lines, batch.n_cut, strict=True):
        if n_cut:
            notes.append(
                f"Line {line} is too long for this encoder: it reads {model.config.max_len} tokens, "
                f"so the last {n_cut:,} were left out."
            )
    longest = batch.token_ids.shape[1]
    if 0 < request.pad_to < longest:
        notes.append(
            f"The longest sentence has {longest} tokens, so sentences are padded to {longest}, not {request.pad_to}."
        )
    elif request.pad_to:
        batch = model.batch(sentences, pad_to=request.pad_to, padding_side=request.pad_side)
    if any("[UNK]" in row for row in batch.tokens):
        notes.append("[UNK] stands for a word or sign that is not in this encoder's vocabulary, such as an emoji.")
    return batch, lines, tuple(notes)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the page shows for a request."""

    request: Request
    """What was asked for, with the device on which it runs."""
    run: Run
    model: Model
    key: Hashable
    """What fixes the run."""
    lines: tuple[int, ...]
    """The line of the text box on which each sentence stands, from 1."""
    notes: tuple[str, ...]


def answer(request: Request, *, paired: bool = False) -> Answer:
    """The run of this request: kept from before, or made now behind the gate. `paired`: one of two to compare.

    Raises:
        ExplorerError: If there is nothing to run, or it would need too much memory. The message is for the reader.
    """
    model = model_for(request)
    batch, lines, notes = batch_for(request, model)
    device, absent = choose(request.device)
    request = replace(request, device=device)  # `auto` and what it stands for are one run
    key, run = _run(request, model, batch, max_bytes=MAX_PAIR_RUN_BYTES if paired else MAX_RUN_BYTES)
    notes = (*notes, *([absent] if absent else []))
    return Answer(request=request, run=run, model=model, key=key, lines=lines, notes=notes)


def _run(request: Request, model: Model, batch: Batch, *, max_bytes: int = MAX_RUN_BYTES) -> tuple[Hashable, Run]:
    """The run of this batch with the settings of a request: kept from before, or made now behind the gate.

    Whether it is too large does not depend on what was kept.
    """
    key = request.run_key(batch)
    check_memory(
        model.config,
        batch,
        device=request.device,
        precision=request.precision,
        causal=request.causal,
        max_bytes=max_bytes,
    )

    def make() -> Run:
        with _gate:
            return explorer.run(
                model,
                batch,
                device=request.device,
                use_mask=request.mask,
                causal=request.causal,
                precision=request.precision,
                heads_off=request.off,
            )

    return key, shared().runs.get(key, make)


def without(found: Answer, off: frozenset[tuple[int, int]]) -> Run:
    """The same run with some heads switched off."""
    return _run(replace(found.request, off=tuple(sorted(off))), found.model, found.run.batch)[1]


def padded(found: Answer, batch: Batch, *, use_mask: bool) -> Answer:
    """The same encoder on another batch of the same sentences, such as a wider one. Runs of equal settings are shared.

    `lines` stay those of the batch of the page.

    Raises:
        ExplorerError: If it would need too much memory, or the mask leaves nothing to look at.
    """
    request = replace(found.request, mask=use_mask)
    key, run = _run(request, found.model, batch)
    return replace(found, request=request, run=run, key=key, notes=())


@dataclass(frozen=True, slots=True)
class Ways:
    """One sentence run in three ways. Each is a batch of this sentence alone."""

    alone: Answer
    masked: Answer
    unmasked: Answer


def padded_ways(found: Answer, sentence: int, width: int, side: PaddingSide) -> Ways:
    """A sentence of a run alone, padded to `width` and masked, and padded and not masked: kept from before, or made.

    Raises:
        ExplorerError: See `padded`.
    """
    text, model = found.run.batch.sentences[sentence], found.model
    wide = model.batch([text], pad_to=width, padding_side=side)
    return Ways(
        alone=padded(found, model.batch([text]), use_mask=True),
        masked=padded(found, wide, use_mask=True),
        unmasked=padded(found, wide, use_mask=False),
    )


def padded_batch(found: Answer, width: int, side: PaddingSide) -> tuple[Answer, Answer]:
    """All sentences of a run padded to `width`, masked and not masked: kept from before, or made.

    Raises:
        ExplorerError: See `padded`.
    """
    wide = found.model.batch(found.run.batch.sentences, pad_to=width, padding_side=side)
    return padded(found, wide, use_mask=True), padded(found, wide, use_mask=False)


def payload(found: Answer, sentence: int, key: Hashable, make: Callable[[], bytes]) -> bytes:
    """A packed picture of one sentence of a run. `key` says which, and how it is shown."""
    return shared().payloads.get((found.key, sentence, key), make)


def head_scores(found: Answer, sentence: int) -> pd.DataFrame:
    """The scores of all heads in one sentence."""
    return table(found, sentence, "scores", lambda: found.run.tables.heads(sentence=sentence))


def table(found: Answer, sentence: int, key: Hashable, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """A table of one sentence of a run that is too dear to make at every click. `key` says which."""
    return shared().tables.get((found.key, sentence, key), make).copy(deep=False)


def proof(found: Answer) -> list[Claim]:
    """Whether this run is what its equations say. Made once a run, behind the gate: it may run torch's own encoder."""

    def make() -> list[Claim]:
        with _gate:
            return prove(found.run, found.model)

    return shared().proofs.get(found.key, make)


# What one session keeps ----------------------------------------------------------------------------------------------

_KEPT = "kept"  # parameter -> value, also of controls that are not on the page now
_BOUNDS = "bounds"  # parameter -> the bounds its widget was drawn with
_LINK = "link"  # parameter -> what the link asked for, as long as no control has answered it
_NOTES = "notes"
_HEIGHT = "figure height"
_FIRST = "first request"
_LAYERS = "layers of the other source"
_TRAINED = "encoders trained here"
_RERUN = "whole page must run"
_WORK = "work of the laboratory"
_LOADED = "trained encoder looked at last"


def open_page() -> None:
    """Takes the values of the address, on the first run of a session and whenever the reader goes back or forward."""
    went_back = getattr(get_script_run_ctx(), "is_history_navigation", False)
    if _KEPT in st.session_state and not went_back:
        return
    query = st.query_params.to_dict()
    values, refused = address.read(query)
    st.session_state[_KEPT] = values
    st.session_state[_BOUNDS] = {}
    st.session_state[_LINK] = {key: query[key] for key in query.keys() & address.PARAMETERS.keys()}
    st.session_state.pop(_FIRST, None)
    st.session_state[_NOTES] = [_refusal(key, query[key], values[key]) for key in refused]
    for key in refused:
        st.session_state[_LINK].pop(key)
    for key, value in values.items():
        if key in st.session_state:
            st.session_state[key] = value


def link_notes(request: Request) -> list[str]:
    """What in the link could not be had, one sentence each, until the reader asks for something else."""
    if st.session_state.setdefault(_FIRST, request) != request:
        st.session_state[_NOTES].clear()
    return list(st.session_state[_NOTES])


def _refusal(key: str, asked: str, used: Any) -> str:
    shown = asked if len(asked) <= 24 else asked[:24] + "…"
    instead = "" if key in ("text", "layers") else f" {address.encode(used)} is used."
    return f"The link asks for {key} = {shown}, which is not possible here.{instead or ' The default is used.'}"


def refuse_link(key: str, used: Any) -> None:
    """Notes a value of a link that is good as such, but not with this encoder or this text."""
    asked = st.session_state[_LINK].pop(key, None)
    if asked is not None:
        st.session_state[_NOTES].append(_refusal(key, asked, used))


def _note_if_refused(key: str, current: Any, good: Any) -> None:
    if good != current:
        refuse_link(key, good)
    st.session_state[_LINK].pop(key, None)


def get(key: str) -> Any:
    """The value of a parameter, whether its control is on the page or not."""
    return st.session_state[_KEPT][key]


def now(key: str) -> Any:
    """The value of a parameter's control if it is on the page, already in this run; else what is kept for it."""
    return st.session_state[key] if key in st.session_state else get(key)


def put(key: str, value: Any) -> None:
    """Sets a parameter from a callback or before its control is drawn."""
    st.session_state[_KEPT][key] = value
    if key in st.session_state:
        st.session_state[key] = value


def take(key: str) -> Any:
    """The choice of a control that only starts something, which then stands empty again. For callbacks."""
    value = st.session_state[key]
    st.session_state[key] = None
    return value


def keep(key: str, value: Any) -> None:
    """Remembers a parameter under another value than its widget shows."""
    st.session_state[_KEPT][key] = value


def request_now() -> Request:
    """What the controls ask for, all heads on: what is off is a matter of the view, or of the two runs to compare.

    Raises:
        ExplorerError: If the architecture cannot be built.
    """
    return replace(_request(_settings_now()), off=())


def run_a() -> Answer | None:
    """The run that is kept as A. One that cannot be had is given up with a note, before the controls are drawn."""
    if not (packed := get("a")):
        return None
    try:
        return answer(_request(address.read_settings(packed)), paired=True)
    except ExplorerError as error:
        put("a", "")
        st.session_state[_NOTES].append(f"There is no run A any more. {as_sentence(str(error))}")
        return None


def pair(request: Request, kept: Answer | None) -> Pair | None:
    """The two runs to compare, if there are: A and what the controls ask for, or both placements.

    What was trained in the laboratory has no other placement.

    Raises:
        ExplorerError: If the other placement cannot be run. The message is for the reader.
    """
    if kept is not None:
        b = replace(request, off=existing(get("off"), request.config))
        return Pair(names=RUNS, a=kept.request, b=b, asked=b)
    if get("beside") and request.source != "lab":
        both = placements(request)
        for asked in (both.a, both.b):
            answer(asked, paired=True)
        return both
    return None


def keep_as_a() -> None:
    """Keeps what the controls ask for as A. For callbacks."""
    put("a", address.pack_settings(_settings_now()))


def forget_a() -> None:
    """Ends the comparison. For callbacks."""
    put("a", "")


def swap() -> None:
    """A becomes what the controls ask for, and what they ask for becomes A. For callbacks."""
    values = address.read_settings(get("a"))
    keep_as_a()
    if (number := values.pop(NUMBER, None)) is not None:
        _choose_trained(number, _trained_here(number))
    for key, value in values.items():
        put(key, value)


def _settings_now() -> dict[str, Any]:
    """What the controls ask for, and what they would if another source were chosen."""
    values = {key: get(key) for key in address.SETTINGS}
    kept = kept_trained() if values["source"] == "lab" else None
    return values if kept is None else values | {NUMBER: kept[0]}


def _request(values: dict[str, Any]) -> Request:
    trained = _trained_here(values[NUMBER]).model.config if NUMBER in values else None
    return request_of(values, trained)


def swap_layers(source: str) -> None:
    """What is built and what is trained each keep their number of layers: puts one away, and takes the other out."""
    away = st.session_state.setdefault(_LAYERS, {})
    before, after = (name in TRAINED for name in (get("source"), source))
    if before != after:
        away[before] = get("layers")
        put("layers", away.get(after, 0))


def loaded_source() -> str:
    """Which of the trained encoders is meant: the one that is looked at, or was before another was built."""
    if (source := now("source")) in TRAINED:
        st.session_state[_LOADED] = source
    return st.session_state.get(_LOADED, next(iter(TRAINED)))


def draw(
    key: str, widget: Callable[..., Any], *args: Any, fit: Callable[[Any], Any], bounds: Hashable = (), **kwargs: Any
) -> Any:
    """One control, drawn with the value that is kept for it, made to fit what it may be now.

    A value of a link that does not fit is noted. The widget gets its value through its key when it appears, its bounds
    change or the value does not fit: assigning on every run would lose quick changes. It always has it as its default
    as well: a browser that is behind may draw the widget of a later run first, in which nothing was assigned.
    """
    session = st.session_state
    current = now(key)
    good = fit(current)
    _note_if_refused(key, current, good)
    if key not in session or good != current or session[_BOUNDS].get(key) != bounds:
        session[key] = good
    session[_BOUNDS][key] = bounds
    value = widget(*args, key=key, **kwargs, **_default(widget, good, *args))
    session[_KEPT][key] = value
    return value


def _default(widget: Callable[..., Any], value: Any, label: str, options: Sequence[Any] = ()) -> dict[str, Any]:
    """The argument by which this kind of widget is told its first value."""
    if widget is st.selectbox:
        return {"index": options.index(value)}
    return {"default" if widget is st.segmented_control else "value": value}


def choose_elsewhere(
    key: str,
    label: str,
    options: list[str],
    wanted: str,
    on_choice: Callable[[str], None],
    *,
    labelled: bool = False,
    width: Any = "stretch",
) -> None:
    """A list whose choice is kept under other parameters: shows `wanted`, and tells what is chosen instead."""
    if st.session_state.get(key) != wanted:
        st.session_state[key] = wanted
    st.selectbox(
        label,
        options,
        index=options.index(wanted),
        key=key,
        format_func=str if labelled else lambda option: f"{label}: {option}",
        on_change=lambda: on_choice(st.session_state[key]),
        label_visibility="visible" if labelled else "collapsed",
        width=width,
    )


def selection(request: Request, pair: Pair | None = None) -> tuple[int, int]:
    """The chosen layer and head, brought into what there is where they were chosen in a larger encoder.

    Of two that are compared, it is enough that one has them.
    """
    configs = [asked.config for asked in ((pair.a, pair.b) if pair else (request,))]
    layer, head = get("sel")
    here = (
        min(layer, max(config.n_layers for config in configs) - 1),
        min(head, max(config.n_heads for config in configs) - 1),
    )
    _note_if_refused("sel", (layer, head), here)
    keep("sel", here)
    return here


def token(run: Run, sentence: int) -> int:
    """The chosen token's place in its row; the nearest real one where that is padding, or beyond the end."""
    wanted = get("token")
    real = [pos for pos, padded in enumerate(run.batch.key_padding_mask[sentence].tolist()) if not padded]
    return min(real, key=lambda pos: abs(pos - wanted))


def choose_token(sentence: int, pos: int) -> None:
    """Moves the choice of sentence and token, for all views."""
    put("sentence", sentence)
    put("token", pos)


def heads_off(run: Run) -> frozenset[tuple[int, int]]:
    """The heads that are switched off and that this encoder has."""
    return frozenset(existing(get("off"), run.config))


def keep_trained(trained: Trained) -> None:
    """Makes an encoder that was trained in the laboratory the source of all views of this session. For callbacks."""
    number = next(_numbers)
    st.session_state[_TRAINED] = {key: found for key, found in _all_trained().items() if key == _trained_in_a()}
    _choose_trained(number, trained)
    put("source", "lab")
    put("text", trained.settings.task.example)
    put("view", "attention")
    run_whole_page()


def replace_text(text: str) -> None:
    """Puts another text into the box of the page, which is then run. For callbacks of what is looked at."""
    put("text", text)
    run_whole_page()


def kept_trained() -> tuple[int, Trained] | None:
    """The encoder that this session trained and kept, with its number: no two of the server have the same."""
    return next(reversed(_all_trained().items()), None)


def _all_trained() -> dict[int, Trained]:
    """The encoders of the laboratory by number: that of A, where A has one, and last the one that is offered."""
    return st.session_state.setdefault(_TRAINED, {})


def _choose_trained(number: int, trained: Trained) -> None:
    _all_trained().pop(number, None)
    _all_trained()[number] = trained


def _trained_here(number: int) -> Trained:
    if number not in _all_trained():
        raise WeightsError("No such encoder was trained in this session. Train one in the laboratory.")
    return _all_trained()[number]


def _trained_in_a() -> int | None:
    """The number of A's encoder, where A was trained in the laboratory."""
    return address.read_settings(packed).get(NUMBER) if (packed := get("a")) else None


def run_whole_page() -> None:
    """What was chosen in a view concerns the whole page. For callbacks."""
    st.session_state[_RERUN] = True


def must_rerun() -> bool:
    """Whether what was chosen concerns the whole page. Asked once."""
    return st.session_state.pop(_RERUN, False)


def begin_work(key: Hashable, steps: Iterator[Any], *, total: int, keep: int | None = None) -> None:
    """Starts work of this session under this name, and ends what it had running: one at a time."""
    for worker in _works().values():
        worker.stop()
    context = get_script_run_ctx()
    session = context.session_id if context else ""

    def wanted() -> bool:
        return not runtime.exists() or runtime.get_instance().is_active_session(session)

    _works()[key] = Worker(steps, total=total, keep=keep, wanted=wanted, gate=_gate)


def work(key: Hashable) -> Worker[Any] | None:
    """The work of this session under this name, if it was ever started."""
    return _works().get(key)


def _works() -> dict[Hashable, Worker[Any]]:
    return st.session_state.setdefault(_WORK, {})


def write_address() -> None:
    """Brings the address in step with what is kept. Called once at the end of each run of the script or a fragment."""
    wanted = address.write(st.session_state[_KEPT])
    known = {key: value for key, value in st.query_params.to_dict().items() if key in address.PARAMETERS}
    if wanted != known:
        others = {key: value for key, value in st.query_params.to_dict().items() if key not in address.PARAMETERS}
        st.query_params.from_dict(others | wanted)


def figure_height() -> int:
    """Height of the large figures in CSS pixels: the largest step that this reader's window shows whole."""
    return st.session_state.get(_HEIGHT, FIGURE_HEIGHTS[0])


def screen_changed() -> None:
    """Takes the height that the browser measured. Only the known steps are accepted."""
    told = st.session_state["screen"].get("changed")
    height = told.get("height") if isinstance(told, dict) else None
    if height in FIGURE_HEIGHTS:
        st.session_state[_HEIGHT] = height


def theme_kind() -> str:
    """`light` or `dark`: what this reader sees."""
    return "dark" if st.context.theme.type == "dark" else "light"
