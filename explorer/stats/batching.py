"""What padding costs in computation, and how sentences of like length are put into batches to pay less."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from explorer.config import EncoderConfig
from explorer.errors import ConfigError
from explorer.stats.shapes import parameters_and_flops
from explorer.tape import SITES

ENOUGH: Final = 0.9
"""The share of what can be saved at all with which a suggestion is content."""


def batch_flops(config: EncoderConfig, n_sentences: int, width: int) -> int:
    """FLOPs of the matrix products of one forward pass of a rectangle of tokens. The mask saves none of them.

    Twice the sentences are twice the FLOPs; twice the width is more than that, for scores grow with its square.
    """
    costs = parameters_and_flops(config, batch=n_sentences, pos=width)
    return sum(n * (config.n_layers if f"layers.*.{site}" in SITES else 1) for site, (_, n) in costs.items())


@dataclass(frozen=True, slots=True)
class PaddingCost:
    """Tokens and FLOPs of a padded batch, and of its sentences each alone."""

    n_tokens: int
    n_real: int
    flops: int
    flops_alone: int

    @property
    def token_share(self) -> float:
        """The share of all tokens that is padding."""
        return 1 - self.n_real / self.n_tokens

    @property
    def flop_share(self) -> float:
        """The share of all FLOPs that is spent on padding: 1 − (each sentence alone) / (the batch as it is)."""
        return 1 - self.flops_alone / self.flops


def padding_cost(config: EncoderConfig, lengths: Sequence[int], width: int) -> PaddingCost:
    """What a batch of sentences of these lengths costs at this width. No padding, no share.

    Raises:
        ConfigError: If there is no sentence, or one is longer than the width.
    """
    if not lengths or not 0 < max(lengths) <= width:
        raise ConfigError(f"a batch needs sentences of 1 to {width} tokens (its width), not {list(lengths)}")
    return PaddingCost(
        n_tokens=len(lengths) * width,
        n_real=sum(lengths),
        flops=batch_flops(config, len(lengths), width),
        flops_alone=sum(batch_flops(config, 1, length) for length in lengths),
    )


@dataclass(frozen=True, slots=True)
class Buckets:
    """Sentences parted into batches, each as wide as its longest sentence."""

    batches: tuple[tuple[int, ...], ...]
    """Numbers of the sentences of each batch, the shortest batch first."""
    widths: tuple[int, ...]
    cost: PaddingCost
    """Of all batches together."""
    saving: float
    """The share of the FLOPs of one single batch that is saved."""


def buckets(config: EncoderConfig, lengths: Sequence[int], n: int) -> Buckets:
    """The sentences in n batches so that all together cost as few FLOPs as possible.

    Sorted by length, a best choice never mixes: each batch is a run of neighbours. So this is exact, and not a guess.
    As many batches as there are different lengths pay for no padding at all; more save nothing.

    Raises:
        ConfigError: If n is not between 1 and the number of different lengths.
    """
    return all_buckets(config, lengths, most=n)[n - 1]


def all_buckets(config: EncoderConfig, lengths: Sequence[int], *, most: int | None = None) -> list[Buckets]:
    """The best choice with 1, 2, 3 ... batches, up to `most`, or up to one for each different length.

    Raises:
        ConfigError: If `most` is not between 1 and the number of different lengths.
    """
    different = len(set(lengths))
    most = different if most is None else most
    if not 1 <= most <= different:
        raise ConfigError(
            f"{most} batches of {different} different lengths: the number must lie between 1 and {different}"
        )
    order = sorted(range(len(lengths)), key=lambda number: lengths[number])
    ordered = [lengths[number] for number in order]
    one = padding_cost(config, ordered, ordered[-1])
    found = []
    for stops in _best_stops(config, ordered, most):
        starts = (0, *stops[:-1])
        widths = tuple(ordered[stop - 1] for stop in stops)
        cost = PaddingCost(
            n_tokens=sum((stop - start) * width for start, stop, width in zip(starts, stops, widths, strict=True)),
            n_real=one.n_real,
            flops=sum(
                batch_flops(config, stop - start, width)
                for start, stop, width in zip(starts, stops, widths, strict=True)
            ),
            flops_alone=one.flops_alone,
        )
        batches = tuple(tuple(order[start:stop]) for start, stop in zip(starts, stops, strict=True))
        found.append(Buckets(batches, widths, cost, 1 - cost.flops / one.flops))
    return found


def suggestion(choices: Sequence[Buckets]) -> Buckets:
    """The fewest batches that save at least 90 % of what one batch for each length saves. From all of `all_buckets`."""
    return next(choice for choice in choices if choice.saving >= ENOUGH * choices[-1].saving)


def _best_stops(config: EncoderConfig, ordered: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """For 1, 2 ... batches of sorted lengths, where each best batch stops. By dynamic programming over their number."""
    count = len(ordered)
    alone = {length: batch_flops(config, 1, length) for length in set(ordered)}
    # best[stop]: the fewest FLOPs of the first `stop` sentences in so many batches, and where those batches stop
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    found = []
    for _ in range(most):
        best = {
            stop: min(
                (flops + (stop - start) * alone[ordered[stop - 1]], (*stops, stop))
                for start, (flops, stops) in best.items()
                if start < stop
            )
            for stop in range(1, count + 1)
            if any(start < stop for start in best)
        }
        found.append(best[count][1])
    return found
