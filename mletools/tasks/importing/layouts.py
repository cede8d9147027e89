"""Tells what a folder holds: one competition and of which kind, or many of them.

Only names are looked at. Not covered: reading any of it (prepared, bundle, kaggle, own_table).
"""

from pathlib import Path

from .columns import ENDINGS
from .competitions import benchmarks_of
from .options import AUTHOR, Candidate, Unprepared

# Where each benchmark puts what its preparation made.
PREPARED = {"mle-bench": ("prepared/public", "prepared/private"), "mle-dojo": ("data/public", "data/private")}
# What lies beside that, in a competition that was not prepared or in the benchmark's code.
MARKS = {"mle-bench": ("config.yaml", "grade.py", "raw"), "mle-dojo": ("info", "utils/metric.py", "raw")}


def candidates(path: Path, wanted: str) -> list[Candidate | Unprepared]:
    """What `path` holds: itself, or what its subfolders do. `wanted` is one of FORMATS, AUTHOR or auto."""
    if path.is_file() and wanted != AUTHOR:
        return [_file(path, wanted)]
    if not path.is_dir():
        reason = "no folder, and --record names answers in one" if wanted == AUTHOR else "no such file or folder"
        return [Unprepared(path.name, reason)]
    path = path.resolve()
    if wanted == AUTHOR:
        return [Candidate(AUTHOR, path.name, path)]
    if wanted == "table":
        return [Unprepared(path.name, "a folder, not a table")]
    alone = _one(path, wanted)
    if alone is not None:
        return [alone]
    below = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    found = [(child, _one(child, wanted)) for child in below]
    if not any(one for _, one in found):
        none = "competition: --record describes a folder of another layout"
        return [Unprepared(path.name, f"holds no {none if wanted == 'auto' else wanted + ' competition'}")]
    none = "no competition (no prepared/public, no data/public, no train.csv)"
    return [one or Unprepared(child.name, none) for child, one in found]


def _file(path: Path, wanted: str) -> Candidate | Unprepared:
    if wanted not in ("auto", "table"):
        return Unprepared(path.name, f"a file, not a {wanted} folder")
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if ending is None:
        return Unprepared(path.name, f"not a table that is read here ({', '.join(ENDINGS)})")
    return Candidate("table", path.name[: -len(ending)], path)


def _one(folder: Path, wanted: str) -> Candidate | Unprepared | None:
    """The one competition in `folder`, None where there is none."""
    if folder.name in ("prepared", "data") and ((folder / "public").is_dir() or (folder / "private").is_dir()):
        folder = folder.parent
    public = folder / "prepared" / "public"
    if wanted in ("auto", "sandmle") and (
        (public / "evaluator.py").is_file() or (wanted == "sandmle" and public.is_dir())
    ):
        return Candidate("sandmle", folder.name, folder)
    benchmarks = [benchmark for benchmark in PREPARED if wanted in ("auto", benchmark)]
    for benchmark in benchmarks:
        public, private = (folder / part for part in PREPARED[benchmark])
        if _filled(public) and _filled(private):
            return Candidate(benchmark, folder.name, folder)
    if wanted in ("auto", "kaggle") and any((folder / name).exists() for name in ("train.csv", "train.csv.zip")):
        return Candidate("kaggle", folder.name, folder)
    for benchmark in benchmarks:
        known = benchmark in benchmarks_of(folder.name)
        half = any((folder / part).is_dir() for part in PREPARED[benchmark])
        if known or half or any((folder / mark).exists() for mark in MARKS[benchmark]):
            return Unprepared(folder.name, _lacks(folder, benchmarks if known else [benchmark]))
    if wanted == "sandmle" and (folder / "prepared").is_dir():
        return Unprepared(folder.name, "not prepared (no prepared/public)")
    return None


def _filled(folder: Path) -> bool:
    return folder.is_dir() and next(folder.iterdir(), None) is not None


def _lacks(folder: Path, benchmarks: list[str]) -> str:
    """The first folder that is missing or empty, of the benchmark of which something is there or else of all."""
    begun = [name for name in benchmarks if any((folder / part).is_dir() for part in PREPARED[name])]
    parts = []
    for benchmark in begun[:1] or [name for name in benchmarks if folder.name and name in PREPARED]:
        part = next(part for part in PREPARED[benchmark] if not _filled(folder / part))
        parts.append(f"{part} is empty" if (folder / part).is_dir() else f"no {part}")
    return f"not prepared ({', '.join(parts)})"
