"""The package: a wheel and an sdist from the tracked files, installed into a clean environment, with all their data."""

import configparser
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import COMMANDS, ROOT

import mletools


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_version_is_that_of_the_changelog_and_the_citation() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert first and cited and first[1] == cited[1] == mletools.__version__


def test_what_an_installer_makes_of_a_command_is_what_stands_in_bin() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    points = config["options.entry_points"]["console_scripts"].strip().split("\n")
    installed = dict(re.split(r" = (?=mletools\.)", point.removesuffix(":main")) for point in points)
    assert sorted(installed) == ["mle", *COMMANDS]
    for name, module in installed.items():
        lines = (ROOT / "bin" / name).read_text().split("\n")
        assert lines[:2] == ["#!/usr/bin/env python3", f"from {module} import main"]
        assert find_spec(module), module


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    rooms = [json.loads(line) for line in run(sys.executable, ROOT / "benchmarks" / "house.py", cwd=ROOT).splitlines()]
    assert rooms[-1]["room"] == "all" and rooms[-1]["circles"] == []


@pytest.mark.slow
def test_what_is_built_installs_and_works(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: which files are tracked is unknown")
    source = tmp_path / "source"
    source.mkdir()
    run("sh", "-c", f"git ls-files -z | xargs -0 tar -c | tar -x -C {source}", cwd=ROOT)
    build = "from setuptools import build_meta as b; b.build_sdist('../dist')"
    run(sys.executable, "-c", build, cwd=source)
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    run(sys.executable, "-c", "from setuptools import build_meta as b; b.build_wheel('../../dist')", cwd=unpacked)
    (wheel,) = (tmp_path / "dist").glob("*.whl")

    data = [path.relative_to(ROOT / "mletools") for path in (ROOT / "mletools").rglob("*")]
    kept = {str(path) for path in data if path.suffix in (".json", ".jsonl", ".md", ".css", ".js", ".html", ".typed")}
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    kept |= {f"schemas/{path.name}" for path in (ROOT / "schemas").iterdir()}  # of a linked folder
    kept |= {"sandbox/Dockerfile", "sandbox/Dockerfile.ml", "sandbox/constraints-ml.txt"}
    assert {f"mletools/{name}" for name in kept} <= packed
    assert not [name for name in packed if "/scripts/" in name]  # uv, pipx and conda make their own

    # A clean environment that has the dependencies of this one, but not this checkout.
    run(sys.executable, "-m", "venv", "--without-pip", "clean", cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    (packages,) = (tmp_path / "clean" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(pytest.__file__).parents[1]) + "\n")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel, cwd=tmp_path)
    where = run(python, "-c", "import mletools; print(mletools.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(packages)
    for command in COMMANDS:
        assert run(tmp_path / "clean" / "bin" / command, "--version", cwd=tmp_path).startswith(command)
    made = run(tmp_path / "clean/bin/mle-gen-task", "-q", "--source", "sklearn:iris", "--backend", "none", cwd=tmp_path)
    assert '"kind": "task"' in made
