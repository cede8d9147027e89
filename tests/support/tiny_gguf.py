"""A GGUF file of a Llama with random weights, whose tokens are bytes: it loads at once and answers anything."""

from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, HIDDEN, CONTEXT = 64, 4, 128, 512
SPECIAL = ("<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def printable_bytes() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    table = {byte: chr(byte) for byte in shown} | {byte: chr(256 + at) for at, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


def write_tiny_gguf(path: Path, seed: int = 0) -> Path:
    """Write the file to `path`."""
    draws = np.random.default_rng(seed)
    tokens = [*printable_bytes(), *SPECIAL]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * len(SPECIAL))
    writer.add_token_merges([f"{tokens[32]} {tokens[32]}"])  # none is no list
    writer.add_eos_token_id(257)
    writer.add_chat_template(TEMPLATE)
    shapes = {
        "token_embd": (len(tokens), WIDTH), "output": (len(tokens), WIDTH), "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,), "blk.0.ffn_norm": (WIDTH,),
        **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (HIDDEN, WIDTH), "blk.0.ffn_up": (HIDDEN, WIDTH), "blk.0.ffn_down": (WIDTH, HIDDEN),
    }  # fmt: skip
    for name, shape in shapes.items():
        weights = np.ones(shape) if len(shape) == 1 else draws.normal(0, 0.2, shape)
        writer.add_tensor(f"{name}.weight", weights.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
