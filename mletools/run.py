"""One run of a command: its input, its output, its workers, its counters, and what it says on standard error."""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import __version__
from .records.errors import RecordError, ToolError
from .records.jsonl import Line, dumps, read_files, stdin_is_terminal
from .records.output import Key, Output, tear


def _record_id(record: dict[str, Any]) -> Any:
    return record["id"]


def _endless(record: dict[str, Any]) -> bool:
    """Whether the record belongs to a pipe that never ends (mle-rollout --forever)."""
    return any(entry.get("options", {}).get("forever") for entry in record["lineage"])


class Run:
    """One run of a command: its input, its output, its workers and its counters."""

    def __init__(self, name: str, params: dict[str, Any], options: dict[str, Any], stdout: int):
        self.name, self.options, self._stdout = name, options, stdout
        self.files: Sequence[str] = params.get("files") or ()
        self.seed: int = params.get("seed") or 0
        self.jobs: int = params.get("jobs") or 1
        self.data = Path(params.get("data") or ".")
        self.dry_run: bool = bool(params.get("dry_run"))
        self.quiet: bool = params["quiet"]
        self.verbose: bool = params["verbose"]
        self.keep_order: bool = bool(params.get("keep_order"))
        self.resume: bool = bool(params.get("resume"))
        self.force: bool = bool(params.get("force"))
        self.allow_empty: bool = bool(params.get("allow_empty"))
        self._path = Path(params["output"]) if params.get("output") not in (None, "-") else None
        self._max_rejects: int = params.get("max_rejects") or 0
        self._rejects_path: str | None = params.get("rejects")
        self._rejects: Output | None = None
        self._sides: list[Side] = []
        self._lock = threading.Lock()
        self._out: Output | None = None
        self.writes_text = False  # for people, where records would go
        self.endless = bool(options.get("forever"))  # this run, or the one whose records it reads
        self._bar: Any = None
        self._skip: Counter[Any] = Counter()
        self._started = time.monotonic()
        self.counts: Counter[str] = Counter(records=0)  # told in the summary in this order

    # --- output -------------------------------------------------------------------------------------------------

    def open(self, key: Key = _record_id) -> "Run":
        """Open the output; `key` tells finished records apart for --resume. Text is of all of the input: it begins anew."""
        if self.writes_text and self.resume:
            self.resume, self.force = False, True
        stream = None if self._path else os.fdopen(self._stdout, "wb")
        self._key = key
        self._out = Output(self._path, stream, self.resume, key, self.force)
        self._skip = Counter(self._out.finished)
        self.counts["finished before"] = sum(self._skip.values())
        if self._out.earlier is not None:
            self._refuse_changed_options(self._out.earlier)
        if self._rejects_path:
            self._rejects = self.rewritten(self._rejects_path)
        return self

    def stand_by(self) -> None:
        """Be one of several processes of this command of which another reads, writes and tells."""
        self.files, self.quiet, self._path, self._rejects_path = (os.devnull,), True, None, None
        self.allow_empty = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stdout)

    def pause(self, seconds: float) -> None:
        """Wait for something that is not the input; BrokenPipeError when the reader of our output has gone meanwhile."""
        import select

        time.sleep(seconds)
        watch = select.poll()
        watch.register(self._stdout, 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0)):
            raise BrokenPipeError

    @property
    def terminal_columns(self) -> int | None:
        """How wide the terminal is that standard output goes to; None: it goes elsewhere."""
        try:
            return os.get_terminal_size(self._stdout).columns
        except OSError:
            return None

    def emit_text(self, text: str) -> None:
        """Write text that is meant for people where records would go."""
        assert self._out is not None
        self.writes_text = True
        self._out.write_bytes(text.encode())

    def _refuse_changed_options(self, earlier: dict[str, Any]) -> None:
        entries = [entry for entry in earlier.get("lineage", []) if entry.get("tool") == self.name]
        if not entries:
            raise ToolError(f"{self._path}: holds records that {self.name} did not write; choose another -o")
        then, now = dict(entries[-1]["options"]), dict(self.options)
        then["seed"], now["seed"] = entries[-1]["seed"], self.seed
        changed = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
        if changed:
            told = ", ".join(
                f"--{key.replace('_', '-')} was {dumps(then[key]) if key in then else 'not given'}" for key in changed
            )
            raise ToolError(f"cannot resume {self._path} with other options: {told}")
        if entries[-1]["version"] != __version__:
            self.say(f"resuming records of version {entries[-1]['version']} with version {__version__}")

    def stamp(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record with this run appended to its lineage."""
        entry = {"tool": self.name, "version": __version__, "options": self.options, "seed": self.seed}
        return {**record, "lineage": [*record.get("lineage", []), entry]}

    @property
    def earlier(self) -> dict[str, Any] | None:
        """The last record of the run that is being resumed."""
        return self._out.earlier if self._out else None

    @property
    def finished_keys(self) -> list[Any]:
        """The keys of the records that the resumed run completed."""
        return list(self._out.finished) if self._out else []

    def finished(self, key: Any, times: int = 1) -> bool:
        """Whether so many records with this key were completed by the run that is being resumed."""
        assert self._out is not None
        return self._out.finished[key] >= times

    def emit(self, record: dict[str, Any]) -> bool:
        """Write one record of ours, unless the resumed run wrote it already (then False). From any thread."""
        assert self._out is not None
        key = self._key(record)
        with self._lock:
            if self._skip[key] > 0:
                self._skip[key] -= 1
                return False
            stamped = self.stamp(record)
            self.endless = self.endless or _endless(stamped)
            self._out.write(stamped, ended=self.endless)
            self.counts["records"] += 1
            if self._bar is not None:
                self._bar.update()
            return True

    def beside(self, suffix: str) -> Path | None:
        """A file next to the output, for what a resumed run needs; None where the output is no file."""
        return self._path.with_name(f"{self._path.name}.{suffix}") if self._path else None

    def side_output(self, path: Path) -> "Side":
        """A second output, which is completed with the first and resumed like it."""
        side = Side(self, Output(path, None, self.resume, _record_id, self.force))
        self._sides.append(side)
        return side

    def rewritten(self, path: str) -> Output:
        """A second output that a resumed run makes anew, as a whole; who opens it commits it."""
        return Output(Path(path), None, False, _record_id, self.force or self.resume)

    # --- input --------------------------------------------------------------------------------------------------

    def lines(self, *kinds: str, files: Sequence[str] | None = None) -> Iterator[Line]:
        """The records of these kinds in the input, or in these files; bad lines are rejected or stop the run."""
        from .records import schema

        files = self.files if files is None else files
        if stdin_is_terminal() and (not files or "-" in files):
            self.say("reading records from the terminal; Ctrl-D ends them")
        empty = True
        for line in read_files(files):
            empty = False
            problem = line.problem
            if problem is None:
                try:
                    schema.check(line.record, *kinds)
                except RecordError as error:
                    problem = str(error)
            if problem is None:
                yield line
            else:
                self.reject(line, problem)
        if empty and not (self.allow_empty or self.dry_run):
            where = ", ".join(name if name != "-" else "standard input" for name in files or ("-",))
            raise ToolError(f"{where}: no record came; where that may be, --allow-empty takes it")

    def unfinished(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines whose record the resumed run has not completed, counting repeated ids."""
        for line in lines:
            key = self._key(line.record)
            if self._skip[key] > 0:
                self._skip[key] -= 1
            else:
                yield line

    def reject(self, line: Line, reason: str) -> None:
        """Set a line aside, or stop the run when --max-rejects is exceeded."""
        from .records.ids import content_id

        if self.counts["rejected"] >= self._max_rejects:
            raise ToolError(f"{line.place}: {reason}")
        self.counts["rejected"] += 1
        if self._rejects is None:
            self.say(f"{line.place}: {reason}")
            return
        record = {
            "kind": "reject",
            "version": 1,
            "id": content_id(line.source, line.number, line.text),
            "lineage": [],
            "source": line.source,
            "line_number": line.number,
            "reason": reason,
            "line": line.text,
        }
        self._rejects.write(self.stamp(record))

    # --- work ---------------------------------------------------------------------------------------------------

    def map(
        self, work: Callable[[Any], Any], items: Iterable[Any], processes: bool = False, in_order: bool = False
    ) -> Iterator[Any]:
        """Yield (item, result, error) with -j workers; see records.workers.run. `in_order`: as -k does."""
        from .records import workers

        return workers.run(work, items, self.jobs, self.keep_order or in_order, processes)

    def each(
        self,
        work: Callable[[dict[str, Any]], dict[str, Any]],
        *kinds: str,
        processes: bool = False,
        watch: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """One record in, one record out: `work` returns the record with its own key added; `watch` sees each result.

        A RecordError in `work` rejects that line; any other exception stops the run.
        """
        self.open()
        job = _OnRecord(work)
        self.progress(self.count_lines)
        for line, result, error in self.map(job, self.unfinished(self.lines(*kinds)), processes):
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

    # --- telling ------------------------------------------------------------------------------------------------

    def say(self, message: str) -> None:
        """One line on standard error, even with -q: it is a thing to know."""
        if self._bar is not None:
            self._bar.clear()
        print(f"{self.name}: {message}", file=sys.stderr, flush=True)

    def count_lines(self) -> int | None:
        """How many lines the input has when that is cheap to know."""
        total = 0
        for path in self.files or ("-",):
            if path == "-" or not os.path.isfile(path):
                return None
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    total += block.count(b"\n")
        return total - sum(self._skip.values())

    def progress(self, total: int | Callable[[], int | None] | None, unit: str = "records") -> None:
        """Show a bar on standard error if that is a terminal; `total` is only asked for then."""
        if self.quiet or not sys.stderr.isatty() or self._bar is not None:
            return
        from tqdm import tqdm

        total = total() if callable(total) else total
        self._bar = tqdm(total=total, unit=f" {unit}", desc=self.name, file=sys.stderr, leave=False, mininterval=0.5)

    def note(self, text: str) -> None:
        """Say behind the bar how far the work in hand has got; may be called from any thread."""
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def abandon(self) -> None:
        """The run has failed: let who reads our output know, where that is a stream of records."""
        if self.writes_text:
            return
        if self._out is not None:
            self._out.abandon()
        elif self._path is None:
            tear(self._stdout)

    def complete(self) -> None:
        """Everything went well: give the output its name and print the summary."""
        for output in (self._out, self._rejects, *(side.output for side in self._sides)):
            if output is not None:
                output.commit()
        if not self.quiet:
            counts = self.counts if any(self.counts.values()) else {"records": 0}
            told = [f"{count} {what}" for what, count in counts.items() if count or len(counts) == 1]
            print(f"{self.name}: {', '.join(told)}, {time.monotonic() - self._started:.1f} s", file=sys.stderr)


class Side:
    """A second output of a run. `emit` may be called from any thread."""

    def __init__(self, run: Run, output: Output):
        self._run, self.output = run, output
        self._finished, self._lock = set(output.finished), threading.Lock()
        self.written = 0

    def emit(self, record: dict[str, Any]) -> None:
        """Write a record, unless the resumed run wrote it already."""
        with self._lock:
            if record["id"] not in self._finished:
                self.output.write(self._run.stamp(record))
                self.written += 1


class _OnRecord:
    """Apply work to a line's record; a class, so that it travels to worker processes."""

    def __init__(self, work: Callable[[dict[str, Any]], dict[str, Any]]):
        self.work = work

    def __call__(self, line: Line) -> dict[str, Any]:
        return self.work(line.record)
