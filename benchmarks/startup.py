"""Seconds from start to finished `--help`, for every command: median of several runs."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 7


def main() -> None:
    print(f"{'command':16} {'median s':>8} {'worst s':>8}")
    for path in sorted((Path(__file__).parent.parent / "bin").iterdir()):
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            subprocess.run(
                [str(Path(sys.executable).parent / path.name), "--help"], check=True, stdout=subprocess.DEVNULL
            )
            seconds.append(time.perf_counter() - started)
        print(f"{path.name:16} {statistics.median(seconds):8.3f} {max(seconds):8.3f}")


if __name__ == "__main__":
    main()
