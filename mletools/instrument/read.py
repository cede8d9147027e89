"""Read the reports in a program's output, and remove them from it."""

import re

from .operations import MARKERS
from .sites import tokens_of


def read_report(stdout: bytes, stderr: bytes, nonce: str) -> tuple[list[str], bytes, bytes]:
    """(the reports in the table's order; stdout and stderr without tokens).

    A report is a line of stdout with the token of a marker (see sites.tokens_of). Tokens elsewhere are removed too,
    because an agent must not see them. With an empty nonce (plain markers) a report is one of the texts anywhere in
    stdout, as in RL for MLE agents, and both outputs are unchanged. Standard error is not searched: a traceback shows
    source lines with reports.
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
