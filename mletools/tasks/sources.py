"""The names of sources that mle-gen-task makes tasks of."""

from ..base.words import did_you_mean
from .procedural.dna import MODALITIES
from .real import SOURCES as TABLES

FAMILIES = tuple(dict.fromkeys(source.partition(":")[0] for source in TABLES))
SOURCES = (*MODALITIES, *TABLES)


def sources(spec: str) -> list[str]:
    """The sources that a --source option names: "sklearn:iris,wine" is ["sklearn:iris", "sklearn:wine"].

    "image,text" are two sources, "sklearn" is every table of that package and "tables" every table. ValueError lists
    what is known when a name is unknown.
    """
    names: list[str] = []
    family = ""
    for part in spec.split(","):
        head, colon, member = part.partition(":")
        if colon:
            family, part = head, member
        if part in ("tables", *FAMILIES) and not family:
            names += [source for source in TABLES if part in ("tables", source.partition(":")[0])]
        else:
            names.append(f"{family}:{part}" if family else part)
    for name in names:
        if name not in SOURCES:
            tables = [source for source in TABLES if source.startswith(f"{name.partition(':')[0]}:")]
            known = tables or [*MODALITIES, "tables", *FAMILIES]
            raise ValueError(f"unknown source {name!r}: known are {', '.join(known)}{did_you_mean(name, known)}")
    return names
