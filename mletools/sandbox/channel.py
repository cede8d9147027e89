"""Small messages between the command and a warm server: one JSON object a packet, descriptors beside it.

Covered: sending and receiving. Not covered: what the messages mean; `server` and `warm` say that.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import Any

_LARGEST = 1 << 18


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends that keep packets apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """One packet. OSError: the other end is gone, or the message is larger than a packet may be."""
    socket.send_fds(end, [json.dumps(message).encode()], list(descriptors))


def receive(end: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next packet and its descriptors, which are the caller's to close; None when the other end is gone."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(end, _LARGEST, 8)
    except ConnectionResetError:
        return None, []
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return (json.loads(packet) if packet else None), list(descriptors)
