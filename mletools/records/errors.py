"""The errors that a command turns into one line on stderr and an exit code.

An agent's failure is data and never raises. What raises is the tool's own trouble: a ToolError stops the command, a
RecordError blames one input line, which `--max-rejects` can set aside.
"""


class ToolError(Exception):
    """The command cannot do its work; the message says where and what to do next. Exit code 1."""


class RecordError(ToolError):
    """One input record cannot be processed, for a reason that lies in the record; others may be fine."""


class OptionError(ToolError):
    """Options that do not go together, or miss another one. Exit code 2."""
