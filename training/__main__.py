"""The whole way from texts to a twin: `python -m training`."""

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

import explorer
from explorer.errors import ExplorerError
from explorer.loading import Model
from explorer.weights import LoadReport, fill
from explorer.weights.twin import FILE, read_16_bit
from training.card import card, targets, write_weights
from training.checkpoint import Checkpoint
from training.distil import SECOND, THIRD, Recipe, distil
from training.evaluate import evaluate
from training.held_out import read_held_out
from training.sources import CACHE
from training.texts import load_corpus

OUT: Final = Path(__file__).parent / "runs" / "twin"
SMOKE: Final = {"steps": 8, "tokens": 96}
SMOKE_TEXTS: Final = {"lines": 12, "everyday": 8, "long": 1}

logger = logging.getLogger("training")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description="Makes the Pre-LN twin of all-MiniLM-L6-v2: fetches the texts, starts from the algebra, distils, "
        "evaluates on held-out text, and writes the weights and their card.",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results and checkpoints (%(default)s)")
    parser.add_argument("--texts", type=Path, default=CACHE, help="folder of the fetched packages (%(default)s)")
    parser.add_argument(
        "--again",
        action="count",
        default=0,
        help="second run: starts from the weights of the finished run in --out, and writes into its folder 'again'; "
        "given twice, a third run from there",
    )
    parser.add_argument(
        "--mean",
        action="store_true",
        help="with --again: the weights written are the mean of this run's and of those that it started from",
    )
    for name, kind, what in (
        ("steps", int, "steps of training"),
        ("tokens", int, "tokens a step, about"),
        ("learning_rate", float, "the highest"),
        ("seed", int, "of the texts drawn"),
    ):
        default = f"{getattr(Recipe(), name)}; with --again {getattr(SECOND, name)}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"{what} ({default})")
    parser.add_argument("--seconds", type=float, help="stop training after this time; --resume goes on")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out; --steps may differ")
    parser.add_argument("--threads", type=int, default=1, help="of the processor (%(default)s)")
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a few steps on sentences from templates, without a network: proves in a minute that all of it works",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the twin, and says what it reached. 0, or 1 where something that was needed cannot be had."""
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.INFO)
    asked = parse(arguments)
    try:
        make(asked)
    except ExplorerError as error:
        logger.error("%s", error)
        return 1
    return 0


def make(asked: argparse.Namespace) -> dict[str, Any] | None:
    """The figures of the finished twin; None where `--seconds` ended training early.

    Raises:
        ExplorerError: If texts or weights cannot be had, or there is a checkpoint and no `--resume`.
    """
    torch.set_num_threads(asked.threads)
    if asked.again > 2:
        raise ExplorerError(f"--again was given {asked.again} times; there are three runs, so twice at most")
    out: Path = asked.out.joinpath(*["again"] * asked.again)
    first: Path | None = out.parent / "checkpoint.safetensors" if asked.again else None
    path = out / "checkpoint.safetensors"
    if path.exists() != asked.resume:
        what = f"{path} is there: add --resume to go on" if path.exists() else f"there is no {path} to go on from"
        raise ExplorerError(f"{what}, or choose another --out")
    if first and not first.exists():
        raise ExplorerError(f"there is no {first} to start again from: the first run comes without --again")
    options = {name: getattr(asked, name) for name in ("steps", "tokens", "learning_rate", "seed")}
    options = {name: value for name, value in options.items() if value is not None}
    recipe = replace((Recipe(), SECOND, THIRD)[asked.again], **(SMOKE if asked.smoke else options))
    teacher = explorer.load("minilm")
    corpus = None if asked.smoke else load_corpus(asked.texts)
    checkpoint = distil(teacher, corpus, recipe, path, seconds=asked.seconds, first=first)
    if checkpoint.step < recipe.steps:
        logger.info("stopped after %d of %d steps; --resume goes on", checkpoint.step, recipe.steps)
        return None
    if asked.mean and first:
        checkpoint.go_half_way_back(first)
    return finish(teacher, checkpoint, recipe, out, SMOKE_TEXTS if asked.smoke else None)


def finish(
    teacher: Model, checkpoint: Checkpoint, recipe: Recipe, out: Path, counts: dict[str, int] | None
) -> dict[str, Any]:
    """Writes the weights, evaluates what was written, and writes its card and figures."""
    weights = out / FILE.name
    sha256 = write_weights(checkpoint.student, weights)
    lists = read_held_out()
    if counts is not None:
        lists = {name: lists[name][:count] for name, count in counts.items()}
    figures = evaluate(teacher, as_shipped(teacher, checkpoint, weights), lists)
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    weights.with_suffix(".md").write_text(card(figures, checkpoint, recipe, sha256), encoding="utf-8")
    for what, found, wanted, reached in targets(figures):
        logger.info("%-42s %.5f  (%s)%s", what, found, wanted, "" if reached else "  missed")
    logger.info("weights and card: %s\nSHA-256: %s", weights, sha256)
    logger.info("to ship them, put both into %s and the SHA-256 into explorer/weights/twin.py", FILE.parent)
    return figures


def as_shipped(teacher: Model, checkpoint: Checkpoint, weights: Path) -> Model:
    """The twin as the file has it, 16 bits a number: what is evaluated is what is written."""
    embeddings = {name: value for name, value in checkpoint.student.state_dict().items() if name.startswith("embed.")}
    encoder = explorer.model.build_encoder(explorer.MINILM_PRELN)
    n_parameters = fill(encoder, {**embeddings, **read_16_bit(weights)})
    report = LoadReport(source=f"Just trained: {weights}.", trained=True, n_parameters=n_parameters)
    return Model(config=explorer.MINILM_PRELN, encoder=encoder, tokenizer=teacher.tokenizer, report=report)


if __name__ == "__main__":
    raise SystemExit(main())
