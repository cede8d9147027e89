"""The way to a server that is not trusted: connections on which one answer has a bound in bytes and in seconds, whatever it is.

Covered: headers, interim answers, chunks and trailers without end, a byte at a time or all at once; compressed bodies, which
nobody asked for; bodies of more values than an answer has. Not covered: what an answer says (completion, embedding), when to
ask again (http). urllib3 rather than a richer client: its pool is safe across threads, it depends on nothing, and its retries
could not judge a broken body.
"""

import functools
import http.client
import io
import socket
import time
from typing import Any
from urllib.parse import urlsplit

MOST_BYTES = 64 * 2**20  # of one answer, its headers included
MOST_VALUES = 4_000_000  # of one answer: an empty list of two bytes takes 64 in memory
CHUNK_BYTES = 2**16
MOST_CONNECTIONS = 1024  # kept open for reuse; more are opened when more threads ask, and closed after use
MOST_LOCATION = 200  # characters of an address that a server names


class _Bounded(io.RawIOBase):
    """What arrives on a socket for one answer: TimeoutError at `end` (monotonic), OverflowError above MOST_BYTES."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._socket, self._raw = sock, sock.makefile("rb", 0)
        seconds = sock.gettimeout()
        self._end = None if seconds is None else time.monotonic() + seconds
        self._left = MOST_BYTES + CHUNK_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._end is not None:
            seconds = self._end - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("the answer takes too long")
            self._socket.settimeout(seconds)
        size = self._raw.readinto(buffer) or 0
        self._left -= size
        if self._left < 0:
            raise OverflowError(_too_large())
        return int(size)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Bounded(sock))


@functools.cache
def _pools() -> dict[str, Any]:
    import urllib3
    from urllib3.connection import HTTPConnection, HTTPSConnection

    def of(pool: Any, connection: Any) -> Any:
        bounded = type(connection.__name__, (connection,), {"response_class": _Response})
        return type(pool.__name__, (pool,), {"ConnectionCls": bounded})

    return {
        "http": of(urllib3.HTTPConnectionPool, HTTPConnection),
        "https": of(urllib3.HTTPSConnectionPool, HTTPSConnection),
    }


def pool(url: str, timeout: float) -> Any:
    """Connections to the server of `url`, or to the proxy that the usual environment variables name. timeout: seconds."""
    from urllib.request import getproxies, proxy_bypass

    import urllib3

    parts = urlsplit(url)
    bounds = urllib3.Timeout(connect=min(timeout, 30.0), read=timeout)
    options: dict[str, Any] = {"maxsize": MOST_CONNECTIONS, "timeout": bounds}
    proxy = getproxies().get(parts.scheme)
    manager: Any = None
    if proxy and not proxy_bypass(parts.hostname or ""):
        manager = urllib3.ProxyManager(proxy, **options)
    else:
        manager = urllib3.PoolManager(**options)
    manager.pool_classes_by_scheme = _pools()
    return manager


def body(answer: Any) -> bytes:
    """The whole body of an answer. OverflowError in words: it is too large, or compressed, or of too many values."""
    pieces, size = [], 0
    try:
        encoding = answer.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ("", "identity"):
            raise OverflowError(f"the body is compressed ({plain(encoding, 20)}), which was not asked for")
        while piece := answer.read1(CHUNK_BYTES, decode_content=False):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise OverflowError(_too_large())
        content = b"".join(pieces)
        if sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise OverflowError(f"the body holds more than {MOST_VALUES} values")
    except BaseException:
        answer.close()  # what is left of the body must not become the next request's answer
        raise
    finally:
        answer.release_conn()
    return content


def plain(text: str, most: int) -> str:
    """What a server says, on one line and without what would steer a terminal."""
    line = " ".join(text[: 4 * most].split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)[:most]


def redirection(status: int, headers: Any) -> str | None:
    """Where a server sends us instead of answering, in words; nobody goes there, for the key would go with the request."""
    if status not in (301, 302, 303, 307, 308):
        return None
    place = plain(headers.get("Location") or "", MOST_LOCATION) or "nowhere"
    return f"{status}: it redirects to {place}, which is not followed: give that address if you trust it"


def asked_s(after: str | None) -> float:
    """The seconds that a Retry-After header asks for; 0 where there is none, or none that can be read."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    try:
        return float(Retry().parse_retry_after(after)) if after and len(after) < 100 else 0.0
    except (InvalidHeader, ValueError, OverflowError):
        return 0.0


def _too_large() -> str:
    return f"the body is larger than {MOST_BYTES >> 20} MB"
