"""Checks for leaks: what is no content of a row must not predict its target.

Each check gathers quantities (ids, positions, names, sizes, dates, notes) and asks association whether one of them says
something of a target. At most MOST_FILES files of a kind are opened. The size of a file that is stored as text follows
from its content and counts only by its padding; of pictures and sounds the whole size counts, so that a task has to
store them in a way that does not tell. Not covered: leaks that need a model to be read, and those of rows whose answers
are too alike to be told from chance (five of fifty rows).
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..folder import read, size
from . import quantities as of
from .association import FALSE_ALARM, Quantity, Target, strongest
from .case import Skipped
from .media import MOST_BYTES, Facts, facts_of
from .targets import number, targets_of, truth_of_test
from .view import Assets, View, changed, rows_of

MOST_FILES = 600
MOST_SORTED_BY = 100
# Hardly any sample is random, and it has the rows of the test set alone: less is enough for a finding.
OF_A_SAMPLE = 1e-3


def no_leak_ids(view: View) -> str:
    """Ids say nothing: by their value, digits, remainders, words, order."""
    if not view.features and not view.assets:
        raise Skipped("the ids are all that a row has")
    found = ""
    for name in dict.fromkeys([*view.row_ids, *view.ids]):
        texts = view.both(view.train.get(name), view.test.get(name), None)
        if any(text is not None for text in texts):
            found = found or _in_order(of.of_texts(name, texts, _classes(view)), view)
    return found


def no_leak_row_order(view: View) -> str:
    """Positions in train.csv and test.csv say nothing, beyond the columns that the rows are sorted by."""
    if not view.features and not view.assets:
        raise Skipped("the order of the ids is all that a row has")
    import numpy as np

    at = np.concatenate([view.chosen["train"], view.chosen["test"]]).astype(float)
    return _in_order(of.of_numbers("the position", at, _classes(view), ordered=True), view)


def no_leak_file_names(view: View) -> str:
    """The names of the rows' files say nothing; ids are another check's."""

    def stems(kind: Assets) -> list[Quantity]:
        names = _of_kind(view, kind, lambda name: name.rsplit("/", 1)[-1].rsplit(".", 1)[0])
        folders = _of_kind(view, kind, lambda name: name.rpartition("/")[0])
        ids = view.both(_key(view, "train"), _key(view, "test"), None)
        found = of.of_levels("the folder", folders)
        return found if names == ids else [*found, *of.of_texts("the file's name", names, _classes(view))]

    return _of_assets(view, stems, in_order=True)


def no_leak_file_sizes(view: View) -> str:
    """The sizes of the rows' files say nothing: all bytes of pictures and sounds, of texts the padding."""

    def sizes(kind: Assets) -> list[Quantity]:
        known = _facts(view, kind)
        surplus = _numbers(known, lambda facts: facts.surplus)
        padding = of.of_numbers("the padding of the file", surplus, _classes(view))
        if any(facts is not None and facts.text for facts in known):
            return padding
        whole = _of_kind(view, kind, lambda name: size(view.public[name]))
        return [*padding, *of.of_numbers("the size of the file", _float(whole), _classes(view))]

    return _of_assets(view, sizes)


def no_leak_timestamps(view: View) -> str:
    """When the rows' files were changed, and the dates inside them, say nothing."""

    def stamps(kind: Assets) -> list[Quantity]:
        times = _float(_of_kind(view, kind, lambda name: changed(view.public[name])))
        known = _facts(view, kind)
        inside = _numbers(known, lambda facts: facts.stamps[0] if facts.stamps else None)
        last = _numbers(known, lambda facts: facts.stamps[-1] if facts.stamps else None)
        return [
            *of.of_numbers("the file's time", times, _classes(view), ordered=True),
            *of.of_numbers("the first date in the file", inside, _classes(view)),
            *of.of_numbers("the last date in the file", last, _classes(view)),
        ]

    return _of_assets(view, stamps)


def no_leak_metadata(view: View) -> str:
    """Notes in the rows' files, the way these are stored, and blanks around the cells say nothing."""

    def notes(kind: Assets) -> list[Quantity]:
        known = _facts(view, kind)
        forms = [None if facts is None else " ".join(facts.form) for facts in known]
        texts = [None if facts is None else " ".join(facts.notes) for facts in known]
        return [
            *of.of_levels("the form of the file", forms),
            *of.of_texts("the notes in the file", texts, _classes(view)),
        ]

    blanks = []
    for part in ("train", "test"):
        table = getattr(view, part)
        cells = [[len(cell) - len(cell.strip()) for cell in table[name]] for name in view.features if name in table]
        blanks.append([sum(row) for row in zip(*cells, strict=True)] or [0] * rows_of(table))
    around = of.of_numbers("the blanks around the cells", _float(view.both(blanks[0], blanks[1], None)))
    return _say(around, view) or _of_assets(view, notes)


def sample_uninformative(view: View) -> str:
    """The sample submission is constant, or unrelated to the answers in its values and in the order of its rows."""
    if not view.sample:
        raise Skipped("there is no sample submission")
    import numpy as np

    names = [name for name in view.spec["target"] if name in view.sample]
    if not all(name in view.sample for name in view.ids) or not names:
        return "the sample submission lacks a column"
    if view.item_column:
        return _say(of.of_numbers("the place in the sample", _places(view, names[0])), view, alarm=OF_A_SAMPLE)
    ids = _key(view, "test") or []
    place = {key: at for at, key in enumerate(_joined(view.sample, view.ids))}
    rows = [place.get(key) for key in ids]
    truth = truth_of_test(view)
    pairs = [
        (view.sample[name], truth[target]) for name, target in zip(names, view.targets, strict=False) if target in truth
    ]
    varied = any(len(set(cells)) > 1 for cells, _ in pairs)
    if varied and all(cell == (None if at is None else sample[at]) for sample, cells in pairs for at, cell in zip(rows, cells, strict=True)):  # fmt: skip
        return "the sample submission holds the answers"
    found: list[Quantity] = []
    if [at for at in rows if at is not None] != sorted(at for at in rows if at is not None):
        order = view.both(None, [np.nan if at is None else float(at) for at in rows], np.nan)
        found += of.of_numbers("the order of the sample", order, _classes(view), ordered=True)
    for name in names[:MOST_SORTED_BY]:
        cells = [None if at is None else view.sample[name][at] for at in rows]
        values = view.both(None, cells, None)
        numbers = [number(cell) for cell in values]
        plain = all(value == value for value, cell in zip(numbers, values, strict=True) if cell is not None)
        title = f"{name} in the sample"
        found += of.of_numbers(title, numbers)[:1] if plain else of.of_texts(title, values, ordered=False)
    return _say(found, view, alarm=OF_A_SAMPLE)


def _places(view: View, target: str) -> Any:
    """Where in its query's list of the sample each row of the test set stands, as a share of the list's length."""
    place: dict[tuple[Any, ...], float] = {}
    for key, cell in zip(_joined(view.sample, view.ids), view.sample[target], strict=True):
        items = cell.split()
        place.update({(key, item): at / len(items) for at, item in enumerate(items)})
    rows = zip(_joined(view.test, view.ids), view.test[view.item_column], strict=True)
    return _float(view.both(None, [place.get(row) for row in rows], None))


def _say(quantities: Sequence[Quantity], view: View, strata: Any = None, alarm: float = FALSE_ALARM) -> str:
    finding = strongest(quantities, _targets(view), view.strata if strata is None else strata, alarm)
    return "" if finding is None else str(finding)


def _in_order(quantities: Sequence[Quantity], view: View) -> str:
    """As _say, but what follows from columns that the rows are sorted by is no finding.

    The quantities that are like an order of the rows are compared within the rows that those columns leave together.
    """
    orders = [each for each in quantities if each.ordered]
    for order in orders:
        codes = view.once("codes", lambda: _column_codes(view))
        cut = of.refined(view.strata, order.values, codes)
        if len(set(cut.tolist())) > len(set(view.strata.tolist())):
            return _say(quantities, view, cut)
    return _say(quantities, view)


def _targets(view: View) -> list[Target]:
    targets: list[Target] = view.once("targets", lambda: targets_of(view))
    return targets


def _column_codes(view: View) -> list[Any]:
    """The features that both tables have, as codes in sorting order."""
    import numpy as np

    found = []
    for name in view.features[:MOST_SORTED_BY]:
        cells = view.both(view.train.get(name), view.test[name], "")
        numbers = np.array([number(cell) for cell in cells])
        plain = all(value == value or not cell for value, cell in zip(numbers, cells, strict=True))
        values: Any = np.where(np.isnan(numbers), -np.inf, numbers) if plain else np.array(cells, dtype=object)
        found.append(np.unique(values, return_inverse=True)[1])
    return found


def _classes(view: View) -> int:
    """How many classes the first target has, 0 where it has none."""
    import numpy as np

    first = next(iter(_targets(view)), None)
    return int(np.nanmax(first.values)) + 1 if first is not None and first.classes else 0


def _of_assets(view: View, make: Callable[[Assets], list[Quantity]], in_order: bool = False) -> str:
    if not view.assets:
        raise Skipped("no files belong to the rows")
    for kind in view.assets:
        found = (_in_order if in_order else _say)(make(kind), view)
        if found:
            return f"{kind.name}: {found}"
    return ""


def _of_kind(view: View, kind: Assets, what: Callable[[str], Any]) -> list[Any]:
    """What is to be known of each compared row's file, None where the row has none."""
    names = view.both(kind.train, kind.test, None)
    step = -(-len(names) // MOST_FILES)
    return [what(name) if name is not None and at % max(1, step) == 0 else None for at, name in enumerate(names)]


def _facts(view: View, kind: Assets) -> list[Facts | None]:
    def read_all() -> list[Facts | None]:
        return _of_kind(view, kind, lambda name: facts_of(name, read(view.public[name], MOST_BYTES)))

    facts: list[Facts | None] = view.once(f"facts of {kind.name}", read_all)
    return facts


def _numbers(known: Sequence[Facts | None], what: Callable[[Facts], Any]) -> Any:
    return _float([None if facts is None else what(facts) for facts in known])


def _float(values: Sequence[Any]) -> Any:
    import numpy as np

    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _joined(table: Any, names: Sequence[str]) -> list[str]:
    return ["/".join(key) for key in zip(*(table[name] for name in names), strict=True)]


def _key(view: View, part: str) -> list[str] | None:
    table = getattr(view, part)
    return _joined(table, view.row_ids) if all(name in table for name in view.row_ids) else None
