"""The figures, each against a slower way to say what it means."""

import numpy as np
import pytest

import explorer
from explorer import MINILM
from tests.helpers import rough, tiny
from training.evaluate import batches, cls_variances, compare, residual_sums, stream_norms

TEXTS = ["one two three four five", "six", "seven eight nine", "ten eleven twelve thirteen"]


@pytest.fixture(scope="module")
def pair():
    """A Post-LN and a Pre-LN encoder with nothing in common but their shape."""
    return rough(tiny(norm_placement="post"), seed=1), rough(tiny(norm_placement="pre"), seed=2)


def cosine(x, y):
    return x @ y / np.sqrt((x @ x) * (y @ y))


def test_figures_token_by_token(pair):
    """One text at a time, without padding, one row of attention at a time."""
    teacher, twin = pair
    found = compare(teacher, twin, TEXTS)
    sentences, outputs, reads = [], [], []
    rows = {(layer, head): [] for layer in range(2) for head in range(2)}
    same = [[], []]
    for text in TEXTS:
        batch = teacher.batch([text])
        theirs, ours = explorer.run(teacher, batch), explorer.run(twin, batch)
        sentences.append(cosine(theirs.output[0].mean(axis=0), ours.output[0].mean(axis=0)))
        for pos in range(batch.n_real):
            outputs.append(cosine(theirs.output[0, pos], ours.output[0, pos]))
            # layer 1's feed-forward reads resid_mid in Post-LN and the output of norm2 in Pre-LN
            reads.append(cosine(theirs.trace.resid("mid", 1)[0, pos], ours.trace.norm("norm2", "out", 1)[0, pos]))
            for layer, head in rows:
                p, q = (run.trace.pattern(layer)[0, head, pos] for run in (theirs, ours))
                rows[layer, head].append(sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2)
                same[layer].append(p.argmax() == q.argmax())
    assert found.sentence_cosine == pytest.approx(np.array(sentences), abs=1e-5)
    assert found.reads[-1] == pytest.approx(np.mean(outputs), abs=1e-5)
    assert found.reads[3] == pytest.approx(np.mean(reads), abs=1e-5)
    for (layer, head), values in rows.items():
        assert found.variation[layer, head] == pytest.approx(np.mean(values), abs=1e-5)
    assert found.layer_variation == pytest.approx(found.variation.mean(axis=1))
    assert found.top_key == pytest.approx([np.mean(values) for values in same])


def test_an_encoder_is_as_close_to_itself_as_can_be(pair):
    for model in pair:
        found = compare(model, model, TEXTS)
        assert found.variation.max() == 0
        assert found.top_key.min() == 1
        assert np.concatenate([found.sentence_cosine, found.reads]) == pytest.approx(1)


def test_the_stream_is_measured_at_the_start_and_after_each_sublayer(pair):
    _, twin = pair
    run = explorer.run(twin, twin.batch([TEXTS[0]]))
    points = [run.trace.embedding("sum"), *(run.trace.resid(p, layer) for layer in range(2) for p in ("mid", "post"))]
    expected = [np.median(np.linalg.norm(point[0], axis=-1)) for point in points]
    assert stream_norms(twin, TEXTS[:1]) == pytest.approx(expected, abs=1e-4)


def test_a_post_ln_sum_is_what_its_norm_gets(pair):
    teacher, _ = pair
    run = explorer.run(teacher, teacher.batch([TEXTS[0]]))
    total = run.trace.resid("pre", 1) + run.trace.attn_out(1)
    assert residual_sums(teacher, TEXTS[:1])[2] == pytest.approx(np.median(np.linalg.norm(total[0], axis=-1)), abs=0.01)
    assert cls_variances(teacher, TEXTS[:1])[2] == pytest.approx(total[0, 0].var(), abs=0.001)


def test_batches_keep_the_order_and_are_bounded(pair):
    teacher, _ = pair
    texts = [f"word{n}" * (n % 3 + 1) + " and" * (n % 20) for n in range(150)]
    found = batches(teacher, texts)
    assert [text for batch in found for text in batch.sentences] == texts
    assert len(found) > 1
    assert max(batch.token_ids.numel() for batch in found) <= 2048
    assert batches(teacher, []) == []


def test_the_known_facts_of_the_teacher_are_found(minilm):
    """tests/goldens/README.md: `[CLS]` has variance 128 before the feed-forward norm of layer 0."""
    assert cls_variances(minilm, ["The animal didn't cross the street because it was too tired."])[1] == pytest.approx(
        128, abs=1
    )
    assert len(residual_sums(minilm, ["Hello"])) == 2 * MINILM.n_layers
