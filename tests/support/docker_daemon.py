"""A Docker daemon and an image for tests, on a machine that may have neither a daemon nor a registry in reach.

Covered: the daemon that DOCKER_HOST names where it has an image for solutions; else, for root with `dockerd` on PATH, a
daemon in a folder of its own and an image of this machine's Python and libraries; all of it gone at the end. Not
covered: a bridge network, which no sandbox uses. As a script: `python tests/support/docker_daemon.py FOLDER` runs such a daemon
until it is interrupted, and prints what to set.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pytest

TEST_IMAGE, SMALL_IMAGE = "mletools-sandbox:test", "mletools-sandbox-small:test"
_IMAGES = (TEST_IMAGE, "mletools-sandbox:latest")
_LIBRARIES = ("pandas", "pillow", "scipy", "scikit-learn")  # and what they need
_PROGRAMS = ("sh", "sleep", "env", "chmod", "rm")
# What mle-grade needs beside them, and the programs that readers of exported tasks need in their image.
GRADER_IMAGE = "mletools-tasks:test"
_GRADER = (
    *_LIBRARIES,
    "click",
    "json-repair",
    "jsonlines",
    "tqdm",
    "msgspec",
    "rapidfuzz",
    "rich",
    "tabulate",
    "urllib3",
)
_READERS = ("bash", "mkdir", "dirname", "cat", "ls", "timeout", "tar", "gzip", "find")


_FILES = ("/etc/passwd", "/etc/group", "/usr/lib/locale/C.utf8", "/usr/lib/terminfo")  # of a terminal's user


@dataclass
class Daemon:
    """A daemon that answers at `host` and has the image `given`; `folder` is None where it is not ours.

    One of ours is given its images when they are first asked for.
    """

    host: str
    given: str | None = None
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def image(self) -> str:
        """An image of Python and the libraries that solutions use."""
        return self.given or self._make(TEST_IMAGE, _LIBRARIES)

    @cached_property
    def small(self) -> str:
        """An image for tests that need no library: of Python alone, which is made sooner."""
        return self.given or self._make(SMALL_IMAGE, ())

    @cached_property
    def grader(self) -> str:
        """An image as `make image KIND=tasks` builds it: the libraries, mletools itself, bash."""
        return self._make(GRADER_IMAGE, _GRADER, _READERS)

    def _make(self, image: str, libraries: tuple[str, ...], programs: tuple[str, ...] = ()) -> str:
        assert self.folder is not None
        make_image(self.host, self.folder, image, libraries, programs)
        return image

    def start(self) -> None:
        """Start it, also once more after `stop`: the image is still there."""
        assert self.folder is not None
        switches = "--bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false"
        places = [
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/dockerd.pid",
            f"--host={self.host}",
        ]
        with open(self.folder / "log", "ab") as log:
            command = ["dockerd", *places, *switches.split(), "--userland-proxy=false", "--shutdown-timeout=2"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 60
        while not answers(self.host):
            if self.process.poll() is not None or time.monotonic() > end:
                last = (self.folder / "log").read_text(errors="replace").strip().splitlines()[-1:]
                self.stop()
                raise RuntimeError(f"dockerd does not start: {' '.join(last)}")
            time.sleep(0.1)
        threading.Thread(target=self._revive, args=(self.process,), daemon=True).start()

    def _revive(self, process: subprocess.Popen[bytes]) -> None:
        """Start it again where it ends and nobody asked it to; its log is kept, and told as a warning."""
        assert self.folder is not None
        code = process.wait()
        with self._lock:
            if self.process is process:
                self.process = None
                text = (self.folder / "log").read_text(errors="replace")
                Path(tempfile.gettempdir(), "mle-dockerd-ended.log").write_text(text)
                last = "\n".join(text.splitlines()[-30:])
                warnings.warn(f"dockerd ended by itself with exit code {code} after\n{last}", stacklevel=1)
                self.start()

    def stop(self) -> None:
        """End it with its containers; only a daemon of ours."""
        with self._lock:
            process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(host: str) -> bool:
    """Whether a daemon serves at `host`."""
    import docker

    # With a version given nothing is asked yet, so that a daemon that does not answer leaves no connection behind.
    client = docker.APIClient(base_url=host, version="1.41", timeout=10)
    try:
        return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False
    finally:
        client.close()


def _image_of(host: str) -> str | None:
    import docker

    client = docker.DockerClient(base_url=host)
    try:
        for name in _IMAGES:
            with suppress(docker.errors.ImageNotFound):
                client.images.get(name)
                return name
        return None
    finally:
        client.close()


def _shared_libraries(files: list[Path]) -> set[str]:
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(?:=> |^\s+)(/\S+)", told, re.MULTILINE))


def _library_files(libraries: tuple[str, ...]) -> list[tuple[Path, str]]:
    found, waiting, seen = [], list(libraries), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        with suppress(importlib.metadata.PackageNotFoundError):
            package = importlib.metadata.distribution(name)
            seen.add(name)
            needs = [re.split(r"[^A-Za-z0-9._-]", need)[0] for need in package.requires or [] if "extra ==" not in need]
            waiting += needs
            for file in package.files or []:
                if ".." not in file.parts and "tests" not in file.parts:
                    found.append((Path(str(package.locate_file(file))), str(file)))
    return [(path, name) for path, name in found if path.is_file()]


def write_grader(target: Path, programs: tuple[str, ...]) -> None:
    """A tar archive of a root file system as `make image KIND=tasks` builds it, with more programs."""
    write_root(target, _GRADER, (*_READERS, *programs))


def write_root(target: Path, libraries: tuple[str, ...], more: tuple[str, ...] = ()) -> None:
    """A tar archive of a root file system with this Python, its standard library and `libraries`.

    more: programs beside the usual ones; with any, mletools and its commands, /workdir and a terminal's files lie there, too.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, stdlib = Path(sys.base_prefix), Path(os.__file__).parent
    left_out = {"site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "ensurepip"}

    def keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if left_out.intersection(entry.name.split("/")[4:]) or entry.name.split("/")[-1].startswith("config-"):
            return None
        return public(entry)

    def public(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o100 else 0o444
        return entry

    # Times are kept: Python would compile everything anew, in every container, if they did not fit the .pyc files.
    with tarfile.open(target, "w") as archive:
        for name in ("tmp", "proc", "sys", "dev", "etc", "var", "usr/bin", "usr/lib", "usr/lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name in ("bin", "lib", "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(entry)
        archive.add(stdlib, f"usr/local/lib/{version}", filter=keep)
        python = Path(os.path.realpath(sys.executable))
        archive.add(python, f"usr/local/bin/{version}", filter=public)
        entry = tarfile.TarInfo("usr/local/bin/python3")
        entry.type, entry.linkname = tarfile.SYMTYPE, version
        archive.addfile(entry)
        files = _library_files(libraries)
        for path, name in files:
            archive.add(path, f"usr/local/lib/{version}/site-packages/{name}", filter=public)
        entry = tarfile.TarInfo(f"usr/local/lib/{version}/dist-packages")  # where Debian's Python looks
        entry.type, entry.linkname = tarfile.SYMTYPE, "site-packages"
        archive.addfile(entry)
        if more:
            for name in ("workdir", "root"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            for name in _FILES:
                if os.path.exists(name):
                    archive.add(os.path.realpath(name), name.lstrip("/"), filter=public)
            _add_package(archive, f"usr/local/lib/{version}/site-packages", public)
        programs = [Path(found) for name in (*_PROGRAMS, *more) if (found := shutil.which(name, path="/usr/bin:/bin"))]
        for path in programs:
            archive.add(os.path.realpath(path), f"usr/bin/{path.name}", filter=public)
        extensions = [path for path, name in files if ".so" in name] + list(stdlib.glob("lib-dynload/*.so"))
        needed = sorted(_shared_libraries([python, *programs, *extensions]))
        home = next(
            os.path.dirname(name) for name in needed if name.startswith(("/lib", "/usr/lib")) and "libc." in name
        )
        inside = {str(path) for path, _ in files}
        for name in needed:
            if name not in inside and ".libs/" not in name:
                own = not name.startswith((str(base), sys.prefix))
                place = name if own else f"{home}/{os.path.basename(name)}"
                place = place.lstrip("/")
                place = place if place.startswith("usr/") else f"usr/{place}"
                archive.add(os.path.realpath(name), place, filter=public)


def _add_package(archive: tarfile.TarFile, place: str, public: Callable[[tarfile.TarInfo], tarfile.TarInfo]) -> None:
    """mletools as it lies here, and its commands."""
    import mletools

    package = Path(mletools.__file__).parent
    for path in sorted(package.rglob("*")):
        if "__pycache__" not in path.parts and path.is_file():
            archive.add(path, f"{place}/mletools/{path.relative_to(package)}", filter=public)
    for path in sorted((package.parent / "bin").iterdir()):
        archive.add(path, f"usr/bin/{path.name}", filter=public)


def make_image(host: str, folder: Path, image: str, libraries: tuple[str, ...], more: tuple[str, ...] = ()) -> None:
    """Import an image with `libraries` into the daemon at `host`, by way of a file in `folder`; more: see write_root."""
    import docker

    archive = folder / "image.tar"
    write_root(archive, libraries, more)
    client = docker.DockerClient(base_url=host, timeout=300)
    try:
        name, tag = image.split(":")
        client.api.import_image_from_file(str(archive), repository=name, tag=tag, changes=["ENV LANG=C.UTF-8"])
        client.images.get(image)
    finally:
        client.close()
        archive.unlink()


def _unmount(folder: Path) -> None:
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in sorted((name for name in mounts if name.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


@contextmanager
def own_daemon(folder: Path) -> Iterator[Daemon]:
    """A daemon with its data in `folder`, which is removed at the end. RuntimeError: it does not start."""
    folder = folder.resolve()
    daemon = Daemon(f"unix://{folder}/docker.sock", None, folder)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[Daemon]:
    """A daemon with an image for solutions. Skips where there is none and none can be started."""
    pytest.importorskip("docker", reason="needs the [docker] extra")
    given = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if answers(given) and (image := _image_of(given)):
        yield Daemon(given, image)
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip(f"no Docker daemon with an image at {given}, and only root with dockerd on PATH can start one")
    # The path of a socket may have 107 characters, so not in pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="mle-docker-"))
    with own_daemon(folder) as daemon:
        yield daemon


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), own_daemon(Path(sys.argv[1])) as running:
        sys.stdout.write(f"DOCKER_HOST={running.host} MLE_SANDBOX_IMAGE={running.image}\n")
        sys.stdout.flush()
        signal.pause()
