"""Where training stands, in one safetensors file: weights, the optimizer's averages, the step. No pickle."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from explorer.config import MINILM_PRELN
from explorer.errors import WeightsError
from explorer.model import Encoder, build_encoder
from explorer.weights import fill
from training.algebra import Scales

if TYPE_CHECKING:
    from training.distil import Recipe

STUDENT: Final = "student."
"""What the names of its tensors begin with."""


@dataclass(slots=True, eq=False)
class Checkpoint:
    """The student after `step` steps. A parameter that is trained requires a gradient."""

    student: Encoder
    scales: Scales
    step: int = 0
    seconds: float = 0.0
    """Time spent in training so far, in all runs."""
    losses: list[float] = field(default_factory=list)
    """The smoothed loss at each 100 steps."""
    plan: list[tuple[int, int]] = field(default_factory=list)
    """From which step on the learning rate was to reach 0 at which: one entry, unless `--steps` changed."""
    earlier: list[dict[str, Any]] = field(default_factory=list)
    """Of the runs before this one, in order: recipe, seconds, losses and plan."""
    mean: bool = False
    """Whether its weights are half way back to those that the run started from."""
    averages: dict[str, Tensor] = field(default_factory=dict)
    """The optimizer's, as read from the file: `exp_avg.` or `exp_avg_sq.` and the parameter's name."""

    def write(self, path: Path, optimizer: torch.optim.Optimizer, recipe: "Recipe") -> None:
        """All of it into one file, which is replaced only once the new one is complete."""
        tensors = {f"student.{name}": value.detach() for name, value in self.student.state_dict().items()}
        for name, parameter in _trained(self.student):
            for kind in ("exp_avg", "exp_avg_sq"):
                if kind in optimizer.state[parameter]:
                    tensors[f"{kind}.{name}"] = optimizer.state[parameter][kind]
        about = {
            "recipe": asdict(recipe),
            "scales": self.scales,
            "step": self.step,
            "seconds": self.seconds,
            "losses": self.losses,
            "plan": self.plan,
            "earlier": self.earlier,
            "trained": [name for name, _ in _trained(self.student)],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        save_file(tensors, unfinished, metadata={"about": json.dumps(about)})
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path, recipe: "Recipe") -> "Checkpoint":
        """The checkpoint in that file. Only the number of steps may differ from those that it was made with.

        Raises:
            WeightsError: If it was made with another recipe. The message names what differs.
        """
        about, tensors = _read(path)
        now = json.loads(json.dumps(asdict(recipe)))
        if other := [name for name in now if name != "steps" and about["recipe"].get(name) != now[name]]:
            raise WeightsError(
                f"{path} was made with {other[0]} {about['recipe'].get(other[0])}, not {now[other[0]]}; "
                "give the same options, or another --out, or delete it"
            )
        student = _student(tensors, about["trained"])
        averages = {name: value for name, value in tensors.items() if not name.startswith(STUDENT)}
        plan = [(step, steps) for step, steps in about["plan"]]
        if plan[-1][1] != recipe.steps:
            plan.append((about["step"], recipe.steps))
        return cls(
            student,
            about["scales"],
            about["step"],
            about["seconds"],
            about["losses"],
            plan,
            _earlier(about),
            averages=averages,
        )

    @classmethod
    def again(cls, path: Path, recipe: "Recipe") -> "Checkpoint":
        """The start of a further run: the weights of that checkpoint, and nothing of its optimizer.

        Raises:
            WeightsError: If the run before did not come to its end.
        """
        about, tensors = _read(path)
        if about["step"] < about["recipe"]["steps"]:
            raise WeightsError(f"{path} is at step {about['step']} of {about['recipe']['steps']}: finish it first")
        before = {name: about[name] for name in ("recipe", "seconds", "losses", "plan")}
        return cls(
            _student(tensors, about["trained"]),
            about["scales"],
            plan=[(0, recipe.steps)],
            earlier=[*_earlier(about), before],
        )

    def go_half_way_back(self, path: Path) -> None:
        """Makes each weight the mean of itself and of that of another checkpoint: it is as near to either.

        Two ends of training that are good at different things are often better in the middle.

        Source: Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization".
        """
        about, tensors = _read(path)
        other = dict(_student(tensors, about["trained"]).named_parameters())
        with torch.no_grad():
            for name, parameter in self.student.named_parameters():
                parameter.copy_((parameter.double() + other[name].double()) / 2)
        self.mean = True

    def restore(self, optimizer: torch.optim.Optimizer) -> None:
        """Gives the optimizer its averages back."""
        if not self.averages:
            return
        for name, parameter in _trained(self.student):
            optimizer.state[parameter] = {
                "step": torch.tensor(float(self.step)),
                "exp_avg": self.averages[f"exp_avg.{name}"],
                "exp_avg_sq": self.averages[f"exp_avg_sq.{name}"],
            }
        self.averages = {}


def _earlier(about: dict[str, Any]) -> list[dict[str, Any]]:
    return list(about.get("earlier", []))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["about"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _student(tensors: dict[str, Tensor], trained: list[str]) -> Encoder:
    student = build_encoder(MINILM_PRELN)
    fill(student, {name.removeprefix(STUDENT): tensors[name] for name in tensors if name.startswith(STUDENT)})
    for name, parameter in student.named_parameters():
        parameter.requires_grad_(name in trained)
    return student


def _trained(student: Encoder) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in student.named_parameters() if parameter.requires_grad]
