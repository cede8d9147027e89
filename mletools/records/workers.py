"""Do work on a stream of items with N workers: results as they finish or in order, never more in flight than needed.

Reading, working and writing overlap, so a result leaves as soon as it is there even while the input is silent. Workers
are threads; `processes` gives each a process of its own for work that holds the interpreter. No work is retried here.
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


def _work_for_parent(work: Callable[[Any], Any], parent: Any) -> None:
    """A worker process: answer items until the parent is gone, be it by kill -9. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            item = parent.recv()
        except EOFError:
            os._exit(0)
        answer: tuple[Any, Exception | None]
        try:
            answer = (work(item), None)
        except Exception as error:
            answer = (None, error)
        try:
            parent.send(answer)
        except BrokenPipeError:
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
            child.start()
            _children.add(child)
            theirs.close()
        mine.pipe.send(item)
        try:
            result, error = mine.pipe.recv()
        except EOFError:
            raise ToolError("a worker process died; was it killed for want of memory?") from None
        if error is not None:
            raise error
        return result

    return call


def end_processes() -> None:
    """Kill the worker processes of this command."""
    for child in list(_children):
        child.kill()


def run(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int,
    keep_order: bool = False,
    processes: bool = False,
) -> Iterator[tuple[Item, Result | None, BaseException | None]]:
    """Yield (item, result, error) for every item, error being what `work` raised on it.

    An exception in `items` itself is raised here after everything read before it has been yielded.
    """
    if processes and jobs > 1:
        work = _in_processes(work)
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
            except BaseException as error:  # SystemExit, too, which would end this thread alone
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
