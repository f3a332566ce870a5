"""Starts the server and warms it at once: `python -m components.serve`, with the options of `streamlit run`.

What the first visitor would wait for, torch, the trained encoder and one run through it, is made ready in a thread
while the server starts and the browser fetches the page. `streamlit run app.py` works as well, without this head start.
"""

import logging
import sys
import threading
from pathlib import Path

APP = Path(__file__).parent.parent / "app.py"


def main() -> None:
    """Warms what sessions share, and hands over to Streamlit meanwhile."""
    threading.Thread(target=_warm, name="warm", daemon=True).start()
    from streamlit.web import cli  # after the thread has begun: torch and Streamlit load side by side

    sys.argv = ["streamlit", "run", str(APP), *sys.argv[1:]]
    cli.main()


def _warm() -> None:
    import torch  # noqa: F401  the longest import goes first

    import components.panels  # noqa: F401  and the library of the figures
    from components import state

    outside = logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context")
    outside.addFilter(_not_from_here)  # it warns that this thread has no session, which is the point
    state.warm()  # and no more: the first page is made from here on, and settles when it is done


def _not_from_here(_: logging.LogRecord) -> bool:
    return threading.current_thread().name != "warm"


if __name__ == "__main__":
    main()
