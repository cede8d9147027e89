"""One run of a command: its input, output, workers, counters, and messages on standard error."""

import contextlib
import os
import select
import stat
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from . import __version__
from .base import workers
from .base.columns import terminal_columns, terminal_lines
from .base.errors import RecordError, ToolError
from .base.jsonl import JsonObject, Line, dumps, read_files, reader_left, reads_terminal
from .base.options import flag_of
from .base.output import AnyRecord, Key, Output, Side, record_id, tear
from .base.streams import is_stream, name_of, open_stream, shares_messages, writable
from .base.visible import visible, visible_line
from .base.words import counted
from .records.rejects import reject_record

if TYPE_CHECKING:
    from .base.progress import ProgressBar
    from .records.common import LineageEntry
    from .records.rollout import Rollout
    from .records.task import Task
    from .records.training import TrainStep

R = TypeVar("R", bound=AnyRecord)
Work = Callable[["Rollout"], "Rollout"]
Watch = Callable[["Rollout"], None]


AT_ONCE = 1.0  # seconds


class DryRunEnds(BaseException):
    """A dry run has checked what it checks."""


class Run:
    """One run of a command. `writes_text`: its output is human-readable; `endless`: its pipe has no end (--forever)."""

    def __init__(self, name: str, params: JsonObject, options: JsonObject, stdout: int, text: bool = False):
        self.name, self.options, self._stdout, self.writes_text = name, options, stdout, text
        self.files: Sequence[str] = params.get("files") or ()
        self._has_input = "files" in params
        self.seed: int = params.get("seed") or 0
        self.jobs: int = params.get("jobs") or 1
        self.data = Path(params.get("data") or ".")
        self.dry_run: bool = bool(params.get("dry_run"))
        self.quiet: bool = params["quiet"]
        self.keep_order: bool = bool(params.get("keep_order"))
        self.resume: bool = bool(params.get("resume"))
        self.force: bool = bool(params.get("force"))
        self.allow_empty: bool = bool(params.get("allow_empty"))
        self.endless = bool(options.get("forever"))
        self.counts: Counter[str] = Counter(records=0)  # printed in the summary in this order
        self._output: str = params.get("output") or "-"
        self._path = None if is_stream(self._output) else Path(self._output)
        self._stream = writable(self._output, stdout)  # the descriptor of the output; None for a file
        self._max_rejects: int = params.get("max_rejects") or 0
        self._rejects_path: str | None = params.get("rejects")
        self._rejects: Output | None = None
        self._beside_messages: list[Output] = []  # streams in which messages stand, too
        self._sides: list[Side] = []
        self._lock = threading.Lock()
        self._out: Output | None = None
        self._bar: ProgressBar | None = None
        self._skip: Counter[object] = Counter()  # records of the resumed run, by key, that have not come again
        self._started = time.monotonic()
        self._writing = False
        self._postponed: int | None = None  # a signal
        self._signalled: float | None = None  # when the last one came
        self.checkpoint: Path | None = None  # where a training's newest one will be

    @property
    def folder(self) -> Path | None:
        """The path of -o, for a command that writes a folder; None: a stream."""
        return self._path

    # --- output -------------------------------------------------------------------------------------------------

    def open(self, key: Key = record_id) -> "Run":
        """Open the output; `key` identifies finished records for --resume. Text is always written from the start.

        A dry run ends here at the latest.
        """
        self.end_dry_run()
        if self.writes_text and self.resume:
            self.resume, self.force = False, True
        self._key = key
        self._out = self._opened(self._output, self.resume, key, self.force)
        if self._path is None:
            self._stream = self._out.descriptor
        self._skip = Counter(self._out.finished)
        self.counts["finished before"] = sum(self._skip.values())
        if self._out.earlier is not None:
            self._refuse_changed_options(self._out.earlier)
        self.open_rejects()
        return self

    def open_rejects(self) -> None:
        """Open --rejects; for a command that writes no records now, else done by `open`."""
        if self._rejects_path:
            self._rejects = self.rewritten(self._rejects_path)

    def end_dry_run(self, *kinds: str) -> None:
        """End a dry run: the options are valid, and so is the first record of each input, if it is one of `kinds`.

        Commands call this after they have checked their options, before they open models and sandboxes. An input may
        be empty; with no kinds none is read.
        """
        if not self.dry_run:
            return
        checked = 0
        for name in (self.files or ("-",)) if self._has_input and kinds else ():
            if not reads_terminal(name):
                checked += next(self.lines(*kinds, files=(name,)), None) is not None
        if not self.quiet:
            inputs = "" if not checked else " and the first record of the input" + ("s" if checked > 1 else "")
            self.say(f"dry run: the options{inputs} are valid")
        raise DryRunEnds

    def stand_by(self) -> None:
        """Be one of several processes of this command, another of which reads, writes and reports."""
        self.files, self.quiet, self._path, self._rejects_path = (os.devnull,), True, None, None
        self.allow_empty = True
        self._output, self._stream = "-", self._stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stdout)

    def pause(self, seconds: float) -> None:
        """Sleep; BrokenPipeError if the reader of our output has left meanwhile."""
        time.sleep(seconds)
        if self._stream is None:
            return
        watch = select.poll()
        watch.register(self._stream, 0)
        if reader_left(watch.poll(0), self._stream):
            raise BrokenPipeError

    @property
    def terminal_columns(self) -> int | None:
        """The width of the terminal that the output goes to, or None."""
        return None if self._stream is None else terminal_columns(self._stream)

    @property
    def reader_columns(self) -> int | None:
        """The width at which text is read: of the terminal, and of a pipe (`| less`) that of standard error; or None."""
        piped = self._stream is not None and stat.S_ISFIFO(os.fstat(self._stream).st_mode)
        return terminal_columns(2) if piped else self.terminal_columns

    @property
    def terminal_lines(self) -> int | None:
        """The height of the terminal that the output goes to, or None."""
        return None if self._stream is None else terminal_lines(self._stream)

    @property
    def message_columns(self) -> int | None:
        """The width that the terminal that is standard error leaves for a message, or None."""
        columns = terminal_columns(2)
        return None if columns is None else columns - len(f"{self.name}: ")

    def emit_text(self, text: str, *, styled: bool = False) -> None:
        """Write human-readable text instead of records. What would steer a terminal is spelled out, unless it is `styled`:
        its writer has done that, and added codes of our own or markup.
        """
        assert self._out is not None
        self.writes_text = True
        self._out.write_bytes((text if styled else visible(text)).encode())

    def _refuse_changed_options(self, earlier: JsonObject) -> None:
        entries = [entry for entry in earlier.get("lineage", []) if entry.get("tool") == self.name]
        if not entries:
            raise ToolError(f"{self._path}: holds records that {self.name} did not write; choose another -o")
        then, now = {**entries[-1]["options"], "seed": entries[-1]["seed"]}, {**self.options, "seed": self.seed}
        changes = [
            f"{flag_of(key)} was {_shown(then, key)} and is {_shown(now, key)}"
            for key in sorted(then.keys() | now.keys())
            if then.get(key) != now.get(key)
        ]
        if changes:
            raise ToolError(f"cannot resume {self._path} with other options: {', '.join(changes)}")
        if entries[-1]["version"] != __version__:
            self.say(f"resuming records of version {entries[-1]['version']} with version {__version__}")

    def stamp(self, record: R) -> R:
        """The record with this run appended to its lineage."""
        entry = {"tool": self.name, "version": __version__, "options": self.options, "seed": self.seed}
        return cast(R, {**record, "lineage": [*_lineage(record), entry]})

    @property
    def earlier(self) -> JsonObject | None:
        """The last record of the resumed run."""
        return self._out.earlier if self._out else None

    @property
    def finished_keys(self) -> list[Any]:
        """The keys of the resumed run's records."""
        return list(self._out.finished) if self._out else []

    def finished(self, key: object, times: int = 1) -> bool:
        """True if the resumed run wrote at least `times` records with this key."""
        assert self._out is not None
        return self._out.finished[key] >= times

    def _finished_before(self, record: AnyRecord) -> bool:
        """True once for each record of the resumed run with this record's key."""
        key = self._key(record)
        if self._skip[key] > 0:
            self._skip[key] -= 1
            return True
        return False

    def settled(self, ids: Counter[str]) -> None:
        """Of the records of the resumed run, so many with these ids do not come again."""
        self._skip.subtract(ids)

    def emit(self, record: AnyRecord, again: bool = True) -> bool:
        """Write a record; False if it comes `again`, and the resumed run has written it. From any thread."""
        assert self._out is not None
        with self._lock:
            if again and self._finished_before(record):
                return False
            stamped = self.stamp(record)
            self.endless |= any(entry.get("options", {}).get("forever") for entry in _lineage(stamped))
            with self._whole() if self.endless else contextlib.nullcontext():
                self._out.write(stamped, ended=self.endless)
            self.counts["records"] += 1
            if self._bar is not None:
                self._bar.update()
            return True

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """The readers of an endless run train on what it has written when a signal ends it: its last record is whole."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
            number, self._postponed = self._postponed, None
            if number is not None:
                self._signalled = None
                os.kill(os.getpid(), number)

    def postpones(self, number: int) -> bool:
        """Whether this signal is not for now: it comes again once the record that is being written is whole.

        A second one is for now, but for one that follows at once: `timeout` sends its signal twice.
        """
        now = time.monotonic()
        if self._signalled is not None and now - self._signalled < AT_ONCE:
            return True
        self._signalled = now
        if self._postponed is not None:
            self._postponed = None
            return False
        self._postponed = number
        if self._writing:
            return True
        self._postponed = None
        return False

    def sidecar_path(self, suffix: str) -> Path | None:
        """The path of a file next to the output, or None if the output is no file."""
        return self._path.with_name(f"{self._path.name}.{suffix}") if self._path else None

    def side_output(self, path: str) -> Side:
        """A second output, completed with the first and resumed like it. ToolError: --resume, and it is no file."""
        if self.resume and is_stream(path):
            raise ToolError(f"{path}: no regular file, so --resume cannot continue it; name the file of the killed run")
        side = Side(self._opened(path, self.resume, record_id, self.force), self.stamp)
        self._sides.append(side)
        return side

    def rewritten(self, path: str) -> Output:
        """A second output, which a resumed run writes again from the start; the caller commits it."""
        return self._opened(path, False, record_id, self.force or self.resume)

    def _opened(self, path: str, resume: bool, key: Key, force: bool) -> Output:
        """An output of this run: the one place where a path of the command line is opened for writing records."""
        if not is_stream(path):
            return Output(Path(path), None, resume, key, force)
        number = open_stream(path, self._stdout)
        output = Output(None, os.fdopen(number, "wb", closefd=False), False, key, name=name_of(path, 1))
        if shares_messages(number):
            self._beside_messages.append(output)
        return output

    # --- input --------------------------------------------------------------------------------------------------

    @overload
    def lines(
        self,
        kind: Literal["rollout"],
        /,
        *,
        files: Sequence[str] | None = ...,
        whole: bool = ...,
        conversations: bool = ...,
    ) -> "Iterator[Line[Rollout]]": ...
    @overload
    def lines(self, kind: Literal["task"], /, *, files: Sequence[str] | None = ...) -> "Iterator[Line[Task]]": ...
    @overload
    def lines(
        self, kind: Literal["train_step"], /, *, files: Sequence[str] | None = ...
    ) -> "Iterator[Line[TrainStep]]": ...
    @overload
    def lines(
        self,
        kind: Literal["task"],
        other: Literal["rollout"],
        /,
        *,
        files: Sequence[str] | None = ...,
        whole: bool = ...,
    ) -> "Iterator[Line[Task | Rollout]]": ...
    @overload
    def lines(
        self, *kinds: str, files: Sequence[str] | None = ..., may_be_empty: bool = ..., whole: bool = ...
    ) -> Iterator[Line[Any]]: ...

    def lines(
        self,
        *kinds: str,
        files: Sequence[str] | None = None,
        may_be_empty: bool = False,
        whole: bool = False,
        conversations: bool = False,
    ) -> Iterator[Line[Any]]:
        """The records of these kinds in the input, or in `files`; invalid lines are rejected or stop the run.

        whole: any invalid line stops it, and so does a file without records, whatever the options accept of the input.
        conversations: lines of chat data without a kind pass, too.
        """
        from .records import schema

        files = self.files if files is None else files
        if any(map(reads_terminal, files or ("-",))):
            self.say("reading records from the terminal; Ctrl-D ends them")
        line: Line | None = None
        for line in read_files(files, self._stream):
            problem = line.problem
            try:
                if problem is None and conversations and "kind" not in line.record and "messages" in line.record:
                    schema.check_conversation(line.record)
                elif problem is None:
                    schema.check(line.record, *kinds)
            except RecordError as error:
                problem = str(error)
            if problem is None:
                yield line
            elif whole:
                raise ToolError(f"{line.place}: {problem}")
            else:
                self.reject(line, problem)
        if line is None and (whole or not (may_be_empty or self.allow_empty or self.dry_run)):
            where = ", ".join(name if name != "-" else "standard input" for name in files or ("-",))
            raise ToolError(f"{where}: no records{'' if whole else '; --allow-empty accepts an empty input'}")

    def unfinished(self, lines: Iterable[Line[R]]) -> Iterator[Line[R]]:
        """The lines whose record the resumed run has not completed; repeated ids are counted."""
        return (line for line in lines if not self._finished_before(line.record))

    def reject(self, line: Line[object], reason: str) -> None:
        """Set a line aside, or stop the run when --max-rejects is exceeded."""
        if self.counts["rejected"] >= self._max_rejects:
            raise ToolError(f"{line.place}: {reason}")
        self.counts["rejected"] += 1
        if self._rejects is None:
            self.say(f"{line.place}: {reason}")
            return
        id_parts = (line.source, line.number, line.text)
        self._rejects.write(self.stamp(reject_record(id_parts, line.source, line.number, reason, line.text)))

    # --- work ---------------------------------------------------------------------------------------------------

    def map(
        self, work: Callable[[Any], Any], items: Iterable[Any], processes: bool = False, in_order: bool = False
    ) -> Iterator[Any]:
        """(item, result, error) of each item, by -j workers; see base.workers.run. `in_order`: as with -k."""
        return workers.run(work, items, self.jobs, self.keep_order or in_order, processes)

    def each(self, work: Work, kind: Literal["rollout"], processes: bool = False, watch: Watch | None = None) -> None:
        """One record in, one record out: `work` returns the record with a key added; `watch` is called with each result.

        A RecordError of `work` rejects the line; any other exception stops the run.
        """
        self.open()
        self.progress(self.count_lines)
        for line, result, error in self.map(partial(_work_on_line, work), self.unfinished(self.lines(kind)), processes):
            if isinstance(error, RecordError):
                self.reject(line, str(error))
            elif isinstance(error, ToolError):
                raise ToolError(f"{line.place}: {error}") from error
            elif error is not None:
                raise error
            else:
                if watch is not None:
                    watch(result)
                self.emit(result)

    # --- messages -----------------------------------------------------------------------------------------------

    def say(self, message: str) -> None:
        """Print a message on standard error, also with -q. What would steer a terminal is spelled out."""
        self.before_message()
        message = visible(message)
        if self._bar is not None:
            self._bar.say(f"{self.name}: {message}")
        else:
            print(f"{self.name}: {message}", file=sys.stderr, flush=True)

    def before_message(self) -> None:
        """End the last record's line where messages go to the same file, so that both stay readable."""
        for output in self._beside_messages:
            output.end_line()

    def count_lines(self, records: int = 1) -> int | None:
        """The number of records still to write, so many of each input line; None if the input is no regular file."""
        total = 0
        for path in self.files or ("-",):
            if is_stream(path) or not os.path.isfile(path):
                return None
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    total += block.count(b"\n")
        return max(0, total * records - self.counts["finished before"])

    def progress(self, total: int | Callable[[], int | None] | None, unit: str = "records") -> None:
        """Show a progress bar if standard error is a terminal, to which nothing else of the pipe writes; `total` is only
        called then.
        """
        if self.quiet or not sys.stderr.isatty() or self._bar is not None:
            return
        from .base.progress import ProgressBar, others_write

        if not (self._stream is not None and os.isatty(self._stream)) and not others_write():
            self._bar = ProgressBar(self.name, total() if callable(total) else total, unit)

    def note(self, text: str) -> None:
        """Show the state of the current work after the progress bar. From any thread."""
        if self._bar is not None:
            self._bar.note(visible_line(text))

    def close(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.close()

    def interrupted(self) -> None:
        """The run was stopped from outside: say what is kept, where that is a file or a checkpoint."""
        kept, advice = [], "--resume goes on"
        if self._path is not None and self._out is not None and not self.writes_text:
            count = sum(self._out.finished.values()) + self.counts["records"]
            if self.force and not count and self._path.exists():  # which --resume would continue
                kept.append(f"{self._path} is as it was")
                advice = "--force begins again"
            else:
                kept.append(f"{counted(count, 'records')} kept in {self._path}.partial")
        if self.checkpoint is not None and self.checkpoint.exists():
            kept.append(f"{self.checkpoint} is the newest checkpoint")
        if kept and not self.quiet:
            self.say(f"stopped: {', '.join(kept)}; {advice}")

    def abandon(self) -> None:
        """The run has failed: mark a stream of records as incomplete for its reader."""
        if self.writes_text:
            return
        if self._out is not None:
            self._out.abandon()
        elif self._stream is not None:
            tear(self._stream)

    def complete(self) -> None:
        """The run has succeeded: commit the outputs and print the summary."""
        for output in (self._out, self._rejects, *(side.output for side in self._sides)):
            if output is not None:
                output.commit()
        if not self.quiet and not self.dry_run:
            counts = {what: count for what, count in self.counts.items() if count} or {"records": 0}
            numbers = ", ".join(counted(count, what) for what, count in counts.items())
            line = f"{numbers}, {time.monotonic() - self._started:.1f} s"
            if columns := self.message_columns:
                line = textwrap.fill(line, columns, subsequent_indent="  ", break_long_words=False)
            self.say(line)


def _shown(options: JsonObject, key: str) -> str:
    return dumps(options[key]) if key in options else "not given"


def _work_on_line(work: Work, line: "Line[Rollout]") -> "Rollout":
    return work(line.record)


def _lineage(record: AnyRecord) -> "list[LineageEntry]":
    return cast("list[LineageEntry]", record.get("lineage", []))
