"""The CSV files: the numbers of the run, whole, and safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import streamlit

import explorer
from components.address import DEFAULT_TEXT, pack_settings
from components.address import read as read_address
from explorer.comparison import Comparison, compare, compare_parameters
from tests.app.page import SHOWN, SHOWN_OF_TWO, SMALL, TWO, VIEWS, Page
from tests.inputs import TEXTS

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell starts that a spreadsheet runs."""

Downloads = dict[str, Callable[[], bytes]]


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> Downloads:
    """What each download button of the page would send: file name -> its maker."""
    files: Downloads = {}
    real = streamlit.download_button

    def button(label: str, data: Callable[[], bytes], **kwargs: object) -> bool:
        files[str(kwargs["file_name"])] = data
        return real(label, data, **kwargs)

    monkeypatch.setattr(streamlit, "download_button", button)
    return files


def read(data: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(data), encoding="utf-8-sig", keep_default_na=False)


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Text as it was, but for the apostrophe that keeps a formula from being one; numbers to the last digit."""
    assert list(found.columns) == list(expected.columns)
    assert len(found) == len(expected) > 0
    for column in expected:
        if pd.api.types.is_float_dtype(expected[column]):
            assert (found[column].astype(str) == "").tolist() == expected[column].isna().tolist()
            np.testing.assert_allclose(pd.to_numeric(found[column]), expected[column], rtol=1e-6)
        else:
            wanted = ["" if pd.isna(cell) else str(cell) for cell in expected[column]]
            assert [str(cell) for cell in found[column]] == [f"'{w}" if w.startswith(FORMULA) else w for w in wanted]


def files_of(view: str, downloads: Downloads, **link: str) -> dict[str, pd.DataFrame]:
    Page(view=view, **link).ok()
    return {name.removeprefix(f"encoder-explorer-{view}-"): read(make()) for name, make in downloads.items()}


@pytest.fixture
def run(minilm: explorer.Model) -> explorer.Run:
    return explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")))


def test_attention(downloads: Downloads, run: explorer.Run) -> None:
    files = files_of("attention", downloads, sel="2.5", sentence="1")
    same(files["all-heads.csv"], run.tables.attention())
    of_head = run.tables.attention(2).query("head == 5 and sentence == 1")
    same(files["this-table.csv"], of_head)
    weights = files["weights-of-this-head.csv"]
    n_real = 8  # padded rows mean nothing and padded columns are 0: neither is in the file
    names = [f"{i} {token}" for i, token in enumerate(run.batch.tokens[1][:n_real])]
    assert weights["query"].tolist() == names
    assert list(weights.columns[1:]) == names
    of_head = run.trace.pattern(2)[1, 5, :n_real, :n_real]
    np.testing.assert_allclose(weights.iloc[:, 1:].astype(float), of_head, rtol=1e-6)


def test_without_the_mask_the_weights_on_padding_are_in_the_file(downloads: Downloads, minilm: explorer.Model) -> None:
    files = files_of("attention", downloads, sel="2.5", sentence="1", mask="false")
    run = explorer.run(minilm, minilm.batch(DEFAULT_TEXT.split("\n")), use_mask=False)
    weights = files["weights-of-this-head.csv"].iloc[:, 1:].astype(float)
    np.testing.assert_allclose(weights, run.trace.pattern(2)[1, 5, :8], rtol=1e-6)


def test_layernorm(downloads: Downloads, run: explorer.Run) -> None:
    files = files_of("layernorm", downloads, sel="2.5", norm_at="norm1")
    same(files["all-norms.csv"], run.tables.layernorm())
    chosen = run.tables.layernorm().query("norm == 'norm1' and layer == 2 and sentence == 0")
    same(files["this-table.csv"], chosen)


def test_residual(downloads: Downloads, run: explorer.Run) -> None:
    files = files_of("residual", downloads, stream_show="checkpoint")
    same(files["all-layers.csv"], run.tables.residual())
    same(files["all-checkpoints.csv"], run.tables.stream())
    chosen = run.tables.stream().query("sentence == 0 and layer == 3 and point == 'post'")
    columns = {"position": "position", "token": "token", "norm": "l2_norm", "added": "added"}
    same(files["this-table.csv"][list(columns.values())], chosen[list(columns)].rename(columns=columns))


def test_sentence_vectors(downloads: Downloads, run: explorer.Run) -> None:
    """Of length 1, as the published encoder gives them: the mean of the real tokens, and `[CLS]`."""
    files = files_of("residual", downloads, stream_show="sentences")
    for name, vectors in {
        "mean-vectors.csv": [run.output[0].mean(axis=0), run.output[1, :8].mean(axis=0)],
        "cls-vectors.csv": run.output[:, 0],
    }.items():
        assert files[name]["sentence_text"].tolist() == DEFAULT_TEXT.split("\n")
        unit = np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(files[name].iloc[:, 1:].astype(float), unit, atol=1e-6)


def test_shapes(downloads: Downloads, run: explorer.Run) -> None:
    files = files_of("shapes", downloads)
    same(files["every-recorded-tensor.csv"], run.tables.shapes())
    table = files["this-table.csv"]
    assert table["flops"].sum() == run.tables.shapes()["flops"].sum()
    assert table["parameters"].sum() == run.tables.shapes()["parameters"].sum()
    assert files["every-step.csv"].equals(table)


OTHER = ["=1+1 one", "four"]


@pytest.fixture
def two(downloads: Downloads) -> Callable[..., dict[str, pd.DataFrame]]:
    """The files of a view of two built encoders: B has another text and another seed."""

    def files(view: str, **look: str) -> dict[str, pd.DataFrame]:
        downloads.clear()
        values, _ = read_address(SMALL | {"text": "one two\nfour"})
        Page(**SMALL, **look, view=view, seed="1", text="\n".join(OTHER), a=pack_settings(values)).ok()
        start = "encoder-explorer-pair-"
        assert all(name.startswith(start) for name in downloads)
        return {name.removeprefix(start): read(make()) for name, make in downloads.items()}

    return files


@pytest.fixture
def both() -> Comparison:
    config = explorer.EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_ff=16)
    models = [explorer.build(config, seed=seed) for seed in (0, 1)]
    texts = ["one two", "four"], OTHER
    runs = [explorer.run(model, model.batch(text)) for model, text in zip(models, texts, strict=True)]
    return compare(*runs)


Two = Callable[..., dict[str, pd.DataFrame]]


def test_the_heads_and_tokens_of_two_runs(two: Two, both: Comparison) -> None:
    files = two("compare")
    heads = both.heads().sort_values("moved", ascending=False, kind="stable", ignore_index=True)
    same(files["heads.csv"][["layer", "head", "moved"]], heads[["layer", "head", "moved"]])
    assert set(files["heads.csv"]["there_in"]) == {"A and B"}
    assert set(files["heads.csv"]["off_in"]) == {"none"}
    stream = both.stream().sort_values("relative", ascending=False, kind="stable", ignore_index=True)
    columns = ["point", "slot", "token", "norm_a", "norm_b", "distance", "relative", "cosine"]
    same(files["tokens.csv"][columns], stream[columns])
    settings = files["settings.csv"].set_index("setting")
    assert settings["setting_a"].to_dict() == {"Text": "“one two / four”", "Weights": "Xavier uniform, seed 0"}
    assert settings.loc["Text", "setting_b"] == "“=1+1 one / four”"


def test_the_outputs_of_two_runs(two: Two, both: Comparison) -> None:
    outputs = both.outputs().sort_values("relative", ascending=False, kind="stable", ignore_index=True)
    same(two("compare", pair_show="outputs")["this-table.csv"], outputs)


def test_the_weights_of_one_head_of_two_runs(two: Two, both: Comparison) -> None:
    """A row for each pair of tokens that either has. What one has not is empty."""
    file = two("attention", sel="0.1")["weights-of-this-head.csv"]
    a, b, difference = both.pattern(0, 1)
    known = np.isfinite(a) | np.isfinite(b)
    assert len(file) == known.sum()
    for column, values in {"weight_a": a, "weight_b": b, "difference": difference}.items():
        found = pd.to_numeric(file[column].replace("", np.nan)).to_numpy()
        np.testing.assert_allclose(found, values[known], rtol=1e-6)
    assert set(file["query"]) == {"[CLS]", "one", "two (A)", "'= (B)", "1 (B)", "'+ (B)", "[SEP]"}


def test_the_parameters_of_two_runs(two: Two) -> None:
    config = explorer.EncoderConfig(n_layers=2, n_heads=2, d_model=8, d_ff=16)
    expected = compare_parameters(*(explorer.build(config, seed=seed) for seed in (0, 1))).set_index("name")
    file = two("shapes", shape_show="parameters")["this-table.csv"].set_index("name")
    assert sorted(file.index) == sorted(expected.index)
    assert file.loc[expected.index, "status"].tolist() == expected["status"].tolist()
    np.testing.assert_allclose(
        pd.to_numeric(file.loc[expected.index, "largest_difference"]), expected["largest_difference"], rtol=1e-6
    )


@pytest.mark.parametrize(("view", "part"), [(view, part) for view, parts in TWO.items() for part in parts], ids=str)
def test_every_file_of_two_runs_is_safe(two: Two, downloads: Downloads, view: str, part: str) -> None:
    files = two(view, **({SHOWN_OF_TWO[view]: part} if part else {}))
    assert "heads.csv" in files or "this-table.csv" in files
    for name, make in downloads.items():
        for row in csv.reader(io.StringIO(make().decode("utf-8-sig"))):
            assert not any(cell.startswith(FORMULA) and not _number(cell) for cell in row), name


def test_every_view_offers_its_numbers(downloads: Downloads) -> None:
    for view in VIEWS:
        downloads.clear()
        Page(**SMALL, view=view).ok()
        assert f"encoder-explorer-{view}-this-table.csv" in downloads


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("text", [TEXTS["formula"], "=1+1 -2 @x +y", "- - -", TEXTS["tab and quotes"], "a,b;c"])
@pytest.mark.parametrize(
    ("view", "part"),
    [
        ("attention", "map"),
        ("layernorm", "tokens"),
        ("layernorm", "distribution"),
        ("residual", "growth"),
        ("residual", "checkpoint"),
        ("residual", "sentences"),
        ("shapes", "tensor"),
    ],
)
def test_no_cell_starts_a_formula(view: str, part: str, text: str, downloads: Downloads) -> None:
    Page(**SMALL, view=view, text=text, **{SHOWN[view]: part}).ok()
    assert downloads
    for make in downloads.values():
        data = make()
        assert data.startswith(b"\xef\xbb\xbf")  # so that a spreadsheet reads accents
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
        assert len({len(row) for row in rows}) == 1
        for cell in (cell for row in rows for cell in row):
            assert _number(cell) or not cell.startswith(FORMULA), cell


def test_a_formula_is_still_in_the_file_as_text(downloads: Downloads) -> None:
    files = files_of("attention", downloads, **SMALL, text="=1+1")
    assert files["all-heads.csv"]["token"].tolist()[:6] == ["[CLS]", "'=", "1", "'+", "1", "[SEP]"]


def test_words_that_pandas_reads_as_missing_stay_words(downloads: Downloads) -> None:
    files = files_of("residual", downloads, **SMALL, text="null nan NA None", stream_show="checkpoint")
    assert files["this-table.csv"]["token"].tolist()[:6] == ["[CLS]", "null", "nan", "NA", "None", "[SEP]"]


def test_each_page_downloads_its_own_run(downloads: Downloads) -> None:
    """A button makes its file when it is clicked, maybe after others have run other texts."""
    Page(**SMALL, text="first").ok()
    first = dict(downloads)
    Page(**SMALL, text="second").ok()
    name = "encoder-explorer-attention-all-heads.csv"
    assert read(first[name]())["token"].tolist()[1] == "first"
    assert read(downloads[name]())["token"].tolist()[1] == "second"
