"""What a shell wants to have of the commands: completion and man pages, both from their --help.

    python -m mletools.shell completion bash >> ~/.bashrc
    python -m mletools.shell man

Covered: bash, zsh and fish (click's completion); man pages where `man` looks for this Python's commands (click-man).
"""

import inspect
import sys
from copy import copy
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from . import __version__, commands

MAN = Path(sys.prefix) / "share" / "man" / "man1"  # man finds it from the folder of the commands, which is on PATH


def names() -> list[str]:
    """Every command, as it is called."""
    modules = sorted(Path(commands.__path__[0]).glob("*.py"))
    found = ["mle-" + path.stem.rstrip("_").replace("_", "-") for path in modules]
    return [name for name in found if (Path(sys.executable).parent / name).exists()]


def command(name: str) -> click.Command:
    """The click command behind a name: import is import_, for Python's sake."""
    module = name.removeprefix("mle-").replace("-", "_")
    found = import_module(f"{commands.__name__}.{'import_' if module == 'import' else module}").main
    assert isinstance(found, click.Command)
    return found


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Completion and man pages of the commands."""


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete options, choices and files of every command.

    \b
    python -m mletools.shell completion bash >> ~/.bashrc
    python -m mletools.shell completion zsh >> ~/.zshrc
    python -m mletools.shell completion fish > ~/.config/fish/completions/mletools.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    for name in names():
        variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
        source = kind(command(name), {}, name, variable)
        click.echo(source.source_template % source.source_vars())


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=MAN)
def man(folder: Path) -> None:
    """Write a man page of every command into FOLDER (default: where `man` looks, share/man/man1 of this Python)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        (folder / f"{name}.1").write_text(page(name), encoding="utf-8")
    click.echo(f"{len(names())} pages in {folder}: man {names()[0]}", err=True)


def page(name: str) -> str:
    """The man page of a command, in roff."""
    from click_man.core import generate_man_page

    found = copy(command(name))
    help = inspect.cleandoc(found.help or "")
    found.help, found.short_help = as_roff(help), " ".join(help.split("\n\n")[0].split()).rstrip(".")
    return str(generate_man_page(click.Context(found, info_name=name), f"mletools {__version__}", " "))


def as_roff(help: str) -> str:
    """A help text with its tables and examples, which click leaves as they are, in roff's words for that."""
    parts = []
    for part in help.split("\n\n"):
        fixed = part.startswith("\b\n")
        text = part.removeprefix("\b\n").replace("\\", "\\e")
        lines = ["\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n")]
        parts.append("\n".join([".nf", *lines, ".fi"] if fixed else lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(prog_name="python -m mletools.shell")
