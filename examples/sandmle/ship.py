"""Copy a trained LoRA adapter in a form for git: bfloat16, which halves it, and the path of its base from the copy's folder.

    python examples/sandmle/ship.py runs/small/sft-sandmle/latest adapter

mle-rollout -m hf:COPY finds base and tokenizer through that path; PEFT computes with the adapter in float32 again.
"""

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, copy = map(Path, sys.argv[1:])
    config = json.loads((source / "adapter_config.json").read_text())
    base = Path(config["base_model_name_or_path"])
    copy.mkdir(parents=True, exist_ok=True)
    if base.is_dir():
        config["base_model_name_or_path"] = os.path.relpath(base, copy)
    config["target_modules"] = sorted(config["target_modules"])  # a set, in any order
    weights = {
        name: tensor.to(torch.bfloat16) for name, tensor in load_file(source / "adapter_model.safetensors").items()
    }
    save_file(weights, copy / "adapter_model.safetensors", {"format": "pt"})
    (copy / "adapter_model.safetensors").chmod(0o644)
    (copy / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
