"""Embeddings of texts from any server with OpenAI's embeddings protocol: vLLM, SGLang, llama.cpp, a provider.

Covered: batches, a cache shared by threads, answers out of order, invalid answers, all that http.Served does.
Not covered: similarity of vectors (scaffolds); texts that are too long for the model, which its server refuses or cuts.
"""

import json
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..base import jsonl
from ..base.errors import ToolError
from ..base.ids import derive_seed
from ..base.visible import to_stderr
from . import ServerOptions
from .http import Served

MOST_TEXTS = 32  # of one request: the smallest limit of common servers
CACHED_TEXTS = 4096  # as numbers of 8 bytes: 100 MB with vectors of 3072
NO_EMBEDDINGS = "the body is no list of embeddings"

Vector: TypeAlias = "array[float]"


class HttpEmbeddings(Served):
    """A model that turns texts into vectors; for the connection, see Served. Thread-safe."""

    path, option = "/embeddings", "--embedding-url"

    def __init__(self, name: str, server: ServerOptions, say: Callable[[str], None] = to_stderr) -> None:
        super().__init__(name, server, say)
        self._cache: OrderedDict[str, Vector] = OrderedDict()  # least recently used first
        self._pending: set[str] = set()
        self._length: int | None = None  # of every vector
        self._change = threading.Condition()  # guards the above; notified when a request ends

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of finite numbers per text, in order, all of one length; equal texts are requested once.

        RecordError: the server rejects the texts (too long, empty). ToolError: no valid answer after all retries.
        """
        vectors: dict[str, Vector] = {}
        missing = list(dict.fromkeys(texts))
        while missing:
            mine = self._claim(missing, vectors)
            try:
                vectors.update(self._vectors(mine))
            finally:
                self._release(mine, vectors)
            missing = [text for text in missing if text not in vectors]
        return [vectors[text].tolist() for text in texts]

    def _claim(self, texts: Sequence[str], vectors: dict[str, Vector]) -> list[str]:
        """Add cached vectors; return the texts to request now. Waits while other threads request all missing ones."""
        with self._change:
            while True:
                for text in texts:
                    if text in self._cache:
                        self._cache.move_to_end(text)
                        vectors[text] = self._cache[text]
                missing = [text for text in texts if text not in vectors]
                mine = [text for text in missing if text not in self._pending][:MOST_TEXTS]
                if mine or not missing:
                    self._pending.update(mine)
                    return mine
                self._change.wait()

    def _release(self, mine: Sequence[str], vectors: dict[str, Vector]) -> None:
        with self._change:
            self._pending.difference_update(mine)
            self._cache.update((text, vectors[text]) for text in mine if text in vectors)
            while len(self._cache) > CACHED_TEXTS:
                self._cache.popitem(last=False)
            self._change.notify_all()

    def _vectors(self, texts: Sequence[str]) -> dict[str, Vector]:
        if not texts:
            return {}

        def read(body: bytes) -> list[Vector]:
            vectors = read_vectors(body, len(texts))
            length = len(vectors[0])
            with self._change:
                if self._length not in (None, length):
                    raise ValueError(f"embeddings of length {length}, where earlier ones have {self._length}")
                self._length = length
            return vectors

        fields = {"model": self.name, "input": list(texts), "encoding_format": "float"}
        # As ASCII, because a lone surrogate has no UTF-8 bytes to derive a seed from.
        vectors = self._request(fields, read, derive_seed(0, "embed", json.dumps(fields["input"])))
        return dict(zip(texts, vectors, strict=True))


def open_embeddings(name: str, server: ServerOptions) -> HttpEmbeddings:
    """The embedding model `name` at the `server`. ToolError: no name, or an invalid address or key."""
    if not name:
        raise ToolError("no embedding model: name one that a server at --embedding-url serves")
    if not server.url:
        raise ToolError(
            f"{name}: an embedding model needs its server's address: give --embedding-url, --model-url or MLE_MODEL_URL"
        )
    return HttpEmbeddings(name, server)


def read_vectors(body: bytes, count: int) -> list[Vector]:
    """The `count` vectors of an answer by their "index": finite, of one length above 0. Else ValueError."""
    try:
        answer = jsonl.loads(body)
    except ValueError as error:
        raise ValueError(NO_EMBEDDINGS) from error
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise ValueError(NO_EMBEDDINGS)
    if len(data) != count:
        raise ValueError(f"the answer to {count} texts has {len(data)} embeddings")
    by_index = {one["index"]: one for one in data if type(one.get("index")) is int}
    if by_index.keys() != set(range(count)):
        raise ValueError("the answer does not say which embedding belongs to which text")
    vectors = [_vector(by_index[index].get("embedding")) for index in range(count)]
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise ValueError(f"the answer's embeddings differ in length: {lengths[0]} to {lengths[-1]}")
    return vectors


def _vector(values: Any) -> Vector:
    if not isinstance(values, list) or not values or not all(type(one) in (int, float) for one in values):
        raise ValueError("an embedding in the answer is not a list of numbers")
    try:
        return array("d", values)
    except OverflowError:
        raise ValueError("an embedding in the answer holds a number that is too large") from None
