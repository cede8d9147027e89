"""The names of sources that mle-gen-task makes tasks of."""

from .procedural.dna import MODALITIES
from .real import NAMES

TABLES = tuple(f"sklearn:{name}" for name in NAMES)
SOURCES = (*MODALITIES, *TABLES)


def sources(spec: str) -> list[str]:
    """The sources that a --source option names: "sklearn:iris,wine" is ["sklearn:iris", "sklearn:wine"].

    "image,text" are two sources and "sklearn" is every table. ValueError lists the known names when one is unknown.
    """
    family, _, members = spec.partition(":")
    if family == "sklearn":
        names = [f"sklearn:{name}" for name in (members.split(",") if ":" in spec else NAMES)]
    else:
        names = [name for part in spec.split(",") for name in (sources(part) if part == "sklearn" else [part])]
    for source in names:
        if source not in SOURCES:
            raise ValueError(
                f"unknown source {source!r}: known are {', '.join(MODALITIES)}, sklearn, {', '.join(TABLES)}"
            )
    return names
