"""`mle`, the index of the commands, with their shell completion and man pages.

    mle                      the commands, in the order of the pipe
    mle grade FILE           the same as mle-grade FILE
    mle completion bash >> ~/.bashrc
    mle man

Completion for bash, zsh and fish is click's; man pages are click-man's.
"""

import inspect
import keyword
import sys
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from . import __version__, commands
from .base.errors import filling
from .base.words import did_you_mean
from .cli import orderly_end

MAN = Path(sys.prefix) / "share" / "man" / "man1"  # `man` searches it if the commands' folder is on PATH
# In the order of the pipe.
GROUPS = {
    "Make tasks": {
        "mle-gen-task": "from hidden rules, from real tables, or by a language model",
        "mle-import": "from tables of yours, MLE-bench, MLE-Dojo, SandMLE or Kaggle",
    },
    "Run agents": {
        "mle-rollout": "let a model or an agent work on tasks",
        "mle-instrument": "make programs report their progress, for partial credit",
        "mle-sandbox": "run programs where they can do no harm",
    },
    "Grade": {"mle-grade": "score submissions; medals, ranks and rewards"},
    "Filter": {"mle-filter": "keep what is worth training on; check, split and sample"},
    "Look": {
        "mle-report": "compare sets of rollouts: tables, a page, figures",
        "mle-show": "read a rollout, turn by turn",
        "mle-classify-ideas": "which kinds of ideas there were, and which helped",
    },
    "Train": {
        "mle-train-sft": "fine-tune a model on rollouts, or make a tiny one",
        "mle-train-grpo": "train a policy on rewards by reinforcement learning",
    },
    "Export": {"mle-export": "write tasks and rollouts as other tools read them"},
}
NAMES = [name for group in GROUPS.values() for name in group]


def command(name: str) -> click.Command:
    """The click command of a name. The module of mle-import is import_, because import is a keyword."""
    module = name.removeprefix("mle-").replace("-", "_")
    main = import_module(f"{commands.__name__}.{module}{'_' * keyword.iskeyword(module)}").main
    assert isinstance(main, click.Command)
    return main


class Index(click.Group):
    """A group of the commands, which run as they do on their own, and of its own subcommands."""

    def main(self, *args: Any, **settings: Any) -> Any:
        given: list[str] = list(args[0]) if args else sys.argv[1:]
        if given and f"mle-{given[0]}" in NAMES:
            return command(f"mle-{given[0]}").main(given[1:])
        with orderly_end("mle"):
            return super().main(given, **{"prog_name": "mle", **settings})

    def list_commands(self, context: click.Context) -> list[str]:
        """The commands without mle-, and the subcommands; for completion."""
        return [*(name.removeprefix("mle-") for name in NAMES), *super().list_commands(context)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return command(f"mle-{name}") if f"mle-{name}" in NAMES else super().get_command(context, name)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        if not args[0].startswith("-") and self.get_command(context, args[0]) is None:
            known = self.list_commands(context)
            context.fail(f"there is no command {args[0]}{did_you_mean(args[0].removeprefix('mle-'), known)}")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their groups, with a phrase each."""
        own = {f"mle {name}": each.get_short_help_str(80).rstrip(".") for name, each in self.commands.items()}
        width = max(map(len, [*NAMES, *own]))
        for heading, phrases in {**GROUPS, "Your shell": own}.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), phrase) for name, phrase in phrases.items()])


@click.group(cls=Index, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Train machine-learning-engineering agents with a pipe of small commands.

    \b
      mle-import train.csv --target price -o tasks.jsonl
      mle-rollout -m scripted -g 8 tasks.jsonl | mle-sandbox \\
        | mle-grade -o graded.jsonl
      mle-report graded.jsonl

    `mle-grade --help` shows a command's usual options, `--help-all` all of them; `mle grade` is the same as `mle-grade`.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes options, choices and files.

    \b
    mle completion bash >> ~/.bashrc
    mle completion zsh >> ~/.zshrc
    mle completion fish > ~/.config/fish/completions/mletools.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    for name in ("mle", *NAMES):
        variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
        source = kind(main, {}, name, variable)
        click.echo(source.source_template % source.source_vars())


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=MAN)
def man(folder: Path) -> None:
    """Write man pages into FOLDER.

    The default is share/man/man1 of this Python, where `man` looks.
    """
    if find_spec("click_man") is None:
        raise click.ClickException("man pages need click-man: pip install 'mletools[man]'")
    folder.mkdir(parents=True, exist_ok=True)
    with filling(folder):
        for name in NAMES:
            (folder / f"{name}.1").write_text(page(name), encoding="utf-8")
    click.echo(f"{len(NAMES)} pages in {folder}: man {NAMES[0]}", err=True)


def page(name: str) -> str:
    """The man page of a command, in roff."""
    from click_man.core import generate_man_page

    described = copy(command(name))
    help = inspect.cleandoc(described.help or "")
    described.help, described.short_help = as_roff(help), " ".join(help.split("\n\n")[0].split()).rstrip(".")
    return str(generate_man_page(click.Context(described, info_name=name), f"mletools {__version__}", " "))


def as_roff(help: str) -> str:
    """A help text in roff; tables and examples, which click prints verbatim, stay unfilled."""
    parts = []
    for part in help.split("\n\n"):
        fixed = part.startswith("\b\n")
        text = part.removeprefix("\b\n").replace("\\", "\\e")
        lines = ["\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n")]
        parts.append("\n".join([".nf", *lines, ".fi"] if fixed else lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
