"""Programs in a sandbox: how a rollout's is run, how a run is watched and recorded, and what prompts say programs have.

What they have are the libraries of the interpreter that runs them: a probe is run in the sandbox, once a run. A run that is
resumed tells what the first one did. Covered: the libraries named here. Not covered: others, and whether one can be imported.
"""

import inspect
import json
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from ..instrument import describe, instrument, make_nonce, observer_text, read_report
from ..records.common import LongText
from ..records.errors import RecordError, ToolError
from ..records.ids import bytes_digest, derive_seed
from ..records.rollout import Execution, SubmissionFile
from ..records.tape import Tape
from ..records.task import Task
from ..sandbox import Limits, Outcome, Sandbox

HEAD = TAIL = 4000
Command = Literal["mle-rollout", "mle-sandbox"]  # the commands that run programs
ROLLOUT: Command = "mle-rollout"
SANDBOX: Command = "mle-sandbox"
# Names of distributions; opencv has several.
LIBRARIES = (
    *("numpy", "pandas", "polars", "scipy", "scikit-learn", "statsmodels", "xgboost", "lightgbm", "catboost", "optuna"),
    *("torch", "torchvision", "torchaudio", "tensorflow", "keras", "jax", "transformers", "sentence-transformers"),
    *("timm", "Pillow", "opencv-python", "opencv-python-headless", "scikit-image", "albumentations", "librosa"),
    *("soundfile", "networkx", "torch-geometric", "nltk", "spacy", "gensim", "imbalanced-learn", "category-encoders"),
    "rdkit",
)
PROBE_S = 60.0

Public = Callable[[], Path]  # any folder that the sandbox may show
Ask = Callable[[Public], dict[str, Any]]


@dataclass
class ProgramRunner:
    """Runs the programs of rollouts and adds `execution`; what an agent in turns has run passes."""

    sandbox: Sandbox
    limits: Limits
    data: Path
    seed: int

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        if ran_before(rollout):
            return rollout
        instrument = rollout.get("instrument") or {}
        nonce, code = instrument.get("nonce"), rollout["code"]
        watched: list[str] | None = None
        if nonce == "":
            code = instrument["code"] or code  # plain markers: the program prints them itself
        if code is None:
            outcome = Outcome("no_code", None, 0.0, 0.0, 0.0, b"", b"", None, "no code")
        else:
            public = self.data / rollout["task"]["data"]["dir"] / "public"
            if not public.is_dir():
                raise RecordError(f"{public}: no such folder; is --data the folder that the task was written to?")
            observer = ""
            if nonce and instrument["code"] is not None:
                if "sites" not in instrument:
                    raise RecordError("an older mle-instrument wrote this: run mle-instrument again")
                observer, watched = observer_text(instrument, describe(public)), instrument["markers"]
            seed = derive_seed(self.seed, rollout["id"])
            refuse_known_answers(cast(Task, rollout["task"]), self.sandbox.protections)
            outcome = self.sandbox.run(code, public, self.limits, seed, observer=observer)
            refuse_known_answers(cast(Task, rollout["task"]), outcome.protections)  # of a cluster's other node
        return {**rollout, "execution": execution_record(outcome, self.limits, self.data, SANDBOX, nonce, watched)}


def refuse_known_answers(task: Task, protections: Mapping[str, bool]) -> None:
    """ToolError: the task is made of a table that programs can look up where these protections are active."""
    if task["provenance"].get("answers_public") and protections.get("no_bundled_answers") is False:
        raise ToolError(
            f"{task['id']}: programs can read tables such as this one here, with the answers (no_bundled_answers in "
            "docs/security.md): run it on another machine, or with --backend docker"
        )


@dataclass(frozen=True)
class Watch:
    """How one program's progress is watched: the observer's source, the nonce of its tokens, the reports to expect."""

    observer: str = ""
    nonce: str | None = None
    markers: list[str] | None = None  # None: the program is not watched

    @classmethod
    def of(cls, code: str, public: Path) -> "Watch":
        """Watch `code` by the table of operations; a program that cannot be parsed is not watched.

        The nonce is drawn here and recorded nowhere, so no seed that a program sees leads to it.
        """
        result = instrument(code)
        if result.code is None:
            return cls()
        nonce = make_nonce(secrets.randbits(64))
        entry = {"nonce": nonce, "sites": result.sites, "mode": "ast"}
        return cls(observer_text(entry, describe(public)), nonce, result.markers)


def text_record(output: bytes) -> LongText:
    """The beginning and the end of an output, at most HEAD + TAIL bytes of it."""
    if len(output) <= HEAD + TAIL:
        return {"head": output.decode("utf-8", errors="replace"), "tail": "", "bytes": len(output)}
    head, tail = output[:HEAD], output[-TAIL:]
    return {
        "head": head.decode("utf-8", errors="replace"),
        "tail": tail.decode("utf-8", errors="replace"),
        "bytes": len(output),
    }


def execution_record(
    outcome: Outcome,
    limits: Limits,
    data: Path,
    by: Command,
    nonce: str | None = None,
    watched: list[str] | None = None,
) -> Execution:
    """`execution` of a rollout, which the command `by` ran: the outcome, its submission kept under `data`.

    nonce: of the reports, which are taken out of the outputs. watched: the reports that could arrive, where the sandbox
    watched the program's calls.
    """
    markers: list[str] = []
    stdout, stderr = outcome.stdout, outcome.stderr
    if nonce is not None:
        markers, stdout, stderr = read_report(stdout, stderr, nonce)
    record = {
        "by": by,
        "status": outcome.status,
        "exit_code": outcome.exit_code,
        "duration_s": round(outcome.duration_s, 4),
        "cpu_s": round(outcome.cpu_s, 4),
        "peak_memory_mb": round(outcome.peak_memory_mb, 1),
        "stdout": text_record(stdout),
        "stderr": text_record(stderr),
        "markers": markers,
        **({} if watched is None else {"watched": watched}),
        "submission": None if outcome.submission is None else keep(outcome.submission, data),
        "submission_problem": outcome.submission_problem,
        "backend": outcome.backend,
        "start": outcome.start,
        "gpu": outcome.gpu,
        "protections": outcome.protections,
        "limits": limits.__dict__,
    }
    return cast(Execution, record)


def ran_before(rollout: Mapping[str, Any]) -> bool:
    """Whether a rollout's program was run by its scaffold, in turns: what it handed in then stands."""
    return bool((rollout.get("execution") or {}).get("by") == ROLLOUT)


def keep(content: bytes, data: Path) -> SubmissionFile:
    """Keep a submission under its digest, so that equal ones are kept once and none can be swapped."""
    digest = bytes_digest(content)
    name = digest.split(":")[1]
    path = Path("submissions") / name[:2] / f"{name}.csv"
    target = data / path
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".partial", delete=False) as file:
            file.write(content)
        os.replace(file.name, target)
    return {"file": str(path), "digest": digest, "bytes": len(content)}


# --- what programs have ------------------------------------------------------------------------------------------------


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
