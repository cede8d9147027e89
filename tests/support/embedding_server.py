"""A server of embeddings that fails in the ways that a test asks for."""

from typing import Any

from step_server import StepServer, send


def vector(text: str) -> list[float]:
    """What the server's model makes of a text."""
    return [float(len(text)), sum(map(ord, text)) / 8, -0.5]


def listed(body: dict[str, Any]) -> dict[str, Any]:
    data = [{"object": "embedding", "index": at, "embedding": vector(text)} for at, text in enumerate(body["input"])]
    return {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


class Server(StepServer):
    """Answers with the embeddings of the texts, once `script` is used up."""

    def __init__(self) -> None:
        super().__init__("/v1/embeddings", lambda handler: send(handler, 200, listed(handler.body)))

    @property
    def asked(self) -> list[list[str]]:
        return [one["body"]["input"] for one in self.seen]


def cut(handler: Any) -> None:
    send(handler, 200, listed(handler.body), cut=True)
