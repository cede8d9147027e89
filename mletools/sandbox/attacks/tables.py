"""The attack on what the libraries' folders hold: a search for the tables that tasks are made of, by their values.

Covered: every file of the packages that can be imported, and files of data below the interpreter's other folders. Not
covered: what `contents` does not read.
"""

import inspect
import pkgutil
import re

from .. import contents, sketches
from ..interface import Limits
from .attack import Attack

_SEARCH = """
import site, sysconfig
tables = json.loads(TABLES)
known = Sketches(tables["sketches"])
data = re.compile(r"[.](csv|tsv|txt|dat|asc|json|arff|r|rda|rdata|rds|rdb|np[yz]|pkl|db|zip|whl)([.](gz|bz2|xz))?$", re.I)
importable = [path for path in sys.path if os.path.isdir(path) and not os.path.samefile(path, ".")]
seen = set()
def visit(top, wanted):
    for folder, folders, names in os.walk(top):
        place = os.stat(folder)
        if (place.st_dev, place.st_ino) in seen:
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        for name in names:
            source = f"{os.path.dirname(folder)}/{name.split('.')[0]}.py"
            if wanted(name) and not (name.endswith(".pyc") and os.access(source, os.R_OK)):
                found = tables_in(f"{folder}/{name}", known)
                if found:
                    report_open(f"{sorted(found)[0]} in {folder}/{name}")
                    return True
    return False
packages = [f"{path}/{name}" for path in importable for name in tables["packages"].values()]
tops = [(top, lambda name: True) for top in [*packages, *importable]]
tops += [(top, data.search) for top in (sys.prefix, sys.base_prefix, "/usr/lib", "/usr/local", "/usr/share")]
any(visit(*top) for top in tops if os.path.isdir(top[0]))
"""


def _program() -> str:
    """The search with the modules it needs, which the sandbox does not have."""
    texts = [
        re.sub(r"^from \.sketches import .*$", "", inspect.getsource(module), flags=re.M)
        for module in (sketches, contents)
    ]
    known = (pkgutil.get_data("mletools.sandbox", "tables.json") or b"").decode()
    return "\n".join([*texts, f"TABLES = {known!r}", _SEARCH])


ATTACKS = (Attack("tables of the tasks", "libraries", _program(), limits=Limits(wall_s=300.0)),)
