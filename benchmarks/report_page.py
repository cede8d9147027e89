"""How large mle-report's page is, how long it takes to write, and how long a browser takes to open it.

    python benchmarks/report_page.py --run-dir runs/report-page [--rollouts 5000] [--single 8] [--react 3] [FILES]

Without FILES the scripted model's rollouts on the seven tasks of examples/tasks are made and graded: --single of one
answer a task and --react in turns. They are repeated, each with an id and a line of text of its own, up to --rollouts
(0: as they are). Opening is measured in a headless Chromium from the address to the finished table, and to the end of
the file, once without measuring and then --repeats times; then a rollout is opened, a random one each time. --pages
(after FILES) measures pages that are written already, such as those of two versions.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tabulate import tabulate

TASKS = Path(__file__).parent.parent / "examples" / "tasks"
READY = "return document.documentElement.dataset.ready === 'yes'"
LOADED = "return document.readyState === 'complete'"
OPENED = "return document.querySelectorAll('#viewer-body details').length > 0"


def command(name: str, *options: Any) -> list[str]:
    return [str(Path(sys.executable).parent / name), *map(str, options)]


def made(folder: Path, given: argparse.Namespace) -> list[Path]:
    """Graded rollouts of two scaffolds, unless they are there."""
    os.environ["MLE_DATA"] = str(folder)
    tasks = folder / "tasks.jsonl"
    if not tasks.exists():
        shutil.copytree(TASKS, folder / "tasks")
        shutil.copy(TASKS / "tasks.jsonl", tasks)
    found = []
    for name, size in (("single", given.single), ("react", given.react)):
        path = folder / f"{name}.jsonl"
        asked = command("mle-rollout", "-m", "scripted", "--scaffold", name, "-g", size, tasks)
        lines = [asked, command("mle-instrument"), command("mle-sandbox"), command("mle-grade", "-o", path)]
        if not path.exists():
            pipe: list[subprocess.Popen[bytes]] = []
            for line in lines:
                source = pipe[-1].stdout if pipe else subprocess.DEVNULL
                pipe.append(subprocess.Popen([*line, "-q"], stdin=source, stdout=subprocess.PIPE))
            if any(process.wait() for process in pipe):
                raise SystemExit(f"{path}: the pipe failed")
        found.append(path)
    return found


def repeated(files: list[Path], folder: Path, count: int) -> list[Path]:
    """The rollouts of the files, repeated up to `count` in all; a copy differs in its id and a line of its messages."""
    by_file = {path: [json.loads(line) for line in path.open(encoding="utf-8")] for path in files}
    number = itertools.count()
    paths = []
    for path, records in by_file.items():
        paths.append(folder / f"repeated-{path.name}")
        with paths[-1].open("w", encoding="utf-8") as sink:
            for record in itertools.islice(itertools.cycle(records), count // len(files)):
                words = hashlib.sha256(str(at := next(number)).encode()).hexdigest()
                record["messages"] = [{**each, "content": f"{each['content']}\n{words}"} for each in record["messages"]]
                sink.write(json.dumps({**record, "id": f"{words[:8]}{at:08x}", "sample": at}) + "\n")
                record["messages"] = [{**each, "content": each["content"][:-65]} for each in record["messages"]]
    return paths


def browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.page_load_strategy = "none"  # the table is usable before the end of the file
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))


def seconds(page: Any, action: Any, script: str) -> float:
    begun = time.perf_counter()
    action()
    while not page.execute_script(script):
        time.sleep(0.005)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--single", type=int, default=8)
    parser.add_argument("--react", type=int, default=3)
    parser.add_argument("--pages", nargs="+", type=Path, default=[], help="measure these pages of FILES instead")
    parser.add_argument("--rollouts", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    given.run_dir.mkdir(parents=True, exist_ok=True)
    files = given.files or made(given.run_dir.resolve(), given)
    files = repeated(files, given.run_dir, given.rollouts) if given.rollouts else files
    ids = [json.loads(line)["id"] for path in files for line in path.open(encoding="utf-8")]
    pages: dict[str, tuple[Path, str]] = {}
    for name, options in (("short", ()), ("--full", ("--full",))) if not given.pages else ():
        page = (given.run_dir / f"report{len(pages)}.html").resolve()
        begun = time.perf_counter()
        subprocess.run(command("mle-report", "-q", "--html", *options, "-o", page, *files), check=True)
        pages[name] = page, f"{time.perf_counter() - begun:.0f}"
    pages |= {page.name: (page.resolve(), "-") for page in given.pages}
    draw = random.Random(0)
    times: dict[str, tuple[list[float], ...]] = {name: ([], [], []) for name in pages}
    with browser() as chromium:
        for _ in range(given.repeats + 1):
            for name, (page, _) in pages.items():  # in turn, so that a busy minute is of both
                chromium.get("about:blank")
                seconds(chromium, lambda: None, "return location.href === 'about:blank'")
                table = seconds(chromium, partial(chromium.get, f"file://{page}"), READY)
                whole = table + seconds(chromium, lambda: None, LOADED)
                chosen = f"location.hash = 'rollout={draw.choice(ids)}'"
                rollout = seconds(chromium, partial(chromium.execute_script, chosen), OPENED)
                for of, took in zip(times[name], (table, whole, rollout), strict=True):
                    of.append(took)
    rows = []
    for name, (page, took) in pages.items():
        shown = [f"{statistics.median(each[1:]):.2f} ({max(each[1:]):.2f})" for each in times[name]]
        rows.append([name, len(ids), f"{page.stat().st_size / 1e6:.1f}", took, *shown])
    head = ["page", "rollouts", "MB", "s to write", "s to the table, median (most)", "s to the end", "s to a rollout"]
    print(tabulate(rows, head, tablefmt="github"))


if __name__ == "__main__":
    main()
