"""What prompts say that programs have: the libraries of the interpreter that runs them, pretrained weights, their limits.

A probe is run in the sandbox, once a run; a run that is resumed tells what the first one did. Covered: the libraries named
here, the names of weights. Not covered: other libraries, whether one can be imported, whether weights are sound.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from ..base.errors import ToolError
from ..base.sources import source_of
from ..base.tape import Tape
from ..sandbox import Limits, Sandbox
from . import probe
from .probe import Installed, installed

# Names of distributions; opencv has several.
LIBRARIES = (
    *("numpy", "pandas", "polars", "scipy", "scikit-learn", "statsmodels", "xgboost", "lightgbm", "catboost", "optuna"),
    *("torch", "torchvision", "torchaudio", "tensorflow", "keras", "jax", "transformers", "sentence-transformers"),
    *("timm", "Pillow", "opencv-python", "opencv-python-headless", "scikit-image", "albumentations", "librosa"),
    *("soundfile", "networkx", "torch-geometric", "nltk", "spacy", "gensim", "imbalanced-learn", "category-encoders"),
    *("rdkit", "pydicom"),
)
PROBE_S = 60.0
LIBRARIES_FOUND = "libraries"  # the event of a tape
MOST_NAMED = 50  # weights of one kind

Public = Callable[[], Path]  # any folder that the sandbox may show
Probe = Callable[[Public], Installed]


@dataclass
class ProgramFacts:
    """`probe` finds what is installed; `tape` keeps the answer for a run that resumes this one; gpus: programs have one."""

    limits: Limits
    gpus: bool
    probe: Probe
    tape: Tape
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _installed: Installed | None = None

    def libraries(self, public: Public) -> str:
        """Python, the known libraries with their versions, and the pretrained weights by name."""
        with self._lock:
            if self._installed is None:
                found = self.tape.play(LIBRARIES_FOUND, list(LIBRARIES), lambda: {**self.probe(public)})
                self._installed = cast(Installed, found)
        versions = self._installed["libraries"]
        named = ", ".join(f"{name} {versions[name]}" for name in LIBRARIES if name in versions)
        python = f"Python {self._installed['python']} with {named or 'its standard library alone'}"
        return "; ".join([python, *_weights(self._installed)])


def probe_sandbox(sandbox: Sandbox, limits: Limits, public: Public) -> Installed:
    """What the interpreter inside a sandbox has. ToolError: no program runs there."""
    outcome = sandbox.run(source_of(probe), public(), replace(limits, wall_s=PROBE_S), 0, LIBRARIES)
    try:
        answer: Installed = json.loads(outcome.stdout)
    except ValueError:
        said = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        raise ToolError(
            f"the sandbox's Python does not say which libraries it has ({outcome.status}{said and ': ' + said}): does "
            "any program run there? mle-sandbox --selftest tries"
        ) from None
    return answer


def _weights(installed: Installed) -> list[str]:
    """What lies in ./weights, in words, by how it is loaded."""
    parts = {
        "models that `from_pretrained` and timm load by name": installed.get("models"),
        "checkpoints that torch.hub and torchvision load": installed.get("checkpoints"),
        "to be loaded by path": installed.get("others"),
    }
    told = [f"{what} ({_listed(names)})" for what, names in parts.items() if names]
    return [f"pretrained weights in ./weights: {', '.join(told)}"] if told else []


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def probe_interpreter(public: Public) -> Installed:
    """What this interpreter has, which is the one of the local sandbox."""
    return installed(LIBRARIES)
