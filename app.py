"""Encoder Explorer: the page. Controls -> run, or two runs to compare -> the chosen view."""

import streamlit as st

from components import controls, page, panels, state
from components.request import Pair, Request
from components.theme import palette
from explorer import ExplorerError


def main() -> None:
    """One run of the script: everything that may need a forward pass happens here."""
    page.set_up()
    state.open_page()
    page.watch_screen()
    state.warm()
    try:
        kept = state.run_a()
        request = controls.request()
        pair = state.pair(request, kept)
        request = pair.asked if pair else request
        answer = state.answer(request, paired=pair is not None)
    except ExplorerError as error:
        page.refusal(error)
        state.write_address()
    else:
        notes = st.container()
        page.status(answer, pair)
        show(request, pair)
        with notes:  # filled last: the view may find that a link asks for more than there is
            for note in (*state.link_notes(request), *answer.notes, *page.notes_of_a(kept, answer)):
                page.note(note)
        page.origin(answer, pair)
    state.settle()


@st.fragment
def show(request: Request, pair: Pair | None) -> None:
    """What is looked at. A choice in here runs this part alone, and no forward pass."""
    if state.must_rerun():
        st.rerun()
    answer = state.answer(request, paired=pair is not None)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view = controls.view_picker(panels.names(pair))
        sentence = controls.sentence_picker(answer.run.batch.sentences, answer.lines)
    layer, head = state.selection(request, pair)
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
    if pair is not None and view in panels.OF_TWO:
        panels.OF_TWO[view](panels.Two.of(look, pair))
    else:
        panels.ALL[view](look)
    state.write_address()


main()
