"""The options of a sandbox, for the commands that run programs."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from ..base.errors import OptionError, ToolError
from ..base.options import option
from ..records.sample import TIMES_SAMPLE
from . import BACKENDS, DEFAULT_IMAGE, STARTS, Limits, Sandbox, Setup, choose, open_sandbox
from .gpus import ANY, parse
from .weights import weights_folder


@dataclass(frozen=True)
class SandboxOptions:
    """Where programs run, and their limits, as in Limits. `timeout` None: the default of the command."""

    backend: str = option(
        "How to isolate programs. auto chooses the strongest backend that works here, and says which.",
        default="local",
        choices=(*BACKENDS, "auto"),
        envvar="MLE_SANDBOX",
        machine=True,
    )
    on: str | None = option(
        "Run on a Ray cluster: ray://HOST:PORT, or ray for the one in RAY_ADDRESS (default: this machine).",
        metavar="CLUSTER",
        machine=True,
    )
    gpus: str | None = option(
        "Give each program one of these GPUs exclusively, e.g. 0,1; with --on: any.", metavar="LIST", machine=True
    )
    preimport: str | None = option(
        "Modules to import once, before all programs (default: numpy, pandas, scipy and common parts of scikit-learn).",
        metavar="MODULES",
        machine=True,
    )
    start: str = option(
        "Fork programs from a warm process, or start a fresh interpreter for each. auto: depends on the program's "
        "imports.",
        default="auto",
        choices=STARTS,
        machine=True,
    )
    image: str = option(
        "Container image with Python 3.10 or newer and the libraries that programs use.",
        default=DEFAULT_IMAGE,
        envvar="MLE_SANDBOX_IMAGE",
    )
    timeout: float | None = option("Time limit of one program (default: set by the scaffold).", above=0, kind="seconds")
    memory_size: int = option("Memory limit of all processes of a program.", default=2048, at_least=64, metavar="MB")
    processes: int = option("Limit on concurrent processes and threads of a program.", default=64, at_least=1)
    file_size: int = option("Maximum size of a file that it writes.", default=64, at_least=1, metavar="MB")
    disk: int = option("Maximum size of all files that it writes.", default=256, at_least=1, metavar="MB")
    output_size: int = option(
        "Maximum size of standard output, and of standard error.", default=1024, at_least=1, metavar="KB"
    )
    shared_memory: int | None = option(
        "Size of /dev/shm, through which the workers of a DataLoader pass batches (default: a part of --disk).",
        at_least=1,
        metavar="MB",
    )
    submission_size: int = option(
        f"Maximum size of submission.csv, or {TIMES_SAMPLE} times the task's sample submission where that is larger.",
        default=32,
        at_least=1,
        metavar="MB",
    )
    weights: str | None = option(
        "Folder of pretrained weights, which programs see read-only at ./weights; with --on, a folder on each node.",
        metavar="DIR",
    )
    threads: int = option("Number of threads of numeric libraries.", default=1, at_least=1)

    def limits(self, timeout: float) -> Limits:
        """The limits of a run; `timeout` (s) is the default."""
        return Limits(
            wall_s=timeout if self.timeout is None else self.timeout,
            memory_mb=self.memory_size,
            processes=self.processes,
            file_mb=self.file_size,
            disk_mb=self.disk,
            output_kb=self.output_size,
            submission_mb=self.submission_size,
            threads=self.threads,
        )

    def check(self) -> None:
        """OptionError or ToolError for devices that cannot be given out, or weights that cannot be shown."""
        devices(self.gpus, self.on)
        if self.weights is not None and self.on is None:
            weights_folder(self.weights)

    def check_place(self, shown: tuple[str, ...], loopback: bool) -> None:
        """ToolError: folders are to be shown, or a loopback network is wanted, and it is not the local backend."""
        if (shown or loopback) and (self.backend != "local" or self.on is not None):
            raise ToolError(
                "other people's agents work in the local sandbox alone, where their box has a loopback network of its own: "
                "leave --on out, and take --backend local"
            )

    def open(
        self, slots: int, say: Callable[[str], None], shown: tuple[str, ...] = (), loopback: bool = False
    ) -> AbstractContextManager[Sandbox]:
        """The sandbox, closed at the end of the with block; `say` receives messages for the user; the others: see Setup.

        check_place says whether the backend has what they ask for.
        """
        setup = Setup(
            slots,
            start=self.start,
            gpus=devices(self.gpus, self.on),
            image=self.image,
            weights=None if self.weights is None else os.path.abspath(self.weights),
            shared_mb=self.shared_memory,
            shown=shown,
            loopback=loopback,
        )
        if self.preimport is not None:
            setup = replace(setup, preimport=tuple(filter(None, map(str.strip, self.preimport.split(",")))))
        backend = self.backend
        if backend == "auto" and self.on is None:
            backend, descriptions = choose(setup)
            say(f"--backend auto takes {backend} ({'; '.join(descriptions)})")
        return open_sandbox(backend, setup, self.on, say)


def check_protections(sandbox: Sandbox, say: Callable[[str], None]) -> None:
    """Report the notes and inactive protections of the sandbox. ToolError: programs could read the answers."""
    for note in sandbox.notes:
        say(note)
    protections = sandbox.protections
    if not protections["private_files"]:
        raise ToolError("this machine has neither namespaces nor Landlock: programs could read the answers")
    missing = [name.replace("_", " ") for name, active in protections.items() if not active]
    if missing:
        say(f"not active on this machine: {', '.join(missing)} (see docs/security.md)")


def devices(names: str | None, on: str | None) -> tuple[str, ...]:
    """The devices of --gpus. OptionError: device names with a cluster, or `any` without one."""
    if names is None:
        return ()
    if (names == ANY) != (on is not None):
        raise OptionError(
            "a cluster chooses the devices: give --gpus any" if on else "name the devices, e.g. --gpus 0,1"
        )
    return parse(names)
