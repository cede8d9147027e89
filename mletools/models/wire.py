"""Connections to an untrusted server: each response is bounded in bytes and in seconds.

Covered: endless headers, interim responses, chunks and trailers, slow or fast; compressed bodies, which are refused;
bodies of too many values. Not covered: the content of a response (completion, embedding), retries (http).
urllib3 is thread-safe and has no dependencies; its own retries do not see an invalid body. The openai client bounds
each read but not a whole answer, unpacks a compressed body of any size and follows redirects, so it is not used.
"""

import functools
import http.client
import io
import socket
import time
from typing import Any
from urllib.parse import unquote, urlsplit

from ..base.errors import ToolError

MOST_BYTES = 64 * 2**20  # of one response, headers included
MOST_VALUES = 4_000_000  # of one response: an empty list of two bytes takes 64 in memory
CHUNK_BYTES = 2**16
MOST_CONNECTIONS = 1024  # kept open for reuse; further ones are closed after use
MOST_LOCATION = 200  # characters shown of a redirect's address


class _Bounded(io.RawIOBase):
    """One response on a socket: TimeoutError after the socket's timeout in all, OverflowError above MOST_BYTES."""

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
def _pools() -> dict[str, type]:
    import urllib3
    from urllib3.connection import HTTPConnection, HTTPSConnection

    def of(pool: type, connection: type) -> type:
        bounded = type(connection.__name__, (connection,), {"response_class": _Response})
        return type(pool.__name__, (pool,), {"ConnectionCls": bounded})

    return {
        "http": of(urllib3.HTTPConnectionPool, HTTPConnection),
        "https": of(urllib3.HTTPSConnectionPool, HTTPSConnection),
    }


def pool(url: str, timeout: float) -> Any:
    """Connections to the server of `url`, or to the proxy in the usual environment variables. timeout: seconds.

    ToolError: the variable names no proxy of HTTP.
    """
    from urllib.request import getproxies, proxy_bypass

    import urllib3

    parts = urlsplit(url)
    bounds = urllib3.Timeout(connect=min(timeout, 30.0), read=timeout)
    proxy = getproxies().get(parts.scheme)
    manager: Any = None
    if proxy and not proxy_bypass(parts.hostname or ""):
        manager = urllib3.ProxyManager(**_proxy(proxy, parts.scheme), maxsize=MOST_CONNECTIONS, timeout=bounds)
    else:
        manager = urllib3.PoolManager(maxsize=MOST_CONNECTIONS, timeout=bounds)
    manager.pool_classes_by_scheme = _pools()
    return manager


def _proxy(address: str, scheme: str) -> dict[str, Any]:
    """The arguments of a manager for `host:port` or `http://user:password@host:port`, from a variable for `scheme`."""
    import urllib3

    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise ToolError(f"{scheme}_proxy: this variable names no proxy of HTTP, e.g. http://proxy:3128")
    authority = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    headers: dict[str, str] = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=user)
    return {"proxy_url": f"{parts.scheme}://{authority}", "proxy_headers": headers}


def body(answer: Any) -> bytes:
    """The whole body of a response. OverflowError: it is too large, compressed, or has too many values."""
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
        answer.close()  # the rest of the body must not be read as the next response
        raise
    finally:
        answer.release_conn()
    return content


def plain(text: str, most: int) -> str:
    """A server's text on one line, without control characters, at most `most` characters."""
    line = " ".join(text[: 4 * most].split())
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)[:most]


def redirection(status: int, headers: Any) -> str | None:
    """The error message for a redirect, else None. Redirects are not followed, because the key would be sent there."""
    if status not in (301, 302, 303, 307, 308):
        return None
    address = plain(headers.get("Location") or "", MOST_LOCATION) or "nowhere"
    return f"{status}: it redirects to {address}, which is not followed: give that address if you trust it"


def failure(error: Exception) -> str:
    """The operating system's reason for a failed connection, from an exception of urllib3."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"connection failed: {cause.strerror}"
        reason = getattr(cause, "reason", None)
        cause = reason if isinstance(reason, BaseException) else cause.__cause__ or cause.__context__
    return f"connection dropped ({type(error).__name__})"


def _too_large() -> str:
    return f"the body is larger than {MOST_BYTES >> 20} MB"
