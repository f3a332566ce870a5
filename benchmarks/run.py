"""What recording costs: our recorded run beside our silent run and beside `transformers`. `python -m benchmarks.run`

Three calls on one batch and the same weights, one thread, no gradients:

- recorded: `explorer.run`, every site kept
- silent: `model.encoder` alone, nothing kept
- transformers: its BERT with eager attention, returning all hidden states and all attention patterns

To reach at every length: recorded / silent at most 1.25, recorded / transformers at most 1.1. Times of one run on one
machine are no verdict, so the table is printed and the exit code is 0. Only wrong numbers stop it: the three must
agree before anything is timed.
"""

import argparse
import os
import platform
from dataclasses import dataclass
from typing import Any, Final

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers

import explorer
from benchmarks.case import LENGTHS, sentence
from benchmarks.timing import CLOCKS, measure, ratio
from explorer.weights.published import find_files

TOLERANCE: Final = 5e-5
HEADER: Final = (
    "tokens",
    "recorded / silent",
    "recorded / transformers",
    "recorded, ms",
    "silent, ms",
    "transformers, ms",
    "patterns kept, MiB",
    "whole record, MiB",
    "transformers keeps, MiB",
)


def main() -> None:
    """Prints the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=15, help="time for each row; at least 7 rounds are made")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of the longest sentence")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="cpu", help="what is measured; see timing.py")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    model = explorer.load("minilm")
    reference = load_reference()
    print(
        f"MiniLM, 1 thread, {arguments.clock} time, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, {platform.machine()}. Ratios: median (quartiles) of the rounds.\n"
    )
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}", flush=True)
    for n_tokens in arguments.lengths:
        for padded in (False, True):
            case = Case(model, reference, make_batch(model, n_tokens, padded=padded))
            case.check()
            row = case.measure(clock=arguments.clock, seconds=arguments.seconds)
            print(f"| {' | '.join([f'2 x {n_tokens}, padded' if padded else f'{n_tokens}', *row])} |", flush=True)


def load_reference() -> transformers.BertModel:
    """The published weights in the modules of `transformers`, without the pooler, which we do not run either."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers.BertModel.from_pretrained(
        find_files().weights.parent, add_pooling_layer=False, attn_implementation="eager", local_files_only=True
    ).eval()


def make_batch(model: explorer.Model, n_tokens: int, *, padded: bool) -> explorer.Batch:
    """One sentence of exactly n tokens; where padded, a second one of half as many below it."""
    batch = model.batch([sentence(n_tokens), sentence(n_tokens // 2)] if padded else [sentence(n_tokens)])
    n_expected = n_tokens // 2 if padded else 0
    if batch.token_ids.shape[1] != n_tokens or batch.n_padding != n_expected:
        raise RuntimeError(f"the batch is {tuple(batch.token_ids.shape)} with {batch.n_padding} padding tokens")
    return batch


@dataclass(frozen=True, slots=True)
class Case:
    """One batch, and the three ways to run it."""

    model: explorer.Model
    reference: transformers.BertModel
    batch: explorer.Batch

    def recorded(self) -> explorer.Run:
        return explorer.run(self.model, self.batch)

    @torch.inference_mode()
    def silent(self) -> torch.Tensor:
        return self.model.encoder(self.batch.token_ids, self.batch.key_padding_mask)

    @torch.inference_mode()
    def transformers(self) -> Any:
        return self.reference(
            input_ids=self.batch.token_ids,
            attention_mask=(~self.batch.key_padding_mask).long(),  # there, 1 = real token
            token_type_ids=self.batch.segments,
            output_attentions=True,
            output_hidden_states=True,
        )

    def check(self) -> None:
        """Stops where the three do not agree on the real tokens.

        Raises:
            AssertionError: If recording changes a bit of the output, or a hidden state or a pattern of `transformers`
                is further away than the tolerance.
        """
        run, theirs = self.recorded(), self.transformers()
        np.testing.assert_array_equal(run.output, self.silent().numpy(), err_msg="recording changed the output")
        real = ~self.batch.key_padding_mask.numpy()
        hidden = [run.trace.resid("pre", 0), *run.trace.resid("post")]
        for ours, other in zip(hidden, theirs.hidden_states, strict=True):
            np.testing.assert_allclose(ours[real], other.numpy()[real], rtol=0, atol=TOLERANCE)
        for ours, other in zip(run.trace.pattern(), theirs.attentions, strict=True):
            ours, other = np.swapaxes(ours, 1, 2), np.swapaxes(other.numpy(), 1, 2)  # [batch, query, head, key]
            np.testing.assert_allclose(ours[real], other[real], rtol=0, atol=TOLERANCE)

    def measure(self, *, clock: str, seconds: float) -> list[str]:
        """The row of the table, after its first column."""
        calls = {"recorded": self.recorded, "silent": self.silent, "transformers": self.transformers}
        times = measure(calls, clock=clock, seconds=seconds)
        run, theirs = self.recorded(), self.transformers()
        patterns = sum(run.trace.pattern(layer).nbytes for layer in range(self.model.config.n_layers))
        kept_there = sum(tensor.nbytes for tensor in (*theirs.hidden_states, *theirs.attentions))
        return [
            str(ratio(times, "recorded", "silent")),
            str(ratio(times, "recorded", "transformers")),
            *(f"{np.median(times[name]) * 1e3:.1f}" for name in calls),
            *(f"{n_bytes / 2**20:.1f}" for n_bytes in (patterns, run.n_bytes, kept_there)),
        ]


if __name__ == "__main__":
    main()
