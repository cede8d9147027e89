"""Sound: half a second a sample, a gliding tone with overtones, tremolo, noise, clicks and one burst of hiss, as WAV.

Factors not drawn for a task vary all the same, as do phases, loudness and the places of the clicks. Not covered: the
faults of a recording (audio_faults), what is measured from the files (audio_measure), gaps (audio_gap).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..world import Asset, Category, Number, Rendered
from .audio_faults import FAULTS, spoil
from .audio_gap import reconstruction
from .audio_measure import measure, plain_features
from .audio_wav import LENGTH, RATE, SECONDS, quantised, wav_bytes

MUTATIONS = FAULTS
DENSE: dict[str, Any] = {"reconstruction": reconstruction}

# Factor: unit, low, high, decimals.
NUMBERS: dict[str, tuple[str, float, float, int]] = {
    "audio_pitch": ("Hz in the middle of the recording", 220.0, 480.0, 0),
    "audio_glide": ("Hz per second that the pitch rises", -300.0, 300.0, 0),
    "audio_tremolo_rate": ("Hz", 9.0, 28.0, 1),
    "audio_click_count": ("clicks", 0.0, 8.0, 0),
    "audio_noise_share": ("of the power", 0.02, 0.4, 2),
    "audio_overtones": ("of the amplitude of the next lower tone", 0.05, 0.8, 2),
    "audio_burst_time": ("s", 0.05, 0.45, 2),
}
ENVELOPES = ("rising", "falling", "steady", "pulsed")
# Samples between the starts of two clicks, at least half of it.
CLICK_SPACING = 64
TREMOLO_DEPTH = 0.4
BURST_HZ = 1850.0
BURST_SECONDS = 0.04


def factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five or six properties of the sound and the course of its loudness, all evenly spread."""
    import numpy as np

    names = list(NUMBERS)
    chosen = sorted(int(at) for at in rng.permutation(len(names))[: 5 + int(rng.randint(2))])
    found: list[Number | Category] = []
    for name in (names[at] for at in chosen):
        unit, low, high, decimals = NUMBERS[name]
        found.append(Number(name, unit, low, high, decimals, _places(name, rows, rng)))
    found.append(Category("audio_envelope", ENVELOPES, np.asarray(rng.randint(len(ENVELOPES), size=rows))))
    return found


def _places(name: str, rows: int, rng: Any) -> Any:
    """Places between 0 and 1; clicks come in whole numbers."""
    import numpy as np

    if name == "audio_click_count":
        most = int(NUMBERS[name][2])
        return np.round(rng.randint(most + 1, size=rows) / most, 6)
    return np.round(rng.uniform(size=rows), 6)


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], rng: Any
) -> Rendered:
    """A WAV file a sample, blemished by `mutations` (name: strength between 0 and 1)."""
    rows = len(factors[0].place if isinstance(factors[0], Number) else factors[0].code)
    place = {factor.name: factor.place for factor in factors if isinstance(factor, Number)}
    place = {name: place[name] if name in place else _places(name, rows, rng) for name in NUMBERS}
    envelope = next(factor.code for factor in factors if isinstance(factor, Category))
    values = {name: low + place[name] * (high - low) for name, (_, low, high, _) in NUMBERS.items()}
    samples = quantised(spoil(_sound(values, envelope, rng), mutations, rng))
    found = measure(samples)
    measured = {}
    for factor in factors:
        if isinstance(factor, Number):
            size = (found[factor.name] - factor.low) / (factor.high - factor.low)
            measured[factor.name] = size.clip(0, 1).round(6)
        else:
            measured[factor.name] = found[factor.name]
    return Rendered(
        assets=[Asset("audio", "the recording", "audio", "wav", wav_bytes(samples))],
        plain=plain_features(samples),
        measured=measured,
        notes=[
            f"Each recording is a WAV file of {SECONDS} s: one channel, 16 bit, {RATE} samples a second. "
            "The loudness was not calibrated."
        ],
    )


def _sound(values: Mapping[str, Any], envelope: Any, rng: Any) -> Any:
    """(rows, LENGTH) between -1 and 1, from the factors' values in their units and the codes of the envelope."""
    import numpy as np

    rows = len(envelope)
    level = _tone(values, rng) * _envelope(envelope, rng)
    time = np.arange(LENGTH) / RATE
    rate, start = values["audio_tremolo_rate"][:, None], rng.uniform(size=(rows, 1))
    level = level * (1 + TREMOLO_DEPTH * np.sin(2 * np.pi * (rate * time + start)))
    share = values["audio_noise_share"][:, None]
    level = level / np.sqrt(np.mean(level**2, axis=1, keepdims=True)) * np.sqrt(1 - share)
    level = level + np.sqrt(share) * rng.normal(size=(rows, LENGTH))
    level = level + _burst(values["audio_burst_time"], rng) + _clicks(values["audio_click_count"], rng)
    loudness = rng.uniform(0.35, 0.9, size=(rows, 1))
    return np.round(level * loudness / np.max(np.abs(level), axis=1, keepdims=True), 9)


def _tone(values: Mapping[str, Any], rng: Any) -> Any:
    """A tone and two overtones, whose pitch glides evenly: (rows, LENGTH)."""
    import numpy as np

    time = np.arange(LENGTH) / RATE
    pitch, glide = values["audio_pitch"][:, None], values["audio_glide"][:, None]
    turns = pitch * time + glide * (time**2 - SECONDS * time) / 2
    fall = values["audio_overtones"][:, None]
    starts = rng.uniform(size=(3, len(pitch), 1))
    return sum(fall ** (at - 1) * np.sin(2 * np.pi * (at * turns + starts[at - 1])) for at in (1, 2, 3))


def _envelope(code: Any, rng: Any) -> Any:
    """The course of the loudness, (rows, LENGTH): floors and bends differ from recording to recording."""
    import numpy as np

    place = np.arange(LENGTH) / LENGTH
    floor = rng.uniform(0.15, 0.35, size=(len(code), 1))
    bend = rng.uniform(0.7, 1.5, size=(len(code), 1))
    shapes = [place**bend, (1 - place) ** bend, np.ones_like(floor * place), np.sin(2 * np.pi * place) ** 2 + 0 * floor]
    return floor + (1 - floor) * np.choose(code[:, None], shapes)


def _burst(middle: Any, rng: Any) -> Any:
    """A short hiss near BURST_HZ around `middle` (rows,) in seconds: (rows, LENGTH)."""
    import numpy as np

    away = (np.arange(LENGTH) / RATE - middle[:, None]) / (BURST_SECONDS / 2)
    shape = np.where(np.abs(away) < 1, np.cos(np.pi * away / 2) ** 2, 0)
    rows = len(middle)
    pitch = BURST_HZ + rng.uniform(-60, 60, size=(rows, 1))
    wave = np.sin(2 * np.pi * (pitch * np.arange(LENGTH) / RATE + rng.uniform(size=(rows, 1))))
    return rng.uniform(0.5, 0.9, size=(rows, 1)) * shape * wave


def _clicks(count: Any, rng: Any) -> Any:
    """So many clicks of three samples each, at drawn places that do not touch: (rows, LENGTH)."""
    import numpy as np

    rows, slots = len(count), LENGTH // CLICK_SPACING
    order = np.argsort(rng.uniform(size=(rows, slots)), axis=1)
    at = order * CLICK_SPACING + rng.randint(CLICK_SPACING // 2, size=(rows, slots))
    sizes = rng.uniform(3.0, 4.5, size=(rows, slots)) * rng.choice([-1, 1], size=(rows, slots))
    sizes = np.where(np.arange(slots) < np.rint(count)[:, None], sizes, 0)
    level = np.zeros((rows, LENGTH + 3))
    for offset, part in enumerate((1.0, -0.7, 0.2)):
        np.add.at(level, (np.arange(rows)[:, None], at + offset), part * sizes)
    return level[:, :LENGTH]
