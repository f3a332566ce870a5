"""Training on a task: exact, private, stoppable, and quick enough to be watched."""

import dataclasses
import json
import math
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose

import explorer
from explorer import ConfigError, ExplorerError, Model, WeightsError
from explorer.lab.race import PLACEMENTS, Race
from explorer.lab.records import curves, gradients
from explorer.lab.settings import HOLD, LIMITS, Settings
from explorer.lab.tasks import TASKS, VOCABULARY, Copy, Reverse, Shift, task_of
from explorer.lab.trained import as_json, from_json, read
from explorer.lab.training import Training, batch_at, draw_read_out, held_out, weight_on_right

SMALL = Settings(n_heads=2, d_model=16, d_ff=32, batch=8, warm_up=5, steps=30)
OTHER = dataclasses.replace(SMALL, task=Copy(), norm_placement="pre", init="xavier", seed=1)

STEPS_TO_99 = {"reverse": 180, "copy": 150, "shift": 80}
"""Steps after which 99 % is stated. Measured on seeds 0, 1 and 2: 120 to 140, 100 to 130, and 70."""


def trained_for(n_steps: int, settings: Settings = SMALL) -> Training:
    training = Training(settings)
    for _ in range(n_steps):
        training.step()
    return training


def parameters_of(training: Training) -> dict[str, torch.Tensor]:
    state = training.state()
    return state.encoder | {f"read_out.{name}": value for name, value in state.read_out.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# Learning ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_learned(name, seed):
    """The setting of the page: 2 layers, D 64, 4 heads, rate 3e-3, warm-up 50, batch 64, Post-LN."""
    training = trained_for(STEPS_TO_99[name], Settings(task=task_of(name), seed=seed))
    assert training.evaluate().accuracy >= 0.99
    if name == "reverse":  # a head needs a little longer to be sure than an answer to be right
        while training.n_steps < 200:
            training.step()
        evaluation = training.evaluate()
        layer, head = evaluation.best_head
        assert layer == 1  # the first layer has to find the end
        assert evaluation.weight_on_right[layer, head] >= 0.95
        trained = training.trained()
        run = explorer.run(trained.model, trained.model.batch(["a b c d", "Xyz"]))
        assert trained.answers(run)[0][1:5] == ["d", "c", "b", "a"]
        assert trained.answers(run)[1][1:4] == ["z", "y", "x"]
        assert trained.answers(run)[1][5] == ""


def test_a_fresh_encoder_guesses():
    """By hand: an even guess over 30 tokens costs log(30) = 3.4 nats."""
    evaluation = Training(Settings()).evaluate()
    assert evaluation.step == 0
    assert evaluation.accuracy < 0.1
    assert 3 < evaluation.loss < 4.5
    assert evaluation.n_asked == int(held_out(Reverse()).counts.sum())


# Exactness -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [SMALL, OTHER], ids=["post", "pre"])
def test_the_first_step_by_hand(settings):
    """Loss, accuracy, gradients and the change of one parameter, from torch's own functions."""
    training = Training(settings)
    model = explorer.build(settings.config, seed=settings.seed, init=settings.init)
    assert same(training.state().encoder, model.encoder.state_dict())
    encoder, read_out = model.encoder.requires_grad_(True), draw_read_out(settings.d_model, settings.seed)
    exercise = batch_at(settings.task, seed=settings.seed, step=1, size=settings.batch)
    logits = read_out(encoder(exercise.token_ids, exercise.key_padding_mask))
    targets = torch.where(exercise.right < 0, -100, exercise.targets)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)
    loss.backward()

    record = training.step()
    assert record.step == 1
    assert_allclose(record.loss, loss.item(), rtol=1e-5)
    right = (logits.argmax(dim=-1) == targets)[exercise.right >= 0]
    assert_allclose(record.accuracy, right.float().mean().item(), rtol=1e-6)
    assert record.learning_rate == settings.learning_rate / settings.warm_up
    assert len(record.gradient_norms) == settings.n_layers
    for layer, norm in zip(encoder.layers, record.gradient_norms, strict=True):
        flat = torch.cat([parameter.grad.flatten() for parameter in layer.parameters()])
        assert_allclose(norm, flat.norm().item(), rtol=1e-4)
    # Adam's first change is the rate, in the direction against the gradient.
    before, gradient = read_out.weight.detach(), read_out.weight.grad
    clear = gradient.abs() > 1e-4
    change = (training.state().read_out["weight"] - before)[clear]
    assert_allclose(change.numpy(), -record.learning_rate * gradient[clear].sign().numpy(), rtol=2e-3)


def test_padding_teaches_nothing():
    """Other letters under the mask, at places where nothing is asked, change no number."""
    training = trained_for(3)
    exercise = batch_at(SMALL.task, seed=0, step=1, size=8)
    scribbled = dataclasses.replace(exercise, token_ids=torch.where(exercise.key_padding_mask, 9, exercise.token_ids))
    one, other = training._answer(exercise), training._answer(scribbled)
    assert exercise.key_padding_mask.any()
    assert torch.equal(one[1], other[1])
    assert_allclose(one[0].detach(), other[0].detach(), rtol=0, atol=1e-6)


def test_the_learning_rate_rises_stays_and_falls():
    settings = Settings(learning_rate=1e-3, warm_up=50)
    rates = [settings.learning_rate_at(step) for step in (1, 25, 50, 99, HOLD, 4 * HOLD)]
    assert_allclose(rates, [2e-5, 5e-4, 1e-3, 1e-3, 1e-3, 5e-4])
    assert Settings(warm_up=0).learning_rate_at(1) == 3e-3


@pytest.mark.parametrize("settings", [SMALL, OTHER], ids=["post", "pre"])
def test_resumed_is_uninterrupted_bit_for_bit(settings):
    whole = trained_for(20, settings)
    half = trained_for(9, settings)
    state = half.state()
    resumed = Training.from_state(state)
    for training in (half, resumed):  # the one that was looked at goes on as well, and neither disturbs the other
        training.evaluate()
        while training.n_steps < 20:
            training.step()
        assert training.records == whole.records
        assert same(parameters_of(training), parameters_of(whole))
    assert len(state.records) == 9
    again = Training.from_state(state)  # a state can be used twice
    again.step()
    assert again.records == whole.records[:10]


def test_more_steps_do_not_change_the_beginning():
    longer = dataclasses.replace(SMALL, steps=300)
    assert trained_for(12, longer).records == trained_for(12).records


def test_weight_on_the_right_token_by_hand():
    """Two sentences of one letter and of two: three queries are asked. Head 0 is sure, head 1 spreads over 4 keys."""
    exercise = batch_at(Reverse(longest=2), seed=0, step=1, size=40)
    rows = [int((exercise.counts.sum(dim=1) == n).nonzero()[0]) for n in (1, 2)]
    exercise = dataclasses.replace(
        exercise, **{name: getattr(exercise, name)[rows] for name in ("token_ids", "key_padding_mask", "right")}
    )
    sure = F.one_hot(exercise.right.clamp(min=0), 4).float()
    pattern = torch.stack([sure, torch.full((2, 4, 4), 0.25)], dim=1)
    assert weight_on_right(pattern, exercise).tolist() == [1.0, 0.25]
    pattern[0, 0, 1] = 0  # the only letter of the first sentence looks elsewhere
    assert_allclose(weight_on_right(pattern, exercise), [2 / 3, 0.25])


def test_weights_are_those_of_a_run():
    training = trained_for(4)
    exercise, model = held_out(SMALL.task), training.model()
    recorder = explorer.Recorder()
    with torch.no_grad():
        model.encoder(exercise.token_ids, exercise.key_padding_mask, tape=recorder)
    evaluation = training.evaluate()
    for layer in range(2):
        expected = weight_on_right(recorder.values[f"layers.{layer}.attn.pattern"], exercise)
        assert_allclose(evaluation.weight_on_right[layer], expected, rtol=1e-5)
    assert not evaluation.weight_on_right.flags.writeable


# Privacy -------------------------------------------------------------------------------------------------------------


def test_what_was_handed_out_stays_as_it_was():
    training = trained_for(5)
    trained, record, data = training.trained(), training.records, training.weights()
    run = explorer.run(trained.model, trained.model.batch(["a b c"]))
    before = {name: value.clone() for name, value in trained.model.encoder.state_dict().items()}
    for _ in range(5):
        training.step()
    assert same(before, trained.model.encoder.state_dict())
    assert not same(before, training.model().encoder.state_dict())
    assert np.array_equal(explorer.run(trained.model, run.batch).output, run.output)
    assert len(record) == 5
    assert read(data).step == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        record[0].loss = 0.0


def test_a_snapshot_is_a_model_like_any_other():
    model = trained_for(5).model()
    assert isinstance(model, Model)
    assert not model.encoder.training
    assert not any(parameter.requires_grad for parameter in model.encoder.parameters())
    assert model.report.trained
    assert model.report.n_parameters == explorer.build(SMALL.config).report.n_parameters
    for part in ("reverse", "5 steps", "seed 0", "%"):
        assert part in model.report.source
    assert not Training(SMALL).model().report.trained
    run = explorer.run(model, model.batch(["a b c d", "x", "The end."]))
    assert np.isfinite(run.output).all()
    assert all(claim.holds for claim in explorer.proof(run, model))


def test_the_global_generator_is_left_alone():
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    training = trained_for(3)
    training.evaluate(), training.weights(), Training.from_state(training.state()).step()
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)


def test_neither_a_caller_without_gradients_disturbs_it():
    with torch.no_grad():
        inside = trained_for(3)
    assert inside.records == trained_for(3).records


def test_two_trainings_in_two_threads_are_as_alone():
    settings = [SMALL, dataclasses.replace(SMALL, seed=1), OTHER]
    alone = [trained_for(30, each) for each in settings]
    together = [Training(each) for each in settings]
    start, seen = threading.Barrier(len(settings) + 1), []

    def work(training: Training) -> None:
        start.wait()
        while not training.done:
            training.step()
            if training.n_steps % 10 == 0:
                training.model()

    threads = [threading.Thread(target=work, args=(training,)) for training in together]
    for thread in threads:
        thread.start()
    start.wait()
    while any(thread.is_alive() for thread in threads):  # a page that draws meanwhile
        records = together[0].records
        seen.append(len(records))
        assert [record.step for record in records] == list(range(1, len(records) + 1))
    for thread in threads:
        thread.join()
    assert seen == sorted(seen)
    for one, other in zip(alone, together, strict=True):
        assert one.records == other.records
        assert same(parameters_of(one), parameters_of(other))


# Files ---------------------------------------------------------------------------------------------------------------


def test_the_weights_can_be_read_back():
    training = trained_for(5, OTHER)
    trained = training.trained()
    again = read(training.weights())
    assert again.settings == OTHER
    assert (again.step, again.accuracy) == (5, training.evaluate().accuracy)
    assert again.model.report == trained.model.report
    assert same(again.model.encoder.state_dict(), trained.model.encoder.state_dict())
    assert same(again.read_out.state_dict(), trained.read_out.state_dict())
    run = explorer.run(again.model, again.model.batch(["a b [SEP] c d"]))
    assert again.answers(run) == trained.answers(run)


def test_the_file_says_what_it_is():
    data = trained_for(2).weights()
    size = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + size])["__metadata__"]
    assert "2 steps" in metadata["description"]
    assert metadata["vocabulary"].split() == list(VOCABULARY)
    assert from_json(json.loads(metadata["settings"])) == SMALL


def test_files_that_are_not_ours_are_refused():
    data = trained_for(1).weights()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])

    def with_header(changed: dict) -> bytes:
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + size :]

    for wrong in (
        b"",
        b"not a file",
        data[:-10],
        with_header({name: value for name, value in header.items() if name != "__metadata__"}),
        with_header(header | {"__metadata__": header["__metadata__"] | {"vocabulary": "a b"}}),
        with_header(header | {"__metadata__": header["__metadata__"] | {"settings": "{}"}}),
        with_header(
            header
            | {"__metadata__": header["__metadata__"] | {"settings": json.dumps(as_json(SMALL) | {"d_ff": 9_999})}}
        ),
        with_header(
            header | {"__metadata__": header["__metadata__"] | {"settings": json.dumps(as_json(SMALL) | {"d_ff": 64})}}
        ),
    ):
        with pytest.raises(WeightsError):
            read(wrong)


# Bounds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIMITS)
def test_values_out_of_bounds_are_refused(name):
    low, high = LIMITS[name]
    for value, nearest in ((low - 1, low), (high + 1, high)):
        with pytest.raises(ConfigError, match=rf"{name} \({value:,}\) must lie between .* nearest: {nearest:,}$"):
            Settings(**{name: value})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0 and up to 0.1, not 0.0; usual: 0.003"),
        ({"learning_rate": math.nan}, "learning_rate .* not nan"),
        ({"learning_rate": "1"}, "learning_rate .* not '1'"),
        ({"warm_up": -1}, r"warm_up \(-1\) must lie between 0"),
        ({"n_heads": 5}, r"n_heads \(5\) must divide d_model \(64\); nearest"),
        ({"norm_placement": "both"}, "norm_placement must be one of post, pre, not 'both'"),
        ({"init": "zero"}, "init must be one of xavier, normal, not 'zero'"),
        ({"task": "reverse"}, "task must be one of reverse, copy, shift, not 'reverse'"),
        ({"steps": 1.5}, "steps must be a whole number from 1 to 2,000, not 1.5"),
        ({"n_layers": 12, "d_model": 128, "batch": 256}, r"a step of this training \(.* GFLOP\) must not need more"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Settings(**changes)
    assert isinstance(caught.value, ExplorerError)


def test_the_work_of_a_step_by_hand():
    """3 tokens, D 4, D_ff 8: q, k, v and out 4 x 96, scores and z 2 x 72, feed-forward 2 x 192; backward twice that."""
    settings = Settings(task=Reverse(longest=1), n_layers=1, n_heads=1, d_model=4, d_ff=8, batch=1)
    assert settings.step_flops == 3 * (4 * 96 + 2 * 72 + 2 * 192)


def test_a_training_ends():
    training = trained_for(3, dataclasses.replace(SMALL, steps=3))
    assert training.done
    with pytest.raises(ConfigError, match=r"all steps \(3\) are made; for more"):
        training.step()
    assert training.n_steps == 3


# Tables and the race -------------------------------------------------------------------------------------------------


def test_records_as_tables():
    records = trained_for(4).records
    table = curves(records)
    assert list(table.columns) == ["step", "loss", "accuracy", "learning_rate"]
    assert table["step"].tolist() == [1, 2, 3, 4]
    assert table["loss"].tolist() == [record.loss for record in records]
    norms = gradients(records)
    assert norms.groupby("step")["gradient_norm"].apply(tuple).tolist() == [each.gradient_norms for each in records]
    assert norms["layer"].tolist() == [0, 1] * 4
    assert len(curves([])) == len(gradients([])) == 0
    assert list(curves([]).columns) == list(table.columns)


def test_runners_are_in_step_and_as_alone():
    race = Race.of_placements(SMALL)
    steps = []
    for n_steps in race.run(every=4):
        steps.append(n_steps)
        assert {training.n_steps for training in race.trainings.values()} == {n_steps}
        if n_steps == 12:
            break
    assert steps == [4, 8, 12]
    assert list(race.run(every=10)) == [20, 30]  # goes on from there
    assert race.done
    assert list(race.run()) == []
    for name, placement in (("Pre-LN", "pre"), ("Post-LN", "post")):
        alone = trained_for(30, dataclasses.replace(SMALL, norm_placement=placement))
        assert race.trainings[name].records == alone.records
    table = race.curves()
    assert list(table.columns) == ["runner", "step", "loss", "accuracy", "learning_rate"]
    assert table.groupby("runner").size().to_dict() == {"Pre-LN": 30, "Post-LN": 30}
    assert len(race.gradients()) == 2 * 30 * 2
    assert race.evaluate()["Pre-LN"].step == 30


def test_runners_start_from_the_same_numbers():
    states = [training.state().encoder for training in Race.of_placements(SMALL).trainings.values()]
    common = states[0].keys() & states[1].keys()
    assert states[0].keys() - common == {"final_norm.weight", "final_norm.bias"}
    assert same(*({name: state[name] for name in common} for state in states))


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"task": Shift()}, {"batch": 4}, {"steps": 7}], ids=lambda changes: next(iter(changes))
)
def test_runners_that_would_not_see_the_same_batches_are_refused(changes):
    with pytest.raises(ConfigError, match=f"all runners must have the same {next(iter(changes))}, not"):
        Race({"one": SMALL, "other": dataclasses.replace(SMALL, **changes)})


def test_the_number_of_runners_is_bounded():
    for n in (1, 5):
        with pytest.raises(ConfigError, match=rf"runners \({n}\) must lie between 2 and 4"):
            Race({str(number): SMALL for number in range(n)})


def test_post_ln_lags_without_warm_up():
    """Measured for seeds 0, 1 and 2: at step 100 Pre-LN has 100 %, and Post-LN 25 %, still at step 225.

    25 % is what one gets who always answers `[CLS]`.
    """
    race = Race.of_placements(PLACEMENTS)
    for n_steps in race.run(every=100):
        assert n_steps == 100
        break
    found = race.evaluate()
    assert found["Pre-LN"].accuracy >= 0.99
    assert found["Post-LN"].accuracy <= 0.4
