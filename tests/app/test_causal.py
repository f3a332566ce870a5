"""Causal attention on the page: what stands after the query is no small weight, but none."""

import numpy as np
import pytest

import explorer
from explorer.stats.rollout import SUMS
from tests.app.page import PARTS, SHOWN, SMALL, Page

TEXT = "one two three"
LINK = SMALL | {"text": TEXT, "causal": "true", "sel": "1.1", "token": "2"}
LATER = np.triu(np.ones((5, 5), dtype=bool), k=1)
"""[CLS] one two three [SEP]: keys after the query."""


@pytest.fixture(scope="module")
def run() -> explorer.Run:
    model = explorer.build(explorer.EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_ff=16))
    return explorer.run(model, model.batch([TEXT]), causal=True)


def hidden(values: np.ndarray, later: np.ndarray) -> np.ndarray:
    return np.where(later, np.nan, values)


def test_the_head_its_token_and_its_sums_leave_out_what_stands_after_the_query(run: explorer.Run) -> None:
    page = Page(**LINK).ok()
    np.testing.assert_array_equal(page.heatmap["z"], hidden(run.trace.pattern(1)[0, 1], LATER))
    assert "no weight at all" in page.explanation
    page.set("show", "token").ok()
    every = run.trace.pattern()[:, 0].reshape(4, 5, 5)  # [layer and head, query, key]
    np.testing.assert_array_equal(page.matrix("looks")["z"], hidden(every[:, 2], LATER[2]))
    np.testing.assert_array_equal(page.matrix("looked_at")["z"], hidden(every[:, :, 2], LATER[:, 2]))
    for name in SUMS:
        page.set("show", "sums").set("sum", name).ok()
        np.testing.assert_array_equal(np.isnan(page.matrix("sum_matrix")["z"]), LATER)
    assert not page.at.dataframe[0].value.isna().to_numpy().any()


def test_a_query_has_no_product_with_a_later_key(run: explorer.Run) -> None:
    page = Page(**LINK, show="queries").ok()
    drawn = page.matrix("products")
    np.testing.assert_array_equal(np.isnan(drawn["z"]).all(axis=1), LATER[2])
    np.testing.assert_array_equal(np.isnan(drawn["z"]).any(axis=1), LATER[2])
    scores = run.trace.scores(1)[0, 1][2]
    np.testing.assert_allclose(drawn["side_values"][0], scores, rtol=1e-6)
    np.testing.assert_allclose(np.nansum(drawn["z"], axis=1)[:3], scores[:3], rtol=1e-5)


def test_an_opened_pattern_is_hatched_where_it_is_hidden(run: explorer.Run) -> None:
    page = Page(**LINK, view="shapes", shape_show="tensor", site="attn.pattern").ok()
    np.testing.assert_array_equal(page.matrix("tensor")["z"], hidden(run.trace.pattern(1)[0, 1], LATER))
    assert "[batch, 1, query, key]" in page.set("shape_show", "cost").ok().explanation


def test_the_table_of_queries_counts_the_keys_that_each_may_see(run: explorer.Run) -> None:
    table = Page(**LINK).ok().at.dataframe[0].value
    assert table["Keys"].tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(table["Largest possible"], np.log([1, 2, 3, 4, 5]))
    assert table["Entropy (nats)"].iloc[0] == 0


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(("view", "part"), [(view, part) for view in PARTS for part in PARTS[view]], ids=str)
def test_every_view_of_a_causal_run(view: str, part: str, side: str) -> None:
    """On the left without the mask: with it, the first queries would have no key."""
    mask = {"pad_to": "9"} if side == "right" else {"pad_to": "9", "pad_side": "left", "mask": "false"}
    shown = {SHOWN[view]: part} if part else {}
    page = Page(**(LINK | mask), **shown, view=view, norm="pre").ok()
    assert "causal" in page.status


def test_words_and_hidden_special_tokens_keep_the_triangle() -> None:
    page = Page(causal="true", units="words", special="hidden", text="unhappily tokenised").ok()
    z = page.heatmap["z"]
    np.testing.assert_array_equal(np.isnan(z), np.triu(np.ones(z.shape, dtype=bool), k=1))
