"""WAV files of one size: mono, 16 bit, no metadata. Not covered: what is to be heard in them."""

import io
import wave
from typing import Any

RATE = 4000
LENGTH = 2000
SECONDS = LENGTH / RATE
# The largest number that a sample of 16 bit holds stands for an amplitude of 1.
FULL = 32767


def quantised(level: Any) -> Any:
    """Amplitudes between -1 and 1, cut off beyond, as whole numbers of 16 bit; the same shape."""
    import numpy as np

    return np.rint(np.round(np.clip(level, -1, 1) * FULL, 3)).astype("<i2")


def wav_bytes(samples: Any) -> list[bytes]:
    """One file a row of `samples` (rows, LENGTH), which are 16 bit."""
    found = []
    for row in samples:
        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(RATE)
            out.writeframes(row.tobytes())
        found.append(file.getvalue())
    return found
