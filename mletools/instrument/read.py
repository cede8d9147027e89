"""Read the reports out of a program's output, and take them out of it."""

import re

from .operations import MARKERS
from .sites import tokens_of


def read_report(stdout: bytes, stderr: bytes, nonce: str) -> tuple[list[str], bytes, bytes]:
    """(the reports that arrived, in the table's order; stdout without them; stderr).

    A report is a whole line: the token of that marker (see sites.tokens_of). What an agent is shown later must not hold
    tokens, so they are removed wherever else they stand, too. With an empty nonce (plain markers) a report is one of the
    texts anywhere in stdout, as in RL for MLE agents, and both outputs stay as they are. Standard error is not searched:
    a traceback shows the lines that failed, and their reports with them.
    """
    if not nonce:
        return [marker for marker in MARKERS if re.search(re.escape(marker.encode()), stdout)], stdout, stderr
    markers = []
    for marker, token in zip(MARKERS, tokens_of(nonce), strict=True):
        line = f"\n{token}\n".encode()
        if line in stdout:
            markers.append(marker)
            stdout = stdout.replace(line, b"")
        stdout, stderr = (text.replace(token.encode(), b"") for text in (stdout, stderr))
    return markers, stdout.replace(nonce.encode(), b""), stderr.replace(nonce.encode(), b"")
