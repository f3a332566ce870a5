"""The share of computation spent on padding, and the best batches against all there are."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from explorer import MINILM, ConfigError, build
from explorer.stats.batching import all_buckets, batch_flops, buckets, padding_cost, suggestion
from tests.helpers import tiny


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_flops_are_what_torch_counts(placement):
    model = build(tiny(norm_placement=placement, n_layers=3))
    batch = model.batch(["one two three", "four"], pad_to=7)
    with FlopCounterMode(display=False) as counter:
        model.encoder(batch.token_ids, batch.key_padding_mask)
    assert counter.get_total_flops() == batch_flops(model.config, 2, 7)


def test_the_share_of_padding_by_hand():
    """Lengths 1 and 4 at width 4, in 1 layer of D 8 and FF 16: a token costs 1024 in products, a pair of them 32."""
    config = tiny(n_layers=1)
    cost = padding_cost(config, [1, 4], 4)
    assert (cost.n_tokens, cost.n_real) == (8, 5)
    assert cost.token_share == 3 / 8
    assert cost.flops == 8 * 1024 + 2 * 16 * 32
    assert cost.flops_alone == 5 * 1024 + (1 + 16) * 32
    assert cost.flop_share == 1 - cost.flops_alone / cost.flops


def test_without_padding_nothing_is_spent_on_it():
    cost = padding_cost(MINILM, [5, 5], 5)
    assert (cost.token_share, cost.flop_share) == (0, 0)
    choices = all_buckets(MINILM, [5, 5, 5])
    assert len(choices) == 1
    assert choices[0].batches == ((0, 1, 2),)
    assert choices[0].saving == 0
    assert suggestion(choices) is choices[0]


def partitions(numbers: list[int]) -> Iterator[list[list[int]]]:
    """Every way to part numbers into groups, neighbours or not."""
    if not numbers:
        yield []
        return
    for smaller in partitions(numbers[1:]):
        yield [[numbers[0]], *smaller]
        for i, group in enumerate(smaller):
            yield [*smaller[:i], [numbers[0], *group], *smaller[i + 1 :]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_no_other_choice_of_batches_is_cheaper(lengths):
    config = tiny()

    def flops(groups):
        return sum(batch_flops(config, len(group), max(lengths[i] for i in group)) for group in groups)

    every = list(partitions(list(range(len(lengths)))))
    for n, found in enumerate(all_buckets(config, lengths), start=1):
        assert found.cost.flops == flops(found.batches) == min(flops(groups) for groups in every if len(groups) == n)
        assert sorted(i for batch in found.batches for i in batch) == list(range(len(lengths)))
        assert found.widths == tuple(max(lengths[i] for i in batch) for batch in found.batches)
        assert buckets(config, lengths, n) == found


def test_savings_grow_to_no_padding_and_the_suggestion_is_the_fewest_that_are_enough():
    lengths = list(range(3, 23))  # sentences of 1 to 20 words
    choices = all_buckets(MINILM, lengths)
    savings = [choice.saving for choice in choices]
    assert len(choices) == 20
    assert savings[0] == 0
    assert savings == sorted(savings)
    assert choices[-1].cost.flop_share == 0
    assert choices[-1].saving == pytest.approx(choices[0].cost.flop_share)
    suggested = suggestion(choices)
    number = len(suggested.batches)
    assert savings[number - 1] >= 0.9 * savings[-1] > savings[number - 2]


def test_the_order_of_the_sentences_does_not_matter():
    assert buckets(MINILM, [9, 2, 9, 3], 2).batches == ((1, 3), (0, 2))


def test_sentences_as_many_as_are_run_at_once_are_parted_in_no_time():
    assert len(all_buckets(MINILM, list(range(1, 65)))) == 64


@pytest.mark.parametrize("n", [0, 3, -1])
def test_a_number_of_batches_that_cannot_be_is_refused(n):
    with pytest.raises(ConfigError, match="between 1 and 2"):
        buckets(MINILM, [4, 4, 7], n)


def test_a_batch_narrower_than_its_sentences_is_refused():
    for lengths, width in (([3, 9], 8), ([], 8), ([0], 8)):
        with pytest.raises(ConfigError, match="1 to 8 tokens"):
            padding_cost(MINILM, lengths, width)
