"""The command line that all commands share: common options, standard output, signals, exit codes.

A command module declares its options and one loop over a `Run`; `command` wraps it. Exit codes: 0 done, 1 failed,
2 usage, 130 Ctrl-C, 141 the reader of our output has left, 143 SIGTERM. Only records reach standard output: file
descriptor 1 is reserved for them before anything else runs, and the output of libraries goes to standard error.
"""

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

from . import __version__
from .base import workers
from .base.errors import OptionError, ToolError
from .base.jsonl import Line
from .base.streams import identity, is_stream, open_missing
from .base.visible import visible
from .cli_options import COMMON, Folder, Option, OutputFile
from .run import DryRunEnds, Run

__all__ = ["Command", "Line", "Option", "Run", "command"]


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


def _handle_signals() -> None:
    def stop(number: int, frame: Any) -> NoReturn:
        raise _Stopped(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
    _handle_signals()
    run = Run(name, params, _semantic_options(context), stdout, getattr(context.command, "writes_text", False))
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
        if code != 141 and not (code > 128 and run.endless):  # an endless run ends by a signal
            run.abandon()
        # Do not wait for threads that are blocked on the input or on a server.
        workers.end_processes()
        sys.stderr.flush()
        os._exit(code)
    return code


class Command(click.Command):
    """A click command that owns the process: its exit codes and standard output.

    writes_text: its output is for people, not for a command of ours. extended: the options that depend on the others,
    from the whole command line. hint: the error message for an unknown option, or None.
    """

    writes_text = False
    extended: Callable[[list[str]], list[Option]] | None = None
    hint: Callable[[str], str | None] | None = None

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if self.extended is not None:
            fixed = [param for param in self.params if not getattr(param, "extends", False)]
            own = next((at for at, param in enumerate(fixed) if getattr(param, "heading", "") == COMMON), len(fixed))
            try:
                more = self.extended(args)
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
            if isinstance(error, click.NoSuchOption) and self.hint is not None:
                hint = self.hint(error.option_name)
            # it may hold names of files, which a shell has filled in
            raise click.UsageError(visible(hint or error.format_message()), context) from None

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings, in the order of declaration; the common ones last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(context):
            row = param.get_help_record(context)
            if row is not None and isinstance(param, click.Option):
                shared = not isinstance(param, Option)  # --version and --help
                sections.setdefault(COMMON if shared else getattr(param, "heading", "") or "Options", []).append(row)
        common = sections.pop(COMMON, [])
        for heading, rows in [*sections.items(), (COMMON, common)]:
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        open_missing()
        stdout = sys.stdout
        try:
            return super().main(*args, **{"prog_name": self.name, **kwargs})
        except BrokenPipeError:  # `--help | head -1`
            os._exit(141)
        except OSError as error:  # `--help > /dev/full`; getcwd names no file
            nameless = "the working folder" if isinstance(error, FileNotFoundError) else "cannot write stdout"
            what = nameless if error.filename is None else error.filename
            print(visible(f"{self.name}: {what}: {error.strerror}"), file=sys.stderr)
            os._exit(1)
        except SystemExit:
            if sys.stdout is not stdout:  # click replaces standard output on a broken pipe
                os._exit(141)
            raise


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
    text: bool = False,
    extended: Callable[[list[str]], list[Option]] | None = None,
    hint: Callable[[str], str | None] | None = None,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make `body(run, **options)` a command with the shared options it asks for.

    inputs: takes FILES, --rejects and --max-rejects; jobs: -j and -k; data: --data/MLE_DATA; own_resume: --resume also
    concerns a folder of the command and works without -o; text, extended, hint: see Command.
    """
    where = "the run in OUT (and -o FILE)" if own_resume else "the -o FILE of a killed run"
    added: list[Any] = [click.version_option(__version__, message="%(prog)s %(version)s")]
    if inputs:
        added.append(click.argument("files", nargs=-1, type=click.Path()))
    added += [
        _option("-o", "--output", help="Output file (default: standard output); it appears when complete.", **_FILE),
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
        result.writes_text, result.extended, result.hint = text, extended, hint
        result.params.sort(key=lambda param: param not in own)  # the command's own options first
        # A command may declare its own --seed; a run keeps it as well.
        shared_names = {"seed", *(param.name for param in result.params if param not in own and param.name)}
        return result

    return decorate
