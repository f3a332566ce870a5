"""A sentence alone, padded and masked, padded and not masked: equal, equal, and not."""

import numpy as np
import pytest

import explorer
from explorer import ConfigError, build
from explorer.padding import padding_attention, padding_difference
from tests.helpers import rough, tiny

TEXT = "The animal didn't cross the street."


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_masked_padding_changes_nothing_and_unmasked_padding_does(side, placement):
    model = rough(tiny(norm_placement=placement))
    alone = explorer.run(model, model.batch(["one two three"]))
    for pad_to in (6, 9, 31):
        batch = model.batch(["one two three", "a b"], pad_to=pad_to, padding_side=side)
        masked = padding_difference(alone, explorer.run(model, batch))
        unmasked = padding_difference(alone, explorer.run(model, batch, use_mask=False))
        assert masked["difference"].max() <= 1e-5
        assert unmasked["difference"].max() > 1e-2
        for table in (masked, unmasked):
            assert len(table) == len(alone.trace.checkpoints()) * 5
            assert table["token"].tolist()[:5] == ["[CLS]", "one", "two", "three", "[SEP]"]
            assert table["position"].tolist()[:5] == [0, 1, 2, 3, 4]
            assert table["pos"].iloc[0] == (0 if side == "right" else pad_to - 5)
            assert (table.loc[table["point"] == "pre", ["difference", "relative"]] == 0).all().all()
        entered = unmasked[unmasked["difference"] > 1e-5].iloc[0]
        assert (entered["point"], entered["layer"]) == ("mid", 0)


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_trained_encoder(minilm, side):
    alone = explorer.run(minilm, minilm.batch([TEXT]))
    batch = minilm.batch([TEXT, "The street was too wide."], pad_to=17, padding_side=side)
    masked = padding_difference(alone, explorer.run(minilm, batch))
    unmasked = padding_difference(alone, explorer.run(minilm, batch, use_mask=False))
    assert 0 < masked["difference"].max() <= 1e-5
    assert unmasked["difference"].max() > 0.1
    assert (unmasked[unmasked["point"] != "pre"].groupby(["layer", "point"])["difference"].min() > 1e-5).all()


def test_the_difference_is_that_of_the_streams():
    """The second of three sentences, padded on the left, in a batch of as many sentences as tokens and heads."""
    model = rough(tiny(n_heads=4, norm_placement="pre"))
    alone = explorer.run(model, model.batch(["one two"]))
    padded = explorer.run(
        model, model.batch(["a b c d", "one two", "e", "f"], padding_side="left", pad_to=7), use_mask=False
    )
    table = padding_difference(alone, padded, sentence=1)
    one, other = alone.trace.resid("mid", 1)[0, 2], padded.trace.resid("mid", 1)[1, 5]
    row = table[(table["point"] == "mid") & (table["layer"] == 1) & (table["pos"] == 5)].iloc[0]
    assert row["token"] == "two"
    assert row["position"] == 2
    assert row["difference"] == pytest.approx(np.abs(one - other).max(), rel=1e-6)
    assert row["relative"] == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(one), rel=1e-5)
    final = table[table["point"] == "final"]
    assert final["layer"].isna().all()
    assert final["difference"].tolist() == pytest.approx(
        np.abs(alone.output[0] - padded.output[1, 3:]).max(axis=1).tolist(), rel=1e-6
    )


@pytest.mark.parametrize("side", ["right", "left"])
def test_attention_of_the_three(side):
    model = rough(tiny())
    alone = explorer.run(model, model.batch(["one two three"]))
    batch = model.batch(["one two three"], pad_to=9, padding_side=side)
    masked = padding_attention(alone, explorer.run(model, batch))
    wrong = explorer.run(model, batch, use_mask=False)
    unmasked = padding_attention(alone, wrong)
    assert len(masked) == 2 * 2 * 5
    assert masked["difference"].max() <= 1e-5
    assert (masked["on_padding"] == 0).all()
    assert unmasked["difference"].max() > 1e-2
    real = slice(0, 5) if side == "right" else slice(4, 9)
    pads = slice(5, 9) if side == "right" else slice(0, 4)
    row = unmasked[(unmasked["layer"] == 1) & (unmasked["head"] == 1) & (unmasked["token"] == "two")].iloc[0]
    query = int(row["pos"])
    weights = wrong.trace.pattern(1)[0, 1, query]
    assert row["on_padding"] == pytest.approx(weights[pads].sum(), rel=1e-6)
    assert row["difference"] == pytest.approx(np.abs(weights[real] - alone.trace.pattern(1)[0, 1, 2]).max(), rel=1e-5)


def test_what_cannot_be_compared_is_refused():
    model = build(tiny())
    alone = explorer.run(model, model.batch(["a b"]))
    padded = explorer.run(model, model.batch(["a b"], pad_to=6))
    refused = [
        (padded, padded, 0, "by itself, without padding"),
        (explorer.run(model, model.batch(["a b", "a b"])), padded, 0, "2 sentences"),
        (alone, padded, 1, "no sentence 1"),
        (alone, explorer.run(model, model.batch(["a c"], pad_to=6)), 0, "different tokens"),
        (alone, explorer.run(model, model.batch(["a b c"], pad_to=6)), 0, "4 alone, 5 real"),
        (alone, explorer.run(build(tiny(n_heads=4)), model.batch(["a b"], pad_to=6)), 0, "architectures"),
    ]
    for one, other, sentence, said in refused:
        for compare in (padding_difference, padding_attention):
            with pytest.raises(ConfigError, match=said):
                compare(one, other, sentence=sentence)
