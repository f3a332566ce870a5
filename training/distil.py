"""Distillation: the student's patterns, reads and output are drawn to the teacher's, step by step."""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from explorer.loading import Model
from explorer.model import Encoder
from explorer.text import Batch, make_batch
from training.algebra import Scales, algebraic_start
from training.checkpoint import Checkpoint
from training.texts import AGAIN, FIRST, THEN, Corpus, draw_texts
from training.watch import CLS_WEIGHT, Watched, sentence_vectors, token_weights, watch_student, watch_teacher

BATCHES_FOR_ALGEBRA: Final = 24
CHECKPOINT_EVERY: Final = 100
FROZEN: Final = ("embed.", "layers.0.norm1.", "layers.0.attn.in_proj.")
"""The teacher's own embeddings, and what is exact from the start: the first LN1, and the q, k and v that read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a run depends on, besides the texts and the teacher."""

    steps: int = 2200
    seed: int = 0
    learning_rate: float = 1.5e-4
    warm_up: float = 0.05
    """Share of the steps in which the learning rate rises; then it falls to 0 along a cosine."""
    tokens: int = 512
    """Tokens a batch, about."""
    turn: int = 900
    """The step from which on texts are drawn from the second mix."""
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    """Of matrices; nothing else decays."""
    largest_gradient: float = 1.0
    pattern_weight: float = 1.0
    output_weight: float = 2.0
    """How often the output counts among what is read."""
    sentence_weight: float = 1.0
    again: bool = False
    """Whether it is a second run, from the weights of a first: then all texts are of its own mix."""


SECOND: Final = Recipe(
    steps=880, seed=1, learning_rate=1e-4, pattern_weight=1.5, output_weight=6.0, sentence_weight=2.0, again=True
)
"""From the weights of the first. What that left farthest from the teacher, the output, counts more."""

THIRD: Final = replace(SECOND, steps=560, seed=2, learning_rate=6e-5, pattern_weight=5.0)
"""From the weights of the second. Patterns count more again: the second had let go of them in the last layer."""


def distil(
    teacher: Model,
    corpus: Corpus | None,
    recipe: Recipe,
    path: Path,
    *,
    seconds: float | None = None,
    first: Path | None = None,
) -> Checkpoint:
    """Trains from the checkpoint at `path` and keeps checkpoints there.

    Where there is none, a second run starts from the weights of the checkpoint `first`, and a first run from the
    algebra.

    Each step draws its texts from the seed and its number, so a run that was stopped goes on as if it had not been.
    `seconds` stops it early; then the checkpoint is not at the last step.

    Raises:
        WeightsError: If the checkpoint is of another recipe.
    """
    if path.exists():
        checkpoint = Checkpoint.read(path, recipe)
    else:
        checkpoint = Checkpoint.again(first, recipe) if first else start(teacher, corpus, recipe)
    student = checkpoint.student
    optimizer = make_optimizer(student, checkpoint.scales, recipe)
    checkpoint.restore(optimizer)
    began, loss_shown = time.monotonic(), math.nan
    earlier = checkpoint.seconds
    with tqdm(total=recipe.steps, initial=checkpoint.step, desc="distilling", unit="step", smoothing=0.1) as bar:
        while checkpoint.step < recipe.steps and (seconds is None or time.monotonic() - began < seconds):
            batch = draw_batch(teacher, corpus, recipe, checkpoint.step)
            set_learning_rate(optimizer, rate(checkpoint.step, recipe))
            target = watch_teacher(teacher.encoder, batch)
            loss = distance(watch_student(student, batch), target, batch, recipe)
            loss.backward()
            clip_gradients(student, checkpoint.scales, recipe.largest_gradient)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            checkpoint.step += 1
            checkpoint.seconds = earlier + time.monotonic() - began
            loss_shown = loss.item() if math.isnan(loss_shown) else 0.98 * loss_shown + 0.02 * loss.item()
            bar.set_postfix(loss=f"{loss_shown:.4f}", refresh=False)
            bar.update()
            if checkpoint.step % CHECKPOINT_EVERY == 0:
                checkpoint.losses.append(round(loss_shown, 5))
                checkpoint.write(path, optimizer, recipe)
    checkpoint.write(path, optimizer, recipe)
    return checkpoint


def start(teacher: Model, corpus: Corpus | None, recipe: Recipe) -> Checkpoint:
    """The algebraic start, on batches that no step of training draws again."""
    batches = [draw_batch(teacher, corpus, recipe, -1 - number) for number in range(BATCHES_FOR_ALGEBRA)]
    student, scales = algebraic_start(teacher.encoder, batches)
    for name, parameter in student.named_parameters():
        parameter.requires_grad_(not name.startswith(FROZEN))
    return Checkpoint(student=student, scales=scales, plan=[(0, recipe.steps)])


def draw_batch(teacher: Model, corpus: Corpus | None, recipe: Recipe, step: int) -> Batch:
    """The texts of one step, which depend on the seed and the step alone. Steps below 0 are those of the start."""
    mix = AGAIN if recipe.again else FIRST if step < recipe.turn else THEN
    rng = np.random.default_rng([recipe.seed, int(step < 0), abs(step)])
    texts, longest = draw_texts(rng, corpus, recipe.tokens, mix)
    return make_batch(texts, teacher.tokenizer, max_len=longest)


def distance(student: Watched, teacher: Watched, batch: Batch, recipe: Recipe) -> Float[Tensor, ""]:
    """What training makes small. 0 when patterns, reads and output are the teacher's.

    Mean over layers of KL(teacher's pattern || student's), + 2 x mean relative squared error of what sublayers read
    and of the output, + 1 - cosine of the sentence; with the recipe's weights.
    """
    weights = token_weights(batch.key_padding_mask, CLS_WEIGHT)
    kl = torch.stack([_kl(p, q, weights) for p, q in zip(teacher.patterns, student.patterns, strict=True)]).mean()
    errors = [_relative_error(x, y, weights) for x, y in zip(student.reads, teacher.reads, strict=True)]
    error = (sum(errors[:-1]) + recipe.output_weight * errors[-1]) / (len(errors) - 1 + recipe.output_weight)
    cosine = F.cosine_similarity(
        sentence_vectors(student.reads[-1], batch.key_padding_mask),
        sentence_vectors(teacher.reads[-1], batch.key_padding_mask),
        dim=-1,
    ).mean()
    return recipe.pattern_weight * kl + 2 * error + recipe.sentence_weight * (1 - cosine)


def _kl(p: Tensor, q: Tensor, weights: Tensor) -> Tensor:
    """Of the rows of real queries, mean over heads. A padded key has 0 in both and adds nothing."""
    tiny = 1e-9
    rows = (p * ((p + tiny).log() - (q + tiny).log())).sum(dim=-1)  # [batch, head, query]
    return (rows.mean(dim=1) * weights).sum()


def _relative_error(x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    return (((x - y) ** 2).sum(dim=-1) / (y**2).sum(dim=-1) * weights).sum()


def make_optimizer(student: Encoder, scales: Scales, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW that moves what is added to the stream in the stream's own scale.

    AdamW's step does not depend on the size of a gradient. The last matrix of a sublayer is `scale` times a matrix of
    ordinary size, and so is its learning rate; its weight decay is divided by it, to be the same in effect.
    """
    groups = []
    for name, parameter in student.named_parameters():
        if parameter.requires_grad:
            scale = scales.get(name.rpartition(".")[0], 1.0)
            decay = recipe.weight_decay / scale if parameter.ndim > 1 else 0.0
            groups.append({"params": [parameter], "scale": scale, "weight_decay": decay})
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=recipe.betas, eps=1e-10)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Each group's learning rate, in its scale."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["scale"]


def rate(step: int, recipe: Recipe) -> float:
    """Linear rise, then half a cosine down to 0 at the last step."""
    rise = max(1, round(recipe.warm_up * recipe.steps))
    if step < rise:
        return recipe.learning_rate * (step + 1) / rise
    done = (step - rise) / max(1, recipe.steps - rise)
    return recipe.learning_rate * (1 + math.cos(math.pi * done)) / 2


def clip_gradients(student: Encoder, scales: Scales, largest: float) -> float:
    """Shrinks all gradients together to this norm, each measured in the scale of its parameter. Returns the norm."""
    gradients = [
        (parameter.grad, scales.get(name.rpartition(".")[0], 1.0))
        for name, parameter in student.named_parameters()
        if parameter.grad is not None
    ]
    norm = math.sqrt(sum((scale * gradient.norm().item()) ** 2 for gradient, scale in gradients))
    if norm > largest:
        for gradient, _ in gradients:
            gradient.mul_(largest / norm)
    return norm
