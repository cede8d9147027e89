"""Memory where no cgroup counts it: what the watcher sees, and which calls are refused there and nowhere else."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from solving import make_public, run

from mletools.records.errors import ToolError
from mletools.sandbox import Setup, seccomp
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.memory_watch import MemoryWatch

REFUSED, ALLOWED = 0x00050000 | errno.EPERM, 0x7FFF0000


def verdict(program: bytes, number: int, *arguments: int, arm: bool) -> int:
    """What a filter answers to a call; the few instructions that ours use."""
    words = dict(zip((16, 24, 32), arguments, strict=False))
    words.update({0: number, 4: 0xC00000B7 if arm else 0xC000003E})
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, held = 0, 0
    while True:
        code, when_true, when_false, value = steps[at]
        at += 1
        if code == 0x20:
            held = words.get(value, 0)
        elif code == 0x06:
            return int(value)
        else:
            true = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            at += when_true if true else when_false


@pytest.mark.parametrize("arm", [False, True])
def test_calls_that_could_hide_memory_are_refused_where_no_cgroup_counts_it(arm: bool) -> None:
    uncounted, counted = (seccomp.build([1], arm, counted=counted) for counted in (False, True))
    fcntl, setsockopt, prctl, socket = (25, 208, 167, 198) if arm else (72, 54, 157, 41)
    calls: list[tuple[int, ...]] = [(numbers[arm] or 0,) for numbers in seccomp.UNCOUNTED.values()]
    calls += [(fcntl, 3, 1031), (setsockopt, 3, 1, 7), (setsockopt, 3, 1, 32), (prctl, 4)]
    for call in calls:
        assert verdict(uncounted, *call, arm=arm) == REFUSED, call
        assert verdict(counted, *call, arm=arm) == ALLOWED, call
    for call in ((fcntl, 3, 4), (setsockopt, 3, 1, 8), (setsockopt, 3, 6, 7), (prctl, 15), (socket, 1)):
        assert verdict(uncounted, *call, arm=arm) == verdict(counted, *call, arm=arm) == ALLOWED, call
    for program in (uncounted, counted):
        assert verdict(program, socket, 2, arm=arm) == 0x00050000 | errno.EAFNOSUPPORT
        assert verdict(program, 117 if arm else 101, arm=arm) == REFUSED  # ptrace, as ever


HOLD = """
import ctypes, mmap, os, socket, sys, time
libc = ctypes.CDLL(None)
MB = 1 << 20
{code}
print("held", flush=True)
sys.stdin.read()
"""
HOLDS = {
    "resident": ("kept = bytearray(b'x') * (150 * MB)", 140, 260),
    "resident in a child": ("if os.fork() == 0: kept = bytearray(b'x') * (150 * MB); time.sleep(60)\ntime.sleep(1)", 140, 260),
    "shared, touched, dropped": ("kept = mmap.mmap(-1, 150 * MB)\nkept[:] = b'x' * 150 * MB\nkept.madvise(4)", 140, 260),
    "shared and resident": ("kept = mmap.mmap(-1, 150 * MB)\nfor at in range(0, 150 * MB, 4096): kept[at] = 1", 140, 260),
    "sockets": ("kept = [socket.socketpair() for _ in range(400)]", 140, 300),
    "pipes": ("import resource; resource.setrlimit(7, (resource.getrlimit(7)[1],) * 2)\nkept = [os.pipe() for _ in range(2000)]", 120, 260),
    "little": ("kept = [os.pipe() for _ in range(5)], socket.socketpair(), mmap.mmap(-1, MB)", 1, 40),
}  # fmt: skip


@contextmanager
def holder(code: str) -> Iterator[int]:
    """A process that has done `code` and waits; its parent is this process."""
    text = HOLD.format(code=code)
    command = [sys.executable, "-I", "-S", "-c", text]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, 9)


@pytest.mark.parametrize("name", HOLDS)
def test_the_watcher_sees_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, least, most = HOLDS[name]
    with holder(code) as pid:
        from mletools.sandbox import memory_watch

        whole = memory_watch._status
        members = [pid, *memory_watch.descendants(pid)]
        monkeypatch.setattr(memory_watch, "descendants", lambda _: members)
        # The test's process runs under no filter, by which a watcher knows a run's own code.
        monkeypatch.setattr(memory_watch, "_status", lambda each: {**whole(each), "Seccomp": 2})
        for limit in (100.0, 30.0):
            assert least <= MemoryWatch(0, 0, limit).look() <= most, (name, limit)


@pytest.fixture(scope="module")
def uncounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalSandbox, Path]]:
    with LocalSandbox(Setup(1, ("json",)), cgroup=False) as sandbox:
        try:
            _ = sandbox.protections
        except ToolError as error:
            pytest.skip(f"not as this user: {error}")
        yield sandbox, make_public(tmp_path_factory.mktemp("memory"))


def test_honest_programs_are_as_ever_without_a_cgroup(uncounted: tuple[LocalSandbox, Path]) -> None:
    code = """
        import asyncio, multiprocessing, multiprocessing.shared_memory, socket, subprocess, tempfile
        def double(x):
            return 2 * x
        with multiprocessing.Pool(2) as pool:
            print(pool.map(double, range(3)))
        shared = multiprocessing.shared_memory.SharedMemory(create=True, size=10)
        shared.close(); shared.unlink()
        queue = multiprocessing.Queue(); queue.put(1); print(queue.get())
        print(asyncio.run(asyncio.sleep(0, "slept")), subprocess.run(["echo", "ran"], capture_output=True, text=True).stdout)
        with tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 20))
        one, other = socket.socketpair()
        one.send(b"x"); print(other.recv(1))
    """
    outcome = run(uncounted[0], uncounted[1], textwrap.dedent(code), memory_mb=300)
    assert (outcome.status, outcome.stderr) == ("ok", b"")
    assert outcome.stdout == b"[0, 2, 4]\n1\nslept ran\n\nb'x'\n"


def test_memory_of_orphans_counts(uncounted: tuple[LocalSandbox, Path]) -> None:
    code = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                kept = bytearray(b"x") * (400 << 20)
                time.sleep(60)
            os._exit(0)
        time.sleep(20)
    """
    assert run(uncounted[0], uncounted[1], textwrap.dedent(code), memory_mb=150).status == "memory"
