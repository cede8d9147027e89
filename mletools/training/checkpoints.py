"""The folder of a training run: numbered checkpoints that are whole or absent, and `latest`, which points at one.

    RUN_DIR/checkpoint-000012/   weights (an adapter or a full model), tokenizer, state.json, trainer/
    RUN_DIR/latest               symbolic link to the checkpoint that counts, replaced in one step
    RUN_DIR/best                 the same, to the one with the best validation reward, where there is validation
    RUN_DIR/lock                 held while a run trains into OUT

A checkpoint is written under a name that ends in .partial, flushed to the disk and renamed, so a killed run leaves
whole checkpoints and at most one .partial that the next run removes. Not covered: checkpoints sharded over hosts.
"""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..base.errors import ToolError, filling
from ..base.output import AnyRecord

STATE = "state.json"
TRAINER_STATE = "trainer"  # a folder
SHARDS = "shards"  # in it
LATEST = "latest"
BEST = "best"
PARTIAL = ".partial"
PREFIX = "checkpoint"


def checkpoint_name(step: int, prefix: str = PREFIX) -> str:
    return f"{prefix}-{step:06d}"


def save(
    out: Path,
    step: int,
    write: Callable[[Path], None],
    state: Mapping[str, object],
    keep: int = 3,
    prefix: str = PREFIX,
    before_latest: Callable[[Path], None] = lambda folder: None,
    best: int | None = None,
) -> Path:
    """Write checkpoint `step` with write(folder) and `state`, make it the latest, and drop all but the last `keep` written.
    best: the step that RUN_DIR/best is to point at; its checkpoint stays.

    `write` fills an empty folder. Nothing is visible under the final name before all of it is on the disk. OSError: the
    disk is full.
    before_latest(folder): called with the whole checkpoint while `latest` still points at the one before.
    """
    final = out / checkpoint_name(step, prefix)
    partial = out / (final.name + PARTIAL)
    out.mkdir(parents=True, exist_ok=True)
    _remove(partial)
    partial.mkdir()
    with filling(partial):
        write(partial)
        (partial / STATE).write_text(json.dumps(state, indent=1, sort_keys=True, allow_nan=False) + "\n")
        for root, _, files in os.walk(partial):
            for name in files:
                sync(Path(root, name))
            sync(Path(root))
    if final.exists():
        before = _set_aside(final)
        os.rename(partial, final)
        shutil.rmtree(before)
    else:
        os.rename(partial, final)
    before_latest(final)
    if best is not None and (out / checkpoint_name(best, prefix)).is_dir():
        _point(out, BEST, checkpoint_name(best, prefix))
    _point(out, LATEST, final.name)
    kept = os.readlink(out / BEST) if (out / BEST).is_symlink() else ""
    # Those of later steps are of a session before, which was gone on with from an earlier checkpoint.
    by_age = sorted(out.glob(f"{prefix}-??????"), key=lambda each: (each.name <= final.name, each.name))
    for old in by_age[: -max(keep, 1)]:
        if old.name not in (final.name, kept):
            shutil.rmtree(_set_aside(old))
    return final


def _point(out: Path, name: str, target: str) -> None:
    link = out / (name + PARTIAL)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.replace(link, out / name)
    sync(out)


def load_latest(out: Path) -> Path | None:
    """The checkpoint that `latest` points at (its own folder, not the link), or None where there is none.

    Raises ToolError when the link points at nothing usable.
    """
    link = out / LATEST
    if not link.is_symlink() and not link.exists():
        return None
    folder = link.resolve()
    if not (folder / STATE).is_file():
        raise ToolError(f"{link}: points at {folder}, which is no checkpoint; point it at one that is, or remove it")
    return folder


def in_use(out: Path) -> ToolError:
    """The error about a folder in which a run was begun, for one that is not resumed."""
    return ToolError(f"{out}: holds a run already: go on with it (--resume), or choose another folder")


def read_state(folder: Path) -> AnyRecord:
    """The state.json of a checkpoint; ToolError when it cannot be read."""
    state: AnyRecord = read_json(folder / STATE)
    return state


def read_json(file: Path) -> Any:
    """The value in a file of a checkpoint; ToolError when it cannot be read."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise broken(file, error) from error


def read_lines(file: Path) -> list[Any]:
    """The values in a JSON Lines file of a checkpoint; ToolError when it cannot be read."""
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
    except (OSError, ValueError) as error:
        raise broken(file, error) from error


def broken(file: Path, error: Exception) -> ToolError:
    """The error about a file of a checkpoint that cannot be read, and what to do."""
    folder = next((each for each in file.parents if each.name.startswith(f"{PREFIX}-")), file.parent)
    older = [each for each in sorted(folder.parent.glob(f"{PREFIX}-??????")) if each.name < folder.name]
    todo = (
        f"ln -sfn {older[-1].name} {shlex.quote(str(folder.parent / LATEST))} lets --resume go on from the one before"
        if older
        else ""
    )
    return ToolError(
        f"{file}: cannot be read ({type(error).__name__}: {error}): the checkpoint is damaged; "
        f"{todo or 'begin in another folder'}"
    )


def policy_version(folder: str | Path) -> int:
    """Number of updates of the model in `folder`: the policy_version of its state.json, 0 without one."""
    path = Path(folder) / STATE
    return int(read_json(path).get("policy_version", 0)) if path.is_file() else 0


def clean(out: Path) -> list[str]:
    """Remove what a killed run left under names ending in .partial; returns the names. Call it under `lock`."""
    leftovers = sorted(
        path for path in out.glob("*" + PARTIAL) if path.name.startswith(("checkpoint-", "policy-", LATEST, BEST))
    )
    for path in leftovers:
        _remove(path)
    return [path.name for path in leftovers]


@contextlib.contextmanager
def lock(out: Path) -> Iterator[None]:
    """Hold RUN_DIR/lock; ToolError when another process trains into `out`. The lock goes with the process."""
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ToolError(f"{out}: another run is training into this folder") from error
        yield


def _set_aside(folder: Path) -> Path:
    """Rename a whole checkpoint to a name that `clean` removes: no moment leaves half of it under its final name."""
    doomed = folder.with_name(folder.name + ".old" + PARTIAL)
    _remove(doomed)
    os.rename(folder, doomed)
    return doomed


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
