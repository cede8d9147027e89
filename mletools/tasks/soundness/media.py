"""What a file carries beside its content: notes, dates, padding, the way it is stored.

Read: PNG, JPEG, WAV and other RIFF files, gzip, texts. Of other kinds only the size is known. Not covered: what is hidden
inside the content itself (the lowest bits of pixels), and notes after the first MOST_BYTES bytes.
"""

import hashlib
import re
import struct
from calendar import timegm
from dataclasses import dataclass, field

MOST_BYTES = 8 << 20
PNG = b"\x89PNG\r\n\x1a\n"
PIXELS = {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS"}
TEXTS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".edges", ".edgelist", ".graph", ".dat", ".xml", ".html")
WITH_COMMENTS = (".csv", ".tsv", ".edges", ".edgelist", ".graph", ".dat")
DATE = re.compile(r"(\d{4})[:/-](\d\d)[:/-](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?")


@dataclass
class Facts:
    """One file: `notes` is text that is no content, `form` says how the content is stored.

    `surplus` are bytes that no reader needs: after the end of a picture or a sound, blanks at the ends of lines.
    `stamps` are dates inside the file, in seconds; `text` tells that the size follows from a readable content.
    """

    notes: list[str] = field(default_factory=list)
    form: list[str] = field(default_factory=list)
    surplus: int = 0
    stamps: list[float] = field(default_factory=list)
    text: bool = False


def facts_of(name: str, content: bytes) -> Facts:
    """What the bytes of a file carry beside its content."""
    facts = Facts()
    try:
        if content.startswith(PNG):
            _png(content, facts)
        elif content.startswith((b"RIFF", b"RIFX")):
            _riff(content, facts)
        elif content.startswith(b"\xff\xd8"):
            _jpeg(content, facts)
        elif content.startswith(b"\x1f\x8b"):
            _gzip(content, facts)
        elif name.lower().endswith(TEXTS):
            _text(name, content, facts)
    except (struct.error, IndexError):
        facts.form.append("broken")
    _dates(facts)
    return facts


def _png(content: bytes, facts: Facts) -> None:
    at = len(PNG)
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            facts.form.append("x".join(map(str, struct.unpack(">IIBBBBB", body[:13]))))
        elif kind == b"tIME" and len(body) == 7 and (stamp := _seconds(*struct.unpack(">HBBBBB", body))) is not None:
            facts.stamps.append(stamp)
        elif kind not in PIXELS:
            facts.notes.append(f"{_shown(kind)} {_shown(body)}")
        at += 12 + length
        if kind == b"IEND":
            break
    _tail(content[at:], facts)


def _riff(content: bytes, facts: Facts) -> None:
    order = ">" if content.startswith(b"RIFX") else "<"
    (whole,) = struct.unpack_from(f"{order}I", content, 4)
    end, at = min(len(content), 8 + whole), 12
    while at + 8 <= end:
        kind = content[at : at + 4]
        (length,) = struct.unpack_from(f"{order}I", content, at + 4)
        body = content[at + 8 : at + 8 + length]
        if kind == b"fmt ":
            facts.form.append(body[:16].hex())
        elif kind not in (b"data", b"VP8 ", b"VP8L"):
            facts.notes.append(f"{_shown(kind)} {_shown(body)}")
        at += 8 + length + length % 2
    _tail(content[max(at, end) :], facts)


def _jpeg(content: bytes, facts: Facts) -> None:
    at, tables = 2, hashlib.sha256()
    while at + 4 <= len(content) and content[at] == 0xFF:
        kind = content[at + 1]
        (length,) = struct.unpack_from(">H", content, at + 2)
        body = content[at + 4 : at + 2 + length]
        if kind == 0xDB:
            tables.update(body)
        elif 0xC0 <= kind <= 0xC2:
            facts.form.append(body[:6].hex())
        elif kind == 0xFE or 0xE0 < kind <= 0xEF:
            facts.notes.append(f"{kind:x} {_shown(body)}")
        if kind == 0xDA:
            break
        at += 2 + length
    facts.form.append(tables.hexdigest()[:8])
    last = content.rfind(b"\xff\xd9")
    if last >= 0 and len(content) < MOST_BYTES:
        _tail(content[last + 2 :], facts)


def _gzip(content: bytes, facts: Facts) -> None:
    flags, (stamp,) = content[3], struct.unpack_from("<I", content, 4)
    if stamp:
        facts.stamps.append(float(stamp))
    if flags & 8 and not flags & 4:
        facts.notes.append(_shown(content[10:].partition(b"\0")[0]))
    facts.form.append(content[8:10].hex())


def _text(name: str, content: bytes, facts: Facts) -> None:
    facts.text = True
    facts.form.append(f"{content.startswith(bytes((0xEF, 0xBB, 0xBF)))} {content.count(bytes((13, 10))) > 0}")
    lines = content.replace(b"\r\n", b"\n").split(b"\n")
    facts.surplus = sum(len(line) - len(line.rstrip(b" \t\0")) for line in lines)
    body = content.rstrip(b" \t\r\n\0")
    facts.surplus += content[len(body) :].count(b"\n")
    if name.lower().endswith(WITH_COMMENTS):
        facts.notes += [_shown(line) for line in lines if line.startswith(b"#")]


def _tail(left: bytes, facts: Facts) -> None:
    facts.surplus += len(left)
    if left:
        facts.notes.append(_shown(left))


def _shown(raw: bytes) -> str:
    """Bytes as text: readable ones as they are, others in hexadecimal digits, long ones by their beginning."""
    head = raw[:400]
    text = head.replace(b"\0", b" ").decode("utf-8", errors="replace").strip()
    readable = sum(letter.isprintable() and letter != "\ufffd" for letter in text)
    return text if readable >= 0.8 * len(text) else head.hex()


def _dates(facts: Facts) -> None:
    """Moves dates out of the notes into the stamps."""
    left = []
    for note in facts.notes:
        for match in DATE.finditer(note):
            stamp = _seconds(*(int(part or 0) for part in match.groups()))
            if stamp is not None:
                facts.stamps.append(stamp)
        left.append(DATE.sub("", note))
    facts.notes = left


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    """The time of a date, None where it is none."""
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    return float(timegm((year, month, day, hour, minute, second)))
