"""The options of a run that lets a model write tasks."""

from pathlib import Path
from typing import Any

from scripted_server import RoleServer

from mletools.tasks.options import LlmOptions


def options(place: Path, server: RoleServer, **changes: Any) -> LlmOptions:
    given: dict[str, Any] = {
        "model": "writer-1", "model_url": server.url, "model_key_file": None, "request_timeout": 20.0, "retries": 0,
        "temperature": 1.0, "top_p": None, "max_tokens": 4096, "seeds": (str(place / "seeds"),), "journal": None, "price": (1.0, 10.0),
    }  # fmt: skip
    return LlmOptions(**{**given, **changes})
