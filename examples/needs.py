"""Say what an experiment needs and is not there, by its commands as `make -n` prints them: a line each, and exit code 1.

    make -s -n --always-make results | python ../needs.py

Looked at: whether servers answer, whether providers' keys are set and their models have a list price, whether
competitions are prepared, the container's image, the libraries of vllm: models and trainers, the number of cards. Nothing
is asked of a provider, nothing is downloaded. Not looked at: weights at the hub, disk, memory (make plan).
"""

import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from options import commands

from mletools.models.address import DEFAULT_KEY, PROVIDERS
from mletools.models.prices import price_of
from mletools.training.algorithms import PRESETS
from mletools.training.options import TrainingOptions

HERE = re.compile(r"https?://(localhost|127\.|10\.|192\.168\.|[^/.:]+[:/])")
SECONDS = 10
ROLES = {"": "-m", "ideator": "--ideator", "implementer": "--implementer", "research": "--research-model"}
ROLES |= {"develop": "--develop-model", "embedding": "--embedding-model"}


def value(words: list[str], *flags: str) -> str | None:
    pairs = list(itertools.pairwise(words))
    return next((after for flag, after in reversed(pairs) if flag in flags), None)


def asked(words: list[str]) -> Iterator[tuple[str, str, str | None, bool]]:
    """(model, URL, variable with the key, whether its price is told) of each role that a server plays."""
    for role, flag in ROLES.items():
        model = value(words, flag, "--model" if not role else flag)
        prefix = f"--{role}-" if role else "--model-"
        url = value(words, f"{prefix}url") or value(words, "--model-url")
        if (
            model
            and url
            and not re.match(r"(hf|vllm|llama|scripted):?", model)
            and model not in ("null", "vague", "policy")
        ):
            key = value(words, f"{prefix}key-env", f"{prefix}key-file")
            priced = role == "embedding" or value(words, f"--{role}-price" if role else "--price") is not None
            yield model, url, key, priced  # embeddings have no price


def server(url: str, models: set[str], rank: str | None) -> str | None:
    """Why the server is not ready. rank: of the adapters that a trainer gives it, "0" for all weights; None: no trainer does."""
    try:
        with urllib.request.urlopen(f"{url.removesuffix('/')}/models", timeout=SECONDS) as answer:
            found = served(answer.read())
        absent = models - found if found and rank is None else set()
        return f"{url} serves {', '.join(sorted(found))}, not {', '.join(sorted(absent))}" if absent else None
    except urllib.error.HTTPError:
        return None  # it answers
    except OSError as error:
        takes = "" if rank is None else f"RANK={rank} "
        start = f"MODEL={min(models)} {takes}{os.path.relpath(Path(__file__).parent / 'cluster/serve.sh')}"
        why = getattr(error, "reason", error)
        return f"{url} does not answer ({why}): start it on cards of its own, CUDA_VISIBLE_DEVICES=N {start}"


def served(answer: bytes) -> set[str]:
    """The models that a server lists; none where it answers in another form."""
    try:
        return {str(model["id"]) for model in json.loads(answer)["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def missing(found: list[list[str]]) -> Iterator[str]:
    urls: dict[str, set[str]] = {}
    ranks: dict[str, str] = {}
    for words in found:
        for model, url, key, priced in asked(words):
            if HERE.match(url):
                urls.setdefault(url, set()).add(model)
                continue
            name = key or PROVIDERS.get(urlsplit(url).hostname or "", DEFAULT_KEY)
            if not (os.environ.get(name) or Path(name).is_file()):
                yield f"no key for {model} at {url}: export {name}=..."
            if not priced and price_of(model, url) is None:
                yield f"{model} at {url} has no list price: costs will be missing (--price)"
        if "--publish-url" in words and words[0].startswith("mle-train"):
            url = value(words, "--publish-url") or ""
            urls.setdefault(url, set()).add(value(words, "--model") or "")
            own = PRESETS.get(value(words, "--preset") or "", {}).get("lora_rank", TrainingOptions.lora_rank)
            ranks[url] = value(words, "--lora-rank") or str(own)
        if words[0] == "mle-import":
            yield from unprepared(words)
        if any(word.startswith("vllm:") for word in words) and importlib.util.find_spec("vllm") is None:
            yield "vllm: models need vLLM beside mletools: pip install 'mletools[vllm]'"
        if words[0].startswith("mle-train") and importlib.util.find_spec("trl") is None:
            yield "trainers need a library: pip install 'mletools[train]'"
    for url, models in urls.items():
        if why := server(url, models, ranks.get(url)):
            yield why
    yield from images({image for words in found if (image := value(words, "--image"))})
    for folder in sorted({folder for words in found if (folder := value(words, "--weights"))}):
        if not Path(folder).is_dir() or not any(Path(folder).iterdir()):
            yield f"{folder}: no pretrained weights are there: docs/sandbox.md says how to fetch them; or PRETRAINED="


def unprepared(words: list[str]) -> Iterator[str]:
    """Competitions that are not where mle-import reads them."""
    pairs = itertools.pairwise(words)
    folders = [Path(word) for before, word in pairs if not before.startswith("-") and not word.startswith("-")]
    absent = [str(folder) for folder in folders if not folder.is_dir() or not any(folder.iterdir())]
    dojo = value(words, "--format") == "mle-dojo"
    names = ("MLE-Dojo's", "DOJO", "DOJO_REPO") if dojo else ("MLE-bench's", "BENCH", "REPO")
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        yield f"{absent[0]}{more}: no competition is prepared there, by {names[0]} own means: {names[1]}=FOLDER"
    repo = value(words, "--repo")
    if repo and not Path(repo).is_dir():
        yield f"{repo}: no checkout of the benchmark is there: {names[2]}=FOLDER"


def images(named: set[str]) -> Iterator[str]:
    for image in sorted(named):
        if shutil.which("docker") is None:
            yield f"no docker command for the image {image}: install Docker, or IMAGE= for programs in this machine's Python"
            continue
        done = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=False)
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1]
            yield f"no image {image}: make image KIND=ml IMAGE={image} at the top, or IMAGE=NAME ({why})"


def cards(text: str) -> Iterator[str]:
    """Cards that are named and not there."""
    named = {
        card for found in re.findall(r"(?:CUDA_VISIBLE_DEVICES=|--gpus )([\w,-]+)", text) for card in found.split(",")
    }
    numbers = {int(card) for card in named if card.isdigit()}
    listed = (
        subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        if shutil.which("nvidia-smi")
        else None
    )
    count = len(re.findall(r"^GPU ", listed.stdout, re.MULTILINE)) if listed else 0
    if absent := sorted(number for number in numbers if number >= count):
        yield f"cards {', '.join(map(str, absent))} are named, and nvidia-smi lists {count}: GPUS=N, and make plan"


def main() -> None:
    text = sys.stdin.read()
    lines = list(dict.fromkeys([*missing(commands(text)), *cards(text)]))
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
