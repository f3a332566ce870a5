"""Encoder Explorer: the page. Controls -> run -> the chosen view."""

from dataclasses import replace

import streamlit as st

from components import controls, page, panels, state
from components.request import Request, other_placement
from components.theme import palette
from explorer import ExplorerError


def main() -> None:
    """One run of the script: everything that may need a forward pass happens here."""
    page.set_up()
    state.open_page()
    page.watch_screen()
    state.warm()
    try:
        request = controls.request()
        answer = state.answer(request)
        if beside(request):
            state.answer(other_placement(request))
    except ExplorerError as error:
        page.refusal(error)
        state.write_address()
    else:
        notes = st.container()
        page.status_line(answer.run, answer.model, request.source)
        show(request)
        with notes:  # filled last: the view may find that a link asks for more than there is
            for note in (*state.link_notes(request), *answer.notes):
                page.note(note)
        page.origin(answer.model)
    state.settle()


@st.fragment
def show(request: Request) -> None:
    """What is looked at. A choice in here runs this part alone, and no forward pass."""
    if state.must_rerun():
        st.rerun()
    answer = state.answer(request)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view = controls.view_picker(panels.NAMES)
        sentence = controls.sentence_picker(answer.run.batch.sentences, answer.lines)
        if view == "attention":
            controls.attention_options(pair=answer.run.batch.is_pair(sentence))
    layer, head = state.selection(answer.run)
    token = state.token(answer.run, sentence)
    page.token_ribbon(answer.run, answer.lines, sentence=sentence, token=token)
    look = panels.Look(
        answer=answer,
        sentence=sentence,
        layer=layer,
        head=head,
        token=token,
        palette=palette(state.theme_kind()),
        height=state.figure_height(),
    )
    if beside(request) and view in panels.BESIDE:
        panels.BESIDE[view](*pair(look, request))
    else:
        panels.ALL[view](look)
    state.write_address()


def beside(request: Request) -> bool:
    """Whether both placements are shown. What was trained in the laboratory has no counterpart."""
    return state.get("beside") and request.source != "lab"


def pair(look: panels.Look, request: Request) -> tuple[panels.Look, panels.Look]:
    """What is looked at in the encoder of the request and in that of the other placement: Post-LN first."""
    other = replace(look, answer=state.answer(other_placement(request)))
    return (other, look) if request.config.norm_placement == "pre" else (look, other)


main()
