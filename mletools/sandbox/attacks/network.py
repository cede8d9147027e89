"""Attacks over the network: services of the host, services of another run, other networks.

Covered: TCP, UDP, Unix sockets by name and by path, a route to other networks (nothing is sent), other socket
families. Not covered: name lookups, which need one of these.
"""

from .attack import Attack

_PROGRAMS = {
    "TCP to the host": """
hosts = ("127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "host.docker.internal")
for (name, port), host in product(W["ports"].items(), hosts):
    if name.startswith("tcp"):
        with suppress(OSError):
            socket.create_connection((host, port), 1).close()
""",
    "UDP to the host": """
for name, port in W["ports"].items():
    if name.startswith("udp"):
        reach(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port))
        reach(socket.AF_INET6, socket.SOCK_DGRAM, ("::1", port))
""",
    "route to other networks": """
for family, host in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as connection:
        connection.connect((host, 9))
        report_open(f"there is a route from {connection.getsockname()[0]}")
""",
    "abstract unix sockets": """
reach(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + W["abstract"])
reach(socket.AF_UNIX, socket.SOCK_DGRAM, "\\0" + W["abstract"] + "-d")
""",
    "unix socket files": """
for root in ("", "/proc/1/root", f"/proc/{os.getppid()}/root"):
    for kind, path in zip((socket.SOCK_STREAM, socket.SOCK_DGRAM), W["sockets"]):
        reach(socket.AF_UNIX, kind, root + path)
""",
    "sockets and memory of a concurrent run": """
names = ((socket.AF_UNIX, "\\0" + W["concurrent"]), (socket.AF_INET, ("127.0.0.1", 20000 + W["concurrent_key"] % 10000)))
for _ in repeat(0.4, 0.1):
    for family, address in names:
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(0.3)
            connection.connect(address)
            search("a socket of another run", connection.recv(100))
    address = attach(libc.shmget(W["concurrent_key"], 0, 0), 0o10000)
    if address:
        search("shared memory of another run", ctypes.string_at(address, 64))
        libc.shmdt(address)
""",
    "packet and raw sockets": """
for family, kind, protocol, name in (
    (17, 3, 0x0300, "packet"), (17, 2, 0x0300, "packet"), (2, 3, 255, "raw"), (2, 3, 1, "raw icmp"), (10, 3, 58, "raw"),
    (44, 3, 0, "xdp"),
):
    with suppress(OSError):
        socket.socket(family, kind, protocol).close()
        report_open(f"a {name} socket can be made")
""",
    "other socket families": """
names = {
    3: "ax25", 4: "ipx", 5: "appletalk", 9: "x25", 15: "key", 16: "netlink", 21: "rds", 23: "irda", 26: "llc", 29: "can",
    30: "tipc", 31: "bluetooth", 33: "rxrpc", 35: "phonet", 36: "ieee802154", 37: "caif", 38: "alg", 39: "nfc",
    40: "vsock", 41: "kcm", 42: "qipcrtr", 43: "smc", 45: "mctp",
}
for family, name in names.items():
    for kind in (1, 2, 3, 5):
        with suppress(OSError):
            socket.socket(family, kind).close()
            report_open(f"a socket of the family {name} can be made")
            break
""",
}

_CONCURRENT = {"sockets and memory of a concurrent run"}
_WEAKER = {"other socket families"}
ATTACKS = tuple(
    Attack(name, "network", code, concurrent=name in _CONCURRENT, weaker=name in _WEAKER)
    for name, code in _PROGRAMS.items()
)
