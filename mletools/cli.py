"""The command line that all commands share: common options, standard output, signals, exit codes.

A command module declares its options and one loop over a `Run`; `command` wraps it. Exit codes: 0 done, 1 failed,
2 usage, 130 Ctrl-C, 141 the reader of our output has left, 143 SIGTERM. Only records reach standard output: file
descriptor 1 is reserved for them before anything else runs, and the output of libraries goes to standard error.
"""

import contextlib
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click

from . import __version__
from .base import workers
from .base.errors import OptionError, ToolError
from .base.jsonl import Line
from .base.streams import identity, is_stream, open_missing
from .base.visible import visible
from .cli_options import COMMON, Folder, Option, OutputFile
from .run import DryRunEnds, Run

__all__ = ["Command", "Extension", "Line", "Option", "Run", "command"]


_ALL = f"{__name__}.all"  # in a context's notes: --help-all is asked for
_USUAL = {"--output", "--resume", "--jobs", "--help-all"}  # of the shared options


class _Stopped(BaseException):
    def __init__(self, number: int):
        self.exit_code = 128 + number


def _semantic_options(context: click.Context) -> dict[str, Any]:
    """The options that can change results and differ from their defaults, as JSON values; without the seed."""
    chosen: dict[str, Any] = {}
    for param in context.command.params:
        name = param.name
        if not isinstance(param, click.Option) or getattr(param, "machine", False):
            continue
        if name is None or name == "seed" or name not in context.params:
            continue
        value = context.params[name]
        default = None if param.required else param.process_value(context, param.get_default(context))
        empty = param.multiple and not value and not default
        if value is not None and value != default and not empty:
            chosen[name] = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    return chosen


def _named_files(context: click.Context) -> Iterator[tuple[str, str, bool]]:
    """(what messages call it, path, whether it is written) of each file on the command line, of stdin and stdout, too."""
    for param in context.command.params:
        if not isinstance(param.type, click.Path):
            continue
        value = context.params.get(param.name or "")
        paths = [path for path in (value if isinstance(value, tuple) else (value,)) if isinstance(path, str)]
        written = isinstance(param.type, OutputFile)
        standard = ["-"] if param.name in ("files", "output") else []
        for path in paths or standard:
            flag = "" if isinstance(param, click.Argument) else f"{param.opts[0]} "
            yield ("stdin", "stdout")[written] if [path] == standard else flag + path, path, written


def _refuse_overwriting(context: click.Context) -> None:
    """UsageError: an output is a file that the command reads, or that another of its outputs is written to."""
    named = list(_named_files(context))
    for at, (name, path, written) in enumerate(named):
        if not written:
            continue
        replaced = {identity(path, 1)}
        if not is_stream(path):
            replaced.add(identity(f"{os.path.realpath(path)}.partial", 0))
        for other, other_path, also_written in named[:at] + named[at + 1 :]:
            if (found := identity(other_path, int(also_written))) is not None and found in replaced:
                raise click.UsageError(f"{name} and {other} are one file, which would be lost: write to another")


def _handle_signals(run: Run) -> None:
    def stop(number: int, frame: Any) -> None:
        if not run.postpones(number):
            raise KeyboardInterrupt if number == signal.SIGINT else _Stopped(number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
            signal.signal(number, stop)


def _fail(name: str, error: BaseException, verbose: bool) -> int:
    if isinstance(error, ToolError):
        message = str(error)
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'input/output'}: {error.strerror}"
    else:
        message = f"internal error: {type(error).__name__}: {error} (-v shows where)"
    trace = "".join(traceback.format_exception(error)) if verbose else ""
    print(visible(f"{trace}{name}: {message}"), file=sys.stderr)
    return 1


def _execute(
    name: str, context: click.Context, params: dict[str, Any], body: Callable[..., None], shared: Collection[str]
) -> int:
    """Run the command's body with its own options, not the `shared` ones, and return the exit code."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    run = Run(name, params, _semantic_options(context), stdout, getattr(context.command, "writes_text", False))
    _handle_signals(run)
    code = 0
    try:
        try:
            body(run, **{key: value for key, value in params.items() if key not in shared})
        finally:
            run.close()
        run.complete()
    except DryRunEnds:
        pass
    except click.UsageError:
        raise
    except OptionError as error:
        raise click.UsageError(visible(str(error))) from None
    except BrokenPipeError:
        code = 141
    except KeyboardInterrupt:
        code = 130
    except _Stopped as stopped:
        code = stopped.exit_code
    except Exception as error:
        with contextlib.suppress(ToolError, OSError):
            run.before_message()
        code = _fail(name, error, params["verbose"])
    if code:
        if code > 128 and code != 141:
            with contextlib.suppress(ToolError, OSError):
                run.interrupted()
        if code != 141 and not (code > 128 and run.endless):  # an endless run ends by a signal
            run.abandon()
        # Do not wait for threads that are blocked on the input or on a server.
        workers.end_processes()
        sys.stderr.flush()
        os._exit(code)
    return code


@contextlib.contextmanager
def orderly_end(name: str | None) -> Iterator[None]:
    """Around a whole program: it ends with 141 if its reader has left, with a message if the system fails it."""
    open_missing()
    stdout = sys.stdout
    try:
        yield
    except BrokenPipeError:  # `--help | head -1`
        os._exit(141)
    except OSError as error:  # `--help > /dev/full`; getcwd names no file
        nameless = "the working folder" if isinstance(error, FileNotFoundError) else "cannot write stdout"
        what = nameless if error.filename is None else error.filename
        print(visible(f"{name}: {what}: {error.strerror}"), file=sys.stderr)
        os._exit(1)
    except SystemExit:
        if sys.stdout is not stdout:  # click replaces standard output on a broken pipe
            os._exit(141)
        raise


class Extension(NamedTuple):
    """options: those that depend on the others, from the whole command line; hint: the error message for an unknown one."""

    options: Callable[[list[str]], list[Option]]
    hint: Callable[[str], str | None]


class Command(click.Command):
    """A click command that owns the process: its exit codes and standard output.

    writes_text: its output is human-readable, not for a command of ours.
    """

    writes_text = False
    extended: Extension | None = None

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if self.extended is not None:
            fixed = [param for param in self.params if not getattr(param, "extends", False)]
            own = next((at for at, param in enumerate(fixed) if getattr(param, "heading", "") == COMMON), len(fixed))
            try:
                more = self.extended.options(args)
            except ToolError as error:
                raise click.UsageError(visible(str(error)), context) from None
            flags = {flag for param in fixed for flag in (*param.opts, *param.secondary_opts)}
            for param in more:
                if taken := flags.intersection([*param.opts, *param.secondary_opts]):
                    message = f"{param.heading} has an option {min(taken)}, and so has {self.name}"
                    raise click.UsageError(message, context)
                param.extends = True
            self.params = [*fixed[:own], *more, *fixed[own:]]
        try:
            return super().parse_args(context, args)
        except click.UsageError as error:
            hint = None
            if isinstance(error, click.NoSuchOption) and self.extended is not None:
                hint = self.extended.hint(error.option_name)
            if isinstance(error, click.NoSuchOption) and error.option_name == "--data":
                hint = f"{self.name} has no --data: it needs no files of tasks"
            # it may hold names of files, which a shell has filled in
            raise click.UsageError(visible(hint or error.format_message()), context) from None

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description; where options are left out, without the paragraphs of prose between first and last."""
        if not self.help or not self._left_out(context):
            return super().format_help_text(context, formatter)
        parts = inspect.cleandoc(self.help).split("\n\n")
        kept = [part for at, part in enumerate(parts) if at in (0, len(parts) - 1) or part.startswith("\b")]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join(kept))

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, in the order of declaration; the common ones last.

        Where some are left out, the rest is under one heading, but for those that depend on others.
        """
        left_out = self._left_out(context)
        sections: dict[str, list[tuple[str, str]]] = {"Options": []} if left_out else {}
        for param in self.get_params(context):
            row = param.get_help_record(context)
            if row is None or not isinstance(param, click.Option) or param in left_out:
                continue
            heading = (param.heading or "Options") if isinstance(param, Option) else COMMON  # --version and --help
            extends = isinstance(param, Option) and param.extends
            sections.setdefault("Options" if left_out and not extends else heading, []).append(row)
        common = sections.pop(COMMON, [])
        for heading, rows in [*sections.items(), (COMMON, common)]:
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{len(left_out)} more options, and the details: {self.name} --help-all")

    def _left_out(self, context: click.Context) -> list[click.Option]:
        """The options that this help leaves to --help-all."""
        own = [param for param in self.get_params(context) if isinstance(param, Option)]
        if context.meta.get(_ALL) or all(param.usual for param in own):
            return []
        shared = [param for param in self.get_params(context) if param.name == "version"]
        return [*shared, *(param for param in own if not param.usual)]  # type: ignore[list-item]

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with orderly_end(self.name):
            return super().main(*args, **{"prog_name": self.name, **kwargs})


def _help_all(context: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=Option, **{"heading": COMMON, "machine": True, **settings})


_FILE = {"type": OutputFile(), "metavar": "FILE"}
_SHOWN = {"show_default": True, "show_envvar": True}
_JOBS = {"type": click.IntRange(1), "default": 1, "envvar": "MLE_JOBS", "metavar": "N", **_SHOWN}
_SEED = {"machine": False, "type": int, "default": 0, "show_default": True}
_DATA = {"type": Folder(), "default": ".", "envvar": "MLE_DATA", "metavar": "DIR", **_SHOWN}
_COUNT = {"type": click.IntRange(0), "default": 0, "show_default": True, "metavar": "N"}


def command(
    name: str,
    *,
    inputs: bool = True,
    jobs: bool = False,
    seed: bool = False,
    data: bool = False,
    own_resume: bool = False,
    writes: Literal["records", "text", "text or folder"] = "records",
    usual: Collection[str] | None = None,
    extended: Extension | None = None,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make `body(run, **options)` a command with the shared options it asks for.

    inputs: takes FILES, --rejects and --max-rejects; jobs: -j and -k; data: --data/MLE_DATA; own_resume: --resume also
    concerns a folder of the command and works without -o; writes: records, text (human-readable, or for other
    programs), or text or a folder (-o); usual: the command's own options that --help shows, where there are many
    (default: all are shown).
    """
    where = "the run in RUN_DIR (and -o FILE)" if own_resume else "the -o FILE of a killed run"
    added: list[Any] = [click.version_option(__version__, message="%(prog)s %(version)s")]
    if inputs:
        added.append(click.argument("files", nargs=-1, type=click.Path()))
    output = {**_FILE, "type": OutputFile(folder=writes == "text or folder")}
    added += [
        _option("-o", "--output", help="Output file (default: standard output); it appears when complete.", **output),
        _option("--resume", is_flag=True, help=f"Continue {where}; skip finished records."),
        _option("--force", is_flag=True, help="Replace an existing -o FILE or FILE.partial."),
    ]
    if jobs:
        added.append(_option("-j", "--jobs", help="Number of workers.", **_JOBS))
        added.append(_option("-k", "--keep-order", is_flag=True, help="Write records in input order."))
    if seed:
        added.append(_option("--seed", help="Base seed; record seeds are hash(seed, id).", **_SEED))
    if data:
        added.append(_option("--data", help="Folder that paths in records are relative to.", **_DATA))
    if inputs:
        added.append(_option("--max-rejects", help="Continue after up to N invalid input lines.", **_COUNT))
        added.append(_option("--rejects", help="Write rejected lines and the reasons to FILE.", **_FILE))
        added.append(_option("--allow-empty", is_flag=True, help="Accept an empty input."))
    added.append(_option("--dry-run", is_flag=True, help="Check options and input, print the planned work, and exit."))
    added.append(_option("-q", "--quiet", is_flag=True, help="Print no progress and no summary."))
    added.append(_option("-v", "--verbose", is_flag=True, help="Print tracebacks."))
    all_help = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _help_all}
    added.append(_option("--help-all", help="Show all options and exit.", **all_help))

    def decorate(body: Callable[..., None]) -> click.Command:
        own = list(getattr(body, "__click_params__", []))

        @click.pass_context
        def callback(context: click.Context, /, **params: Any) -> None:
            if params["resume"] and is_stream(output := params["output"] or "-") and not own_resume:
                what = "standard output" if output == "-" else f"{output} is no regular file, which"
                raise click.UsageError(f"--resume needs -o FILE: {what} cannot be continued")
            if params["resume"] and params["force"]:
                raise click.UsageError("--resume continues existing output, --force replaces it: give one of them")
            _refuse_overwriting(context)
            context.exit(_execute(name, context, params, body, shared_names))

        callback.__doc__ = body.__doc__
        wrapped: Any = callback
        wrapped.__click_params__ = list(own)
        for add in reversed(added):
            wrapped = add(wrapped)
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        result: Command = click.command(name, cls=Command, context_settings=settings)(wrapped)
        result.writes_text, result.extended = writes != "records", extended
        if usual is not None:
            assert not (unknown := set(usual).difference(flag for param in own for flag in param.opts)), unknown
            for param in result.params:
                if isinstance(param, Option):
                    param.usual = bool({*usual, *_USUAL}.intersection(param.opts))
        result.params.sort(key=lambda param: param not in own)  # the command's own options first
        # A command may declare its own --seed; a run keeps it as well.
        shared_names = {"seed", *(param.name for param in result.params if param not in own and param.name)}
        return result

    return decorate
