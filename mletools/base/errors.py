"""The errors that a command reports as one line on standard error and an exit code.

An agent's failure is data and raises nothing. A ToolError stops the command. A RecordError concerns one input record,
which `--max-rejects` can set aside.
"""


class ToolError(Exception):
    """The command cannot continue; the message says where, and what to do next. Exit code 1."""


class RecordError(ToolError):
    """One input record cannot be processed because of its content; other records may be valid."""


class OptionError(ToolError):
    """Options that exclude each other, or that require another one. Exit code 2."""
