"""How a check ends: with "" where it passes, with a reason where it fails, or skipped."""


class Skipped(Exception):
    """The check does not apply to this task; the text says why."""
