"""Many trajectories at once: does mle-rollout keep a slow model server and the sandbox busy, in flat memory?

    mle-gen-task --source tabular -n 16 -o tasks.jsonl
    python benchmarks/concurrency.py tasks.jsonl [--data DIR] [-j 256] [-n 1024] [--latency 2] [--turns 6]

A server in a process of its own answers every request after LATENCY seconds with the next message of a short script:
programs that train a small model, a request for the score, the answer. N rollouts of scaffold react are played, J in
flight. Told: requests in flight at the server and programs in the sandbox's slots (mean, and the share of time in which
there was at least one), the rate of both, and the memory of the command. A bare loop over the same programs in the
same sandbox, without any agent, says what the sandbox could do at most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tabulate import tabulate

from mletools.sandbox import Limits, Setup, open_sandbox
from mletools.solutions import solution


def programs(task: dict[str, Any], count: int) -> list[str]:
    """Solutions of a task, of the levels in turn."""
    levels = ("linear", "tree", "knn", "stump")
    return [solution(task, levels[at % len(levels)], at) for at in range(count)]


def serve(pipe: Any, scripts: dict[str, list[str]], latency: float) -> None:
    """Answer each request after `latency` with the next message of its task's script; tell what was in flight."""
    in_flight, since, spent, busy, served = 0, time.monotonic(), 0.0, 0.0, 0

    def step(change: int) -> None:
        nonlocal in_flight, since, spent, busy
        now = time.monotonic()
        spent += in_flight * (now - since)
        busy += (in_flight > 0) * (now - since)
        in_flight, since = in_flight + change, now

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                body = json.loads(await reader.readexactly(int(fields[b"content-length"])))
                step(1)
                await asyncio.sleep(latency)
                step(-1)
                served += 1
                script = next(
                    text for name, text in scripts.items() if f"# Task: {name}\n" in body["messages"][1]["content"]
                )
                said = script[sum(message["role"] == "assistant" for message in body["messages"])]
                told = {
                    "choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
                }
                content = json.dumps(told).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        loop = asyncio.get_running_loop()
        while True:
            asked = await loop.run_in_executor(None, pipe.recv)
            step(0)
            pipe.send({"requests": served, "spent": spent, "busy": busy})
            if asked == "end":
                os._exit(0)

    asyncio.run(run())


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def at_most(tasks: list[dict[str, Any]], data: Path, slots: int, count: int) -> float:
    """Programs a second of the sandbox alone."""
    work = [(task, code) for task in tasks for code in programs(task, 4)]
    work = (work * (count // len(work) + 1))[:count]
    with open_sandbox("local", Setup(slots)) as sandbox, ThreadPoolExecutor(slots) as pool:

        def run(item: tuple[dict[str, Any], str]) -> None:
            sandbox.run(item[1], data / item[0]["data"]["dir"] / "public", Limits(), 0)

        list(pool.map(run, work[: 2 * slots]))
        begun = time.perf_counter()
        list(pool.map(run, work))
        return count / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tasks")
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("-j", "--jobs", type=int, default=256)
    parser.add_argument("-n", "--rollouts", type=int, default=1024)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=6)
    given = parser.parse_args()
    with open(given.tasks, encoding="utf-8") as lines:
        tasks = [json.loads(line) for line in lines]
    cores = len(os.sched_getaffinity(0))
    scripts = {}
    for task in tasks:
        runs = [
            f"<think>Next.</think><tool_call>\npython\n<code>\n{code}</code>\n</tool_call>"
            for code in programs(task, given.turns - 2)
        ]
        score = '<think>Score it.</think><tool_call>{"name": "Score", "arguments": {}}</tool_call>'
        scripts[task["name"]] = [*runs, score, "<think>Done.</think><answer>submission</answer>"]
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, scripts, given.latency), daemon=True)
    server.start()
    port = ours.recv()
    group = max(1, given.rollouts // len(tasks))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rollouts.jsonl"
        command = [str(Path(sys.executable).parent / "mle-rollout"), "--scaffold", "react", "-m", "m", "--model-url"]
        command += [f"http://127.0.0.1:{port}", "-g", str(group), "-j", str(given.jobs), "-q", "-o", str(out)]
        command += ["--data", str(given.data), given.tasks]
        begun = time.monotonic()
        process = subprocess.Popen(command)
        memory: list[tuple[float, float]] = []

        def watch() -> None:
            while process.poll() is None:
                memory.append((time.monotonic() - begun, resident_mb(process.pid)))
                time.sleep(1)

        watcher = threading.Thread(target=watch)
        watcher.start()
        process.wait()
        wall = time.monotonic() - begun
        watcher.join()
        ours.send("end")
        told = ours.recv()
        ran = finished = 0.0
        runs_made = 0
        with open(out, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                finished += record["stop_reason"] == "finished"
                for turn in record["turns"]:
                    if "execution" in turn:
                        runs_made += 1
                        ran += turn["execution"]["duration_s"]
    alone = at_most(tasks, given.data, cores, 200)
    halves = [value for at, value in memory if at > wall / 4], [value for at, value in memory if at > 3 * wall / 4]
    rows = [
        ["rollouts, finished", f"{group * len(tasks)}, {finished:.0f}"],
        ["in flight (-j), programs at once", f"{given.jobs}, {cores}"],
        ["wall time", f"{wall:.0f} s"],
        ["requests", f"{told['requests']}, {told['requests'] / wall:.1f} a second"],
        ["requests in flight, mean", f"{told['spent'] / wall:.1f}"],
        ["time with a request in flight", f"{100 * told['busy'] / wall:.1f} %"],
        ["programs", f"{runs_made}, {runs_made / wall:.1f} a second"],
        ["programs running, mean", f"{ran / wall:.2f} of {cores}"],
        ["the sandbox alone", f"{alone:.1f} programs a second"],
        ["share of that", f"{100 * runs_made / wall / alone:.0f} %"],
        ["memory of the command", f"median {statistics.median(halves[0]):.0f} MB after the first quarter, "
         f"{statistics.median(halves[1]):.0f} MB in the last, at most {max(value for _, value in memory):.0f} MB"],
    ]  # fmt: skip
    print(tabulate(rows, tablefmt="github", headers=["", ""]))


if __name__ == "__main__":
    main()
