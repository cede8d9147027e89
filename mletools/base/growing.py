"""A file of lines that others append to while it is read: what has come since the last look, in whole lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class GrowingFile:
    """`at`, `number`: how many bytes and lines were read. An unterminated line waits for its end.

    A file that is shorter than what was read of it was begun anew, and is read from its beginning.
    """

    path: Path
    at: int = 0
    number: int = 0

    def new(self) -> Iterator[tuple[str, bytes]]:
        """The place (file:line) and the text of each new line that is not blank. OSError: the file cannot be read."""
        with open(self.path, "rb") as file:
            if file.seek(0, 2) < self.at:
                self.at = self.number = 0
            file.seek(self.at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.at, self.number = self.at + len(line), self.number + 1
                if line.strip():
                    yield f"{self.path}:{self.number}", line
