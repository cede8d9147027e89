"""Attacks over the network: this machine's own services, another run's, and ways out of the machine.

Covered: TCP, UDP, Unix sockets by name and by path, a route out (asked for; nothing is sent), sockets of other
families. Not covered: name lookups, which need one of these.
"""

from __future__ import annotations

from .attack import Attack

_TCP = """
for name, port in W["ports"].items():
    if name.startswith("tcp"):
        for host in ("127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "host.docker.internal"):
            try:
                socket.create_connection((host, port), 1).close()
            except OSError:
                pass
"""

_UDP = """
for name, port in W["ports"].items():
    if name.startswith("udp"):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as end:
                    end.sendto(b"hello", (host, port))
            except OSError:
                pass
"""

_ROUTE = """
for family, host in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as end:
            end.connect((host, 9))
            opened(f"there is a route out from {end.getsockname()[0]}")
    except OSError:
        pass
"""

_ABSTRACT = """
for kind, name in ((socket.SOCK_STREAM, W["abstract"]), (socket.SOCK_DGRAM, W["abstract"] + "-d")):
    try:
        with socket.socket(socket.AF_UNIX, kind) as end:
            end.connect("\\0" + name)
            end.send(b"hello")
    except OSError:
        pass
"""

_SOCKET_FILES = """
for kind, path in zip((socket.SOCK_STREAM, socket.SOCK_DGRAM), W["sockets"]):
    for name in (path, f"/proc/1/root{path}", f"/proc/{os.getppid()}/root{path}"):
        try:
            with socket.socket(socket.AF_UNIX, kind) as end:
                end.connect(name)
                end.send(b"hello")
        except OSError:
            pass
"""

_BESIDE = """
end = time.monotonic() + 0.4
while time.monotonic() < end:
    for address in ("\\0" + W["beside"], ("127.0.0.1", 20000 + W["beside_key"] % 10000)):
        try:
            family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as link:
                link.settimeout(0.3)
                link.connect(address)
                search("a socket of another run", link.recv(100))
        except OSError:
            pass
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(libc.shmget(W["beside_key"], 0, 0), None, 0o10000)
    if address not in (None, ctypes.c_void_p(-1).value):
        search("shared memory of another run", ctypes.string_at(address, 64))
        libc.shmdt(ctypes.c_void_p(address))
    time.sleep(0.1)
"""

_RAW = """
for family, kind, protocol, name in (
    (17, 3, 0x0300, "packet"), (17, 2, 0x0300, "packet"), (2, 3, 255, "raw"), (2, 3, 1, "raw icmp"), (10, 3, 58, "raw"),
    (44, 3, 0, "xdp"),
):
    try:
        socket.socket(family, kind, protocol).close()
        opened(f"a {name} socket can be made")
    except OSError:
        pass
"""

_OTHER_FAMILIES = """
names = {
    3: "ax25", 4: "ipx", 5: "appletalk", 9: "x25", 15: "key", 16: "netlink", 21: "rds", 23: "irda", 26: "llc", 29: "can",
    30: "tipc", 31: "bluetooth", 33: "rxrpc", 35: "phonet", 36: "ieee802154", 37: "caif", 38: "alg", 39: "nfc",
    40: "vsock", 41: "kcm", 42: "qipcrtr", 43: "smc", 45: "mctp",
}
for family, name in names.items():
    for kind in (1, 2, 3, 5):
        try:
            socket.socket(family, kind).close()
            opened(f"a socket of the family {name} can be made")
            break
        except OSError:
            pass
"""

ATTACKS = (
    Attack("tcp to this machine", "network", _TCP),
    Attack("udp to this machine", "network", _UDP),
    Attack("a route out", "network", _ROUTE),
    Attack("abstract unix sockets", "network", _ABSTRACT),
    Attack("unix socket files", "network", _SOCKET_FILES),
    Attack("sockets and memory of a run beside it", "network", _BESIDE, beside=True),
    Attack("packet and raw sockets", "network", _RAW),
    Attack("sockets of other families", "network", _OTHER_FAMILIES, weaker=True),
)
