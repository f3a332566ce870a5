"""The inside of a Transformer encoder, number by number. Usable from a notebook, a script or the page.

import explorer

model = explorer.load("minilm")
run = explorer.run(model, model.batch(["The animal didn't cross the street."]))
run.trace.pattern(layer=3)    # [batch, head, query, key]
"""

from explorer.ablation import attention_change, output_change
from explorer.claims import Claim
from explorer.comparison import Alignment, Comparison, Parting, compare, compare_parameters, match_sentence
from explorer.config import BERT_BASE, CLASSROOM, MINILM, MINILM_PRELN, PAPER_BASE, PRESETS, EncoderConfig
from explorer.device import available as available_devices
from explorer.errors import (
    ConfigError,
    ExplorerError,
    MaskError,
    MemoryLimitError,
    TextError,
    WeightsError,
)
from explorer.loading import Model, build, load
from explorer.padding import padding_attention, padding_difference
from explorer.precision import PRECISIONS, Precision
from explorer.proof import proof
from explorer.run import Run, estimate_bytes, run
from explorer.tape import SILENT, SITES, HeadsOff, Recorder, Tape
from explorer.text import Batch, sentences_of
from explorer.trace import Trace

__all__ = [
    "BERT_BASE",
    "CLASSROOM",
    "MINILM",
    "MINILM_PRELN",
    "PAPER_BASE",
    "PRECISIONS",
    "PRESETS",
    "SILENT",
    "SITES",
    "Alignment",
    "Batch",
    "Claim",
    "Comparison",
    "ConfigError",
    "EncoderConfig",
    "ExplorerError",
    "HeadsOff",
    "MaskError",
    "MemoryLimitError",
    "Model",
    "Parting",
    "Precision",
    "Recorder",
    "Run",
    "Tape",
    "TextError",
    "Trace",
    "WeightsError",
    "attention_change",
    "available_devices",
    "build",
    "compare",
    "compare_parameters",
    "estimate_bytes",
    "load",
    "match_sentence",
    "output_change",
    "padding_attention",
    "padding_difference",
    "proof",
    "run",
    "sentences_of",
]
