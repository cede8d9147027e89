"""`tee -a FILE` for pipes that may be silent for long: it ends with its reader at once, not when the next record arrives.

    ... | mle-grade | python3 tee.py graded.jsonl | mle-filter --mark | mle-train-grpo ...

Where a trainer was killed while its sampler waited for it, the whole pipe ends (GNU tee would wait with the sampler).
"""

import os
import select
import sys


def main() -> None:
    either = select.poll()
    either.register(0, select.POLLIN)
    either.register(1, 0)
    with open(sys.argv[1], "ab", buffering=0) as copy:
        while not any(which == 1 and event & (select.POLLERR | select.POLLHUP) for which, event in either.poll()):
            block = os.read(0, 1 << 16)
            if not block:
                return
            left = memoryview(block)
            while left:
                left = left[copy.write(left) :]
            left = memoryview(block)
            while left:
                left = left[os.write(1, left) :]
    sys.exit(141)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(141)
