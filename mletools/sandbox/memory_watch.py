"""Measures the memory of a run's processes on machines without a memory cgroup.

Covered: resident pages, swap and page tables; upper bounds for memory outside of processes: full pipes and sockets, all
of unnamed shared memory, the kernel's records of mappings, entries of epoll and file locks. Not covered: calls that the
seccomp filter refuses (`seccomp.UNCOUNTED`), files (the disk limit), pipes and sockets in flight in sockets (the limit
of open files).
"""

import os
import random
import re
import time
from contextlib import suppress
from pathlib import Path

from .process_tree import descendants

_KB, _MB = 1 << 10, 1 << 20
_PIPE = 64 << 10  # the filter refuses larger ones
_MAPPING = 256  # the kernel's record of one mapping
_ENTRY = 200  # the kernel's record of an epoll entry or of a file lock
_RECORDS_S = 0.1  # time to count them
_OPEN_FILES = 1024
_SHARE = 4  # detailed measurements take at most 1/_SHARE of the time
_FIELDS = re.compile(r"^(VmRSS|RssAnon|RssShmem|VmPTE|VmSwap|FDSize|Seccomp):\s+(\d+)", re.MULTILINE)
_RECORD = re.compile(rb"^(?:tfd|lock):", re.MULTILINE)
_IN_FLIGHT = re.compile(rb"^scm_fds:\s+[1-9]", re.MULTILINE)
_UNNAMED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...s ([0-9a-f]+) (\S+ \d+) +/dev/zero \(deleted\)$", re.MULTILINE)


def _socket_bytes() -> int:
    """Bytes in a full queue of a socket: its limit and one more message."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/core/wmem_default").read_text()) * 5 // 4
    return 256 << 10


def _slab_bytes() -> int:
    """Bytes of the whole machine in kernel records that are in use."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("SUnreclaim:"):
                return int(line.split()[1]) * _KB
    return 0


class MemoryWatch:
    """Measures the processes of one run repeatedly."""

    def __init__(self, server: int, first: int, limit_mb: float) -> None:
        """The processes are the descendants of `server`, including orphans, without the first process `first`."""
        self._server, self._first, self._limit = server, first, limit_mb * _MB
        self._socket = _socket_bytes()
        self._detailed_at = 0.0
        self._outside = 0.0  # bytes not resident in any process, at the last detailed measurement
        self._shared = 0.0  # bytes in unnamed shared memory, which may be resident too
        self._slab = self._least_slab = _slab_bytes()  # at the last detailed measurement, and at the lowest

    def look(self) -> float:
        """MB in use now: a fast upper bound; above the limit, shared pages are divided among processes."""
        members = set(descendants(self._server)) - {self._first}
        tree = {pid: fields for pid in members if (fields := _status(pid))}
        total = float(sum(_KB * (fields["VmRSS"] + fields["VmSwap"] + fields["VmPTE"]) for fields in tree.values()))
        began = time.monotonic()
        known, new = total + self._outside + self._shared, _slab_bytes() - self._slab
        if began >= self._detailed_at or known <= self._limit < known + new:  # the new may be of these processes
            self._measure_outside(tree, total)
            self._detailed_at = time.monotonic() + (_SHARE - 1) * (time.monotonic() - began)
        total += self._outside + self._shared
        if total > self._limit:
            parts = [_apportioned(pid, fields) for pid, fields in tree.items()]
            # The resident part of unnamed shared memory is counted in both.
            total = sum(own for own, _ in parts) + max(self._shared, sum(shared for _, shared in parts)) + self._outside
        return total / _MB

    def _measure_outside(self, tree: dict[int, dict[str, int]], resident: float) -> None:
        # Processes without a filter do not run the solution yet.
        locked = [pid for pid, fields in tree.items() if fields["Seccomp"] == 2]
        extents: dict[bytes, int] = {}
        self._outside = 0.0
        for pid in locked:
            with suppress(OSError):
                text = Path(f"/proc/{pid}/maps").read_bytes()
                self._outside += text.count(b"\n") * _MAPPING
                for start, end, offset, file in _UNNAMED.findall(text):
                    extents[file] = max(extents.get(file, 0), int(offset, 16) + int(end, 16) - int(start, 16))
        self._shared = float(sum(extents.values()))
        most = sum(tree[pid]["FDSize"] for pid in locked) * self._socket
        if resident + self._shared + self._outside + most > self._limit:
            self._outside += self._in_descriptors(locked, self._limit)
        # Records are counted only where the whole machine has so many more than before.
        self._slab = _slab_bytes()
        self._least_slab = min(self._least_slab, self._slab)
        if resident + self._shared + self._outside + self._slab - self._least_slab > self._limit:
            self._outside += _records(locked, self._slab - self._least_slab)

    def _in_descriptors(self, tree: list[int], enough: float) -> float:
        """Bytes in the full pipes and sockets of these processes, each counted once."""
        seen: set[str] = set()
        held = 0
        for pid in tree:
            try:
                numbers = os.listdir(f"/proc/{pid}/fd")
            except PermissionError:  # it runs a file that its user may not read: assume the maximum
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


def _records(tree: list[int], most: int) -> float:
    """Bytes of epoll entries and file locks of these processes, at most `most`; estimated where they are very many.

    Descriptors that wait in sockets may have any number, so they count as `most`.
    """
    paths: list[str] = []
    for pid in tree:
        with suppress(OSError):
            paths += [f"/proc/{pid}/fdinfo/{number}" for number in os.listdir(f"/proc/{pid}/fdinfo")]
    random.SystemRandom().shuffle(paths)
    held, end = 0, time.monotonic() + _RECORDS_S
    for read, path in enumerate(paths, 1):
        with suppress(OSError):
            text = Path(path).read_bytes()
            held += most if _IN_FLIGHT.search(text) else _ENTRY * len(_RECORD.findall(text))
        if time.monotonic() > end:
            return min(most, held * len(paths) / read)
    return min(most, held)


def _status(pid: int) -> dict[str, int]:
    with suppress(OSError):
        fields = {name: int(value) for name, value in _FIELDS.findall(Path(f"/proc/{pid}/status").read_text())}
        return {**dict.fromkeys(("VmRSS", "RssAnon", "RssShmem", "VmPTE", "VmSwap", "FDSize", "Seccomp"), 0), **fields}
    return {}


def _apportioned(pid: int, fields: dict[str, int]) -> tuple[int, int]:
    """Bytes of `pid` without and in shared memory, each shared page divided among its processes."""
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
