"""Memory that glibc keeps for a process's next tensors.

Without it each large tensor begins on new pages, which the kernel clears first: about a fifth of the time of sampling or training on a CPU.
"""

import contextlib
import ctypes
from collections.abc import Iterator

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # parameters of glibc's mallopt


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Within it glibc keeps what this process frees; at the end that is given back. The setting stays: glibc has no way back to its own."""
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError):  # another C library
        yield
        return
    for parameter, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**26)):
        mallopt(parameter, value)
    try:
        yield
    finally:
        trim(0)
