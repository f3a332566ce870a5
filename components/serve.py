"""Starts the server with everything warm: `python -m components.serve`, with the options of `streamlit run`.

The address is announced when the trained encoder is loaded and has run once, so the first visitor waits for nothing.
`streamlit run app.py` works as well; then the first visitor warms it.
"""

import logging
import sys
from pathlib import Path

from streamlit.web import cli

import components.panels  # noqa: F401  the first visitor should not wait for the library of the figures
from components import state

APP = Path(__file__).parent.parent / "app.py"


def main() -> None:
    """Warms what sessions share, then hands over to Streamlit."""
    outside = logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context")
    outside.disabled = True  # it warns that there is no session yet, which is the point
    state.warm()
    outside.disabled = False
    sys.argv = ["streamlit", "run", str(APP), *sys.argv[1:]]
    cli.main()


if __name__ == "__main__":
    main()
