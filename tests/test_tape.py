"""The tape: it hands back what it is given, and its catalogue is complete."""

import pytest
import torch

from explorer import MINILM, SILENT, SITES, HeadsOff, Recorder, Tape
from explorer.tape import site_names
from tests.helpers import padding, record, rough, tiny, token_ids
from tests.inputs import ARCHITECTURES

AXES = {"batch", "layer", "head", "query", "key", "pos", "d_model", "d_head", "d_ff"}


def test_the_silent_tape_hands_back_the_same_object():
    value = torch.ones(2)
    assert SILENT("q", value) is value
    assert SILENT.scope("layers.3") is SILENT


def test_a_recorder_hands_back_the_same_object_and_keeps_a_detached_view():
    """A copy would cost memory; an attached view would keep the graph alive."""
    value = torch.ones(2, requires_grad=True) * 2
    tape = Recorder()
    assert tape("q", value) is value
    assert not tape.values["q"].requires_grad
    assert tape.values["q"].data_ptr() == value.data_ptr()


def test_scopes_prefix_names_and_share_one_record():
    tape = Recorder()
    tape.scope("layers.3").scope("attn")("q", torch.ones(1))
    tape("out", torch.ones(1))
    assert list(tape.values) == ["layers.3.attn.q", "out"]


def test_keep_chooses_by_full_name():
    tape = Recorder(lambda site: site.endswith("attn.q"))
    inner = tape.scope("layers.0").scope("attn")
    inner("q", torch.ones(1))
    inner("k", torch.ones(1))
    assert list(tape.values) == ["layers.0.attn.q"]


def test_two_recorders_share_nothing():
    """Catches a mutable default: the second run would find the first one's tensors."""
    first, second = Recorder(), Recorder()
    first("q", torch.ones(1))
    assert second.values == {}


def test_the_catalogue_speaks_the_language_of_axes():
    for site, axes in SITES.items():
        assert set(axes.split()) <= AXES, site


def test_minilm_has_its_sites():
    """By hand: embeddings 6, layers 6 x 16, no final norm."""
    names = site_names(MINILM)
    assert len(names) == len(set(names)) == 6 + 6 * 16
    assert names[:2] == ["embed.tokens", "embed.positions"]
    assert names[-1] == "layers.5.resid_post"
    assert "final_norm.in" not in names


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_recorded_sites_are_the_catalogue_and_axes_fit(name):
    """A site added to the model or to the catalogue alone turns this red; so does a transposed tensor."""
    config = ARCHITECTURES[name]
    model = rough(config)
    ids = token_ids(2, 5, high=50)
    _, values = record(model, ids, padding([5, 3], 5))
    assert sorted(values) == sorted(site_names(config))
    widths = {"batch": 2, "pos": 5, "query": 5, "key": 5, "head": config.n_heads}
    widths |= {"d_model": config.d_model, "d_head": config.d_head, "d_ff": config.d_ff}
    for site, value in values.items():
        number = site.split(".")[1]
        axes = SITES[site.replace(f"layers.{number}.", "layers.*.")].split()
        assert value.ndim == len(axes), site
        assert list(value.shape) == [widths[axis] for axis in axes], site


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_recording_changes_no_bit(name):
    model = rough(ARCHITECTURES[name])
    ids, mask = token_ids(2, 5, high=50), padding([5, 3], 5)
    recorded, _ = record(model, ids, mask)
    assert torch.equal(recorded, model.encoder(ids, mask, tape=SILENT))
    assert torch.equal(recorded, model.encoder(ids, mask))


def test_the_record_is_of_its_time():
    """An in-place operation after a site would falsify it: every value equals a copy made when it was recorded."""

    class Copier(Tape):
        def __init__(self):
            self.copies, self.views = [], []

        def __call__(self, site, value):
            self.copies.append(value.clone())
            self.views.append(value)
            return value

    for placement in ("pre", "post"):
        tape = Copier()
        model = rough(tiny(norm_placement=placement, embedding_norm=True, n_segments=1))
        model.encoder(token_ids(2, 5), padding([5, 3], 5), tape=tape)
        assert len(tape.copies) > 30
        assert all(torch.equal(copy, view) for copy, view in zip(tape.copies, tape.views, strict=True))


def test_a_head_that_is_off_is_zero_in_the_record_and_in_what_is_handed_on():
    """B 2, H 2, 2 queries, d_head 2: only head 1 of layer 3 is touched, and the tensor that was given stays whole."""
    z = torch.arange(1.0, 17.0).reshape(2, 2, 2, 2)
    given = z.clone()
    tape = HeadsOff([(3, 1)])
    inner = tape.scope("layers.3").scope("attn")
    handed_on = inner("z", z)
    assert handed_on[:, 0].tolist() == [[[1, 2], [3, 4]], [[9, 10], [11, 12]]]
    assert handed_on[:, 1].tolist() == [[[0, 0], [0, 0]]] * 2
    assert tape.values["layers.3.attn.z"].data_ptr() == handed_on.data_ptr()
    assert torch.equal(z, given)
    assert handed_on.dtype == z.dtype


def test_every_other_site_passes_through():
    """Layer 13 is not layer 3, and q is not z."""
    tape = HeadsOff({(3, 1), (3, 0)}, keep=lambda site: site.endswith("z"))
    z = torch.ones(1, 2, 1, 1)
    assert tape.scope("layers.13").scope("attn")("z", z) is z
    assert tape.scope("layers.3").scope("attn")("q", z) is z
    assert not tape.scope("layers.3").scope("attn")("z", z).any()
    assert list(tape.values) == ["layers.13.attn.z", "layers.3.attn.z"]


def test_a_head_that_is_infinite_is_zero_when_off():
    """0 times infinity would be NaN."""
    z = torch.full((1, 1, 1, 2), torch.inf)
    assert HeadsOff([(0, 0)])("layers.0.attn.z", z).tolist() == [[[[0, 0]]]]
