"""Read the reports out of a program's output, and take them out of it."""

import re

from .operations import MARKERS


def read_report(stdout: bytes, stderr: bytes, nonce: str) -> tuple[list[str], bytes, bytes]:
    """(the reports that arrived, in the table's order; stdout without them; stderr without the nonce).

    A report is a whole line: the nonce, a space, one of the seven texts. What an agent is shown later must not hold the
    nonce, so it is removed wherever else it stands, too. With an empty nonce (plain markers) a report is one of the
    texts anywhere in stdout, as in RL for MLE agents, and both outputs stay as they are. Standard error is not searched:
    a traceback shows the lines that failed, and their reports with them.
    """
    if not nonce:
        return [marker for marker in MARKERS if re.search(re.escape(marker.encode()), stdout)], stdout, stderr
    found = set()

    def take(match: "re.Match[bytes]") -> bytes:
        text = match.group(1).decode("utf-8", errors="replace")
        if text not in MARKERS:
            return match.group(0)
        found.add(text)
        return b""

    mark = nonce.encode()
    stdout = re.sub(rb"\n" + re.escape(mark) + rb" ([^\n]*)\n", take, stdout)
    return [marker for marker in MARKERS if marker in found], stdout.replace(mark, b""), stderr.replace(mark, b"")
