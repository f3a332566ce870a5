"""Encoder Explorer: the page. Controls -> run -> the chosen view."""

import streamlit as st

from components import controls, page, panels, state
from components.request import Request
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
    panels.ALL[view](look)
    state.write_address()


main()
