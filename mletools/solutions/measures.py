"""Functions that the programs measure files with: program text, read but never imported.

A program holds those of these functions that it uses, and their imports (see programs). `rough` and `fine_KIND` take a
column of paths (or texts) of train.csv and test.csv together and return a frame with a row each. The functions of gaps and
masks take the table and return (inputs of each sample's pixels or steps; a first guess; its scale).
"""

import csv
import html
import re
import wave
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage
from scipy.linalg import solve_toeplitz
from scipy.sparse import csgraph
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict


def rough(column):
    rows = []
    for path in column:
        values = plain_values(path)
        shares = np.histogram(values, 4)[0] / len(values)
        crossings = (np.diff(np.sign(values - values.mean())) != 0).mean()
        rows.append(
            [len(values), values.mean(), values.std(), values.min(), values.max(), values[-1], crossings, *shares]
        )
    return pd.DataFrame(rows).fillna(0)


def plain_values(path):
    """A file as one row of numbers: pixels, samples, values, degrees of nodes, lengths of words."""
    if path.startswith("images/"):
        return grey_image(path).ravel()
    if path.startswith("audio/"):
        return sound(path)[0]
    if path.startswith(("series/", "graphs/")):
        with open("input/" + path, newline="") as file:
            lines = list(csv.reader(file))[1:]
        if path.startswith("series/"):
            return np.array([float(line[1]) for line in lines if line[1]])
        return np.array([0, 0, *Counter(name for line in lines for name in line[:2]).values()], dtype=float)
    return np.array([0, 0, *map(len, text_of(path).split())], dtype=float)


def grey_image(path):
    return np.asarray(Image.open("input/" + path).convert("L"), dtype=float)


def sound(path):
    with wave.open("input/" + path) as file:
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32768, file.getframerate()


def text_of(cell):
    if not cell.startswith("docs/"):
        return cell
    with open("input/" + cell, encoding="utf-8") as file:
        return file.read()


def fine_image(column):
    pixels = np.stack([np.asarray(Image.open("input/" + path).convert("RGB"), dtype=float) for path in column])
    grey, shades = pixels.mean(axis=3), pixels.mean(axis=(1, 2))
    side = grey.shape[1]
    blocks = ndimage.zoom(ndimage.uniform_filter(grey, (0, side // 4, side // 4)), (1, 4 / side, 4 / side), order=1)
    calm = ndimage.gaussian_filter(grey, (0, 1, 1))
    flat = (calm - calm.mean(axis=(1, 2), keepdims=True)) / (calm.std(axis=(1, 2), keepdims=True) + 1e-6)
    turned = [flat[:, :, ::-1], flat[:, ::-1], flat[:, ::-1, ::-1], flat.transpose(0, 2, 1)]
    mirrors = [(flat * each).mean(axis=(1, 2)) for each in turned]
    rough_grain = np.abs(np.diff(np.diff(grey, 2, axis=1), 2, axis=2))
    fine_grain = np.abs(grey - ndimage.gaussian_filter(grey, (0, 0.7, 0.7)))
    grains = [np.log1p(np.median(each, axis=(1, 2))) for each in (rough_grain, fine_grain)]
    halves = [blocks[:, :, :2].mean(axis=(1, 2)) - blocks[:, :, 2:].mean(axis=(1, 2))]
    halves.append(blocks[:, :2].mean(axis=(1, 2)) - blocks[:, 2:].mean(axis=(1, 2)))
    plain = np.column_stack([grey.std(axis=(1, 2)), *halves, *mirrors, *grains, shades[:, :2] - shades[:, 1:]])
    parts = [plain, blocks.reshape(len(grey), -1), image_waves(grey), image_spots(grey), image_spots(-grey)]
    return pd.DataFrame(np.hstack(parts))


def image_waves(grey):
    """The directions of gradients; the spectrum by length and direction, and its peak."""
    side = grey.shape[1]
    down, across = np.gradient(ndimage.gaussian_filter(grey, (0, 0.8, 0.8)), axis=(1, 2))
    size, angle = np.hypot(down, across), np.arctan2(down, across) % np.pi
    found = [np.log1p(size.mean(axis=(1, 2)))]
    found += [(size * (angle // (np.pi / 9) == at)).sum(axis=(1, 2)) / size.sum(axis=(1, 2)) for at in range(9)]
    flat = (grey - grey.mean(axis=(1, 2), keepdims=True)) * np.hanning(side)[:, None] * np.hanning(side)
    power = np.abs(np.fft.fft2(flat, s=(64, 64)))[:, :, :33] ** 2
    down, across = np.meshgrid(np.fft.fftfreq(64) * side, np.arange(33) / 64 * side, indexing="ij")
    length, angle = np.hypot(down, across), np.arctan2(down, across) % np.pi
    inside = (length > 1.7) & (length < 7)
    areas = [(length >= low) & (length < low + 1) for low in range(1, 10)]
    areas += [inside & (angle // (np.pi / 8) == at) for at in range(8)]
    found += [np.log(power[:, area].mean(axis=1) + 1) for area in areas]
    best = power[:, inside].argmax(axis=1)
    turn = angle[inside][best]
    peak = np.log(power[:, inside].max(axis=1) / power[:, inside].mean(axis=1))
    return np.column_stack([*found, length[inside][best], np.cos(2 * turn), np.sin(2 * turn), turn, peak])


def image_spots(grey):
    side, rows = grey.shape[1], []
    calm = ndimage.gaussian_filter(grey, (0, 0.8, 0.8))
    apart = calm - ndimage.gaussian_filter(grey, (0, side / 8, side / 8))
    for field, whole in zip(apart, calm - np.median(calm, axis=(1, 2), keepdims=True), strict=True):
        line = [np.quantile(whole, 0.99), np.quantile(whole, 0.9)]
        for limit in (20, 35):
            marks, count = ndimage.label(whole > limit)
            sizes = np.bincount(marks.ravel())[1:] if count else np.zeros(1)
            line += [count, (sizes >= 3).sum(), sizes.max(), np.median(sizes), sizes.sum()]
        peaks = (field == ndimage.maximum_filter(field, 5)) & (field > 12)
        down, across = np.unravel_index(field.argmax(), field.shape)
        near = np.hypot(*(np.arange(side)[:, None] - down, np.arange(side) - across))
        rings = [whole[(near >= low) & (near < low + 1)].mean() for low in range(5)]
        rows.append([*line, peaks.sum(), down, across, down > side / 2, across > side / 2, *rings])
    return np.array(rows, dtype=float)


def fine_audio(column):
    sounds = [sound(path) for path in column]
    level, rate = np.stack([each for each, _ in sounds]), sounds[0][1]
    loud = level.std(axis=1, keepdims=True) + 1e-4
    jumps, calm = clicks(level / loud)
    power = np.abs(np.fft.rfft(calm, axis=1)[:, 1:]) ** 2
    edges = np.unique(np.geomspace(8, power.shape[1], 25).astype(int))
    bands = [np.log(power[:, low:high].mean(axis=1) + 1e-3) for low, high in pairwise(edges)]
    bands += [np.log(np.median(power[:, at : at + 125], axis=1) + 1e-3) for at in range(0, power.shape[1], 125)]
    return pd.DataFrame(np.column_stack([np.log(loud), jumps, *bands, loudness(calm, rate), pitch(calm, rate)]))


def clicks(level):
    """How many clicks there are, and the recordings without them."""
    jump = np.zeros_like(level)
    jump[:, 1:-1] = np.abs(2 * level[:, 1:-1] - level[:, :-2] - level[:, 2:])
    usual = np.median(jump, axis=1, keepdims=True)
    local = ndimage.uniform_filter1d(np.minimum(jump, 4 * usual), 201, axis=1) + 0.02
    peak = jump == ndimage.maximum_filter1d(jump, 25, axis=1)
    counts = [(peak & (jump > limit * local)).sum(axis=1) for limit in (4, 5, 7, 10)]
    near = ndimage.maximum_filter1d((peak & (jump > 5 * local)).astype(np.int8), 7, axis=1) > 0
    return np.column_stack([*counts, usual, jump.max(axis=1)]), np.where(near, 0, level)


def loudness(level, rate):
    """Its course, how it swings, and bursts of noise."""
    slow = np.abs(level)[:, : level.shape[1] // 20 * 20].reshape(len(level), -1, 20).mean(axis=2)
    calm = ndimage.gaussian_filter1d(slow, 8, axis=1)
    swing = slow / (calm + 0.1) - 1
    size = np.abs(np.fft.rfft(swing * np.hanning(swing.shape[1]), n=1024, axis=1))
    hertz = np.fft.rfftfreq(1024, 20 / rate)
    inside = (hertz > 7) & (hertz < 32)
    found = [part.mean(axis=1) for part in np.array_split(slow, 10, axis=1)]
    found += [calm.std(axis=1), hertz[inside][size[:, inside].argmax(axis=1)]]
    found += [size[:, (hertz >= low) & (hertz < low + 4)].mean(axis=1) for low in range(4, 36, 4)]
    spectrum, tones = np.fft.rfft(level, axis=1), np.fft.rfftfreq(level.shape[1], 1 / rate)
    for low in np.arange(0.5, 0.95, 0.09) * rate / 2:
        band = (tones >= low) & (tones < low + 0.1 * rate / 2)
        part = np.fft.irfft(spectrum * band, n=level.shape[1], axis=1)
        energy = ndimage.uniform_filter1d(part**2, int(0.02 * rate), axis=1)
        found += [energy.argmax(axis=1), np.log(energy.max(axis=1) / (energy.mean(axis=1) + 1e-9) + 1e-9)]
    return np.column_stack(found)


def pitch(level, rate):
    """The pitch and its slope that fit best, and how strong overtones are."""
    window = rate // 16
    starts = np.arange(0, level.shape[1] - window + 1, window // 2)
    frames = level[:, starts[:, None] + np.arange(window)] * np.hanning(window)
    size = np.abs(np.fft.rfft(frames, n=4 * window, axis=2))
    hertz = np.fft.rfftfreq(4 * window, 1 / rate)
    low, high = np.searchsorted(hertz, [140, 860])
    both = size[:, :, low:high] + 0.5 * size[:, :, 2 * low : 2 * high : 2]
    away = starts / level.shape[1] - (starts / level.shape[1]).mean()
    shifts, at = np.arange(-75, 76, 10), np.arange(40, high - low - 40)
    moved = [np.rint(shift * away / np.ptp(away)).astype(int) for shift in shifts]
    scores = np.stack([sum(both[:, t, :][:, at + move[t]] for t in range(len(starts))) for move in moved], axis=1)
    flat = scores.reshape(len(level), -1)
    steep, best = np.divmod(flat.argmax(axis=1), len(at))
    middle, row, whole = hertz[low + at[best]], np.arange(len(level)), size.mean(axis=1)
    tones = [np.log(whole[row, np.rint(k * middle / hertz[1]).astype(int)] + 1e-3) for k in (1, 2, 3, 1.5, 2.5)]
    trust = flat.max(axis=1) / flat.mean(axis=1)
    differences = [tones[1] - tones[0], tones[2] - tones[0], tones[0] - tones[3]]
    return np.column_stack([middle, shifts[steep], trust, *tones, *differences])


def fine_series(column):
    kept = [tidy_series(path) for path in column]
    length = int(np.median([len(each) for each in kept]))
    time = np.linspace(0, 1, length)
    level = np.stack([np.interp(time, np.linspace(0, 1, len(each)), each) for each in kept])
    return pd.DataFrame(np.column_stack([series_course(level, time - 0.5), series_season(level), series_shift(level)]))


def tidy_series(path):
    known = {}
    with open("input/" + path, newline="") as file:
        for line in list(csv.reader(file))[1:]:
            if line[1]:
                milli = any(cell.startswith("1/1000") for cell in line[2:])
                known[round(float(line[0]))] = float(line[1].replace(",", ".")) / (1000 if milli else 1)
    steps = np.array(sorted(known))
    value = np.array([known[step] for step in steps])
    value = np.where(value > 4 * np.abs(ndimage.median_filter(value, 7)) + 1e-9, value / 10, value)
    return np.interp(np.arange(steps[0], steps[-1] + 1), steps, value)


def series_course(level, time):
    centred = level - level.mean(axis=1, keepdims=True)
    slope = centred @ time / (time**2).sum()
    rest = centred - slope[:, None] * time
    step, bend = np.diff(level, axis=1), np.abs(np.diff(level, 2, axis=1))
    half = level.shape[1] // 2
    late = np.log((np.median(bend[:, half:], axis=1) + 1e-6) / (np.median(bend[:, :half], axis=1) + 1e-6))
    found = [part.mean(axis=1) for part in np.array_split(level, 6, axis=1)]
    found += [np.quantile(level, q, axis=1) for q in (0.05, 0.25, 0.5, 0.75, 0.95)]
    found += [
        rest.std(axis=1),
        step.std(axis=1),
        np.median(np.abs(step), axis=1),
        np.median(bend, axis=1),
        bend.max(axis=1),
    ]
    found += [(bend > k * np.median(bend, axis=1, keepdims=True)).sum(axis=1) for k in (4, 6, 9)]
    found += [(rest[:, k:] * rest[:, :-k]).mean(axis=1) / (rest**2).mean(axis=1).clip(1e-9) for k in (1, 2, 3)]
    return np.column_stack([level.mean(axis=1), slope, late, *found])


def series_season(level):
    length = level.shape[1]
    time = np.arange(length)
    flat = level - np.stack([np.polyval(np.polyfit(time, each, 2), time) for each in level])
    power = np.abs(np.fft.rfft(flat * np.hanning(length), n=4 * length, axis=1)) ** 2
    share = (power / power.sum(axis=1, keepdims=True).clip(1e-9)).mean(axis=0)
    period = 4 * length / (12 + share[12:].argmax())
    found = [np.log(power[:, low : low + 8].mean(axis=1) + 1e-9) for low in range(8, 88, 8)]
    for k in (1, 2, 3):
        size = flat @ np.exp(-2j * np.pi * k * time / period)
        found += [np.abs(size), size.real, size.imag, np.angle(size)]
    fold = np.floor(time / period * 8).astype(int) % 8
    shape = np.stack(
        [np.median(flat[:, fold == at], axis=1) if (fold == at).any() else flat[:, 0] for at in range(8)], axis=1
    )
    rest, high = flat - shape[:, fold], shape - shape.mean(axis=1, keepdims=True)
    spread = np.ptp(high, axis=1).clip(1e-9)
    sharp = [(high**3).mean(axis=1) / spread**3, high.max(axis=1) / spread, np.abs(high).mean(axis=1) / spread]
    calm = np.median(np.abs(rest), axis=1)
    spikes = [(np.abs(rest) > k * calm[:, None]).sum(axis=1) for k in (4, 6, 8)]
    memory = [(rest[:, k:] * rest[:, :-k]).mean(axis=1) / (rest**2).mean(axis=1).clip(1e-9) for k in (1, 2, 3)]
    return np.column_stack([*found, shape, shape.argmax(axis=1), spread, *sharp, calm, *spikes, *memory])


def series_shift(level):
    """Where its level shifts most, and how far."""
    total = np.cumsum(level - level.mean(axis=1, keepdims=True), axis=1)
    cuts, row = np.arange(8, level.shape[1] - 8), np.arange(len(level))
    gap = np.stack([level[:, at : at + 8].mean(axis=1) - level[:, at - 8 : at].mean(axis=1) for at in cuts], axis=1)
    best = np.abs(gap).argmax(axis=1)
    return np.column_stack([cuts[best], gap[row, best], np.abs(total).argmax(axis=1), np.abs(total).max(axis=1)])


def fine_graph(column):
    return pd.DataFrame([graph_measures("input/" + path) for path in column]).fillna(0)


def graph_measures(path):
    with open(path, newline="") as file:
        lines = [line for line in list(csv.reader(file))[1:] if len(line) > 1]
    edges = [(line[0].strip().lower(), line[1].strip().lower()) for line in lines]
    names = {name: at for at, name in enumerate(sorted({name for edge in edges for name in edge}))}
    weight = np.zeros((len(names), len(names)))
    for (one, other), line in zip(edges, lines, strict=True):
        if one != other:
            value = float(line[2].replace(",", ".")) if len(line) > 2 and line[2] else 1.0
            weight[names[one], names[other]] = weight[names[other], names[one]] = value
    there, tie = set(edges), (weight != 0).astype(float)
    back = np.mean([(other, one) in there for one, other in there]) if there else 0
    known, strength = weight[weight != 0] if weight.any() else np.zeros(1), weight.sum(axis=1)
    heavy = [known.mean(), known.std(), known.min(), known.max(), np.median(known), strength.max(), strength.std()]
    loops = sum(one == other for one, other in edges)
    return [len(names), len(edges), loops, len(edges) - len(there), back, *heavy, *graph_motifs(tie), *graph_ways(tie)]


def graph_motifs(tie):
    """Degrees, triangles, squares, cores, and whether neighbours have like degrees."""
    degree, square = tie.sum(axis=1), tie @ tie
    triangles, pairs = np.diag(square @ tie) / 2, degree * (degree - 1) / 2
    shared = square - np.diag(np.diag(square))
    one, other = np.nonzero(tie)
    alike = np.corrcoef(degree[one], degree[other])[0, 1] if degree[one].std() > 0 else 0.0
    local = np.where(pairs > 0, triangles / np.maximum(pairs, 1), 0)
    ordered = np.sort(degree)[::-1] / max(degree.sum(), 1)
    core, cores = tie.copy(), []
    for least in (2, 3, 4):
        while ((core.sum(axis=1) < least) & (core.sum(axis=1) > 0)).any():
            weak = core.sum(axis=1) < least
            core[weak] = core[:, weak] = 0
        cores.append((core.sum(axis=1) > 0).mean())
    found = [(degree == k).mean() for k in (1, 2, 3)]
    found += [
        degree.mean(),
        degree.std(),
        degree.max(),
        np.median(degree),
        (degree**2).mean() / max(degree.mean() ** 2, 1e-9),
    ]
    found += [
        triangles.sum(),
        triangles.sum() / max(pairs.sum(), 1),
        local.mean(),
        local.std(),
        (shared * (shared - 1)).sum(),
    ]
    return [*found, tie.sum(), tie.mean(), *cores, alike, ordered[:1].sum(), ordered[:3].sum()]


def graph_ways(tie):
    """Parts, distances, and the spectrum with the cuts that it proposes."""
    count, part = csgraph.connected_components(tie, directed=False)
    sizes = np.bincount(part)
    far = csgraph.shortest_path(tie, unweighted=True, directed=False)
    reached = far[np.isfinite(far) & (far > 0)] if tie.any() else np.zeros(1)
    degree = tie.sum(axis=1)
    scale = 1 / np.sqrt(np.maximum(degree, 1))
    values, vectors = np.linalg.eigh(np.eye(len(tie)) - scale[:, None] * tie * scale)
    largest, total, cuts = np.linalg.eigvalsh(tie), max(degree.sum(), 1), []
    for k in range(1, min(4, len(tie))):
        group = vectors[:, k] > 0
        inside = tie[group][:, group].sum() + tie[~group][:, ~group].sum()
        cuts.append(inside / total - (degree[group].sum() ** 2 + degree[~group].sum() ** 2) / total**2)
    found = [count, sizes.max() / len(tie), (sizes == 1).sum(), reached.mean(), reached.max(), reached.std()]
    found += [*((reached == k).mean() for k in (1, 2, 3, 4)), *np.pad(values, (0, 8))[1:6], values[-1]]
    found += [largest[-1], largest[0], (values**2).sum(), (values < 0.5).sum(), -largest[0] / max(largest[-1], 1e-9)]
    return [*found, *np.pad(cuts, (0, 3 - len(cuts)))]


def fine_text(column):
    texts = [re.sub(r"<[^>]*>", "", html.unescape(text_of(cell))).lower() for cell in column]
    texts = [re.sub(r'"[^"]*"', " quoted ", re.sub(r"\s+", " ", text)) for text in texts]
    pairs = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=600, sublinear_tf=True).fit_transform(texts)
    themes = TruncatedSVD(min(12, pairs.shape[1] - 1), random_state=0).fit_transform(pairs)
    counter = CountVectorizer(max_features=100, binary=True)
    several = counter.fit_transform(texts).toarray()
    kept = np.argsort(np.abs(several.mean(axis=0) - 0.4), kind="stable")[:30]
    names = counter.get_feature_names_out()[kept]
    order = [[text.find(word) / len(text) if word in text else 0.5 for word in names] for text in texts]
    return pd.DataFrame(np.hstack([themes, several[:, kept], order, [text_counts(text) for text in texts]]))


def text_counts(text):
    """Praise and blame, doubt, numbers, marks."""
    good = """good better best fine great nice clean clear calm bright strong healthy fresh smooth steady stable solid sound
        firm neat tidy safe sharp warm rich lively reliable excellent perfect pleasant dry even flawless sturdy vivid robust"""
    bad = """bad worse worst poor weak dirty dull dark broken cracked rough loose sick stale faulty uneven wet damp cold rusty
        damaged noisy worn torn unsafe unstable unreliable slow thin blurred muddy mouldy shaky brittle leaking faded sour"""
    doubt = "perhaps probably possibly apparently presumably allegedly maybe might seems likely supposedly"
    sure = "certainly definitely surely undoubtedly obviously plainly clearly indeed truly"
    denial = "not never no hardly without anything far barely cannot less"
    grades = "negligible tiny slight minor moderate noticeable serious grave severe extreme"
    haste = "someday eventually year month week today immediately"
    words = re.findall(r"[^\W\d]+", text)
    lists = [set(each.split()) for each in (good, bad, doubt, sure, denial)]
    counts = [sum(word in each for word in words) for each in lists]
    turned = 0
    for at, word in enumerate(words):
        sign = (word in lists[0]) - (word in lists[1])
        turned += -sign if lists[4] & set(words[max(0, at - 4) : at]) else sign
    numbers = [float(each.replace(",", ".")) for each in re.findall(r"-?\d+(?:[.,]\d+)?", text)] or [0.0]
    now = re.search(r"(?:now|:) (-?\d+(?:[.,]\d+)?)", text)
    current = float(now.group(1).replace(",", ".")) if now else numbers[0]
    ends = [numbers[0], numbers[-1], max(numbers), min(numbers), numbers[0] - numbers[-1], current, len(numbers)]
    for scale in (grades.split(), haste.split()):
        places = [float(scale.index(word)) for word in words if word in scale]
        ends.append(float(np.mean(places or [len(scale) / 2])))
    return [*counts, turned, counts[2] - counts[3], *ends, text.count("?"), text.count("!"), len(words), len(text)]


def rough_gap(table, goals, train):
    column = next(c for c in ("image", "audio", "series") if c in table)
    seen = rough(table[column]).to_numpy()[:, 1:6]
    rows = np.array([[[at, *line] for at in range(len(goals))] for line in seen])
    return rows, np.zeros((len(table), len(goals))), np.ones((len(table), 1))


def linear_guess(seen, known):
    """Linear predictions of all samples from what surrounds the gap; of the training samples out of fold."""
    model, count = Ridge(60.0), len(known)
    return np.vstack(
        [cross_val_predict(model, seen[:count], known, cv=5), model.fit(seen[:count], known).predict(seen[count:])]
    )


def fine_audio_gap(table, goals, train):
    count, rows, spreads, sides = len(goals), [], [], []
    for path, start in zip(table["audio"], table["gap_start"], strict=True):
        level = sound(path)[0]
        spread = level[max(0, start - 300) : start + count + 300].std() + 1e-6
        level = level / spread
        place = np.arange(1, count + 1) / (count + 1)
        line = level[start - 1] * (1 - place) + level[start + count] * place
        rows.append([line, linear_prediction(level, start, count), *likeness(level, start, count), place])
        spreads.append(spread)
        sides.append(np.concatenate([level[start - 200 : start], level[start + count : start + count + 200]]))
    found, spread = np.array(rows), np.array(spreads)[:, None]
    linear = linear_guess(np.array(sides), train[goals].to_numpy(dtype=float) / spread[: len(train)])
    return np.concatenate([found, linear[:, None]], axis=1).transpose(0, 2, 1), found[:, 1] * spread, spread


def linear_prediction(level, start, count, order=48, around=700):
    """The samples that leave the least error of linear prediction over the gap."""
    low, high = max(0, start - around), min(len(level), start + count + around)
    part, at = level[low:high], start - low
    power = np.abs(np.fft.rfft(part * np.hanning(len(part)), n=4 * len(part))) ** 2
    memory = np.fft.irfft(power)[: order + 1]
    memory[0] *= 1.001
    weights = np.concatenate([[1.0], -solve_toeplitz(memory[:-1], memory[1:])])
    steps = np.arange(at, at + count + order)
    table = np.zeros((len(steps), count))
    for lag, weight in enumerate(weights):
        inside = (steps - lag >= at) & (steps - lag < at + count)
        table[np.flatnonzero(inside), steps[inside] - lag - at] = weight
    empty = part.copy()
    empty[at : at + count] = 0
    rest = sum(weight * empty[steps - lag] for lag, weight in enumerate(weights))
    return np.linalg.lstsq(table, -rest, rcond=None)[0]


def likeness(level, start, count, side=60):
    """What looks most like the gap's surroundings elsewhere in the recording, forwards and backwards."""
    weight = np.r_[np.ones(side), np.zeros(count), np.ones(side)]
    around = level[start - side : start + count + side] * weight
    found = []
    for other, hole in ((level, start), (level[::-1], len(level) - start - count)):
        energy = np.maximum(np.correlate(other**2, weight, "valid"), 1e-3)
        alike = np.correlate(other, around, "valid") / np.sqrt(energy * (around**2).sum() + 1e-9)
        alike[max(0, hole - side - count + 1) : hole - side + count] = 0
        best = np.abs(alike).argmax()
        guess = alike[best] * other[best + side : best + side + count]
        found += [guess, np.full(count, abs(alike[best]))]
    return found


def fine_series_gap(table, goals, train):
    level, plan, asked = series_courses(table["series"], len(goals))
    known = np.setdiff1d(np.arange(level.shape[1]), asked)
    middle, spread = level[:, known].mean(axis=1, keepdims=True), level[:, known].std(axis=1, keepdims=True) + 1e-9
    flat = (level - middle) / spread
    flat[:, asked] = 0
    first, last = asked[0], asked[-1]
    before = flat[:, first - 1]
    after = flat[:, last + 1] if last + 1 < flat.shape[1] else before
    place = np.arange(1, len(asked) + 1) / (len(asked) + 1)
    found = [before[:, None] * (1 - place) + after[:, None] * place, series_waves(flat, known, asked)]
    found.append(series_windows(flat, plan, asked))
    found += [np.repeat(each[:, None], len(asked), axis=1) for each in (before, after, flat[:, first - 2])]
    found.append(np.tile(place, (len(flat), 1)))
    if plan is not None:
        found += [((plan - plan.mean()) / (plan.std() + 1e-9))[:, asked - lag] for lag in range(4)]
    return np.stack(found, axis=2), found[2] * spread + middle, spread


def series_courses(column, count):
    """(values; a plan known ahead, or None; the steps asked for) of all series, each put in order and freed of outliers."""
    files = [pd.read_csv("input/" + path) for path in column]
    most = round(max(pd.to_numeric(lines["step"]).max() for lines in files))
    asked = sorted(set.intersection(*(set(lines["step"][lines.iloc[:, 1].isna()].astype(int)) for lines in files)))
    if len(asked) != count:
        asked = list(range(most + 1, most + 1 + count))
    steps, level, plans = np.arange(max(most, asked[-1]) + 1), [], []
    values = [series_values(lines, 1) for lines in files]
    low, high = np.quantile(np.concatenate([value for _, value in values]), [0.02, 0.98])
    for lines, (at, value) in zip(files, values, strict=True):
        level.append(np.interp(steps, at, np.where(value > high + 1.5 * (high - low), value / 10, value)))
        if lines.shape[1] > 2 and pd.api.types.is_numeric_dtype(lines.iloc[:, 2]):
            plans.append(np.interp(steps, *series_values(lines, 2)))
    return np.stack(level), np.stack(plans) if plans else None, np.array(asked)


def series_values(lines, at):
    kept = lines[lines.iloc[:, at].notna()].drop_duplicates("step", keep="last").sort_values("step")
    value = kept.iloc[:, at].astype(float)
    if at == 1 and "unit" in kept:
        value = value.where(~kept["unit"].astype(str).str.startswith("1/1000"), value / 1000)
    return kept["step"].to_numpy(dtype=float), value.to_numpy()


def series_waves(flat, known, asked):
    """A linear course and three waves of the strongest season, continued."""
    size = np.abs(np.fft.rfft(flat * np.hanning(flat.shape[1]), n=1024, axis=1)).mean(axis=0)
    low = int(1024 / flat.shape[1] * 2)
    turn = 2 * np.pi * np.arange(flat.shape[1]) * (low + size[low:].argmax()) / 1024
    waves = np.stack([turn**0, turn, *(f(k * turn) for k in (1, 2, 3) for f in (np.sin, np.cos))], axis=1)
    return Ridge(1.0, fit_intercept=False).fit(waves[known], flat[:, known].T).predict(waves[asked]).T


def series_windows(flat, plan, asked):
    """A linear model of all windows that look like the one asked for, of every series."""
    count, reach, first = len(asked), 26, asked[0]
    after = min(reach, flat.shape[1] - 1 - asked[-1])
    inputs, wanted, own = [], [], None
    for start in range(reach, flat.shape[1] - count - after + 1):
        if start != first and np.isin(np.arange(start - reach, start + count + after), asked).any():
            continue
        sides = [flat[:, start - reach : start], flat[:, start + count : start + count + after]]
        if plan is not None:
            sides.append((plan[:, start - 3 : start + count] - plan.mean()) / (plan.std() + 1e-9))
        if start == first:
            own = np.hstack(sides)
        else:
            inputs.append(np.hstack(sides))
            wanted.append(flat[:, start : start + count])
    if not inputs:
        return np.zeros((len(flat), count))
    return Ridge(5.0).fit(np.vstack(inputs), np.vstack(wanted)).predict(own)


def fine_image_gap(table, goals, train):
    grey = np.stack([grey_image(path) for path in table["image"]])
    places = np.array([[int(part) for part in goal.split("_")[1:]] for goal in goals])
    hole = places + np.argwhere((grey == grey[:1]).all(axis=0)).min(axis=0)
    hidden = np.zeros(grey.shape[1:], dtype=bool)
    hidden[hole[:, 0], hole[:, 1]] = True
    middle = grey[:, ~hidden].mean(axis=1)[:, None]
    spread = grey[:, ~hidden].std(axis=1)[:, None] + 1e-6
    flat = (grey - middle[:, :, None]) / spread[:, :, None]
    flat[:, hidden] = 0
    (top, left), (low, right), (down, across) = hole.min(axis=0), hole.max(axis=0), hole.T
    edges = [flat[:, down, left - 1], flat[:, down, right + 1], flat[:, top - 1, across], flat[:, low + 1, across]]
    weights = [1 / (1 + away) for away in (across - left, right - across, down - top, low - down)]
    found = [sum(edge * weight for edge, weight in zip(edges, weights, strict=True)) / sum(weights), *edges]
    found += [other[:, down, across] for other in (flat[:, :, ::-1], flat[:, ::-1], flat[:, ::-1, ::-1])]
    found += [*image_shifts(flat, hidden, hole), image_filled(flat, hidden)[:, hidden]]
    linear = linear_guess(
        flat[:, ~hidden], (train[goals].to_numpy(dtype=float) - middle[: len(train)]) / spread[: len(train)]
    )
    found += [linear, *(np.tile(each, (len(grey), 1)).astype(float) for each in places.T)]
    return np.stack(found, axis=2), linear * spread + middle, spread


def image_shifts(flat, hidden, hole):
    """What lies the steps away at which the pictures are most like themselves."""
    side, likely = len(hidden), []
    for down, across in np.ndindex(19, 19):
        step = np.array([down - 9, across - 9])
        at = hole + step
        if (at < 0).any() or (at >= side).any() or hidden[at[:, 0], at[:, 1]].any():
            continue
        here = [slice(max(0, -each), side - max(0, each)) for each in step]
        there = [slice(max(0, each), side - max(0, -each)) for each in step]
        one, other = flat[:, here[0], here[1]], flat[:, there[0], there[1]]
        likely.append((abs((one * other).mean()) / np.sqrt((one**2).mean() * (other**2).mean()), *step))
    best = sorted(likely, reverse=True)[:4]
    found = [flat[:, hole[:, 0] + down, hole[:, 1] + across] for _, down, across in best]
    return (found + [np.zeros((len(flat), len(hole)))] * 4)[:4]


def image_filled(flat, hidden):
    """The hole filled by the strongest waves, again and again."""
    side, filled = len(hidden), flat.copy()
    window = np.hanning(side + 2)[1:-1] ** 0.5
    window = window[:, None] * window
    for step in range(30):
        spectrum = np.fft.fft2(filled * window, s=(2 * side, 2 * side))
        size = np.abs(spectrum)
        limit = size.max(axis=(1, 2), keepdims=True) * (0.9 - 0.025 * step)
        kept = np.fft.ifft2(np.where(size >= limit, spectrum, 0)).real[:, :side, :side] / np.maximum(window, 0.2)
        filled[:, hidden] = kept[:, hidden]
    return filled


def rough_mask(table):
    grey = np.stack([grey_image(path) for path in table["image"]])
    places = np.broadcast_to(np.indices(grey.shape[1:])[:, None], (2, *grey.shape))
    found = np.stack([grey, ndimage.uniform_filter(grey, (0, 3, 3)), *places], axis=-1)
    return found.reshape(len(grey), -1, found.shape[-1])


def fine_mask(table):
    """Brightness, roughness and stripes of each pixel's surroundings, of several lengths and directions."""
    grey = np.stack([grey_image(path) for path in table["image"]]) / 255
    level = blurred(grey, 2.0)
    found = [grey, blurred(grey, 1.0) - level, level - np.median(level, axis=(1, 2), keepdims=True)]
    found += [np.log(blurred((grey - level) ** 2, width) + 1e-5) for width in (1.2, 2.2)]
    bend = np.abs(np.pad(np.diff(np.diff(grey, 2, axis=1), 2, axis=2), ((0, 0), (1, 1), (1, 1)), mode="edge"))
    found += [np.log(blurred(bend, 1.5) + 0.01), np.log(ndimage.percentile_filter(bend, 30, size=(1, 5, 5)) + 0.01)]
    strength = np.zeros((3, 6, *grey.shape))
    down, across = np.indices(grey.shape[1:])
    for row, period in enumerate((3.0, 4.2, 6.0)):
        for column, angle in enumerate(np.arange(0, np.pi, np.pi / 6)):
            phase = 2 * np.pi / period * (np.cos(angle) * across + np.sin(angle) * down)
            strength[row, column] = sum(blurred((grey - level) * f(phase), 1.7) ** 2 for f in (np.cos, np.sin)) + 1e-5
    found += [np.log(strength[at].max(axis=0)) for at in range(3)]
    found.append(np.log(strength[0].max(axis=0) / strength[2].max(axis=0)))
    found += [np.log(strength[:, at].max(axis=0) / strength.mean(axis=(0, 1))) for at in range(6)]
    return np.stack(found, axis=-1).reshape(len(grey), grey[0].size, -1)


def blurred(fields, width):
    return ndimage.gaussian_filter(fields, (0, width, width))


def mask_of(code, size):
    mask = np.zeros(size, dtype=int)
    runs = [int(number) for number in code.split()] if isinstance(code, str) else []
    for start, length in zip(runs[::2], runs[1::2], strict=True):
        mask[start - 1 : start - 1 + length] = 1
    return mask


def code_of(mask):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(edges[::2], edges[1::2], strict=True))
