"""An encoder that was trained here, as it was after some steps; to look into, to keep, and to save."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import safetensors
from safetensors.torch import load, save
from torch import Tensor, nn

from explorer.errors import WeightsError
from explorer.lab.settings import Settings
from explorer.lab.tasks import VOCABULARY, LetterTokenizer, task_of
from explorer.loading import Model
from explorer.model import build_encoder
from explorer.run import Run
from explorer.trace import to_numpy
from explorer.weights import LoadReport, fill

READ_OUT: Final = "read_out."
"""What the names of the read-out begin with in a file; all others are those of the encoder."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A copy that no later step changes. Safe to share between threads."""

    model: Model
    read_out: nn.Linear
    """d_model to one logit a token of the vocabulary. It belongs to the training, not to the encoder."""
    settings: Settings
    step: int
    """Steps made before."""
    accuracy: float
    """On held-out sentences, from 0 to 1."""

    def answers(self, run: Run) -> list[list[str]]:
        """What is answered at each token of a run of this model: the likeliest token. `""` at padding.

        Where the task asks nothing, at `[CLS]` for instance, nothing was taught, and the answer means nothing.
        """
        logits = run.output @ to_numpy(self.read_out.weight).T + to_numpy(self.read_out.bias)
        padding = run.batch.key_padding_mask.numpy()
        best = np.where(padding, -1, logits.argmax(axis=-1))
        return [["" if token_id < 0 else VOCABULARY[token_id] for token_id in row] for row in best.tolist()]

    def weights(self) -> bytes:
        """A safetensors file: the encoder under its own names, `read_out.weight` and `read_out.bias`.

        Its metadata say what it is: task, settings, steps, accuracy, and the token of each id. `read` takes it back.
        """
        state = {name: value.contiguous() for name, value in self.model.encoder.state_dict().items()}
        state |= {READ_OUT + name: value.contiguous() for name, value in self.read_out.state_dict().items()}
        metadata = {
            "format": "pt",
            "made_by": "Encoder Explorer",
            "description": self.model.report.source,
            "settings": json.dumps(as_json(self.settings)),
            "step": str(self.step),
            "accuracy": repr(self.accuracy),
            "vocabulary": " ".join(VOCABULARY),
        }
        return save(state, metadata)


def trained(
    settings: Settings, encoder: Mapping[str, Tensor], read_out: Mapping[str, Tensor], *, step: int, accuracy: float
) -> Trained:
    """These parameters as a model of their own. They are copied.

    Raises:
        WeightsError: If they do not fit the architecture.
    """
    config = settings.config
    copied = build_encoder(config)
    n_parameters = fill(copied, {name: value.detach().clone() for name, value in encoder.items()})
    source = (
        f"Trained here to {settings.task.name} rows of letters: {step:,} steps from seed {settings.seed}, "
        f"{accuracy:.1%} right on sentences for testing."
    )
    report = LoadReport(source=source, trained=step > 0, n_parameters=n_parameters)
    return Trained(
        model=Model(config=config, encoder=copied, tokenizer=LetterTokenizer(), report=report),
        read_out=_read_out(config.d_model, read_out),
        settings=settings,
        step=step,
        accuracy=accuracy,
    )


def read(data: bytes) -> Trained:
    """What `Trained.weights` wrote, bit for bit.

    Raises:
        WeightsError: If it is not such a file, or was changed so that it does not fit together.
    """
    try:
        state = load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        if metadata["vocabulary"].split() != list(VOCABULARY):
            raise WeightsError("the file was made for other tokens than those of this laboratory")
        settings = from_json(json.loads(metadata["settings"]))
        step, accuracy = int(metadata["step"]), float(metadata["accuracy"])
    except (safetensors.SafetensorError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise WeightsError(
            f"this is not an encoder that was trained and saved here ({error}); take a file that was downloaded here"
        ) from error
    return trained(
        settings,
        {name: value for name, value in state.items() if not name.startswith(READ_OUT)},
        {name.removeprefix(READ_OUT): value for name, value in state.items() if name.startswith(READ_OUT)},
        step=step,
        accuracy=accuracy,
    )


def as_json(settings: Settings) -> dict[str, Any]:
    """The settings in plain values; the task as its name and its longest sentence."""
    return asdict(settings) | {"task": settings.task.name, "longest": settings.task.longest}


def from_json(values: Mapping[str, Any]) -> Settings:
    """The inverse of `as_json`.

    Raises:
        ConfigError: If a value is out of bounds.
        TypeError: If a name is unknown.
    """
    rest = {name: value for name, value in values.items() if name not in ("task", "longest")}
    return Settings(task=task_of(values["task"], values["longest"]), **rest)


def _read_out(d_model: int, state: Mapping[str, Tensor]) -> nn.Linear:
    read_out = nn.Linear(d_model, len(VOCABULARY), device="meta")
    shapes = {name: tuple(value.shape) for name, value in read_out.state_dict().items()}
    if {name: tuple(value.shape) for name, value in state.items()} != shapes:
        raise WeightsError(f"the read-out must have {shapes}, nothing else")
    read_out.load_state_dict({name: value.detach().clone() for name, value in state.items()}, assign=True)
    return read_out.requires_grad_(False).eval()
