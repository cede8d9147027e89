"""Write docs/pictures: the page of two sets of graded rollouts and a training run, in a headless Chromium.

    python docs/make_pictures.py --train-steps steps.jsonl before.jsonl after.jsonl

Needs chromium and chromedriver. The sets are named after their files. The rollout shown is the second set's first with
a medal, or else its first.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent / "pictures"
READY = "return document.documentElement.dataset.ready === 'yes'"
OPENED = "return document.querySelectorAll('#viewer-body details').length > 0"
# name, width, height, whether a phone, theme, what is at the top: a section, or the rollout
SHOTS = (
    ("report-overview", 1280, 1250, False, "light", "overview"),
    ("report-training", 1280, 900, False, "light", "training"),
    ("report-rollout", 1280, 1100, False, "light", "rollout"),
    ("report-phone", 390, 844, True, "light", "overview"),
    ("report-dark", 1280, 1250, False, "dark", "medals"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-steps", type=Path, required=True)
    parser.add_argument("files", nargs=2, type=Path)
    given = parser.parse_args()
    rollouts = [json.loads(line) for line in given.files[1].open(encoding="utf-8")]
    shown = next((each for each in rollouts if each["grade"]["medal"]), rollouts[0])["id"]
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        page = Path(folder) / "report.html"
        report = Path(sys.executable).parent / "mle-report"
        options = ("--html", "--train-steps", given.train_steps, "-o", page)
        subprocess.run([report, "-q", *options, *given.files], check=True)
        for name, width, height, phone, theme, top in SHOTS:
            size = {"width": width, "height": height, "deviceScaleFactor": 1.5 if phone else 1, "mobile": phone}
            chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            still = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
            chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", still)
            chromium.get("about:blank")
            chromium.get(f"file://{page}#{shown if top == 'rollout' else top}")
            until(chromium, OPENED if top == "rollout" else READY)
            chromium.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
            chromium.save_screenshot(str(PICTURES / f"{name}.png"))


def browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(options, Service(shutil.which("chromedriver")))


def until(chromium: Any, script: str) -> None:
    for _ in range(600):
        if chromium.execute_script(script):
            return
        time.sleep(0.05)
    raise SystemExit(f"not within 30 s: {script}")


if __name__ == "__main__":
    main()
