"""What the head of a GGUF file says of its model. The library `gguf` reads the same in ten seconds of CPU, as it makes an
array of each of 150,000 tokens; this takes a tenth of one.

Covered: versions 2 and 3, little-endian. Not covered: tensors.
"""

import mmap
import struct
from typing import Any, TypedDict, cast

from ..base.errors import ToolError

MAGIC = b"GGUF"
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
CONTROL, USER_DEFINED = 3, 4  # types of a token
MOST = 10_000_000  # entries of an array: more is no vocabulary

Header = TypedDict(
    "Header",
    {
        "general.architecture": str,
        "tokenizer.chat_template": str,
        "tokenizer.ggml.tokens": list[str],
        "tokenizer.ggml.token_type": list[int],
        "tokenizer.ggml.eos_token_id": int,
        "tokenizer.ggml.unknown_token_id": int,
    },
    total=False,
)  # the metadata by name: numbers, texts, lists of them; others, too


def read_header(file: str) -> Header:
    """The metadata. ToolError: no such file, no GGUF file, or a broken one."""
    try:
        with open(file, "rb") as opened:
            if opened.read(len(MAGIC)) != MAGIC:
                raise ToolError(f"llama:{file}: is no GGUF file (a checkpoint folder is hf:PATH or vllm:PATH)")
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _Reader(content).header()
    except OSError as error:
        raise ToolError(f"llama:{file}: {error.strerror}: llama needs a GGUF file") from error
    except (struct.error, ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise ToolError(f"llama:{file}: is no whole GGUF file: its head cannot be read") from error


class _Reader:
    def __init__(self, content: "mmap.mmap") -> None:
        self._content, self._at = content, len(MAGIC)

    def header(self) -> Header:
        version = self._number("I")
        if version not in (2, 3):
            raise ValueError(version)
        self._number("Q")  # tensors
        return cast(Header, {self._text(): self._value(self._number("I")) for _ in range(self._number("Q"))})

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(f"<{form}", self._content, self._at)
        self._at += struct.calcsize(f"<{form}")
        return value

    def _text(self) -> str:
        length = self._number("Q")
        begin, self._at = self._at, self._at + length
        if self._at > len(self._content):
            raise ValueError(length)
        return self._content[begin : self._at].decode(errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._text()
        if kind != ARRAY:
            return self._number(NUMBERS[kind])
        inner, count = self._number("I"), self._number("Q")
        if count > MOST:
            raise ValueError(count)
        if inner in NUMBERS:
            form = f"<{count}{NUMBERS[inner]}"
            begin, self._at = self._at, self._at + struct.calcsize(form)
            return list(struct.unpack_from(form, self._content, begin))
        return [self._value(inner) for _ in range(count)]
