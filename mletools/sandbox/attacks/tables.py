"""The attack on what the libraries' folders hold: a search for the tables that tasks are made of, by their values.

Covered: every file of the packages that can be imported, and files of data below the interpreter's other folders. Not
covered: what `contents` does not read.
"""

import pkgutil

from ...records.sources import joined
from .. import contents, hidden, sketches
from ..interface import Limits
from .attack import Attack

_SEARCH = """
import site, sysconfig
tables = json.loads(TABLES)
known = Sketches(tables["sketches"])
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
is_data = re.compile("(%s)(%s)?$" % ("|".join(map(re.escape, DATA)), "|".join(map(re.escape, PACKED))), re.I).search
tops += [(top, is_data) for top in (sys.prefix, sys.base_prefix, "/usr/lib", "/usr/local", "/usr/share")]
any(visit(*top) for top in tops if os.path.isdir(top[0]))
"""


def _program() -> str:
    """The search with the modules it needs, which the sandbox does not have."""
    known = (pkgutil.get_data("mletools.sandbox", "tables.json") or b"").decode()
    data = sorted(hidden.DATA), sorted(hidden.PACKED)
    return f"{joined(sketches, contents)}\nTABLES = {known!r}\nDATA, PACKED = {data!r}\n{_SEARCH}"


ATTACKS = (Attack("tables of the tasks", "libraries", _program(), limits=Limits(wall_s=300.0)),)
