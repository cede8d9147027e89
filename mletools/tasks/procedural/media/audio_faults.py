"""What goes wrong with a recording: each fault changes amplitudes of shape (rows, samples). Not covered: the sound itself."""

from collections.abc import Mapping
from typing import Any

from .audio_wav import RATE

FAULTS = {
    "background_noise": "a coloured noise lies over the recordings, in some louder than in others",
    "clipping": "loud parts are cut off",
    "gain_change": "the gain jumps at some moment of a recording",
    "echo": "the room answers: a delayed, weaker copy is added",
    "dropouts": "short stretches are silent",
    "hum": "the mains hum at 50 Hz and its odd multiples",
    "resampled": "some recordings passed through a narrow channel that takes the high tones away",
}


def spoil(level: Any, faults: Mapping[str, float], rng: Any) -> Any:
    """`level` (rows, samples) with the faults (name: strength between 0 and 1), applied in the order of a recording chain."""
    import numpy as np

    for name, work in STEPS.items():
        if name in faults:
            level = np.round(work(level, faults[name], rng), 9)
    return level


def filtered(level: Any, weight: Any) -> Any:
    """`level` (rows, samples) with its spectrum multiplied by `weight`, for each of the frequencies of rfft."""
    import numpy as np

    return np.fft.irfft(np.fft.rfft(level, axis=1) * weight, n=level.shape[1], axis=1)


def _echo(level: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    rows, length = level.shape
    delay = rng.randint(int(0.03 * RATE), int(0.09 * RATE), size=(rows, 1))
    gain = strength * rng.uniform(0.3, 0.9, size=(rows, 1))
    source = np.arange(length) - delay
    copy = np.where(source >= 0, np.take_along_axis(level, np.maximum(source, 0), axis=1), 0)
    return (level + gain * copy) / (1 + gain)


def _noise(level: Any, strength: float, rng: Any) -> Any:
    """Noise whose power falls with the frequency, by a power of it that is drawn once."""
    import numpy as np

    rows, length = level.shape
    pitch = np.fft.rfftfreq(length, 1 / RATE)
    weight = (1 + pitch / 200) ** -rng.uniform(0.2, 1.0)
    noise = filtered(rng.normal(size=(rows, length)), weight / np.sqrt(np.mean(weight**2)))
    loud = np.sqrt(np.mean(level**2, axis=1, keepdims=True))
    return level + strength * rng.uniform(0.2, 1.0, size=(rows, 1)) * loud * noise


def _hum(level: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    rows, length = level.shape
    time = np.arange(length) / RATE
    starts = rng.uniform(size=(3, rows, 1))
    wave = sum(np.sin(2 * np.pi * (50 * at * time + starts[at // 2])) / at for at in (1, 3, 5))
    loud = np.sqrt(np.mean(level**2, axis=1, keepdims=True))
    return level + strength * rng.uniform(0.4, 1.5, size=(rows, 1)) * loud * wave


def _gain(level: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    rows, length = level.shape
    when = rng.randint(length // 6, 5 * length // 6, size=(rows, 1))
    factor = 1 - strength * rng.uniform(0.4, 0.85, size=(rows, 1))
    late = np.arange(length) >= when
    louder_first = rng.uniform(size=(rows, 1)) < 0.5
    return np.where(late == louder_first, factor, 1.0) * level


def _clip(level: Any, strength: float, rng: Any) -> Any:
    """Cuts off at a share of the 98 % quantile of the amplitude, so that clicks do not save the rest."""
    import numpy as np

    loud = np.quantile(np.abs(level), 0.98, axis=1, keepdims=True)
    top = loud * (1 - strength * rng.uniform(0.25, 0.75, size=(len(level), 1)))
    return np.clip(level, -top, top)


def _dropouts(level: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    rows, length = level.shape
    silent = np.zeros(level.shape, dtype=bool)
    for _ in range(2 + int(6 * strength)):
        start = rng.randint(length, size=(rows, 1))
        size = rng.randint(int(0.005 * RATE), int(0.02 * RATE), size=(rows, 1))
        silent |= (np.arange(length) >= start) & (np.arange(length) < start + size)
    return np.where(silent, 0.0, level)


def _narrow(level: Any, strength: float, rng: Any) -> Any:
    import numpy as np

    pitch = np.fft.rfftfreq(level.shape[1], 1 / RATE)
    top = 1600 - 900 * strength * rng.uniform(0.3, 1.0, size=(len(level), 1))
    passes = 1 / (1 + (pitch / top) ** 16)
    weak = rng.uniform(size=(len(level), 1)) < 0.4 + 0.5 * strength
    return np.where(weak, filtered(level, passes), level)


# From the room to the file.
STEPS = {
    "echo": _echo,
    "background_noise": _noise,
    "hum": _hum,
    "gain_change": _gain,
    "clipping": _clip,
    "resampled": _narrow,
    "dropouts": _dropouts,
}
