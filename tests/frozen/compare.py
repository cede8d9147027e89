"""Whether the commands still write what they wrote: `make frozen`, before and after a change that should change nothing.

Runs the lines of `cases`, two at a time, normalises what they write and compares it with `digests.jsonl` and `outputs.tar.xz`.
For a case that changed it prints the first record that differs, field by field; those whose input changed are listed
behind. OUT keeps what this run wrote.

    python tests/frozen/compare.py OUT [--update] [--jobs N] [CASE...]     (a case brings those that it reads)

A case writes to standard output and to its folder: records are normalised, text stays as it is, files in subfolders
(tasks) are compared by size and digest. The next case reads what was normalised, so that a page or a table with times
in it is compared as well. Equal values in another order of keys are a change that is reported as such.

Not covered: messages on standard error, failures (tests/cases has both), Docker, Ray, model servers, GPUs.
"""

import argparse
import difflib
import hashlib
import importlib.metadata
import io
import json
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DIGESTS, OUTPUTS = HERE / "digests.jsonl", HERE / "outputs.tar.xz"
# What a run measures and what a machine decides, by name, or by the name of the field around it and its own. A number
# becomes 1, a text "", an object {}; null stays.
VOLATILE = frozenset(
    {
        "duration_s",
        "tokens_per_s",
        "cpu_s",
        "peak_memory_mb",
        "elapsed_s",
        "began_s",
        "estimated_s",
        "seconds",
        "protections",
        "lineage.version",
    }
)
# What a machine decides and older records have not: left out, by the names of the field around it and its own.
GONE = frozenset({"execution.machine"})
# An agent in turns is told how long its programs took, in whole seconds; so the length of its prompts is volatile, too.
TOLD = {
    "content": (
        (r"\bafter \d+ s\b", "in less than a second"),
        (r"\b(debug_time|estimated_time): [\d.]+", r"\1: 1.0"),
    )
}
IN_TURNS = frozenset({"prompt_tokens"})
# Floating point of torch, which differs between CPUs in the last digits: four significant digits and four decimals stay.
ROUNDED = frozenset({"loss", "grad_norm", "entropy", "sampler_kl", "largest_ratio", "logprobs"})
DIGITS = 4
TEMPORARY = "/tmp/mletools-frozen-xxxxxxxx"  # of this length, and written like this in outputs
# Libraries whose versions decide what is written.
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "pillow", "torch", "transformers", "trl", "matplotlib")
# Cases repeat each other, so they are compressed as one.
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 24}]
SHOWN = 8  # fields of a record that differ, lines of a text


@dataclass
class Case:
    """A line of bash. `reads`: the cases whose outputs it names."""

    name: str
    command: str
    reads: set[str] = field(default_factory=set)


def read_cases(text: str) -> dict[str, Case]:
    """`NAME: COMMAND`, continued by lines that are indented. @NAME is the output of a case, @NAME/FILE a file of it."""
    joined = re.sub(r"\n[ \t]+(?=\S)", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    cases = {}
    for line in filter(str.strip, joined.split("\n")):
        name, _, command = line.partition(":")
        cases[name] = Case(name, command.strip(), set(re.findall(r"(?<!\S)@([\w-]+)", command)))
        if unknown := cases[name].reads - cases.keys():
            raise SystemExit(f"{name} reads {', '.join(sorted(unknown))}, which no case before it writes")
    return cases


def chosen(cases: dict[str, Case], names: list[str]) -> dict[str, Case]:
    """The cases of these names (all: without names) with those that they read, in the order of the file."""
    if unknown := set(names) - cases.keys():
        raise SystemExit(f"no case {', '.join(sorted(unknown))}; known are {', '.join(cases)}")
    wanted, left = set(), list(names or cases)
    while left:
        name = left.pop()
        wanted.add(name)
        left += cases[name].reads - wanted
    return {name: case for name, case in cases.items() if name in wanted}


# ---- running


class Run:
    """A temporary folder with a data folder that the cases share, and a folder for each case.

    Programs' tracebacks show where Python and the libraries lie, and agents are shown tracebacks, whose lengths count.
    So everything, a link to this environment too, lies in a folder whose path has one length, in whatever checkout.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=TEMPORARY[:-8].rpartition("/")[2], dir="/tmp"))
        self.folder.chmod(0o755)
        data = self.folder / "data"
        shutil.copytree(HERE / "tasks", data / "tasks")
        for name in ("outputs", "cases", "runs", "home", "bin"):
            (self.folder / name).mkdir()
        venv, real = self.folder / "venv", Path(sys.prefix)
        venv.symlink_to(real)
        for script in (real / "bin").glob("mle-*"):
            launcher = self.folder / "bin" / script.name
            launcher.write_text(f'#!/bin/sh\nexec {venv}/bin/python {venv}/bin/{script.name} "$@"\n')
            launcher.chmod(0o755)
        subprocess.run([sys.executable, HERE / "inputs.py", self.folder / "inputs"], check=True)
        # Relative to a case's folder, since records hold some paths as they were given.
        self.environment = {
            "PATH": f"{self.folder}/bin:{venv}/bin:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": f"/tmp/mletools-tests-{os.geteuid()}",
            "TMPDIR": "/tmp",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "MLE_DATA": str(data),
            "TASKS": "../../data/tasks/tasks.jsonl",
            "INPUTS": "../../inputs",
            "RUNS": "../../runs",
            "FROZEN": str(HERE),
        }

    def close(self, out: Path) -> None:
        """Move what was written, and the messages, to `out`; the rest goes."""
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        shutil.move(self.folder / "outputs", out / "outputs")
        for path in self.folder.glob("cases/*.err"):
            shutil.move(path, out / path.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def play(self, case: Case) -> tuple[str, float, float]:
        """(the normalised output of a case, wall seconds, CPU seconds of the processes that were waited for)."""
        cases = self.folder / "cases"
        folder, out, err = (cases / f"{case.name}{ending}" for ending in ("", ".out", ".err"))
        folder.mkdir()
        command = re.sub(r"(?<!\S)@([\w-]+)(?!\S*/)", r"../\1.out", case.command)
        command = re.sub(r"(?<!\S)@([\w-]+)/", r"../\1/", command)
        line = ["bash", "-o", "pipefail", "-ec", command]
        began = time.monotonic()
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            started = subprocess.Popen(
                line, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )
            _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        out.write_text(text := self._normalised(out.read_bytes().decode()))
        text += "".join(self._listed(folder))
        if started.returncode:
            text += f"\nexit code {started.returncode}: {err.read_text()[-1000:]}\n"
        (self.folder / "outputs" / f"{case.name}.txt").write_text(text)
        return text, seconds, used.ru_utime + used.ru_stime

    def _normalised(self, text: str) -> str:
        return normalised(text.replace(str(self.folder), TEMPORARY))

    def _listed(self, folder: Path) -> list[str]:
        """The files of a case: text in the folder itself as a whole, records normalised; others by size and digest."""
        lines = []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            name = path.relative_to(folder).as_posix()
            text = content.decode(errors="replace")
            if path.parent == folder and path.suffix in (".jsonl", ".json"):
                path.write_text(text := self._normalised(text))
            if path.parent == folder and "\0" not in text:
                lines.append(f"file {name}\n{text}")
            else:
                lines.append(json.dumps({"file": name, "bytes": len(content), "sha256": sha256(content)}) + "\n")
        return lines


def play_all(run: Run, cases: dict[str, Case], jobs: int) -> dict[str, str]:
    """The normalised output of each case; a case begins when those that it reads are done."""
    outputs: dict[str, str] = {}
    waiting = list(cases.values())
    running: dict[Future[tuple[str, float, float]], Case] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while waiting or running:
            for case in [case for case in waiting if case.reads <= outputs.keys()][: jobs - len(running)]:
                running[pool.submit(run.play, case)] = case
                waiting.remove(case)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                case = running.pop(future)
                outputs[case.name], seconds, used = future.result()
                told = f"{len(outputs):3} of {len(cases)}  {seconds:6.1f} s, {used:5.1f} of CPU  {case.name}"
                print(told, file=sys.stderr, flush=True)
    return {name: outputs[name] for name in cases}


# ---- what is compared


def normalised(text: str) -> str:
    """JSON Lines with what is volatile replaced; other text as it is."""
    try:
        found = [json.loads(line) for line in text.split("\n") if line.strip()]
    except ValueError:
        return text
    if not all(isinstance(record, dict) for record in found):
        return text
    return "".join(json.dumps(settled(record), ensure_ascii=False) + "\n" for record in found)


def settled(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what is volatile."""
    in_turns = record.get("scaffold", "single") != "single"
    return _settled(record, "", "", VOLATILE | IN_TURNS if in_turns else VOLATILE)


def _settled(value: Any, name: str, around: str, volatile: frozenset[str]) -> Any:
    """The value of the field `name` in the object of the field `around`."""
    if value is not None and not isinstance(value, list) and {name, f"{around}.{name}"} & volatile:
        return "" if isinstance(value, str) else {} if isinstance(value, dict) else type(value)(1)
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if f"{name}.{key}" not in GONE}
        return {key: _settled(each, key, name, volatile) for key, each in kept.items()}
    if isinstance(value, list):
        return [_settled(each, name, around, volatile) for each in value]
    if isinstance(value, float) and name in ROUNDED:
        return float(f"{round(value, DIGITS):.{DIGITS}g}")
    if isinstance(value, str):
        for pattern, words in TOLD.get(name, ()):
            value = re.sub(pattern, words, value)
    return value


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def difference(before: str, after: str) -> list[str]:
    """Lines for people: how many records differ, and the first of them field by field."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    pairs = [(at, *pair) for at, pair in enumerate(zip(old, new, strict=False), 1) if pair[0] != pair[1]]
    lines = [f"  {len(pairs)} of {len(old)} lines differ" + (f", now {len(new)}" if len(old) != len(new) else "")]
    parsed = [(at, _record(a), _record(b)) for at, a, b in pairs]
    values = [(at, a, b) for at, a, b in parsed if a is None or b is None or _sorted(a) != _sorted(b)]
    if pairs and not values and len(old) == len(new):
        return [*lines, "  only the order of keys", *_order(parsed[0][1], parsed[0][2])]
    if values and values[0][1] is not None and values[0][2] is not None:
        at, a, b = values[0]
        told = list(_fields(a, b, ""))
        more = [f"  and {len(told) - SHOWN} more fields"] if len(told) > SHOWN else []
        return [*lines, f"  line {at}, {a.get('kind', 'record')} {a.get('id', '')}", *told[:SHOWN], *more]
    changes = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    return [*lines, *(f"  {line[:300]}" for line in changes[:SHOWN])]


def _record(line: str) -> Any:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _sorted(value: Any) -> str:
    """As text, in which 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def _fields(old: Any, new: Any, path: str) -> list[str]:
    """A line for each field that differs: its path, its old and its new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*old, *(key for key in new if key not in old)]:
            name = f"{path}.{key}" if path else key
            if key not in new:
                found.append(f"    {name}: {_brief(old[key])} is gone")
            elif key not in old:
                found.append(f"    {name}: new, {_brief(new[key])}")
            else:
                found += _fields(old[key], new[key], name)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for at, (a, b) in pairs for line in _fields(a, b, f"{path}[{at}]")]
    if _sorted(old) == _sorted(new):
        return []
    if isinstance(old, str) and isinstance(new, str):
        at = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        start = max(0, at - 30)
        return [f"    {path}, from character {at} on: {_brief(old[start:])} -> {_brief(new[start:])}"]
    return [f"    {path}: {_brief(old)} -> {_brief(new)}"]


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:160]}..."


def _order(old: Any, new: Any, path: str = "record") -> list[str]:
    """Where the keys of two equal values first come in another order."""
    if isinstance(old, dict):
        if list(old) != list(new):
            return [f"    {path}: {', '.join(old)}", f"    now: {', '.join(new)}"]
        pairs = [(f"{path}.{key}", old[key], new[key]) for key in old]
    elif isinstance(old, list):
        pairs = [(f"{path}[{at}]", *pair) for at, pair in enumerate(zip(old, new, strict=True))]
    else:
        return []
    return next(filter(None, (_order(a, b, name) for name, a, b in pairs)), [])


# ---- the committed state


def committed() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """(the libraries that the digests were made with, a row a case)."""
    if not DIGESTS.exists():
        return {}, {}
    first, *rows = [json.loads(line) for line in DIGESTS.read_text().splitlines()]
    return first, {row["case"]: row for row in rows}


def libraries() -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": ".".join(platform.python_version_tuple()[:2]), "machine": platform.machine(), **versions}


def row_of(name: str, output: str) -> dict[str, Any]:
    content = output.encode()
    return {"case": name, "bytes": len(content), "lines": output.count("\n"), "sha256": sha256(content)}


def kept_outputs() -> dict[str, str]:
    """The committed output of each case."""
    if not OUTPUTS.exists():
        return {}
    with tarfile.open(OUTPUTS) as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]


def update(cases: dict[str, Case], outputs: dict[str, str]) -> None:
    """Write digests and outputs: these, and the committed ones of the other cases."""
    found = {**kept_outputs(), **outputs}
    found = {name: found[name] for name in cases if name in found}
    lines = [libraries(), *(row_of(name, output) for name, output in found.items())]
    DIGESTS.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with lzma.open(OUTPUTS, "wb", filters=XZ) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, output in found.items():
            content = output.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def compare(cases: dict[str, Case], outputs: dict[str, str]) -> int:
    """Print what changed; the exit code."""
    made_with, rows = committed()
    changed = [name for name, output in outputs.items() if rows.get(name) != row_of(name, output)]
    kept = kept_outputs() if changed else {}
    for name in (name for name in changed if not cases[name].reads & set(changed)):
        print(f"\n{name}: {cases[name].command}")
        before = ["  new: make frozen-update keeps it"]
        print("\n".join(difference(kept[name], outputs[name]) if name in kept else before))
    behind = [name for name in changed if cases[name].reads & set(changed)]
    if behind:
        print(f"\nchanged, and so did their input: {', '.join(behind)}")
    other = {name: version for name, version in libraries().items() if made_with and made_with.get(name) != version}
    if changed and other:
        print(
            "\nother versions than those of the digests: " + ", ".join(f"{name} {is_}" for name, is_ in other.items())
        )
    print(f"\n{len(outputs) - len(changed)} of {len(outputs)} cases are as they were")
    return 1 if changed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder for this run; replaced")
    parser.add_argument("names", nargs="*", help="cases (default: all)")
    parser.add_argument("--update", action="store_true", help="write the digests and outputs instead of comparing")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_intermixed_args()
    every = read_cases((HERE / "cases").read_text())
    cases = chosen(every, options.names)
    began = time.monotonic()
    run = Run()
    try:
        outputs = play_all(run, cases, options.jobs)
    finally:
        run.close(options.out)
    for name, output in outputs.items():
        for line in (line for line in output.splitlines() if line.startswith("exit code ")):
            print(f"{name} failed: {line}", file=sys.stderr)
    if options.update:
        update(every, outputs)
        return 0
    code = compare(cases, outputs)
    print(f"{time.monotonic() - began:.0f} s; what was written: {options.out}/outputs", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
