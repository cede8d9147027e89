"""What programs have and may use, as texts for prompts: the Python, its machine-learning libraries, and the limits.

The libraries are those of the interpreter that runs the programs: a probe is run in the sandbox, once a run. A run that is
resumed tells what the first one did. Covered: the libraries named here. Not covered: others, and whether one can be imported.
"""

import inspect
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..records.errors import ToolError
from ..records.tape import Tape
from ..sandbox import Limits, Sandbox

# Names of distributions; opencv has several.
LIBRARIES = (
    *("numpy", "pandas", "polars", "scipy", "scikit-learn", "statsmodels", "xgboost", "lightgbm", "catboost", "optuna"),
    *(
        "torch",
        "torchvision",
        "torchaudio",
        "tensorflow",
        "keras",
        "jax",
        "transformers",
        "sentence-transformers",
        "timm",
    ),
    *("Pillow", "opencv-python", "opencv-python-headless", "scikit-image", "albumentations", "librosa", "soundfile"),
    *("networkx", "torch-geometric", "nltk", "spacy", "gensim", "imbalanced-learn", "category-encoders", "rdkit"),
)
PROBE_S = 60.0

Public = Callable[[], Path]  # any folder that the sandbox may show
Ask = Callable[[Public], dict[str, Any]]


@dataclass
class ProgramFacts:
    """`ask` says what is installed ({python, libraries}); `tape` keeps the answer for a run that resumes this one."""

    limits: Limits
    gpus: bool
    ask: Ask
    tape: Tape
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _installed: dict[str, Any] | None = None

    def libraries(self, public: Public) -> str:
        """Python and the known libraries with their versions."""
        with self._lock:
            if self._installed is None:
                self._installed = self.tape.play("libraries", list(LIBRARIES), lambda: self.ask(public))
        versions = self._installed["libraries"]
        named = ", ".join(f"{name} {versions[name]}" for name in LIBRARIES if name in versions)
        return f"Python {self._installed['python']} with {named or 'its standard library alone'}"

    def limit_text(self) -> str:
        """The limits of one program, as the options set them."""
        limits = self.limits
        threads = f"{limits.threads} thread{'s' * (limits.threads > 1)}"
        return (
            f"{limits.wall_s:g} seconds, {_size(limits.memory_mb)} of memory, {_size(limits.disk_mb)} of files, "
            f"{threads} for numerical libraries, {'one GPU' if self.gpus else 'no GPU'}"
        )


def installed(names: Sequence[str]) -> dict[str, Any]:
    """{python, libraries: {name: version}} of the interpreter that runs this function; its text is the probe, too."""
    import importlib.metadata
    import platform

    libraries = {}
    for name in names:
        try:
            libraries[name] = str(importlib.metadata.version(name))
        except Exception:  # not installed, or installed badly
            continue
    return {"python": platform.python_version(), "libraries": libraries}


def asked_in(sandbox: Sandbox, limits: Limits) -> Ask:
    """Asks the interpreter inside a sandbox."""
    call = f"print(json.dumps(installed({list(LIBRARIES)!r})))"
    probe = f"import json\nfrom typing import Any\nfrom collections.abc import Sequence\n\n{inspect.getsource(installed)}\n\n{call}\n"

    def ask(public: Public) -> dict[str, Any]:
        outcome = sandbox.run(probe, public(), replace(limits, wall_s=PROBE_S), 0)
        try:
            answer: dict[str, Any] = json.loads(outcome.stdout)
        except ValueError:
            said = outcome.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise ToolError(
                f"the sandbox's Python does not say which libraries it has ({outcome.status}{said and ': ' + said}): does "
                "any program run there? mle-sandbox --selftest tries"
            ) from None
        return answer

    return ask


def asked_here(public: Public) -> dict[str, Any]:
    """Asks this interpreter, which is the one of the local sandbox."""
    return installed(LIBRARIES)


def _size(megabytes: int) -> str:
    return f"{megabytes / 1024:g} GB" if megabytes % 512 == 0 else f"{megabytes} MB"
