"""The errors that a command reports as one line on standard error and an exit code.

An agent's failure is data and raises nothing. A ToolError stops the command. A RecordError concerns one input record,
which `--max-rejects` can set aside.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How libraries that write weights word it: safetensors by the system's message, torch by where its archive stands.
_FULL = ("No space left on device", "Disk quota exceeded", "unexpected pos", "file write failed")


class ToolError(Exception):
    """The command cannot continue; the message says where, and what to do next. Exit code 1."""


class RecordError(ToolError):
    """One input record cannot be processed because of its content; other records may be valid."""


class OptionError(ToolError):
    """Options that exclude each other, or that require another one. Exit code 2."""


def data_advice(written: str = "the task was written to") -> str:
    """The question whether the data folder is the right one, by the name that set it. written: what is in that folder."""
    typed = any(arg.partition("=")[0] == "--data" for arg in sys.argv)
    setting = "MLE_DATA" if os.environ.get("MLE_DATA") and not typed else "--data (or MLE_DATA, for every command)"
    return f"is {setting} the folder that {written}?"


@contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Within the block `folder` is written, also by libraries. OSError that names it: the disk is full."""
    try:
        yield
    except Exception as error:
        cause = error if isinstance(error, OSError) else error.__context__
        number = cause.errno if isinstance(cause, OSError) else None
        if number not in (errno.ENOSPC, errno.EDQUOT):
            if not any(text in str(error) for text in _FULL):
                raise
            number = errno.ENOSPC
        raise OSError(number, os.strerror(number), str(folder)) from error
