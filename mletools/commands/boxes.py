"""The options of a sandbox, and its opening; for the commands that run programs."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import click

from .. import cli
from ..records.errors import ToolError
from ..sandbox import BACKENDS, DEFAULT_IMAGE, STARTS, Limits, Sandbox, Setup, choose, open_sandbox
from ..sandbox.gpus import ANY, parse


@dataclass(frozen=True)
class BoxOptions:
    """What the options of `box_options` say; sizes and times as in Limits. `timeout` None: the caller's."""

    backend: str
    on: str | None
    gpus: str | None
    preimport: str | None
    start: str
    image: str
    timeout: float | None
    memory_size: int
    processes: int
    file_size: int
    disk: int
    output_size: int
    submission_size: int
    threads: int

    def limits(self, timeout: float) -> Limits:
        """The limits of a run; `timeout` (s) where the user gave none."""
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

    def open(self, run: cli.Run, slots: int) -> AbstractContextManager[Sandbox]:
        """The sandbox, closed at the end of the with block; `auto` says what it takes."""
        setup = Setup(slots, start=self.start, gpus=devices(self.gpus, self.on), image=self.image)
        if self.preimport is not None:
            setup = replace(setup, preimport=tuple(filter(None, self.preimport.split(","))))
        backend = self.backend
        if backend == "auto" and self.on is None:
            backend, told = choose(setup)
            run.say(f"--backend auto takes {backend} ({'; '.join(told)})")
        return open_sandbox(backend, setup, self.on, run.say)


def check_protections(run: cli.Run, sandbox: Sandbox) -> None:
    """Say what a user should know of the sandbox. ToolError where a program could read the answers."""
    for note in sandbox.notes:
        run.say(note)
    protections = sandbox.protections
    if not protections["private_files"]:
        raise ToolError("this machine grants neither namespaces nor Landlock: programs could read the answers")
    missing = [name.replace("_", " ") for name, active in protections.items() if not active]
    if missing:
        run.say(f"not active on this machine: {', '.join(missing)} (docs/security.md says what that means)")


def devices(names: str | None, on: str | None) -> tuple[str, ...]:
    """What --gpus names. UsageError: devices of this machine for a cluster, or a cluster's choice for this machine."""
    if names is None:
        return ()
    if (names == ANY) != (on is not None):
        fault = "a cluster chooses the devices itself: give --gpus any" if on else "name the devices, e.g. --gpus 0,1"
        raise click.UsageError(fault)
    return parse(names)


def box_options(timeout: float | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options of a sandbox to a command's body, which gets them as one argument `box`, a BoxOptions.

    timeout: the default of --timeout in seconds; None leaves it to the command.
    """
    options = [
        click.option(
            "--backend",
            type=click.Choice([*BACKENDS, "auto"]),
            default="local",
            envvar="MLE_SANDBOX",
            show_default=True,
            show_envvar=True,
            cls=cli.MachineOption,
            help="What isolates the programs; auto takes the strongest that works here, and says which.",
        ),
        click.option(
            "--on",
            metavar="CLUSTER",
            cls=cli.MachineOption,
            help="Run on a Ray cluster: ray://HOST:PORT, or ray for the one that RAY_ADDRESS names (else this machine's cores).",
        ),
        click.option(
            "--gpus",
            metavar="LIST",
            cls=cli.MachineOption,
            help="Lend each program one of these devices to itself, e.g. 0,1; with --on: any.",
        ),
        click.option(
            "--preimport",
            metavar="MODULES",
            cls=cli.MachineOption,
            help="Load these once, ahead of every program (default: numpy, pandas, scipy and scikit-learn's usual parts).",
        ),
        click.option(
            "--start",
            type=click.Choice(STARTS),
            default="auto",
            show_default=True,
            cls=cli.MachineOption,
            help="Fork programs from a warm process, or give each a fresh interpreter; auto: as its imports need.",
        ),
        click.option(
            "--image",
            default=DEFAULT_IMAGE,
            envvar="MLE_SANDBOX_IMAGE",
            show_default=True,
            show_envvar=True,
            help="Of containers: any with Python 3.10 or newer and the libraries that programs use.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(0, min_open=True),
            default=timeout,
            show_default=timeout is not None,
            metavar="S",
            help=f"Wall seconds for one program{'' if timeout else ' (default: as the scaffold says)'}.",
        ),
        click.option(
            "--memory-size",
            type=click.IntRange(64),
            default=2048,
            show_default=True,
            metavar="MB",
            help="Memory of all its processes.",
        ),
        click.option(
            "--processes", type=click.IntRange(1), default=64, show_default=True, help="Processes and threads at once."
        ),
        click.option(
            "--file-size",
            type=click.IntRange(1),
            default=64,
            show_default=True,
            metavar="MB",
            help="Largest file it may write.",
        ),
        click.option(
            "--disk",
            type=click.IntRange(1),
            default=256,
            show_default=True,
            metavar="MB",
            help="All files it may write.",
        ),
        click.option(
            "--output-size",
            type=click.IntRange(1),
            default=1024,
            show_default=True,
            metavar="KB",
            help="Standard output, and standard error.",
        ),
        click.option(
            "--submission-size",
            type=click.IntRange(1, 32),
            default=32,
            show_default=True,
            metavar="MB",
            help="Largest submission.csv.",
        ),
        click.option(
            "--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of numeric libraries."
        ),
    ]

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(body)
        def with_options(*args: Any, **given: Any) -> None:
            names = BoxOptions.__dataclass_fields__
            body(*args, box=BoxOptions(**{name: given.pop(name) for name in names}), **given)

        decorated: Any = with_options
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate
