"""Process a stream of items with N workers, as results finish or in order, with a bounded number in flight.

Reading, working and writing overlap, so a result is yielded when it is ready even if the input is silent. Workers are
threads; `processes` gives each a process for work that holds the interpreter lock. Not covered: retries.
"""

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from .errors import ToolError

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()
_children: set[Any] = set()
_starting = threading.Lock()  # a child process starts


def _work_for_parent(work: Callable[[Any], Any], parent: Any) -> None:
    """A worker process: process items until the parent ends, even by kill -9. The parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        while True:
            item = parent.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = (work(item), None)
            except Exception as error:
                answer = (None, error)
            parent.send(answer)
    except (EOFError, BrokenPipeError):
        os._exit(0)


def _in_processes(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`work`, done in a process that belongs to the calling thread."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")  # threads are running: a fork could copy a held lock
    mine = threading.local()

    def call(item: Any) -> Any:
        if not hasattr(mine, "pipe"):
            mine.pipe, theirs = context.Pipe()
            child = context.Process(target=_work_for_parent, args=(work, theirs), daemon=True)
            with _starting:
                child.start()
                _children.add(child)
            theirs.close()
        mine.pipe.send(item)
        try:
            result, error = mine.pipe.recv()
        except EOFError:
            raise ToolError("a worker process died, perhaps because memory ran out") from None
        if error is not None:
            raise error
        return result

    return call


def end_processes() -> None:
    """Kill the worker processes of this command, which exits next; no more are started."""
    # A child whose parent exits during its start prints a traceback. It takes milliseconds: the limit is for a hung one.
    _starting.acquire(timeout=1)
    for child in list(_children):
        child.kill()


def run(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int, keep_order: bool = False, processes: bool = False
) -> Iterator[tuple[Item, Result | None, BaseException | None]]:
    """Yield (item, result, error) for every item; error is what `work` raised on it.

    An exception of `items` is raised here after all earlier results have been yielded.
    """
    if processes and jobs > 1:
        work = _in_processes(work)
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    in_flight = threading.Semaphore(4 * jobs)
    input_errors: list[BaseException] = []

    def feed() -> None:
        count = 0
        try:
            for item in items:
                todo.put((count, item))
                count += 1
                in_flight.acquire()
        except BaseException as error:  # raised again in the caller's thread
            input_errors.append(error)
        for _ in range(jobs):
            todo.put(_END)
        done.put((_END, count, None, None))

    def serve() -> None:
        while (task := todo.get()) is not _END:
            number, item = task
            try:
                done.put((number, item, work(item), None))
            except BaseException as error:  # also SystemExit, which would end only this thread
                done.put((number, item, None, error))

    for target in [feed] + [serve] * jobs:
        threading.Thread(target=target, daemon=True).start()
    waiting: dict[int, Any] = {}
    total: int | None = None
    finished = yielded = 0
    while total is None or finished < total:
        number, *answer = done.get()
        if number is _END:
            total = answer[0]
            continue
        waiting[number if keep_order else finished] = answer
        finished += 1
        while yielded in waiting:
            yield tuple(waiting.pop(yielded))
            yielded += 1
            in_flight.release()
    if input_errors:
        raise input_errors[0]
