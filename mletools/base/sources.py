"""The source texts of this package's modules, for programs that run where the package is not. Importing this is fast."""

from types import ModuleType


def source_of(module: ModuleType) -> str:
    """The text of a module: from its loader, because the package may be in an archive."""
    text: str = module.__loader__.get_source(module.__name__)  # type: ignore[union-attr]
    return text


def joined(*modules: ModuleType) -> str:
    """The texts of modules that import names from each other only, as one text without these imports."""
    lines = [line for module in modules for line in source_of(module).splitlines(True)]
    return "".join(line for line in lines if not line.startswith(("from .", "from __future__")))
