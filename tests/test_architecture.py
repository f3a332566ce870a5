"""Who may know whom, read from the imports of every module. See the rules of direction in the design."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import explorer

ROOT = Path(__file__).parent.parent
ENGINE = sorted((ROOT / "explorer").rglob("*.py"))
COMPONENTS = sorted((ROOT / "components").rglob("*.py"))
FIGURES = sorted((ROOT / "components" / "figures").rglob("*.py"))
WATCHED = [path for path in ENGINE if "model" in path.parts or path.name in ("tape.py", "trace.py")]
ALL = [*ENGINE, *COMPONENTS, ROOT / "app.py"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> set[str]:
    """Everything a module imports, inside functions too; `from a import b` counts as `a` and `a.b`."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()  # `from . import x`
            module = ".".join([*package, *([node.module] if node.module else [])])
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def knows(path: Path, *forbidden: str) -> list[str]:
    return [name for name in imports(path) if any(name == f or name.startswith(f"{f}.") for f in forbidden)]


def test_relative_imports_are_read_as_full_names(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "components" / "figures").mkdir(parents=True)
    path = tmp_path / "components" / "figures" / "grid.py"
    path.write_text("from . import a\nfrom .b import c\nfrom ..d import e\ndef f():\n    import g.h", encoding="utf-8")
    assert imports(path) >= {"components.figures.a", "components.figures.b.c", "components.d.e", "g.h"}


def test_there_is_something_to_look_at():
    """An empty list would pass every test below."""
    assert len(ENGINE) > 20
    assert len(WATCHED) > 8
    assert len(COMPONENTS) > 5
    assert len(FIGURES) > 2


@pytest.mark.parametrize("path", ENGINE, ids=name_of)
def test_the_engine_knows_no_page(path):
    assert knows(path, "streamlit", "plotly", "components", "app") == []


@pytest.mark.parametrize("path", ENGINE, ids=name_of)
def test_the_engine_knows_no_other_implementation(path):
    """`transformers` is an oracle of the tests."""
    assert knows(path, "transformers", "sentence_transformers", "tests") == []


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_nothing_that_runs_needs_training(path):
    """Training makes a file. What reads the file does not know how it was made."""
    assert knows(path, "training", "tqdm") == []


@pytest.mark.parametrize("path", WATCHED, ids=name_of)
def test_model_tape_and_trace_know_neither_text_nor_weights_nor_run(path):
    assert knows(path, "explorer.text", "explorer.weights", "explorer.run", "explorer.loading") == []


@pytest.mark.parametrize("path", FIGURES, ids=name_of)
def test_figures_get_arrays(path):
    """A figure is a function of arrays: no widget, no tensor, no run."""
    assert knows(path, "streamlit", "torch") == []


@pytest.mark.parametrize("path", COMPONENTS, ids=name_of)
def test_components_know_no_app(path):
    assert knows(path, "app") == []


def test_the_app_composes():
    """No class and no figure of its own."""
    tree = tree_of(ROOT / "app.py")
    assert not [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert knows(ROOT / "app.py", "plotly", "numpy", "pandas") == []


def in_place(tree: ast.Module) -> Iterator[str]:
    """Calls such as `x.add_()`, `x += y` and `x[...] = y`, outside strings and names of dunder methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name.endswith("_") and not name.endswith("__"):
                yield f"line {node.lineno}: .{name}()"
            if any(keyword.arg in ("out", "inplace") for keyword in node.keywords):
                yield f"line {node.lineno}: out or inplace"
        elif isinstance(node, ast.AugAssign):
            yield f"line {node.lineno}: augmented assignment"
        elif isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets):
            yield f"line {node.lineno}: assignment to a part"


@pytest.mark.parametrize("path", [path for path in ENGINE if "model" in path.parts], ids=name_of)
def test_the_model_changes_nothing_in_place(path):
    """Rule 3 of recording: a kept view shares storage, so a later write would falsify the record."""
    assert list(in_place(tree_of(path))) == []


def test_the_finder_of_in_place_operations_finds_them():
    code = "x.add_(1)\nx += 1\nx[0] = 1\nF.relu(x, inplace=True)\nsuper().__init__()\ny = x + 1"
    assert len(list(in_place(ast.parse(code)))) == 4


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_no_pickle_is_read(path):
    assert knows(path, "pickle", "dill", "joblib", "cloudpickle") == []
    calls = {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}
    assert not calls & {"torch.load", "pd.read_pickle", "pandas.read_pickle", "torch.hub.load"}


@pytest.mark.parametrize("path", ENGINE, ids=name_of)
def test_user_input_is_never_refused_by_assert(path):
    """`python -O` removes them."""
    assert not [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.Assert)]


def test_the_public_names_exist_and_are_sorted():
    def kind(name: str) -> int:
        return 0 if name.isupper() else 1 if name[0].isupper() else 2

    assert explorer.__all__ == sorted(explorer.__all__, key=lambda name: (kind(name), name))
    assert len(set(explorer.__all__)) == len(explorer.__all__)
    for name in explorer.__all__:
        assert getattr(explorer, name) is not None


def test_importing_the_engine_loads_neither_page_nor_oracle():
    """The engine is usable from a notebook, and the page does not wait for what only tests need."""
    code = (
        "import sys, explorer; print(sorted({'transformers', 'streamlit', 'plotly', 'components'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
