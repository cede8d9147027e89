"""Do work on a stream of items with N workers: results as they finish or in order, never more in flight than needed.

Reading, working and writing overlap, so a result leaves as soon as it is there even while the input is silent. Workers
are threads; `processes` gives each a process of its own for work that holds the interpreter. No work is retried here.
"""

import multiprocessing.connection
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()


def _end_with_parent() -> None:
    """In a worker process: leave Ctrl-C to the parent, and end when the parent is gone, even by kill -9."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_processes(work: Callable[[Any], Any], jobs: int) -> Callable[[Any], Any]:
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)
    return lambda item: pool.submit(work, item).result()


def run(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int,
    keep_order: bool = False,
    processes: bool = False,
) -> Iterator[tuple[Item, Result | None, Exception | None]]:
    """Yield (item, result, error) for every item, error being what `work` raised on it.

    An exception in `items` itself is raised here after everything read before it has been yielded.
    """
    if processes and jobs > 1:
        work = _in_processes(work, jobs)
    todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    room = threading.Semaphore(4 * jobs)
    trouble: list[BaseException] = []

    def feed() -> None:
        count = 0
        try:
            for item in items:
                todo.put((count, item))
                count += 1
                room.acquire()
        except BaseException as error:  # raised again in the caller's thread
            trouble.append(error)
        for _ in range(jobs):
            todo.put(_END)
        done.put((_END, count, None, None))

    def serve() -> None:
        while (task := todo.get()) is not _END:
            number, item = task
            try:
                done.put((number, item, work(item), None))
            except Exception as error:
                done.put((number, item, None, error))

    for target in [feed] + [serve] * jobs:
        threading.Thread(target=target, daemon=True).start()
    yield from _collect(done, room, keep_order)
    if trouble:
        raise trouble[0]


def _collect(done: Any, room: threading.Semaphore, keep_order: bool) -> Iterator[tuple[Any, Any, Any]]:
    waiting: dict[int, tuple[Any, Any, Any]] = {}
    total: int | None = None
    finished = yielded = 0
    while total is None or finished < total:
        number, item, result, error = done.get()
        if number is _END:
            total = item
            continue
        finished += 1
        if keep_order:
            waiting[number] = (item, result, error)
            while yielded in waiting:
                yield waiting.pop(yielded)
                yielded += 1
                room.release()
        else:
            yield item, result, error
            room.release()
