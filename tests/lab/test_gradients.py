"""The gradients of one encoder: right to the last entry, and nothing is left behind."""

import copy
import sys
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose

import explorer
from explorer import Tape
from explorer.lab import CHECKPOINTS, MATRICES, GradientTape, gradient_norms
from explorer.tape import site_names
from tests.helpers import padding, rough, tiny, token_ids
from tests.inputs import ARCHITECTURES

PLACEMENTS = pytest.mark.parametrize("placement", ["post", "pre"])
IDS, MASK = token_ids(2, 4, high=20), padding([4, 3], 4)


def guess(output):
    """A loss that no symmetry makes small: cross-entropy over the features, at the real positions."""
    return F.cross_entropy(output[~MASK], torch.arange(7) % output.shape[-1])


def loss_of(encoder, tape=explorer.SILENT):
    return float(guess(encoder(IDS, MASK, tape=tape)))


def in_float64(placement):
    return rough(tiny(d_model=4, d_ff=6, norm_placement=placement)).encoder.double()


def trained_copy(encoder):
    """Its parameters want gradients, as those of an encoder that is trained."""
    return copy.deepcopy(encoder).requires_grad_()


@pytest.mark.usefixtures("unchecked")  # 1,000 forward passes
@PLACEMENTS
def test_norms_of_matrices_are_those_of_finite_differences(placement):
    """Every entry of every matrix is moved, both ways: no autograd. q, k and v are rows 0-3, 4-7, 8-11 of in_proj."""
    encoder = in_float64(placement)
    norms = gradient_norms(encoder, IDS, MASK, guess)
    assert norms.loss == pytest.approx(loss_of(encoder), abs=1e-12)
    step = 1e-5
    for layer, parts in enumerate(encoder.layers):
        in_proj = parts.attn.in_proj.weight
        matrices = dict(zip("qkv", in_proj.split(4), strict=True)) | {"out_proj": parts.attn.out_proj.weight}
        matrices |= {"linear1": parts.ff.linear1.weight, "linear2": parts.ff.linear2.weight}
        for name, matrix in matrices.items():
            slope = []
            for row, column in np.ndindex(*matrix.shape):
                before = float(matrix[row, column])
                matrix[row, column] = before + step
                up = loss_of(encoder)
                matrix[row, column] = before - step
                slope.append((up - loss_of(encoder)) / (2 * step))
                matrix[row, column] = before
            assert norms.matrix(name)[layer] == pytest.approx(np.linalg.norm(slope), rel=1e-6), (layer, name)


class Nudge(Tape):
    """Moves one number of one site."""

    def __init__(self, site, index, step, prefix=""):
        self.site, self.index, self.step, self.prefix = site, index, step, prefix

    def __call__(self, site, value):
        if self.prefix + site != self.site:
            return value
        nudged = value.clone()
        nudged[self.index] += self.step
        return nudged

    def scope(self, name):
        return Nudge(self.site, self.index, self.step, f"{self.prefix}{name}.")


@pytest.mark.usefixtures("unchecked")
@PLACEMENTS
def test_norms_of_the_stream_are_those_of_finite_differences(placement):
    """Also where the stream starts, before which an open vocabulary has no parameter at all."""
    encoder = in_float64(placement)
    norms = gradient_norms(encoder, IDS, MASK, guess)
    step = 1e-5
    for layer in range(2):
        for column, name in enumerate(CHECKPOINTS):
            site = f"layers.{layer}.{name}"
            slope = [
                (loss_of(encoder, Nudge(site, index, step)) - loss_of(encoder, Nudge(site, index, -step))) / (2 * step)
                for index in np.ndindex(2, 4, 4)
            ]
            assert norms.stream[layer, column] == pytest.approx(np.linalg.norm(slope), rel=1e-6), site


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients_at_every_site_are_those_of_a_backward_pass(name):
    """On the frozen encoder the tape starts the graph; on a copy that is trained, `backward` fills what torch keeps."""

    class Retainer(Tape):
        def __init__(self, values, prefix=""):
            self.values, self.prefix = values, prefix

        def __call__(self, site, value):
            if value.requires_grad:
                value.retain_grad()
                self.values[self.prefix + site] = value
            return value

        def scope(self, name):
            return Retainer(self.values, f"{self.prefix}{name}.")

    frozen = rough(ARCHITECTURES[name]).encoder
    tape = GradientTape()
    found = tape.gradients(guess(frozen(IDS, MASK, tape=tape)))
    assert sorted(found) == sorted(site_names(ARCHITECTURES[name]))

    retained = {}
    trained = trained_copy(frozen)
    guess(trained(IDS, MASK, tape=Retainer(retained))).backward()
    assert len(retained) >= 15 * len(trained.layers)
    for site, value in retained.items():
        assert_allclose(found[site], value.grad, rtol=0, atol=1e-6, err_msg=site)
    assert not any(value.retains_grad or (value.is_leaf and value.grad is not None) for value in tape.values.values())


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients_of_parameters_are_those_of_a_backward_pass(name):
    encoder = rough(ARCHITECTURES[name]).encoder
    norms = gradient_norms(encoder, IDS, MASK, guess)
    trained = trained_copy(encoder)
    guess(trained(IDS, MASK)).backward()
    expected = [
        [
            *(float(third.norm()) for third in layer.attn.in_proj.weight.grad.chunk(3)),
            *(float(part.weight.grad.norm()) for part in (layer.attn.out_proj, layer.ff.linear1, layer.ff.linear2)),
        ]
        for layer in trained.layers
    ]
    assert_allclose(norms.matrices, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_reading_gradients_changes_no_bit(name):
    """Silent in the same mode: heads of width 1 are multiplied in another order once torch wants gradients."""
    model = rough(ARCHITECTURES[name])
    frozen, trained = model.encoder, trained_copy(model.encoder)
    assert torch.equal(frozen(IDS, MASK, tape=GradientTape()), frozen(IDS, MASK))
    assert torch.equal(trained(IDS, MASK, tape=GradientTape()), trained(IDS, MASK))
    outputs = []
    gradient_norms(frozen, IDS, MASK, lambda output: outputs.append(output) or guess(output))
    assert torch.equal(outputs[0], trained(IDS, MASK))


@PLACEMENTS
def test_padding_has_no_gradient_and_layers_hand_over_theirs(placement):
    tape = GradientTape(lambda site: site.endswith(CHECKPOINTS))
    found = tape.gradients(guess(rough(tiny(norm_placement=placement)).encoder(IDS, MASK, tape=tape)))
    for gradient in found.values():
        assert not gradient[MASK].any()
        assert gradient[~MASK].any(dim=-1).all()
    assert torch.equal(found["layers.0.resid_post"], found["layers.1.resid_pre"])


def test_a_tape_without_a_graph_says_so():
    tape = GradientTape()
    with torch.no_grad():
        loss = guess(rough(tiny()).encoder(IDS, MASK, tape=tape))
    with pytest.raises(RuntimeError, match="does not require grad"):
        tape.gradients(loss)


def test_the_table_is_tidy():
    norms = gradient_norms(rough(tiny()).encoder, IDS, MASK, guess)
    table = norms.table()
    assert list(table.columns) == ["layer", "kind", "name", "norm"]
    assert len(table) == 2 * (6 + 3)
    for layer in range(2):
        here = table[table.layer == layer].set_index("name")
        assert here.loc[list(MATRICES), "norm"].tolist() == norms.matrices[layer].tolist()
        assert here.loc[list(CHECKPOINTS), "norm"].tolist() == norms.stream[layer].tolist()
    with pytest.raises(KeyError, match="linear3"):
        norms.matrix("linear3")
    with pytest.raises(ValueError, match="read-only"):
        norms.matrices[0, 0] = 0


@PLACEMENTS
def test_a_shared_encoder_stays_as_it_is(placement):
    encoder = rough(tiny(norm_placement=placement, vocab_size=20)).encoder
    before = {name: (value.data_ptr(), value.clone()) for name, value in encoder.state_dict().items()}
    for grad_mode in (torch.enable_grad, torch.no_grad):
        with grad_mode():
            was = torch.is_grad_enabled()
            gradient_norms(encoder, IDS, MASK, guess)
            assert torch.is_grad_enabled() == was
    for name, value in encoder.state_dict().items():
        pointer, numbers = before[name]
        assert value.data_ptr() == pointer
        assert torch.equal(value, numbers)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in encoder.parameters())
    assert not any(module._forward_hooks or module._backward_hooks for module in encoder.modules())


@pytest.fixture
def _switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switch_often")
@PLACEMENTS
def test_threads_that_share_an_encoder_get_their_own_gradients(placement):
    """Equal shapes, two texts and a run without gradients: bit for bit what each gives alone."""
    model = rough(tiny(norm_placement=placement))
    batches = [token_ids(2, 4, high=20, seed=seed) for seed in range(2)]
    alone = [gradient_norms(model.encoder, ids, MASK, guess) for ids in batches]
    text = model.batch(["one two three"])
    output = explorer.run(model, text).output
    assert not np.array_equal(alone[0].matrices, alone[1].matrices)
    start, done, wrong = threading.Barrier(3), [], []

    def measure(mine):
        start.wait()
        for _ in range(25):
            found = gradient_norms(model.encoder, batches[mine], MASK, guess)
            if not (
                np.array_equal(found.matrices, alone[mine].matrices)
                and np.array_equal(found.stream, alone[mine].stream)
            ):
                wrong.append(mine)
        done.append(mine)

    def run():
        start.wait()
        wrong.extend(2 for _ in range(25) if not np.array_equal(explorer.run(model, text).output, output))
        done.append(2)

    threads = [threading.Thread(target=measure, args=(0,)), threading.Thread(target=measure, args=(1,))]
    threads.append(threading.Thread(target=run))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2]  # a thread that died compared nothing
    assert wrong == []
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
