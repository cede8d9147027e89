"""A pool gives every run a server of its kind, replaces the dead, and never has more than its slots."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mletools.base.errors import ToolError
from mletools.sandbox.pool import DiedTwice, ServerDied, ServerPool


class Held:
    alive = 0
    most = 0

    def __init__(self, kind: Hashable) -> None:
        self.kind, self.closed = kind, False
        Held.alive += 1
        Held.most = max(Held.most, Held.alive)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            Held.alive -= 1


@pytest.fixture(autouse=True)
def _anew() -> None:
    Held.alive = Held.most = 0


def test_servers_are_used_again_and_never_more_than_slots() -> None:
    pool = ServerPool(3, Held)
    barrier = threading.Barrier(3)

    def work(server: Held) -> int:
        barrier.wait(10)
        return id(server)

    with ThreadPoolExecutor(6) as threads:
        used = list(threads.map(lambda _: pool.serve(work), range(12)))
    assert len(set(used)) == 3 and Held.most == 3
    pool.close()
    assert Held.alive == 0


def test_another_kind_takes_the_place_of_an_idle_server() -> None:
    pool = ServerPool(2, Held)
    kinds = [pool.serve(lambda server: server.kind, kind) for kind in ("a", "b", "a", "c", "a", "c")]
    assert kinds == ["a", "b", "a", "c", "a", "c"]
    assert Held.most == 2
    assert [kind for kind, _ in pool.idle] == ["a", "c"]


def test_a_run_is_tried_twice() -> None:
    pool, seen = ServerPool(1, Held), []

    def dies_once(server: Held) -> str:
        seen.append(server)
        if len(seen) == 1:
            raise ServerDied
        return "done"

    assert pool.serve(dies_once) == "done"
    assert seen[0].closed and seen[0] is not seen[1] and Held.alive == 1

    def dies(server: Held) -> None:
        raise ServerDied

    with pytest.raises(DiedTwice):
        pool.serve(dies)
    assert Held.alive == 0


def test_a_server_that_cannot_be_made_at_once_is_tried_again() -> None:
    tries = []

    def start(kind: Hashable) -> Held:
        tries.append(kind)
        if len(tries) == 1:
            raise ServerDied
        return Held(kind)

    assert ServerPool(1, start).serve(lambda server: server.kind, "a") == "a"
    assert tries == ["a", "a"]


def test_an_error_of_the_work_costs_its_server_and_passes() -> None:
    pool = ServerPool(1, Held)
    with pytest.raises(ZeroDivisionError):
        pool.serve(lambda server: 1 / 0)
    assert Held.alive == 0
    assert pool.serve(lambda server: 5) == 5


def test_a_closed_pool_serves_nobody_and_says_so() -> None:
    pool = ServerPool(1, Held)

    def closed_meanwhile(server: Held) -> None:
        pool.close()
        assert server.closed
        raise ServerDied

    with pytest.raises(ToolError, match="closed during a run"):
        pool.serve(closed_meanwhile)
    with pytest.raises(ToolError, match="the sandbox is closed"):
        pool.serve(lambda server: None)
    assert Held.alive == 0
