"""The check of a task's description against its files: it reads both and names the first contradiction.

Read are claims in the usual words: rows of tables, the table of columns with their values, ranges and gaps, files for each
row, sizes and colour of pictures, length, rate and channels of sounds, label values, missing values. A claim in words that
are not known here is not looked at.
"""

import io
import re
import wave
from collections.abc import Callable, Iterator

from ..folder import read
from ..table import MISSING
from .view import Columns, View, rows_of

MOST_OPENED = 40  # files of a kind
FEW_SECONDS = (2.0, 10.0)
ONES = {"one": 1, "a": 1, "two": 2, "three": 3, "mono": 1, "stereo": 2}
NUMBER = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
PICTURE = re.compile(r"picture|image|scan|photo|micrograph|\bpng\b|\bjpe?g\b", re.I)
SOUND = re.compile(r"\bwav\b|recording|sound|clip|audio", re.I)


def description_true(view: View) -> str:
    """Nothing that the description says of rows, columns, values, files, pictures and sounds contradicts the files."""
    text = view.task["description"]
    return next((reason for claims in CLAIMS for reason in claims(view, text)), "")


def _rows(view: View, text: str) -> Iterator[str]:
    for name, table in _tables(view).items():
        for claim in re.findall(rf"`?{re.escape(name)}`?(?: has|:| with|,| \()? *([\d,]+) rows", text):
            yield from _differs(f"rows in {name}", _whole(claim), rows_of(table))
    for train, test in re.findall(r"There are ([\d,]+) \S.{0,60}? to learn from and ([\d,]+) to predict", text):
        yield from _differs("rows to learn from", _whole(train), rows_of(view.train))
        yield from _differs("rows to predict", _whole(test), rows_of(view.test))


def _columns(view: View, text: str) -> Iterator[str]:
    """The table of columns, and the columns of the submission."""
    tables = _tables(view)
    for files, cell, values in _dictionary(text):
        names = re.findall(r"`([^`]+)`", cell)
        for file in files:
            table = tables.get(file) or tables.get(f"{file}.csv")
            if table is None:
                yield f"the description lists columns of {file}, which is no public table"
                continue
            missing = [name for name in names if name not in table and name != "..."]
            if missing:
                yield f"the description lists column {missing[0]!r} of {file}, which has none of that name"
            elif len(names) == 1:
                yield from _values(file, names[0], values, tables, files)
    for claim in re.findall(r"with the columns ((?:`[^`]+`(?:, | and )?|\.\.\.(?:, | and )?|`\.\.\.`(?:, )?)+)", text):
        missing = [name for name in re.findall(r"`([^`]+)`", claim) if name not in view.sample and name != "..."]
        if missing and view.sample:
            yield f"the description asks for column {missing[0]!r}, which the sample submission has not"


def _values(file: str, name: str, claim: str, tables: dict[str, Columns], files: list[str]) -> Iterator[str]:
    """The values of a column in all the tables that a line of the table of columns is about."""
    cells = [cell for each in files for cell in (tables.get(each) or tables.get(f"{each}.csv") or {}).get(name, [])]
    present = [cell for cell in cells if cell not in MISSING]
    gaps = re.search(rf"{NUMBER} % missing", claim)
    share = 100 * (1 - len(present) / max(1, len(cells)))
    if gaps and abs(float(gaps[1]) - share) > 0.1:
        yield f"the description says that {gaps[1]} % of {name} are missing, {share:.1f} % are"
    span = re.match(rf"{NUMBER} to {NUMBER}(?![\d.])", claim)
    numbers = [float(cell) for cell in present if re.fullmatch(NUMBER, cell)]
    if span and numbers and not claim.startswith("text"):
        for said, real in zip(span.groups(), (min(numbers), max(numbers)), strict=True):
            if abs(float(said) - real) > 1e-6 * max(1.0, abs(real)):
                yield f"the description says that {name} goes from {span[1]} to {span[2]}; {real:g} is its end"
                break
    levels = {level.strip(" `").lower() for level in claim.split(";")[0].split(",")}
    if len(levels) > 1 and not re.search(r"\btext of\b|different values| to |\.\.\.", claim):
        values = {cell.strip().lower() for cell in present}
        new = sorted(value for value in values - levels if f"`{value}`" not in claim.lower())
        if new and len(values) <= 2 * len(levels):
            yield f"{file} has the value {new[0]!r} of {name}, which the description does not list"


def _labels(view: View, text: str) -> Iterator[str]:
    real = {str(label) for label in view.spec.get("labels", [])}
    for claim in re.findall(r"value is one of ((?:`[^`]+`(?:, | and | or )?)+)", text) if real else ():
        said = set(re.findall(r"`([^`]+)`", claim))
        if said != real:
            yield f"the description names {sorted(said ^ real)[0]!r} differently from the task's labels"


def _gaps(view: View, text: str) -> Iterator[str]:
    if re.search(r"\b(no (values|cells) are missing|nothing is missing|there are no missing values)\b", text, re.I):
        for file in ("train", "test"):
            table: Columns = getattr(view, file)
            empty = [name for name, cells in table.items() if any(cell in MISSING for cell in cells)]
            if empty:
                yield f"the description says that nothing is missing, {file}.csv has gaps in {empty[0]!r}"


def _files(view: View, text: str) -> Iterator[str]:
    rows = rows_of(view.train) + rows_of(view.test)
    for folder, claim in re.findall(r"^[-*] `([\w./-]+)/`([^\n]*)", text, re.M):
        members = [name for name in view.public if name.startswith(f"{folder}/")]
        if not members:
            yield f"the description names the folder {folder}/, which is not there"
            continue
        ending = re.search(r"one file `ID\.(\w+)` for each row", claim)
        if ending and any(not name.endswith(f".{ending[1]}") for name in members):
            yield f"the description says that the files in {folder}/ end in .{ending[1]}, some do not"
        if ending:
            yield from _differs(f"files in {folder}/", rows, len(members))
        for count in re.findall(r"([\d,]+) (?:files|pictures|images|recordings|clips|notes|documents)\b", claim):
            yield from _differs(f"files in {folder}/", _whole(count), len(members))


def _pictures(view: View, text: str) -> Iterator[str]:
    names = _some(view, (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff"))
    if not names:
        return
    from PIL import Image

    sizes, grey = set(), set()
    for name in names:
        try:
            with Image.open(io.BytesIO(read(view.public[name]))) as picture:
                sizes.add(picture.size)
                grey.add(picture.mode in ("1", "L", "LA", "I", "I;16", "F"))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            yield f"{name} is no picture that can be read: {error}"
            return
    for sentence in _sentences(text, PICTURE):
        for wide, high in re.findall(r"(\d+) ?(?:x|\u00d7|by) ?(\d+) pixels", sentence):
            if sizes != {(int(wide), int(high))}:
                real = min(sizes - {(int(wide), int(high))})
                yield f"the description says {wide} x {high} pixels, a picture has {real[0]} x {real[1]}"
        if re.search(r"\b(gr[ea]y|greyscale|grayscale|black.and.white)\b", sentence, re.I) and False in grey:
            yield f"the description calls pictures grey that are in colour: {sentence.strip()[:80]}"
        if re.search(r"\bin colou?r\b|\bRGB\b|\bcolou?r (picture|image|photo|scan)", sentence) and True in grey:
            yield f"the description says that pictures are in colour which are grey: {sentence.strip()[:80]}"


def _sounds(view: View, text: str) -> Iterator[str]:
    names = _some(view, (".wav",))
    if not names:
        return
    sounds = []
    for name in names:
        try:
            with wave.open(io.BytesIO(read(view.public[name]))) as file:
                sounds.append((file.getnframes() / file.getframerate(), file.getframerate(), file.getnchannels()))
        except (wave.Error, EOFError):
            return
    seconds, rates, channels = (sorted(set(values)) for values in zip(*sounds, strict=True))
    for sentence in _sentences(text, SOUND):
        length = re.search(rf"\b{NUMBER} ?(?:s|seconds?)\b(?! of silence)", sentence)
        whole = re.search(r"\b(each|every|all|a (?:few|single)|file of|long|last)", sentence, re.I)
        if length and whole and not seconds[0] - 0.06 <= float(length[1]) <= seconds[-1] + 0.06:
            yield f"the description says {length[1]} s of sound, the files have {seconds[0]:g} to {seconds[-1]:g} s"
        if re.search(r"\b(few|several|some) seconds\b", sentence, re.I) and (
            seconds[-1] < FEW_SECONDS[0] or seconds[0] > FEW_SECONDS[1]
        ):
            yield f"the description says a few seconds, the files have {seconds[0]:g} to {seconds[-1]:g} s"
        for rate, unit in re.findall(r"([\d,.]+) (samples a second|samples per second|k?Hz sampling)", sentence):
            real = float(rate.replace(",", "")) * (1000 if unit.startswith("k") else 1)
            if rates != [real]:
                yield f"the description says {rate} {unit}, the files have {rates[0]} samples a second"
        said = re.search(r"\b(one|two|three|\d+) channels?\b|\b(mono|stereo)\b", sentence, re.I)
        if said and channels != [ONES.get((said[1] or said[2]).lower(), 0) or int(said[1])]:
            yield f"the description says {said[0]}, a file has {channels[0]}"


CLAIMS: tuple[Callable[[View, str], Iterator[str]], ...] = (_rows, _columns, _labels, _gaps, _files, _pictures, _sounds)


def _tables(view: View) -> dict[str, Columns]:
    return {"train.csv": view.train, "test.csv": view.test, **view.side_tables}


def _dictionary(text: str) -> Iterator[tuple[list[str], str, str]]:
    """(files, column cell, values cell) of each line of a Markdown table that begins with the files."""
    inside = False
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if len(cells) < 3:
            inside = False
        elif cells[:2] == ["file", "column"]:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            yield [file.strip(" `") for file in cells[0].split(",")], cells[1], cells[-1]


def _sentences(text: str, about: re.Pattern[str]) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?:])\s+|\n", text) if about.search(sentence)]


def _some(view: View, endings: tuple[str, ...]) -> list[str]:
    names = [name for name in view.public if name.lower().endswith(endings)]
    return names[:: max(1, -(-len(names) // MOST_OPENED))]


def _whole(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _differs(what: str, said: int, real: int) -> Iterator[str]:
    if said != real:
        yield f"the description says {said} {what}, there are {real}"
