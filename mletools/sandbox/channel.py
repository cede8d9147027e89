"""Messages between the command and a warm server: a JSON object and file descriptors per packet.

Not covered: the meaning of the messages (`server`, `warm`).
"""

import json
import os
import select
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

_LARGEST = 1 << 18
_LONGEST_MS = (1 << 31) - 1


class Packet(TypedDict, total=False):
    """A message of either side; what it has depends on what it says."""

    run: bool  # to a server: the first descriptor is a file with RunRequest.content, which may be larger than a packet
    kill: bool
    interrupt: bool
    event: str  # from a server: ready, work, started, interrupted, exit, failed, ended
    at: float  # seconds on the monotonic clock
    missing: list[str]  # ready, of a template: modules that are not installed
    threaded: list[str]  # and those that started threads
    pid: int  # ready, of a server
    cgroup: str | None
    protections: dict[str, bool]  # started
    code: int  # exit
    why: str  # failed
    cpu_s: float  # ended
    peak_mb: float
    memory: bool  # whether it was killed for memory


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that preserve packet boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
    """Send one packet. OSError: the other end is closed, or the message is too large for a packet."""
    socket.send_fds(end, [json.dumps(message).encode()], list(descriptors))


def receive(end: socket.socket) -> tuple[Packet | None, list[int]]:
    """The next packet and its descriptors, which the caller closes; None if the other end is closed."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(end, _LARGEST, 8)
    except ConnectionResetError:
        return None, []
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return (json.loads(packet) if packet else None), list(descriptors)


def ready(descriptors: Iterable[int], seconds: float | None) -> set[int]:
    """The descriptors that can be read or are closed at the other end, after at most `seconds` (None: no limit)."""
    poll = select.poll()  # unlike select, for any descriptor
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else milliseconds(seconds))}


def milliseconds(seconds: float) -> float:
    """`seconds` for a poll, which takes at most 24 days: the caller looks at the clock afterwards."""
    return min(max(0.0, seconds) * 1000, _LONGEST_MS)
