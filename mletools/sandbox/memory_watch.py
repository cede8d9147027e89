"""The memory that a run's processes hold, for machines where no cgroup counts it.

Covered: resident pages, swap and page tables; what is in no process's resident memory, by an upper bound: pipes and
sockets as if they were full, shared memory without a name as if all of it were there, the kernel's notes of mappings.
Not covered: what the filter of such runs refuses (`seccomp.UNCOUNTED`), files (the disk's limit), descriptors under way
in sockets (as many as a process may open), locks.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from .process_tree import descendants

_KB, _MB = 1 << 10, 1 << 20
_PIPE = 64 << 10  # the filter keeps it from growing
_MAPPING = 256  # what the kernel keeps about one
_OPEN_FILES = 1024
_SHARE = 4  # looking closer takes at most one part in so many of the time
_FIELDS = re.compile(r"^(VmRSS|RssAnon|RssShmem|VmPTE|VmSwap|FDSize|Seccomp):\s+(\d+)", re.MULTILINE)
_NAMELESS = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...s ([0-9a-f]+) (\S+ \d+) +/dev/zero \(deleted\)$", re.MULTILINE)


def _socket_bytes() -> int:
    """What a socket's queue can hold: one message more than its bound."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/core/wmem_default").read_text()) * 5 // 4
    return 256 << 10


class MemoryWatch:
    """Looks at the processes of one run again and again."""

    def __init__(self, server: int, box: int, limit_mb: float) -> None:
        """They descend from `server`, to which orphans fall where there is no pid namespace; `box` is not one of them."""
        self._server, self._box, self._limit = server, box, limit_mb * _MB
        self._socket = _socket_bytes()
        self._closer_at = 0.0
        self._unseen = 0.0  # bytes beside the resident ones, at the last closer look
        self._shared = 0.0  # of these in shared memory without a name, which may be resident too

    def look(self) -> float:
        """MB held now: a quick upper bound, shared pages apportioned once that passes the limit."""
        members = set(descendants(self._server)) - {self._box}
        tree = {pid: fields for pid in members if (fields := _status(pid))}
        total = float(sum(_KB * (fields["VmRSS"] + fields["VmSwap"] + fields["VmPTE"]) for fields in tree.values()))
        began = time.monotonic()
        if began >= self._closer_at:
            self._look_closer(tree, total)
            self._closer_at = time.monotonic() + (_SHARE - 1) * (time.monotonic() - began)
        total += self._unseen + self._shared
        if total > self._limit:
            parts = [_apportioned(pid, fields) for pid, fields in tree.items()]
            # What is resident of shared memory without a name has been counted with it.
            total = sum(own for own, _ in parts) + max(self._shared, sum(shared for _, shared in parts)) + self._unseen
        return total / _MB

    def _look_closer(self, tree: dict[int, dict[str, int]], resident: float) -> None:
        locked = [pid for pid, fields in tree.items() if fields["Seccomp"] == 2]  # the others run nobody's code yet
        extents: dict[bytes, int] = {}
        self._unseen = 0.0
        for pid in locked:
            with suppress(OSError):
                text = Path(f"/proc/{pid}/maps").read_bytes()
                self._unseen += text.count(b"\n") * _MAPPING
                for start, end, offset, file in _NAMELESS.findall(text):
                    extents[file] = max(extents.get(file, 0), int(offset, 16) + int(end, 16) - int(start, 16))
        self._shared = float(sum(extents.values()))
        most = sum(tree[pid]["FDSize"] for pid in locked) * self._socket
        if resident + self._shared + self._unseen + most > self._limit:
            self._unseen += self._in_descriptors(locked, self._limit)

    def _in_descriptors(self, tree: list[int], enough: float) -> float:
        """Bytes that the pipes and sockets of these processes can hold, each counted once."""
        seen: set[str] = set()
        held = 0
        for pid in tree:
            try:
                numbers = os.listdir(f"/proc/{pid}/fd")
            except PermissionError:  # it runs a file that its user may not read, and so may hold anything
                held += _OPEN_FILES * self._socket
                continue
            except OSError:
                continue
            for number in numbers:
                with suppress(OSError):
                    name = os.readlink(f"/proc/{pid}/fd/{number}")
                    if name not in seen and name.startswith(("pipe:", "socket:")):
                        seen.add(name)
                        held += _PIPE if name[0] == "p" else self._socket
            if held > enough:
                break
        return float(held)


def _status(pid: int) -> dict[str, int]:
    with suppress(OSError):
        fields = {name: int(value) for name, value in _FIELDS.findall(Path(f"/proc/{pid}/status").read_text())}
        return {**dict.fromkeys(("VmRSS", "RssAnon", "RssShmem", "VmPTE", "VmSwap", "FDSize", "Seccomp"), 0), **fields}
    return {}


def _apportioned(pid: int, fields: dict[str, int]) -> tuple[int, int]:
    """Bytes of `pid` alone, and of memory shared as files are, each page divided among those who have it."""
    more = fields["VmPTE"] + fields["VmSwap"]
    try:
        lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        pss = {words[0]: int(words[1]) for words in lines if words[0].startswith("Pss")}
        shared = pss.get("Pss_Shmem:", 0)
        return (pss.get("Pss:", 0) - shared + more) * _KB, shared * _KB
    except ProcessLookupError:
        return 0, 0
    except OSError:
        return (fields["RssAnon"] + more) * _KB, fields["RssShmem"] * _KB
