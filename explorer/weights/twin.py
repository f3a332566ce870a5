"""The Pre-LN twin of all-MiniLM-L6-v2: distilled from it, and shipped here; its embeddings are the teacher's own.

`training/` made it; the card beside the file says from what, and how close it is.
"""

from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file
from torch import Tensor

from explorer.config import MINILM, MINILM_PRELN
from explorer.errors import WeightsError
from explorer.model import Encoder, build_encoder
from explorer.weights.fill import LoadReport, fill
from explorer.weights.published import SHA256, PublishedFiles, check_sha256, find_files, from_bert

FILE: Final = Path(__file__).parent / "minilm_preln.safetensors"
"""16-bit floats, in the names of `explorer.model`; everything but the embeddings."""
FILE_SHA256: Final = "4840053f5bfce03f5b52c8bab72f0f6d7d507307ec5fe1b2e2cc15fdbd9b1a5b"
HOW_TO_RESTORE: Final = f"It is part of this project: git checkout explorer/weights/{FILE.name}"

EMBEDDINGS: Final = ("embed.tokens.weight", "embed.positions.weight", "embed.segments.weight")


def load_twin(files: PublishedFiles | None = None, weights: Path = FILE) -> tuple[Encoder, Path, LoadReport]:
    """The twin, the path of its tokenizer (the teacher's), and the report of what was loaded.

    Raises:
        WeightsError: If the teacher's files cannot be found, a file is not the one that it should be, or it does not
            fit. Nothing is loaded then.
    """
    files = files or _teacher_files()
    check_sha256(files.weights, SHA256["model.safetensors"])
    check_sha256(files.tokenizer, SHA256["tokenizer.json"])
    if not weights.is_file():
        raise WeightsError(f"The file {weights.name} is missing. {HOW_TO_RESTORE}")
    check_sha256(weights, FILE_SHA256, way_out=HOW_TO_RESTORE)
    encoder = build_encoder(MINILM_PRELN)
    n_parameters = fill(encoder, {**teacher_embeddings(files), **read_16_bit(weights)})
    report = LoadReport(
        source=f"Pre-LN twin of all-MiniLM-L6-v2, distilled from it by this project. Its embeddings: {files.source}",
        trained=True,
        n_parameters=n_parameters,
        sha256=FILE_SHA256,
    )
    return encoder, files.tokenizer, report


def teacher_embeddings(files: PublishedFiles) -> dict[str, Tensor]:
    """The vectors of tokens, positions and segments, as published."""
    state, _ = from_bert(load_file(files.weights), MINILM.n_layers)
    return {name: state[name] for name in EMBEDDINGS}


def read_16_bit(path: Path) -> dict[str, Tensor]:
    """The tensors of the file as 32-bit floats, in which the encoder computes.

    Raises:
        WeightsError: If one is not of 16 bits.
    """
    state = load_file(path)
    if wrong := [name for name, value in state.items() if value.dtype != torch.float16]:
        raise WeightsError(f"{path.name} holds 16-bit floats, but {wrong[0]} is {state[wrong[0]].dtype}")
    return {name: value.float() for name, value in state.items()}


def _teacher_files() -> PublishedFiles:
    try:
        return find_files()
    except WeightsError as error:
        raise WeightsError(f"The Pre-LN twin takes its embeddings from all-MiniLM-L6-v2. {error}") from error
