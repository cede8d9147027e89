"""Run the mle commands of a dry `make -n`, read from standard input, with --dry-run and an empty input.

    make -n results | python ../options.py

Each has to succeed: exit code 0, whatever it would do. Exit 1 and two lines for each command that does not: its parser
or its dry run refuses it. A file or folder that an earlier command makes is an empty one here, and standard input is
empty. What is not checked: whether models and servers are there, and what only the records tell.
"""

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mletools.cli_options import Url

ARITHMETIC, SUBSTITUTION = re.compile(r"\$\(\(.*?\)\)"), re.compile(r"\$\([^()]*\)")
HERE_DOCUMENT = re.compile(r"(<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n).*?^\2$", re.DOTALL | re.MULTILINE)
OPERATORS = re.compile(r"^[|&;<>(){}]+$")


def commands(text: str) -> list[list[str]]:
    """The words of each mle command of a shell text; what the shell would work out stands as 1."""
    text = HERE_DOCUMENT.sub(r"\1", text)
    text = SUBSTITUTION.sub("1", ARITHMETIC.sub("1", text.replace("\\\n", " ")))
    found = []
    for line in lines(text):
        current: list[str] | None = None
        skip = False
        for word in line:
            if OPERATORS.match(word):
                skip = word.startswith(("<", ">"))  # the next word is a file
                current = current if skip else None
            elif skip:
                skip = False
            elif word.startswith("mle-") and current is None:
                current = [word]
                found.append(current)
            elif current is not None:
                current.append(word)
    return found


def lines(text: str) -> Iterator[list[str]]:
    """The words and operators of each line; one with an open quotation goes on in the next."""
    begun = ""
    for line in text.split("\n"):
        begun += line
        words = shlex.shlex(begun, posix=True, punctuation_chars="|&;<>(){}")
        words.whitespace_split = True
        try:
            yield list(words)
        except ValueError:
            begun += "\n"
        else:
            begun = ""


class Scratch:
    """A folder for one command: an empty file and an empty folder in the place of those that are not there."""

    def __init__(self, folder: Path) -> None:
        self.file, self.folder = folder / "empty.jsonl", folder / "empty"
        self.file.touch()
        self.folder.mkdir()

    def present(self, kind: click.Path, value: Any) -> str:
        """The path itself, where it is there, or one that is."""
        if os.path.exists(value):
            return str(value)
        return str(self.file if kind.file_okay and not (kind.dir_okay and not Path(value).suffix) else self.folder)


def module_of(word: str) -> str:
    name = word.removeprefix("mle-").replace("-", "_")
    return "mletools.commands." + ("import_" if name == "import" else name)


def play(words: list[str], scratch: Scratch) -> int:
    """Run the command in this process, which must be a child; its exit code."""
    address, path = Url.convert, click.Path.convert

    def address_or_variable(self: Any, value: Any, param: Any, ctx: Any) -> Any:
        return value if value.startswith("$") else address(self, value, param, ctx)  # the shell's to fill in

    def present(self: click.Path, value: Any, param: Any, ctx: Any) -> Any:
        reads = self.exists or isinstance(param, click.Argument)
        return path(self, scratch.present(self, value) if reads and value != "-" else value, param, ctx)

    Url.convert = address_or_variable  # type: ignore[method-assign]
    click.Path.convert = present  # type: ignore[method-assign]
    command: Any = import_module(module_of(words[0])).main
    words = [word for word in words if word != "--dry-run"]
    command.main(args=[*words[1:], "--dry-run"], standalone_mode=True)
    return 0


def refused(words: list[str]) -> str | None:
    """Why the command does not succeed with these words; None: it does."""
    import_module(module_of(words[0]))  # once for all of its children
    with tempfile.TemporaryDirectory(prefix="mle-options-") as folder, tempfile.TemporaryFile() as said:
        scratch = Scratch(Path(folder))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with open(os.devnull, "rb") as nothing:
                    os.dup2(nothing.fileno(), 0)
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), 1)
                os.dup2(said.fileno(), 2)
                code = play(words, scratch)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            except BaseException as error:  # the child must not go on as its parent
                os.write(2, f"{type(error).__name__}: {error}".encode())
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return None
    return next((line for line in reversed(lines) if line.strip()), f"exit code {code}, and nothing was said")


def main() -> None:
    found = commands(sys.stdin.read())
    different = dict.fromkeys(map(tuple, found))
    complaints = [f"{' '.join(words)}\n  {why}" for words in different if (why := refused(list(words)))]
    print("\n".join([*complaints, f"{len(found)} commands, {len(complaints)} refused"]))
    sys.exit(1 if complaints or not found else 0)


if __name__ == "__main__":
    main()
