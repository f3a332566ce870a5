"""What is written when training is done: the weights, and the card that says what they are."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file

from explorer.model import Encoder
from explorer.weights.published import PACKAGE
from training.checkpoint import Checkpoint
from training.distil import FROZEN, Recipe
from training.sources import PACKAGES
from training.templates import FRAMES
from training.texts import AGAIN, FIRST, HELD_OUT_ONE_IN, THEN, Mix

Target = tuple[str, float, str, bool]
"""What is measured, what was found, what is wanted, and whether it is reached."""

LISTS: Final = {
    "lines": "lines of 16 to 64 tokens",
    "everyday": "everyday sentences with words kept for testing",
    "other": "sentences of kinds that training had none of",
    "pairs": "pairs of segments",
    "long": "texts above 300 tokens",
    "unknown": "texts of unknown words only",
}


def write_weights(student: Encoder, path: Path) -> str:
    """Everything but the embeddings, which come from the teacher's package, as 16-bit floats. Returns the SHA-256."""
    state = {name: value.detach() for name, value in student.state_dict().items() if not name.startswith("embed.")}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: value.to(torch.float16).contiguous() for name, value in state.items()}, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def targets(figures: Mapping[str, Any]) -> list[Target]:
    """What the twin was to reach on held-out text, and what it reached."""
    lines, long = figures["lists"]["lines"], figures["lists"]["long"]
    widest = max(lines["attention_variation"])
    return [
        ("sentence cosine, lines", lines["sentence_cosine"], "≥ 0.992", lines["sentence_cosine"] >= 0.992),
        ("the worst line", lines["sentence_cosine_worst"], "≥ 0.98", lines["sentence_cosine_worst"] >= 0.98),
        ("output cosine, lines", lines["output_cosine"], "≥ 0.981", lines["output_cosine"] >= 0.981),
        ("attention variation, lines, widest layer", widest, "≤ 0.07", widest <= 0.07),
        ("sentence cosine above 300 tokens", long["sentence_cosine"], "≥ 0.97", long["sentence_cosine"] >= 0.97),
    ]


def card(figures: Mapping[str, Any], checkpoint: Checkpoint, recipe: Recipe, sha256: str) -> str:
    """The card, in Markdown: what it is, how it was made and from what, every figure, and its limits."""
    trained = sum(parameter.numel() for parameter in checkpoint.student.parameters() if parameter.requires_grad)
    stored = sum(
        value.numel() for name, value in checkpoint.student.state_dict().items() if not name.startswith("embed.")
    )
    parts = [
        "# Pre-LN twin of all-MiniLM-L6-v2",
        _WHAT.format(package=PACKAGE, stored=stored, sha256=sha256),
        "## How it was made",
        _HOW.format(trained=trained, frozen=", ".join(f"`{name.rstrip('.')}`" for name in FROZEN)),
        *_runs(checkpoint, recipe),
        *([_MEAN] if checkpoint.mean else []),
        "## Texts",
        table(
            ("package", "texts", "licence", "SHA-256"),
            [(f"`{p.file}`", p.texts, p.licence, f"`{p.sha256[:12]}…`") for p in PACKAGES],
        ),
        _TEXTS.format(frames=len(FRAMES), one_in=HELD_OUT_ONE_IN),
        "## Reached, against the targets",
        table(
            ("what", "reached", "target", ""), [(*row[:3], "yes" if row[3] else "**no**") for row in targets(figures)]
        ),
        "## Every figure, on held-out text",
        *_figures(figures),
        "## Limits",
        _LIMITS + (_LIMITS_AGAIN if recipe.again else _ONE_SEED),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _figures(figures: Mapping[str, Any]) -> list[str]:
    lists = figures["lists"]
    layers = [f"L{layer}" for layer in range(len(lists["lines"]["attention_variation"]))]
    by_list = [
        (LISTS[name], f["texts"], f["sentence_cosine"], f["sentence_cosine_worst"], f["output_cosine"], f["worst_head"])
        for name, f in lists.items()
    ]
    by_layer = [
        (f"{title}, {name}", *lists[name][key])
        for key, title in (
            ("attention_variation", "attention variation"),
            ("same_top_key", "same strongest key"),
            ("norm1_cosine", "cosine of LN1"),
            ("norm2_cosine", "cosine of LN2"),
        )
        for name in ("lines", "everyday", "long")
    ]
    heads = figures["heads"]
    known = [(name, value, heads["teacher"][name]) for name, value in heads["twin"].items()]
    spread = ", ".join(f"{head} {value}" for head, value in figures["head_variation"].items())
    norms, variances = figures["stream_norm"], figures["cls_variance"]
    return [
        table(("texts", "number", "sentence cosine", "worst", "output cosine", "worst head"), by_list),
        "Attention variation is the total variation between two rows of attention (0 to 1), mean over rows and heads.",
        table(("", *layers), by_layer),
        table(("head", "twin", "teacher"), known),
        f"Attention variation of these heads on the lines: {spread}.",
        f"Norm of the twin's stream, median token, from the embeddings through each sublayer: {_row(norms['twin'])}.",
        f"Norm of what the teacher's norms get: {_row(norms['teacher'])}.",
        f"Variance of `[CLS]` before each norm of the layers, twin: {_row(variances['twin'])}; "
        f"teacher: {_row(variances['teacher'])}.",
    ]


def _runs(checkpoint: Checkpoint, recipe: Recipe) -> list[str]:
    """A paragraph of each run, and the losses of each."""
    now = {name: getattr(checkpoint, name) for name in ("seconds", "losses", "plan")}
    runs = [*((Recipe(**about["recipe"]), about) for about in checkpoint.earlier), (recipe, now)]
    parts = []
    for number, (run, about) in enumerate(runs):
        texts = f"Its texts: {_mix(AGAIN)}." if run.again else _TURN.format(run.turn, _mix(FIRST), _mix(THEN))
        parts += [
            _RUN.format(
                which=f"The {ORDINALS[number]} run (`python -m training{' --again' * number}`)",
                start="the weights of the one before and a new optimizer" if run.again else "the algebra",
                minutes=about["seconds"] / 60,
                plan=_plan(about["plan"]),
                **{name: getattr(run, name) for name in _IN_CARD},
            ),
            texts,
            "Smoothed loss at each 100 steps: " + ", ".join(f"{loss:.3f}" for loss in about["losses"]) + ".",
        ]
    return parts


def _plan(plan: Sequence[tuple[int, int]]) -> str:
    first, *later = plan
    goes_on = "".join(f"; resumed at step {step:,}, to 0 at step {steps:,}" for step, steps in later)
    return f"to 0 at step {first[1]:,}{goes_on}"


def _mix(mix: Mix) -> str:
    lengths = ", ".join(f"{share:.0%} of {low} to {high} tokens" for low, high, share in mix.lengths)
    lists = f"; lists of words and names {mix.lists:.0%}" if mix.lists else ""
    return f"{lengths}; everyday sentences {mix.everyday[0]:.0%} up to 64 tokens and {mix.everyday[1]:.0%} above{lists}"


def _row(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3g}" for value in values)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


_WHAT: Final = """
It imitates all-MiniLM-L6-v2, a Post-LN encoder, with a Pre-LN computation: x = x + attention(LN1 x), then
x = x + feed-forward(LN2 x), and a norm after the stack. Its attention is the teacher's by design; its stream, its
LayerNorm statistics and their growth are those of its own placement.

The file holds {stored:,} numbers as 16-bit floats. Token, position and segment vectors are the teacher's own and come
from its package (`{package}`, Apache-2.0). SHA-256 of the file: `{sha256}`.
"""

_HOW: Final = """
`python -m training` made it: an algebraic start (gamma and beta fitted by least squares, the teacher's matrices,
what is added brought to the scale of the stream), then distillation with AdamW. {trained:,} numbers were trained;
fixed were {frozen}.
"""

ORDINALS: Final = ("first", "second", "third")
_IN_CARD: Final = ("steps", "tokens", "seed", "learning_rate", "pattern_weight", "output_weight", "sentence_weight")
_RUN: Final = """
{which} began with {start}:
{steps:,} steps of distillation, about {tokens} tokens each, seed {seed}, {minutes:.0f} minutes on one thread of a CPU
that others used too. The learning rate rose to {learning_rate:g} and fell along a cosine
{plan}.
Loss: {pattern_weight:g} x KL of patterns + 2 x relative squared error of what is read, mean over reads and the output,
which counts {output_weight:g} times, + {sentence_weight:g} x (1 - cosine of the sentence).
"""

_MEAN: Final = """
The weights in the file are the mean, one half each, of those at the end of the last run and of those that it began
with (`--mean`): the one had the output nearer to the teacher's, the other the patterns.
"""

_TURN: Final = """
Texts of its first {:,} steps: {}.

From then on: {}.
"""

_TEXTS: Final = """
Besides them: everyday sentences from {frames} templates of our own, pairs of segments, and noise (words shuffled,
repeated, unknown). WordNet 3.0 is Copyright 2006 by Princeton University, all rights reserved, used under its licence.

One document in {one_in} (an address, a chapter, a book) was kept for testing, and so were some words of the templates.
The texts of the project's reference activations were kept out of training. The template "The X didn't V the Y because
it was too A" was trained on with other nouns than the sentence about the animal that the figures below use.
"""

_LIMITS: Final = """
- It was not trained from scratch. It shows the same heads with different bookkeeping, not what training a Pre-LN
  encoder would learn, and nothing about how stable such training is.
- It is an imitation, so it is a little worse than its teacher wherever the teacher is right. No task was evaluated.
- Figures are means over tokens and heads: single heads and tokens differ more. Texts of unknown words only, code,
  and languages other than English are farther from the teacher than the lines are.
- The lines, pairs and long texts are from the same kinds of sources as the training texts, though from other documents.
- The second mix of texts was chosen at step 900 because of the figures of 40 of the lines at step 700: training has not
  seen the lines, but that choice has.
"""

_LIMITS_AGAIN: Final = """\
- The runs after the first, their weights in the loss and their lists of names were chosen after the figures of all
  held-out lines were known; the two worst listed names of authors. Training has not seen them, but that choice has.
- One seed was tried for each run.
"""

_ONE_SEED: Final = "- One seed was tried.\n"
