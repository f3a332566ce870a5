"""Training an encoder on a task, one step at a time.

Between two steps everything is at rest: to stop is not to call `step`, to go on is to call it again. A training has
generators of its own and shares no tensor with anything that it hands out. It is made for one thread at a time;
`records` alone may be read from others meanwhile.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from explorer.errors import ConfigError
from explorer.lab.records import Evaluation, Record
from explorer.lab.settings import Settings
from explorer.lab.tasks import VOCABULARY, Exercise, Task
from explorer.lab.trained import Trained, trained
from explorer.loading import Model
from explorer.model import Encoder, build_encoder
from explorer.tape import SILENT, Recorder, Tape
from explorer.trace import to_numpy
from explorer.weights import draw_state, fill
from explorer.weights.seeded import private_generator

BETAS: Final = (0.9, 0.98)
"""Of Adam. Source: Vaswani et al. 2017, section 5.3."""

READ_OUT_STREAM: Final = 100
FIRST_BATCH_STREAM: Final = 1_000
"""Generators of a seed: those below 100 draw the encoder, step s draws its batch from number 1,000 + s."""

HELD_OUT_SEED: Final = 2**32 - 1
HELD_OUT_SIZE: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A training at rest. Its tensors are its own: nobody may change them."""

    settings: Settings
    records: tuple[Record, ...]
    encoder: dict[str, Tensor]
    read_out: dict[str, Tensor]
    optimizer: dict[str, Any]


class Training:
    """One encoder, its read-out and its optimiser (Adam, no weight decay, no clipping, no dropout)."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._encoder = build_encoder(settings.config)
        fill(self._encoder, draw_state(settings.config, seed=settings.seed, init=settings.init))
        self._read_out = draw_read_out(settings.d_model, settings.seed)
        self._encoder.requires_grad_(True)
        self._names, self._parameters = zip(*_named_parameters(self._encoder, self._read_out), strict=True)
        self._layers = [_index_of_layer(self._names, layer) for layer in range(settings.n_layers)]
        self._optimizer = torch.optim.Adam(self._parameters, lr=settings.learning_rate, betas=BETAS, fused=True)
        self._records: list[Record] = []

    @classmethod
    def from_state(cls, state: State) -> "Training":
        """A training that goes on where the other one was, bit for bit. It shares nothing with it."""
        training = cls(state.settings)
        training._encoder.load_state_dict(state.encoder)
        training._read_out.load_state_dict(state.read_out)
        training._optimizer.load_state_dict(copy.deepcopy(state.optimizer))
        training._records = list(state.records)
        return training

    @property
    def n_steps(self) -> int:
        """Steps made so far."""
        return len(self._records)

    @property
    def done(self) -> bool:
        """Whether all steps of the settings are made."""
        return self.n_steps >= self.settings.steps

    @property
    def records(self) -> tuple[Record, ...]:
        """Of all steps so far. May be read from any thread at any time: steps are whole or not there."""
        return tuple(self._records)

    def step(self) -> Record:
        """One batch forward and back, and one change of all parameters.

        Raises:
            ConfigError: If all steps are made.
        """
        settings, number = self.settings, self.n_steps + 1
        if self.done:
            raise ConfigError(f"all steps ({settings.steps:,}) are made; for more, start one with more steps")
        exercise = batch_at(settings.task, seed=settings.seed, step=number, size=settings.batch)
        with torch.enable_grad():
            logits, targets = self._answer(exercise)
            loss = F.cross_entropy(logits, targets)
            gradients = torch.autograd.grad(loss, self._parameters)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        learning_rate = settings.learning_rate_at(number)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        record = Record(
            step=number,
            loss=loss.item(),
            accuracy=_accuracy(logits, targets),
            learning_rate=learning_rate,
            gradient_norms=self._gradient_norms(gradients),
        )
        self._records.append(record)
        return record

    def evaluate(self) -> Evaluation:
        """How good it is now on held-out sentences. Changes nothing."""
        settings, exercise = self.settings, held_out(self.settings.task)
        recorder = Recorder(lambda site: site.endswith("attn.pattern"))
        with torch.no_grad():
            logits, targets = self._answer(exercise, recorder)
            patterns = [recorder.values[f"layers.{layer}.attn.pattern"] for layer in range(settings.n_layers)]
            weights = torch.stack([weight_on_right(pattern, exercise) for pattern in patterns])
            return Evaluation(
                step=self.n_steps,
                loss=float(F.cross_entropy(logits, targets)),
                accuracy=_accuracy(logits, targets),
                n_asked=len(targets),
                weight_on_right=to_numpy(weights),
            )

    def trained(self, evaluation: Evaluation | None = None) -> Trained:
        """The encoder and its read-out as they are now: a copy, which later steps leave alone.

        `evaluation` is that of this very step, where there is one already.
        """
        return trained(
            self.settings,
            self._encoder.state_dict(),
            self._read_out.state_dict(),
            step=self.n_steps,
            accuracy=(evaluation or self.evaluate()).accuracy,
        )

    def model(self) -> Model:
        """The encoder as it is now, for all views: a copy in eval mode, which later steps leave alone."""
        return self.trained().model

    def weights(self) -> bytes:
        """The encoder and its read-out as they are now, as a safetensors file: see `Trained.weights`."""
        return self.trained().weights()

    def state(self) -> State:
        """All that a training is, to go on elsewhere or later: see `from_state`."""
        return State(
            settings=self.settings,
            records=self.records,
            encoder={name: value.detach().clone() for name, value in self._encoder.state_dict().items()},
            read_out={name: value.detach().clone() for name, value in self._read_out.state_dict().items()},
            optimizer=copy.deepcopy(self._optimizer.state_dict()),
        )

    def _answer(self, exercise: Exercise, tape: Tape = SILENT) -> tuple[Tensor, Tensor]:
        """Logits `[asked, vocabulary]` and answers `[asked]`: what is not asked costs nothing and teaches nothing."""
        output = self._encoder(exercise.token_ids, exercise.key_padding_mask, tape=tape)
        return self._read_out(output[exercise.counts]), exercise.targets[exercise.counts]

    def _gradient_norms(self, gradients: tuple[Tensor, ...]) -> tuple[float, ...]:
        norms = torch.stack(torch._foreach_norm(gradients)).tolist()
        return tuple(math.hypot(*(norms[index] for index in layer)) for layer in self._layers)


def draw_read_out(d_model: int, seed: int) -> nn.Linear:
    """A fresh read-out, drawn as the projections of the encoder are: uniform within sqrt(6 / (fan_in + fan_out))."""
    n_tokens = len(VOCABULARY)
    bound = math.sqrt(6 / (d_model + n_tokens))
    weight = torch.empty(n_tokens, d_model).uniform_(-bound, bound, generator=private_generator(seed, READ_OUT_STREAM))
    read_out = nn.Linear(d_model, n_tokens, device="meta")
    read_out.load_state_dict({"weight": weight, "bias": torch.zeros(n_tokens)}, assign=True)
    return read_out


def batch_at(task: Task, *, seed: int, step: int, size: int) -> Exercise:
    """The batch of a step: it depends on nothing but these four, so two trainings of one seed see the same ones."""
    return task.batch(private_generator(seed, FIRST_BATCH_STREAM + step), size)


def held_out(task: Task) -> Exercise:
    """The sentences for testing: 256, drawn from a seed that is kept for them.

    A training may meet the shortest of them by chance: there are only 26 rows of one letter, but 12 million of five.
    """
    return task.batch(private_generator(HELD_OUT_SEED, 0), HELD_OUT_SIZE)


def weight_on_right(pattern: Tensor, exercise: Exercise) -> Tensor:
    """Mean weight of each head on the key where the answer stands, `[head]`, over the queries that are asked."""
    key = exercise.right.clamp(min=0)[:, None, :, None].expand(-1, pattern.shape[1], -1, 1)
    weight = pattern.gather(3, key).squeeze(3).transpose(1, 2)  # [batch, query, head]
    return weight[exercise.counts].mean(dim=0)


def _accuracy(logits: Tensor, targets: Tensor) -> float:
    return float((logits.argmax(dim=-1) == targets).float().mean())


def _named_parameters(encoder: Encoder, read_out: nn.Linear) -> Iterator[tuple[str, nn.Parameter]]:
    yield from encoder.named_parameters()
    yield from read_out.named_parameters(prefix="read_out")


def _index_of_layer(names: tuple[str, ...], layer: int) -> list[int]:
    return [index for index, name in enumerate(names) if name.startswith(f"layers.{layer}.")]
