"""Where parameters come from. Each source gives a state dict and a report; one function puts it into an encoder."""

from explorer.weights.fill import LoadReport, fill
from explorer.weights.published import load_minilm
from explorer.weights.seeded import INITIALISATIONS, draw_state
from explorer.weights.twin import load_twin

__all__ = ["INITIALISATIONS", "LoadReport", "draw_state", "fill", "load_minilm", "load_twin"]
