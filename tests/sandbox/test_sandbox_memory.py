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
from itertools import count
from pathlib import Path

import pytest
from solving import make_public, run

from mletools.base.errors import ToolError
from mletools.sandbox import Setup, seccomp
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.memory_watch import MemoryWatch

REFUSED, ALLOWED, IGNORED = 0x00050000 | errno.EPERM, 0x7FFF0000, 0x00050000


def verdict(program: bytes, number: int, *arguments: int, arm: bool) -> int:
    """What a filter answers to a call; the few instructions that ours use."""
    words = dict(zip(range(16, 64, 8), arguments, strict=False))
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
    calls += [(fcntl, 3, 1031), (setsockopt, 3, 1, 7), (setsockopt, 3, 1, 32), (setsockopt, 3, 1, 26), (prctl, 4)]
    for call in calls:
        assert verdict(uncounted, *call, arm=arm) == REFUSED, call
        assert verdict(counted, *call, arm=arm) == ALLOWED, call
    for call in ((fcntl, 3, 4), (setsockopt, 3, 1, 8), (setsockopt, 3, 6, 7), (prctl, 15), (socket, 1)):
        assert verdict(uncounted, *call, arm=arm) == verdict(counted, *call, arm=arm) == ALLOWED, call
    for program in (uncounted, counted):
        assert verdict(program, socket, 2, arm=arm) == 0x00050000 | errno.EAFNOSUPPORT
        assert verdict(program, 117 if arm else 101, arm=arm) == REFUSED  # ptrace, as ever


@pytest.mark.parametrize("arm", [False, True])
def test_calls_from_one_run_to_another_are_refused_or_do_nothing(arm: bool) -> None:
    program = seccomp.build([1], arm)
    fcntl, madvise, preadv2, fadvise, msync, prctl = (
        (25, 233, 286, 223, 227, 167) if arm else (72, 28, 327, 221, 26, 157)
    )
    nowait = (preadv2, 3, 0, 1, 0, 0, 8)
    assert verdict(program, *nowait, arm=arm) == 0x00050000 | errno.EOPNOTSUPP
    for call in ((fcntl, 3, 1024), (fcntl, 3, 1026), (prctl, 22)):
        assert verdict(program, *call, arm=arm) == REFUSED, call
    for call in ((madvise, 0, 4096, 20), (madvise, 0, 4096, 21), (fadvise, 3, 0, 0, 4), (msync, 0, 4096, 4)):
        assert verdict(program, *call, arm=arm) == IGNORED, call
    for numbers in seccomp.IGNORED.values():
        assert verdict(program, numbers[arm] or 0, arm=arm) == IGNORED, numbers
    plain = (
        (preadv2, 3, 0, 1, 0, 0, 0),
        (fadvise, 3, 0, 0, 2),
        (madvise, 0, 4096, 4),
        (msync, 0, 4096, 1),
        (fcntl, 3, 6),
    )
    for allowed in plain:
        assert verdict(program, *allowed, arm=arm) == ALLOWED, allowed


@pytest.mark.parametrize("arm", [False, True])
def test_settings_are_a_processs_own(arm: bool) -> None:
    """The first process of a pid namespace is 1; without one a process sets itself only."""
    inside, alone = seccomp.build([1], arm), seccomp.build([], arm, own=77)
    column = 1 if arm else 0
    for numbers in ((302, 261), (203, 122), (142, 118), (144, 119), (314, 274)):
        call = numbers[column]
        assert [verdict(inside, call, pid, arm=arm) for pid in (0, 1, 5, 77)] == [ALLOWED, REFUSED, ALLOWED, ALLOWED]
        assert [verdict(alone, call, pid, arm=arm) for pid in (0, 1, 5, 77)] == [ALLOWED, REFUSED, REFUSED, ALLOWED]
    for numbers, process, user in (((141, 140), 0, 2), ((251, 30), 1, 3)):
        call = numbers[column]
        assert [verdict(inside, call, process, pid, arm=arm) for pid in (0, 1, 5)] == [ALLOWED, REFUSED, ALLOWED]
        assert [verdict(alone, call, process, pid, arm=arm) for pid in (0, 1, 77)] == [ALLOWED, REFUSED, ALLOWED]
        assert [verdict(program, call, user, 0, arm=arm) for program in (inside, alone)] == [REFUSED, REFUSED]


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
    "epoll entries": ("import select\none = libc.eventfd(0, 0)\nnumbers = [os.dup(one) for _ in range(500)]\nkept = [select.epoll() for _ in range(400)]\nfor each in kept:\n    for number in numbers: each.register(number, 1)", 30, 120),
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
        # The machine's records, as if they were more at each look.
        slab = count(0, 1 << 30)
        monkeypatch.setattr(memory_watch, "_slab_bytes", lambda: next(slab))
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
