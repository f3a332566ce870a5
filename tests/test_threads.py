"""Two threads that record on one shared model never mix. With hooks on the model, 46 of 120 runs did."""

import sys
import threading

import numpy as np
import pytest

import explorer
from explorer import Model
from tests.helpers import rough, tiny

N_RUNS = 60


@pytest.fixture
def _switch_often():
    """Lets threads take turns every microsecond instead of every 5 ms, so that a mix is found soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def record_in_threads(model: Model, texts: list[list[str]], n_runs: int) -> None:
    """Each thread runs its own text many times and compares with what one thread alone gave, bit for bit."""
    batches = [model.batch(text) for text in texts]
    expected = [explorer.run(model, batch) for batch in batches]
    start = threading.Barrier(len(texts))
    wrong: list[str] = []
    done: list[int] = []

    def work(mine: int) -> None:
        start.wait()
        for number in range(n_runs):
            run = explorer.run(model, batches[mine])
            same = (
                np.array_equal(run.output, expected[mine].output)
                and np.array_equal(run.trace.pattern(), expected[mine].trace.pattern())
                and np.array_equal(run.trace.resid("mid"), expected[mine].trace.resid("mid"))
                and np.array_equal(run.trace.scores(0), expected[mine].trace.scores(0))
            )
            if not same:
                wrong.append(f"thread {mine}, run {number}")
        done.append(n_runs)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == n_runs * len(texts)  # a thread that died compared nothing
    assert wrong == []


@pytest.mark.usefixtures("_switch_often")
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_equal_shapes(placement):
    """The dangerous case: nothing but the values could tell the other thread's tensors."""
    record_in_threads(rough(tiny(norm_placement=placement)), [["one two three", "a"], ["four five six", "b"]], N_RUNS)


@pytest.mark.usefixtures("_switch_often")
def test_the_trained_encoder(minilm):
    record_in_threads(minilm, [["The cat sat."], ["A much longer sentence than that one.", "Short."]], 10)


@pytest.mark.usefixtures("_switch_often")
def test_first_layers_of_a_shared_model(minilm):
    """The layers control of the page makes short models that share parameters with the long one."""
    short = minilm.first_layers(2)
    batch = minilm.batch(["The cat sat."])
    expected = explorer.run(short, batch).output
    others = threading.Thread(target=lambda: [explorer.run(minilm, batch) for _ in range(10)])
    others.start()
    found = [explorer.run(minilm.first_layers(2), batch).output for _ in range(10)]
    others.join()
    assert all(np.array_equal(output, expected) for output in found)
