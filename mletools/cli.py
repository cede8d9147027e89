"""What every command does alike: shared options, who owns standard output, signals, exit codes.

A command module declares its options and one loop over a `Run`; `command` wraps it. Exit codes: 0 done, 1 failed,
2 usage, 130 Ctrl-C, 141 the reader of our output is gone, 143 SIGTERM. Only records reach standard output: file
descriptor 1 is set aside for them before anything else runs, and prints of libraries go to standard error.
"""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from . import __version__
from .cli_options import COMMON, URL, Option
from .records.errors import OptionError, ToolError
from .records.jsonl import Line
from .run import Run

__all__ = ["URL", "Command", "Line", "MachineOption", "Option", "Run", "command"]


class MachineOption(Option):
    """An option that says how to work (speed, places, verbosity) and cannot change what the records say."""

    def __init__(self, names: Sequence[str], **settings: Any):
        super().__init__(names, **{"machine": True, **settings})


class _Stopped(BaseException):
    def __init__(self, number: int):
        self.exit_code = 128 + number


def _semantic_options(context: click.Context) -> dict[str, Any]:
    """The options that can change results and differ from their defaults, as JSON values."""
    chosen: dict[str, Any] = {}
    for param in context.command.params:
        if not isinstance(param, click.Option) or getattr(param, "machine", False):
            continue
        if param.name is None or param.name == "seed" or param.name not in context.params:
            continue
        value = context.params[param.name]
        default = param.get_default(context)
        unset = not isinstance(default, (list, tuple)) or not default
        if value is not None and value != default and not (param.multiple and not value and unset):
            chosen[param.name] = (
                list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
            )
    return chosen


def _handle_signals() -> None:
    def stop(number: int, frame: Any) -> NoReturn:
        raise _Stopped(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _fail(name: str, error: BaseException, verbose: bool) -> int:
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, ToolError):
        print(f"{name}: {error}", file=sys.stderr)
    elif isinstance(error, OSError) and error.strerror:
        print(f"{name}: {error.filename or 'input/output'}: {error.strerror}", file=sys.stderr)
    else:
        print(f"{name}: internal error: {type(error).__name__}: {error} (-v shows where)", file=sys.stderr)
    return 1


# what Run takes care of; the rest goes to the command's body
_SHARED = (
    "files",
    "output",
    "resume",
    "force",
    "allow_empty",
    "jobs",
    "keep_order",
    "seed",
    "data",
    "rejects",
    "max_rejects",
    "dry_run",
    "quiet",
    "verbose",
)


def _execute(name: str, context: click.Context, params: dict[str, Any], body: Callable[..., None]) -> int:
    """Run the command's body and turn whatever happens into an exit code."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    _handle_signals()
    # agents' programs are parsed in this process; what Python has to say of them is not our news
    warnings.simplefilter("ignore", SyntaxWarning)
    verbose = params["verbose"]
    run = Run(name, params, _semantic_options(context), stdout)
    run.writes_text = getattr(context.command, "writes_text", False)
    code = 0
    try:
        try:
            body(run, **{key: value for key, value in params.items() if key not in _SHARED})
        finally:
            run.close()
        run.complete()
    except click.UsageError:
        raise
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    except BrokenPipeError:
        code = 141
    except KeyboardInterrupt:
        code = 130
    except _Stopped as stopped:
        code = stopped.exit_code
    except Exception as error:
        code = _fail(name, error, verbose)
    if code:
        if code != 141 and not (code > 128 and run.endless):  # a signal is how an endless run ends
            run.abandon()
        # threads may still be blocked on the input or on a server: there is nothing left to wait for
        from .records import workers

        workers.end_processes()
        sys.stderr.flush()
        os._exit(code)
    return code


class Command(click.Command):
    """A click command that owns the process: exit codes and standard output as this module says.

    writes_text: what it prints is for people, no stream that a command of ours reads.
    """

    writes_text = False
    # Options that depend on what else is on the command line, of which this is told.
    extended: Callable[[list[str]], list[Option]] | None = None
    hint: Callable[[str], str | None] | None = None  # what is wrong with an option that is not there

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if self.extended is not None:
            fixed = [param for param in self.params if not getattr(param, "extends", False)]
            own = next((at for at, param in enumerate(fixed) if getattr(param, "heading", "") == COMMON), len(fixed))
            try:
                more = self.extended(args)
            except ToolError as error:
                raise click.UsageError(str(error), context) from None
            flags = {flag for param in fixed for flag in (*param.opts, *param.secondary_opts)}
            for param in more:
                if taken := flags.intersection([*param.opts, *param.secondary_opts]):
                    raise click.UsageError(
                        f"{param.heading} has an option {min(taken)}, and so has {self.name}", context
                    )
                param.extends = True
            self.params = [*fixed[:own], *more, *fixed[own:]]
        try:
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            hint = self.hint(error.option_name) if self.hint is not None else None
            if hint is None:
                raise
            raise click.UsageError(hint, context) from None

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The options under their headings, in the order in which these first come; the common ones last."""
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
        stdout = sys.stdout
        try:
            return super().main(*args, **{"prog_name": self.name, **kwargs})
        except BrokenPipeError:  # `--help | head -1`
            os._exit(141)
        except SystemExit:
            if sys.stdout is not stdout:  # click met the broken pipe, and has put another in its place
                os._exit(141)
            raise


def _option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=MachineOption, heading=COMMON, **settings)


_ON = "Go on with what a killed run left of -o FILE; skip what is finished."
_ON_IN_OUT = "Go on with the run in OUT (and with -o FILE); skip what is finished."
_FILE = {"type": click.Path(), "metavar": "FILE"}
_SHOWN = {"show_default": True, "show_envvar": True}
_COUNT = {"type": click.IntRange(0), "default": 0, "show_default": True, "metavar": "N"}


def _shared_options(*, inputs: bool, jobs: bool, seed: bool, data: bool, dry_run: bool, own_resume: bool) -> list[Any]:
    """The decorators of the options that a command shares with others, in the order of its help."""
    added: list[Any] = [click.version_option(__version__, message="%(prog)s %(version)s")]
    if inputs:
        added.append(click.argument("files", nargs=-1, type=click.Path()))
    written = "Write to this file instead of standard output; it appears when complete."
    added.append(_option("-o", "--output", help=written, **_FILE))
    added.append(_option("--resume", is_flag=True, help=_ON_IN_OUT if own_resume else _ON))
    added.append(_option("--force", is_flag=True, help="Replace -o FILE, or what a killed run left of it."))
    if jobs:
        number = {"type": click.IntRange(1), "default": 1, "envvar": "MLE_JOBS", "metavar": "N", **_SHOWN}
        added.append(_option("-j", "--jobs", help="Workers.", **number))
        added.append(_option("-k", "--keep-order", is_flag=True, help="Write in input order instead of as done."))
    if seed:
        seeded = "Base seed; record seeds are hash(seed, id)."
        added.append(
            click.option("--seed", cls=Option, heading=COMMON, type=int, default=0, show_default=True, help=seeded)
        )
    if data:
        folder = {"type": click.Path(file_okay=False), "default": ".", "envvar": "MLE_DATA", "metavar": "DIR", **_SHOWN}
        added.append(_option("--data", help="The folder that paths inside records start from.", **folder))
    if inputs:
        some = "Go on after up to N lines that cannot be processed."
        added.append(_option("--max-rejects", help=some, **_COUNT))
        added.append(_option("--rejects", help="Keep those lines, with their reasons, here.", **_FILE))
        added.append(_option("--allow-empty", is_flag=True, help="An input without any record is no failure."))
    if dry_run:
        added.append(_option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."))
    added.append(_option("-q", "--quiet", is_flag=True, help="No progress, no summary."))
    added.append(_option("-v", "--verbose", is_flag=True, help="Show tracebacks."))
    return added


def command(
    name: str,
    *,
    inputs: bool = True,
    jobs: bool = False,
    seed: bool = False,
    data: bool = False,
    dry_run: bool = False,
    own_resume: bool = False,
    text: bool = False,
    extended: Callable[[list[str]], list[Option]] | None = None,
    hint: Callable[[str], str | None] | None = None,
) -> Callable[[Callable[..., None]], click.Command]:
    """Make `body(run, **options)` a command with the shared options it asks for.

    inputs: takes FILES, --rejects and --max-rejects; jobs: -j and -k; data: --data/MLE_DATA; own_resume: --resume is
    about a folder of the command's own as well, and needs no -o; text: writes text for people; extended: the options
    that depend on the others, of the whole command line; hint: what is wrong with an option that is not there.
    """
    shared = _shared_options(inputs=inputs, jobs=jobs, seed=seed, data=data, dry_run=dry_run, own_resume=own_resume)

    def decorate(body: Callable[..., None]) -> click.Command:
        @click.pass_context
        def callback(context: click.Context, /, **params: Any) -> None:
            if params["resume"] and params["output"] in (None, "-") and not own_resume:
                raise click.UsageError("--resume needs -o FILE: there is nothing to go on from on standard output")
            if params["resume"] and params["force"]:
                raise click.UsageError("--resume keeps what is there, --force replaces it: give one of them")
            context.exit(_execute(name, context, params, body))

        callback.__doc__ = body.__doc__
        own = list(getattr(body, "__click_params__", []))
        wrapped: Any = callback
        wrapped.__click_params__ = list(own)
        for add in reversed(shared):
            wrapped = add(wrapped)
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        made: Command = click.command(name, cls=Command, context_settings=settings)(wrapped)
        made.writes_text, made.extended, made.hint = text, extended, hint
        made.params.sort(key=lambda param: param not in own)  # the command's own options first
        return made

    return decorate
