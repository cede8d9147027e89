"""Messages between the command and a warm server: a JSON object and file descriptors per packet.

Not covered: the meaning of the messages (`server`, `warm`).
"""

import json
import os
import select
import socket
from collections.abc import Iterable, Sequence
from typing import Any

_LARGEST = 1 << 18


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that preserve packet boundaries."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one packet. OSError: the other end is closed, or the message is too large for a packet."""
    socket.send_fds(end, [json.dumps(message).encode()], list(descriptors))


def receive(end: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
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
    return {descriptor for descriptor, _ in poll.poll(None if seconds is None else max(0.0, seconds) * 1000)}
