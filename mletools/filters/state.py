"""The file in which mle-filter --state remembers rewards from run to run.

With -o FILE the rewards of a run are in it once the run is complete; until then it says what the run began from, and a
resumed run begins there again. A stream's are in it as they go by. One run at a time: a lock lies beside it.
"""

import fcntl
import os
from pathlib import Path
from typing import BinaryIO, TypedDict

from ..base.errors import ToolError
from ..base.jsonl import dumps, loads
from ..base.typed import convert
from .remembered import Remembered, TaskRewards

KIND = "mle-filter state"
REWARDS_PER_RECORD = 1000  # rewards held, for each record between two writes of a stream's state


class Begun(TypedDict):
    """What a run with an output began from."""

    output: str
    tasks: dict[str, TaskRewards]


class State(TypedDict):
    """What the file holds."""

    kind: str
    version: int
    tasks: dict[str, TaskRewards]
    begun: Begun | None


class StateFile:
    """`remembered` is what the run begins from, and what it adds to. ToolError: locked, broken, or another run's.

    partial: the file that the run writes until its output is complete, None for a stream; resume: the run goes on with
    an earlier one, which had finished records or not. The with block is the run: at its end the rewards are written, of
    a stream even when an error ends it.
    """

    def __init__(self, path: Path, partial: Path | None, resume: bool = False, finished: bool = False):
        self.path = Path(os.path.realpath(path))
        self._lock = self._locked()
        self._output = os.path.realpath(partial).removesuffix(".partial") if partial else None
        stored, begun = self._read()
        tasks = stored
        if resume and begun is not None and begun["output"] == self._output:
            tasks = begun["tasks"]
        elif resume and finished:
            raise ToolError(
                f"{self.path}: no longer knows what the run of {self._output} began from: another run has used it "
                "since; choose another -o"
            )
        self._begun: Begun | None = {"output": self._output, "tasks": tasks} if self._output else None
        self.remembered = Remembered.of(tasks)
        self._since = 0
        self._write(stored)

    def record_written(self) -> None:
        """Of a stream, the rewards up to this record are written, or soon will be: large states less often."""
        self._since += 1
        if self._output is None and self._since > self.remembered.size // REWARDS_PER_RECORD:
            self._save()

    def __enter__(self) -> "StateFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None or (self._output is None and self._since):
            self._save()

    def _save(self) -> None:
        self._write(self.remembered.as_json())
        self._since = 0

    def _locked(self) -> BinaryIO:
        beside = self.path.with_name(self.path.name + ".lock")
        try:
            file = open(beside, "a+b")  # noqa: SIM115 (it stays open for as long as the run)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ToolError(f"{self.path}: another run is using it; wait for it or choose another --state") from None
        except OSError as error:
            raise ToolError(f"{beside}: {error.strerror}") from None
        return file

    def _read(self) -> tuple[dict[str, TaskRewards], Begun | None]:
        """The rewards by task, and what the last run with an output began from."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return {}, None
        except OSError as error:
            raise ToolError(f"{self.path}: {error.strerror}") from None
        try:
            state = loads(text)
            if state["kind"] != KIND or state["version"] != 1:
                raise ValueError(f"kind and version are {state['kind']!r} and {state['version']!r}")
            convert(state, State)
            return state["tasks"], state["begun"]
        except (ValueError, KeyError, TypeError) as error:
            fault = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ToolError(
                f"{self.path}: is not what mle-filter --state wrote ({fault}); move it away to begin without it, "
                "or choose another --state"
            ) from None

    def _write(self, tasks: dict[str, TaskRewards]) -> None:
        state: State = {"kind": KIND, "version": 1, "tasks": tasks, "begun": self._begun}
        new = self.path.with_name(self.path.name + ".new")
        try:
            with open(new, "w", encoding="utf-8") as file:
                file.write(dumps(state) + "\n")
                file.flush()
                if self._output is not None:
                    os.fsync(file.fileno())
            os.replace(new, self.path)
        except OSError as error:
            raise ToolError(f"cannot write {self.path}: {error.strerror}") from None
