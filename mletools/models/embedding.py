"""Embeddings of texts from any server that speaks OpenAI's protocol for them: vLLM, SGLang, llama.cpp, a provider.

Covered: batches, what is asked for once although many threads want it, answers out of order, answers that are no
vectors, all that http.Served does. Not covered: what vectors say about each other (scaffolds); texts that are too long
for the model, which its server refuses or cuts.
"""

import json
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..records import jsonl
from ..records.errors import ToolError
from ..records.ids import derive_seed
from .http import Served

MOST_TEXTS = 32  # of one request: what the least generous servers take
KEPT_TEXTS = 4096  # as numbers of 8 bytes: 100 MB with vectors of 3072
NO_EMBEDDINGS = "the body is no list of embeddings"

Vector: TypeAlias = "array[float]"


class HttpEmbeddings(Served):
    """A model that turns texts into vectors; how it is reached, see Served. Safe to call from many threads."""

    path, option = "/embeddings", "--embedding-url"

    def __init__(self, name: str, *, url: str, **options: Any) -> None:
        super().__init__(name, url=url, **options)
        self._kept: OrderedDict[str, Vector] = OrderedDict()  # the one used last comes last
        self._under_way: set[str] = set()
        self._length: int | None = None  # of every vector
        self._news = threading.Condition()  # guards the above; told when a request has ended

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of finite numbers per text, in order, all of one length; equal texts are asked for once.

        RecordError: the server finds fault with the texts (too long, empty). ToolError: no good answer in all tries.
        """
        known: dict[str, Vector] = {}
        wanted = list(dict.fromkeys(texts))
        while wanted:
            mine = self._claim(wanted, known)
            try:
                known.update(self._vectors(mine))
            finally:
                self._release(mine, known)
            wanted = [text for text in wanted if text not in known]
        return [known[text].tolist() for text in texts]

    def _claim(self, wanted: Sequence[str], known: dict[str, Vector]) -> list[str]:
        """The texts to ask for now, having added to `known` what is kept; waits while others ask for all that is left."""
        with self._news:
            while True:
                for text in wanted:
                    if text in self._kept:
                        self._kept.move_to_end(text)
                        known[text] = self._kept[text]
                missing = [text for text in wanted if text not in known]
                mine = [text for text in missing if text not in self._under_way][:MOST_TEXTS]
                if mine or not missing:
                    self._under_way.update(mine)
                    return mine
                self._news.wait()

    def _release(self, mine: Sequence[str], known: dict[str, Vector]) -> None:
        with self._news:
            self._under_way.difference_update(mine)
            self._kept.update((text, known[text]) for text in mine if text in known)
            while len(self._kept) > KEPT_TEXTS:
                self._kept.popitem(last=False)
            self._news.notify_all()

    def _vectors(self, texts: Sequence[str]) -> dict[str, Vector]:
        if not texts:
            return {}

        def read(body: bytes) -> list[Vector]:
            vectors = read_vectors(body, len(texts))
            length = len(vectors[0])
            with self._news:
                if self._length not in (None, length):
                    raise ValueError(f"embeddings of length {length}, where earlier ones have {self._length}")
                self._length = length
            return vectors

        fields = {"model": self.name, "input": list(texts), "encoding_format": "float"}
        # The texts as ASCII: half of a surrogate pair can be escaped, but has no bytes to derive a seed from.
        vectors = self._ask(fields, read, derive_seed(0, "embed", json.dumps(fields["input"])))
        return dict(zip(texts, vectors, strict=True))


def open_embeddings(
    name: str, *, url: str | None, key_file: str | None = None, timeout: float = 600.0, retries: int = 6
) -> HttpEmbeddings:
    """The embedding model `name` at the server behind `url`. ToolError: no name, no `url`, no address, no key.

    `key_file`, `timeout` (seconds for one request) and `retries` are Served's.
    """
    if not name:
        raise ToolError("no embedding model: name one that a server at --embedding-url serves")
    if not url:
        raise ToolError(
            f"{name}: an embedding model needs its server's address: give --embedding-url, --model-url or MLE_MODEL_URL"
        )
    return HttpEmbeddings(name, url=url, key_file=key_file, timeout=timeout, retries=retries)


def read_vectors(body: bytes, count: int) -> list[Vector]:
    """The `count` vectors in an answer, in the order of their "index"; ValueError in words when there are none such.

    All are finite and of one length, which is not 0.
    """
    try:
        answer = jsonl.loads(body)
    except ValueError as error:
        raise ValueError(NO_EMBEDDINGS) from error
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
        raise ValueError(NO_EMBEDDINGS)
    if len(data) != count:
        raise ValueError(f"the answer to {count} texts has {len(data)} embeddings")
    found = {one["index"]: one for one in data if type(one.get("index")) is int}
    if found.keys() != set(range(count)):
        raise ValueError("the answer does not tell which embedding belongs to which text")
    vectors = [_vector(found[index].get("embedding")) for index in range(count)]
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise ValueError(f"the answer's embeddings differ in length: {lengths[0]} to {lengths[-1]}")
    return vectors


def _vector(values: Any) -> Vector:
    if not isinstance(values, list) or not values or not all(type(one) in (int, float) for one in values):
        raise ValueError("an embedding in the answer is no list of numbers")
    try:
        return array("d", values)
    except OverflowError:
        raise ValueError("an embedding in the answer holds a number that is too large") from None
