"""The address of a server and the key that is sent there.

Covered: addresses with or without /v1, whole ones, Azure's with `?api-version=`, user:password, keys in files and variables.
Not covered: which role of a run has which key (options), masking a key in a message (http).
"""

import base64
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ..base.errors import ToolError

CHAT = "/chat/completions"
DEFAULT_KEY = "OPENAI_API_KEY"
# Of providers with a variable of their own: nobody else is sent what it holds.
PROVIDERS = {
    "api.openai.com": DEFAULT_KEY,
    "api.anthropic.com": "ANTHROPIC_API_KEY",
    "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
}
DEPLOYMENT = "/openai/deployments/"  # Azure's paths before /openai/v1: they hold no version and take another header


@dataclass(frozen=True)
class Address:
    """Where requests go. `shown` is the address without its query, which may hold a secret."""

    post: str
    shown: str
    credentials: str | None = None  # "user:password"
    deployment: bool = False

    def headers(self, key: str | None) -> dict[str, str]:
        """The header that authorizes a request; empty without a key and credentials."""
        if key:
            return {"api-key": key} if self.deployment else {"Authorization": f"Bearer {key}"}
        if self.credentials:
            return {"Authorization": "Basic " + base64.b64encode(self.credentials.encode()).decode()}
        return {}


def read_address(url: str, end: str, option: str) -> Address:
    """The address for requests, whose path ends in `end`. ToolError, which names `option`: it is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https") or parts.fragment or not _known_query(parts.query):
        raise ToolError(f"{option}: not the address of a server, e.g. http://localhost:8000/v1")
    given = parts.path.rstrip("/")
    path = given.removesuffix(end if given.endswith(end) else CHAT)
    deployment = DEPLOYMENT in f"{path}/"
    if not deployment and path == given and not re.search(r"/v\d", path):
        path += "/v1"
    authority = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    shown = f"{parts.scheme}://{authority}{path}{end}"
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return Address(f"{shown}?{parts.query}" if parts.query else shown, shown, credentials, deployment)


def same_server(url: str | None, other: str | None) -> bool:
    """Whether two addresses have one scheme, host and port, so that a key for one may be sent to the other."""
    return url is not None and other is not None and _origin(url) == _origin(other)


def provider_key(url: str | None) -> str | None:
    """The variable of the provider at `url`, where it is set."""
    parts = urlsplit(url or "")
    name = PROVIDERS.get(parts.hostname or "") if parts.scheme == "https" else None
    return name if name and os.environ.get(name, "").strip() else None


def read_key(key_file: str | None, key_env: str | None) -> str | None:
    """The key in `key_file`, else in the variable `key_env`; None where OPENAI_API_KEY is not set.

    ToolError: a file that cannot be read, another variable that is not set, a key that cannot be sent.
    """
    if key_file is not None:
        try:
            with open(key_file, encoding="utf-8") as file:
                return _sendable(file.read().strip(), key_file)
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError(f"{key_file}: cannot read the key: {getattr(error, 'strerror', None) or error}") from error
    if key_env is None:
        return None
    key = os.environ.get(key_env, "").strip()
    if not key and key_env != DEFAULT_KEY:
        raise ToolError(f"{key_env}: this environment variable is to hold a key and is not set")
    return _sendable(key, key_env) if key else None


def _known_query(query: str) -> bool:
    """No query but Azure's: a key in an address would be seen in logs and process lists."""
    return not query or re.fullmatch(r"api-version=[\w.-]+", query) is not None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    return parts.scheme, parts.hostname, port or {"http": 80, "https": 443}.get(parts.scheme)


def _sendable(key: str, source: str) -> str:
    # http.client quotes a header that it rejects, so an invalid key must not reach it.
    if not re.fullmatch(r"[!-~]+", key):
        raise ToolError(f"{source}: holds no key: one line of printable ASCII without spaces is needed")
    return key
