"""Pictures of procedural tasks: the files, what can be measured in them again, the two problems with a target a pixel."""

import hashlib
import io
import zlib

import numpy as np
import pytest
from PIL import Image
from sklearn.ensemble import ExtraTreesRegressor

from mletools.grading import score_bytes
from mletools.tasks.draft import draft_world
from mletools.tasks.forms import rle
from mletools.tasks.procedural.draw import _dense, scenarios
from mletools.tasks.procedural.media import image
from mletools.tasks.procedural.media.image import (
    FORMS,
    MARKER,
    NUMBERS,
    TEXTURES,
    Hole,
    as_bytes,
    asset,
    flawed,
    turned,
)
from mletools.tasks.procedural.world import Number
from mletools.tasks.table import generator

# One in colour, so that all factors are drawn.
SCENARIO = next(each for each in scenarios() if each["image"]["channels"] == 3)


def rendered(seed, mutations, rows=30):
    draws = generator(seed)
    factors = image.factors(SCENARIO, rows, draws)
    return factors, image.render(SCENARIO, factors, mutations, draws)


def opened(contents):
    return np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in contents])


def dense(problem, seed, rows=40, mutations=None, noise=0.1):
    return image.DENSE[problem](SCENARIO, rows, mutations or {}, noise, generator(seed))


def challenge(problem, metric, form, seed):
    draws = generator(seed)
    made = image.DENSE[problem](SCENARIO, 60, {"blur": 0.4, "rotation": 0.5}, 0.1, draws)
    dna = {
        "modality": "image", "problem": problem, "metric": metric, "form": form, "params": {}, "test_share": 0.33,
        "mutations": [],
    }  # fmt: skip
    return draft_world(_dense("name", [], dna, SCENARIO, made), draws)


def skill(view, made, rows):
    """R2 over the pixels of the last third of the rows, trained on the first two thirds."""
    cut = 2 * rows // 3
    x, y = np.asarray(view), made.target.y
    train, answers = x[:cut].reshape(-1, x.shape[2])[::7], y[:cut].reshape(-1)[::7]
    test, truth = x[cut:].reshape(-1, x.shape[2])[::5], y[cut:].reshape(-1)[::5]
    guess = ExtraTreesRegressor(20, min_samples_leaf=4, random_state=0).fit(train, answers).predict(test)
    return 1 - ((guess - truth) ** 2).mean() / truth.var()


def test_a_second_run_of_a_dense_problem_gives_the_same_bytes():
    mutations = dict.fromkeys(image.MUTATIONS, 0.7)
    for problem in image.DENSE:
        runs = [dense(problem, 5, mutations=mutations) for _ in range(2)]
        assert runs[0].rendered.assets[0].contents == runs[1].rendered.assets[0].contents
        assert runs[0].target.cells == runs[1].target.cells
        assert runs[0].right.tobytes() == runs[1].right.tobytes()


def test_the_order_of_the_mutations_does_not_matter():
    names = list(image.MUTATIONS)
    one, other = (rendered(3, dict.fromkeys(order, 0.7))[1] for order in (names, names[::-1]))
    assert one.assets[0].contents == other.assets[0].contents


@pytest.mark.parametrize("seed", range(6))
def test_files_are_png_of_one_size_without_metadata(seed):
    _, result = rendered(seed, {"blur": 0.5, "salt_and_pepper": 0.6})
    contents = result.assets[0].contents
    assert len({len(content) for content in contents}) == 1
    assert len({hashlib.sha256(content).digest() for content in contents}) == len(contents)
    first = Image.open(io.BytesIO(contents[0]))
    assert first.mode in ("L", "RGB") and first.info == {}
    assert f"{first.width} x {first.height} pixels" in result.notes[0]
    assert 24 <= first.width == first.height <= 36


@pytest.mark.parametrize("channels", [1, 3])
def test_the_scenario_decides_on_colour_and_the_notes_say_it(channels):
    scenario = next(each for each in scenarios() if each["image"]["channels"] == channels)
    for seed in range(4):
        draws = generator(seed)
        factors = image.factors(scenario, 4, draws)
        result = image.render(scenario, factors, {}, draws)
        assert Image.open(io.BytesIO(result.assets[0].contents[0])).mode == ("L" if channels == 1 else "RGB")
        assert ("grey" if channels == 1 else "in colour (RGB)") in result.notes[0]
        assert result.notes[1].startswith("The camera puts a mark into each picture: ")
        assert channels == 3 or "image_tint" not in [factor.name for factor in factors]


def test_pixels_come_back_and_are_stored_not_compressed():
    pixels = generator(0).randint(256, size=(2, 24, 24, 3)).astype(np.uint8)
    contents = asset(pixels).contents
    assert (opened(contents) == pixels).all()
    start = contents[0].index(b"IDAT") + 4
    packed = contents[0][start : start + int.from_bytes(contents[0][start - 8 : start - 4], "big")]
    # After two bytes of header one block, which is the last and of the stored kind.
    assert packed[2] == 1
    assert len(zlib.decompress(packed)) == 24 * (24 * 3 + 1) == len(packed) - 11


def test_halves_of_a_grey_value_are_rounded_alike_on_every_machine():
    assert as_bytes(np.array([0.5, 0.5 + 1e-12, 0.5 - 1e-12])).tolist() == [128, 128, 128]


def test_a_factor_shows_in_the_pixels():
    marker = next(each for each in image.factors(SCENARIO, 40, generator(1)) if each.name == MARKER)
    grain = Number("image_grain", *NUMBERS["image_grain"], np.repeat([0.0, 1.0], 20))
    result = image.render(SCENARIO, [marker, grain], {}, generator(2))
    assert list(result.measured) == [MARKER, "image_grain"]
    assert result.measured["image_grain"][:20].max() < result.measured["image_grain"][20:].min()


@pytest.mark.parametrize("problem", ["segmentation", "reconstruction"])
def test_right_features_beat_plain_ones(problem):
    gains, plain = [], []
    for seed in range(8):
        made = dense(problem, seed, mutations={"sensor_noise": 0.5})
        assert made.plain.shape[:2] == made.right.shape[:2] == made.target.y.shape == made.target.known.shape
        assert made.target.y.shape[1] <= 400
        plain.append(skill(made.plain, made, 40))
        gains.append(skill(made.right, made, 40) - plain[-1])
    assert np.mean(plain) > 0.08
    assert np.mean(gains) > 0.15


def test_every_rule_of_the_menus_is_drawn():
    masks = {dense("segmentation", seed, rows=4).families[0] for seed in range(20)}
    gaps = {dense("reconstruction", seed, rows=4).families[0] for seed in range(20)}
    assert masks == {f"mask_{name}" for name in FORMS}
    assert gaps == {f"texture_{name}" for name in TEXTURES}


@pytest.mark.parametrize("metric", ["dice_mean", "dice_global", "fbeta_mask"])
def test_masks_are_graded_in_their_order(metric):
    made = challenge("segmentation", metric, "mask", 4)
    known = made.known
    assert score_bytes(made.grading, made.answers, made.answers) == 1.0
    assert score_bytes(made.grading, made.answers, made.hand_in(known)) > 0.85
    side = made.metric["params"]["height"]
    down = known.reshape(-1, side, side).transpose(0, 2, 1).reshape(len(known), -1)
    assert score_bytes(made.grading, made.answers, made.hand_in(down)) < 0.8


def test_runs_of_a_mask_count_pixels_row_by_row_from_one():
    assert rle([1, 1, 0, 0, 1, 0]) == "1 2 5 1"
    made = dense("segmentation", 0)
    side = made.params["width"]
    assert made.params == {"height": side, "width": side}
    mask = np.zeros(side * side, dtype=int)
    for start, length in zip(*[iter(map(int, made.target.cells["mask"][3].split()))] * 2, strict=True):
        mask[start - 1 : start - 1 + length] = 1
    assert (mask == made.target.y[3]).all()
    assert "row by row from 1" in made.rendered.notes[1]


@pytest.mark.parametrize("metric", ["rmse", "mae", "r2"])
def test_knowing_the_texture_scores_well(metric):
    made = challenge("reconstruction", metric, "number", 6)
    score = score_bytes(made.grading, made.answers, made.hand_in(made.known))
    assert score > 0.95 if metric == "r2" else score < 0.2 * made.y.std()


@pytest.mark.parametrize("seed", range(5))
def test_the_hidden_square_is_flat_and_nothing_of_it_is_left(seed):
    made = dense("reconstruction", seed, mutations={"rotation": 0.5, "blur": 0.5})
    pictures = opened(made.rendered.assets[0].contents)
    flat = (pictures == pictures[0]).all(axis=0) & (pictures[0] == 128)
    assert flat.sum() == 25
    row, column = (int(each[0]) for each in np.nonzero(flat))
    assert f"rows {row} to {row + 4} and columns {column} to {column + 4}," in made.rendered.notes[1]
    assert (Hole(pictures.shape[1], row, column).units == np.flatnonzero(flat)).all()
    assert made.target.y.min() >= 0 and made.target.y.max() <= 255


def test_a_mask_turns_with_its_picture():
    pictures = generator(0).uniform(size=(40, 16, 16, 2))
    pictures[..., 1] = pictures[..., 0]
    after = turned(pictures, {"rotation": 1.0}, generator(1))
    assert (after[..., 0] == after[..., 1]).all()
    assert 0 < (after != pictures).any(axis=(1, 2, 3)).sum() < 40
    assert (flawed(pictures, {"rotation": 1.0}, generator(1)) == pictures).all()
