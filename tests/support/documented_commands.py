"""Check the mle commands of a page's examples, read from standard input: each runs until it would read its input.

Names of models, servers and files are placeholders there, so this is less than examples/options.py asks for.
Exit 1 and two lines for each command that does not come to its input: its parser refuses it, or it fails before. What is not checked:
whether files, models and servers are there.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mletools import cli, scaffolds
from mletools.cli_options import Url
from mletools.commands import report
from mletools.grading.one_submission import SubmissionOptions
from mletools.run import Run
from mletools.sandbox.options import SandboxOptions
from mletools.tasks.importing import own_record

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from options import commands


class Accepted(BaseException):
    """A command has come to its input: its options are accepted."""


class Refused(BaseException):
    """A command has failed before it came to its input."""


def failed(name: str, error: BaseException, verbose: bool) -> int:
    """In the place of cli._fail, which turns an error into an exit code."""
    raise Refused(str(error))


def refused(words: list[str]) -> str | None:
    """Why the command does not take these words; None: it does."""
    name = words[0].removeprefix("mle-").replace("-", "_")
    command: Any = import_module("mletools.commands." + ("import_" if name == "import" else name)).main
    try:
        command.invoke(command.make_context(words[0], words[1:]))
    except Accepted:
        return None
    except Refused as error:
        return str(error)
    except click.ClickException as error:
        return error.format_message()
    return "it ended without reading anything"


def main() -> None:
    told = os.fdopen(os.dup(1), "w")  # a run takes standard output for itself

    def anything(self: click.Path, value: Any, param: Any, ctx: Any) -> Any:
        return self.coerce_path_result(value)  # files are made by the commands before

    address = Url.convert

    def address_or_variable(self: Any, value: Any, param: Any, ctx: Any) -> Any:
        return value if value.startswith("$") else address(self, value, param, ctx)  # the shell's to fill in

    def accepted(*args: Any, **named: Any) -> Any:
        raise Accepted

    def ours(module: str) -> Any:
        return import_module(module) if module.startswith("mletools.") else accepted()

    click.Path.convert = anything  # type: ignore[method-assign]
    Url.convert = address_or_variable  # type: ignore[method-assign]
    for name in ("open", "lines", "side_output"):
        setattr(Run, name, accepted)
    SandboxOptions.open = accepted  # type: ignore[method-assign]  # a sandbox, and its warm process
    report.follow = accepted
    own_record.read_record = lambda path: {}  # a file that the lines before it write
    SubmissionOptions.check_file = lambda self: None  # type: ignore[method-assign]
    scaffolds._imported = ours  # scaffolds and components that lie on the machine where it runs
    cli._fail = failed
    found = commands(sys.stdin.read())
    different = dict.fromkeys(map(tuple, found))
    complaints = [f"{' '.join(words)}\n  {why}" for words in different if (why := refused(list(words)))]
    print("\n".join([*complaints, f"{len(found)} commands, {len(complaints)} refused"]), file=told, flush=True)
    sys.exit(1 if complaints or not found else 0)


if __name__ == "__main__":
    main()
