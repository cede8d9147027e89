"""Attacks over the network: services of the host, services of another run, other networks.

Covered: TCP, UDP, Unix sockets by name and by path, a route to other networks (nothing is sent), other socket
families. Not covered: name lookups, which need one of these.
"""

from .attack import PARTS, Attack, programs

_CONCURRENT = {"sockets and memory of a concurrent run"}
_WEAKER = {"other socket families"}
ATTACKS = tuple(
    Attack(name, "network", code, concurrent=name in _CONCURRENT, weaker=name in _WEAKER)
    for name, code in programs("network", PARTS).items()
)
