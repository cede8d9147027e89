"""Make a model folder with a longer context by YaRN, for a sampler, an evaluation and a trainer alike.

    python examples/yarn.py FOLDER NEW FACTOR [ORIGINAL]

NEW has the files of FOLDER as links, and a config.json with `rope_scaling` (Peng et al. 2023): FACTOR times ORIGINAL positions.
ORIGINAL is what the weights were trained for: the configuration's max_position_embeddings by default, or the 32,768 that
Qwen's cards tell for QwQ-32B and Qwen3, whose configurations add 8,192 for an answer. No weights are read or written.
"""

import json
import os
import sys
from pathlib import Path

QWEN = {40_960: 32_768}


def make(folder: Path, new: Path, factor: float, original: int | None = None) -> int:
    """The number of positions of the model in `new`."""
    config = json.loads((folder / "config.json").read_text())
    had = int(config["max_position_embeddings"])
    original = original or QWEN.get(had, had)
    config["rope_scaling"] = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    config["max_position_embeddings"] = int(factor * original)
    new.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name != "config.json":
            os.symlink(path.resolve(), new / path.name)
    (new / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return int(config["max_position_embeddings"])


def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    folder, new, factor, *original = sys.argv[1:]
    if not (Path(folder) / "config.json").is_file():
        sys.exit(f"{folder}: has no config.json: hf download MODEL --local-dir {folder}")
    if Path(new).exists():
        sys.exit(f"{new}: is there already")
    print(f"{make(Path(folder), Path(new), float(factor), *map(int, original)):,} positions")


if __name__ == "__main__":
    main()
