"""The metric of masks that are slices of a volume."""

from typing import Any

from .masks import MaskFormat, counts, f_beta, read_runs
from .registry import Undefined, Unsuited, metric
from .runs import Runs, merged, sizes

# Voxels of the largest volume; one byte each.
MOST_VOXELS = 2**31
# Side of the blocks of voxels that are looked at first when the farthest voxel is searched.
BLOCK = 8


@metric("dice_hausdorff", lower_is_better=False, best=1.0, parse="rle")
def dice_hausdorff(  # noqa: PLR0913  parameters of one competition's metric
    truth: Any,
    guess: Any,
    *,
    group: Any,
    extra: Any,
    slice_column: str,
    dice_weight: float = 0.4,
    hausdorff_weight: float = 0.6,
    most_ratio: float = 10.0,
    height: int | None = None,
    width: int | None = None,
    height_column: str | None = None,
    width_column: str | None = None,
    rle_order: str = "column",
    rle_start: int = 1,
    runs: str = "any",
    past_end: str = "refuse",
) -> float:
    """dice_weight * Dice + hausdorff_weight * (1 - H): mean Dice of the rows' masks, and H the mean Hausdorff distance of
    the groups' volumes in a unit cube, divided by its diagonal; what is empty in both counts in neither mean.

    group: rows of one volume. slice_column: a column of the answers; rows with the same value are one slice, whose masks
    are united, and the slices are stacked in the order of the values as text. H is 0 for equal volumes, 1 where one is
    empty or the predicted one has more than most_ratio times the voxels. The images' size is needed. rle_order: "column"
    counts pixels down the columns, "row" along the rows. runs, past_end: as in dice_mean. Source: the UW-Madison GI tract competition, details as in
    MLE-bench's grader.
    """
    import numpy as np

    rows = len(truth)
    masks = MaskFormat(height, width, height_column, width_column, rle_start, runs, past_end)
    high, wide = masks.sides(extra, rows)
    if high is None or wide is None:
        raise Unsuited("dice_hausdorff needs the images' height and width, or height_column and width_column")
    if slice_column not in extra:
        raise Unsuited(f"slice_column is {slice_column!r}, which is no column of the answers")
    if rle_order not in ("column", "row"):
        raise Unsuited(f"rle_order is {rle_order!r}, not column or row")
    both, in_truth, in_guess = counts(truth, guess, masks, extra)
    some = (in_truth + in_guess) > 0
    if not in_truth.any():
        raise Unsuited("no mask of the answers has a pixel")
    dice = f_beta(both, in_truth, in_guess, 1, 1)[some].mean()
    groups = np.asarray(group).astype(str)
    distances = []
    for name in np.unique(groups[some]):
        at = np.flatnonzero(groups == name)
        slices, z = np.unique(np.asarray(extra[slice_column])[at].astype(str), return_inverse=True)
        if len({(int(each), int(other)) for each, other in zip(high[at], wide[at], strict=True)}) > 1:
            raise Unsuited(f"the images of the group {str(name)!r} differ in size")
        across = (int(high[at[0]]), int(wide[at[0]]))
        shape = (len(slices), *(across[::-1] if rle_order == "column" else across))
        if shape[0] * shape[1] * shape[2] > MOST_VOXELS:
            raise Unsuited(f"the volume of the group {str(name)!r} has more than {MOST_VOXELS} voxels")
        room = high[at] * wide[at]
        real = _volume(read_runs(truth[at], room, masks, Unsuited), z, shape)
        predicted = _volume(read_runs(guess[at], room, masks, Undefined), z, shape)
        distances.append(_hausdorff(real, predicted, shape, most_ratio))
    return float(dice_weight * dice + hausdorff_weight * (1 - np.mean(distances)))


def _volume(runs: Runs, z: Any, shape: tuple[int, int, int]) -> Runs:
    """The runs of all slices as merged runs of one row: voxels are counted slice after slice."""
    import numpy as np

    first = z[runs.row] * (shape[1] * shape[2])
    return merged(Runs(np.zeros_like(runs.row), first + runs.start, first + runs.stop), 1)


def _hausdorff(truth: Runs, guess: Runs, shape: tuple[int, int, int], most_ratio: float) -> float:
    import numpy as np

    in_truth, in_guess = sizes(truth, 1)[0], sizes(guess, 1)[0]
    if not in_truth or not in_guess or in_guess > most_ratio * in_truth:
        return 1.0
    one, other = _voxels(truth, shape), _voxels(guess, shape)
    return max(_farthest(one, other, shape), _farthest(other, one, shape)) / float(np.sqrt(3))


def _voxels(runs: Runs, shape: tuple[int, int, int]) -> Any:
    """The numbers of the voxels of merged runs, in a volume with a margin of one voxel on every side."""
    import numpy as np

    length = runs.stop - runs.start
    voxel = np.repeat(runs.start - np.cumsum(length) + length, length) + np.arange(length.sum())
    line, along = np.divmod(voxel, shape[2])
    first = (np.arange(shape[0])[:, None] + 1) * (shape[1] + 2) + np.arange(shape[1]) + 1  # number of each line
    return first.ravel()[line] * (shape[2] + 2) + along + 1


def _places(voxels: Any, shape: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """Place of each voxel along the three sides, from 1."""
    import numpy as np

    line, along = np.divmod(voxels, shape[2] + 2)
    return (*np.divmod(line, shape[1] + 2), along)


def _scaled(places: tuple[Any, Any, Any], shape: tuple[int, int, int]) -> Any:
    """Coordinates in a volume whose sides are 1, floats of shape (voxels, 3)."""
    import numpy as np

    return np.stack([place / side for place, side in zip(places, shape, strict=True)], axis=1)


def _farthest(points: Any, others: Any, shape: tuple[int, int, int]) -> float:
    """The largest distance of a voxel of `points` to its nearest of `others`, the volume's sides being 1.

    Exact, but few distances are computed: voxels of both are 0 away; the nearest voxel of a body to one outside lies on
    its surface; and a block of voxels holds the farthest only if some voxel's distance there comes near the largest found.
    """
    import numpy as np
    from scipy.spatial import cKDTree

    body = np.zeros((shape[0] + 2) * (shape[1] + 2) * (shape[2] + 2), dtype=bool)
    body[others] = True
    outside = points[~body[points]]
    if not len(outside):
        return 0.0
    steps = ((shape[1] + 2) * (shape[2] + 2), shape[2] + 2, 1)
    inner = np.logical_and.reduce([body[others + step] & body[others - step] for step in steps])
    surface = cKDTree(_scaled(_places(others[~inner], shape), shape))
    places = _places(outside, shape)
    blocks = [side // BLOCK + 1 for side in shape]
    block = ((places[0] // BLOCK) * blocks[1] + places[1] // BLOCK) * blocks[2] + places[2] // BLOCK
    one = np.full(blocks[0] * blocks[1] * blocks[2], -1)
    one[block] = np.arange(len(block))  # some voxel of each block
    filled = one >= 0
    chosen = one[filled]
    near = np.zeros(len(one))
    near[filled], _ = surface.query(_scaled(tuple(place[chosen] for place in places), shape))
    best = near.max()
    reach = (BLOCK - 1) * np.sqrt(sum(side**-2.0 for side in shape))
    left = (near + reach >= best)[block]
    distance, _ = surface.query(_scaled(tuple(place[left] for place in places), shape))
    return float(distance.max())
