"""Shell completion and man pages of the commands, generated from their --help.

    python -m mletools.shell completion bash >> ~/.bashrc
    python -m mletools.shell man

Completion for bash, zsh and fish is click's; man pages are click-man's.
"""

import inspect
import keyword
import sys
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from . import __version__, commands

MAN = Path(sys.prefix) / "share" / "man" / "man1"  # `man` searches it if the commands' folder is on PATH


def names() -> list[str]:
    """The names of all installed commands."""
    stems = sorted(path.stem for path in Path(commands.__path__[0]).glob("*.py"))
    known = ["mle-" + stem.rstrip("_").replace("_", "-") for stem in stems]
    return [name for name in known if (Path(sys.executable).parent / name).exists()]


def command(name: str) -> click.Command:
    """The click command of a name. The module of mle-import is import_, because import is a keyword."""
    module = name.removeprefix("mle-").replace("-", "_")
    main = import_module(f"{commands.__name__}.{module}{'_' * keyword.iskeyword(module)}").main
    assert isinstance(main, click.Command)
    return main


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Completion and man pages of the commands."""


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the SHELL script that completes options, choices and files of every command.

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
    """Write a man page of every command into FOLDER (default: share/man/man1 of this Python, where `man` looks)."""
    if find_spec("click_man") is None:
        raise click.ClickException("man pages need click-man: pip install 'mletools[man]'")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        (folder / f"{name}.1").write_text(page(name), encoding="utf-8")
    click.echo(f"{len(names())} pages in {folder}: man {names()[0]}", err=True)


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
    main(prog_name="python -m mletools.shell")
