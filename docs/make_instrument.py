"""Write docs/instrument.md: which calls mle-instrument counts as which operation, read from its table.

python docs/make_instrument.py           write it
python docs/make_instrument.py --check   exit 1 if it is not up to date
"""

import sys
from pathlib import Path

from mletools.instrument.operations import as_markdown

PAGE = Path(__file__).parent / "instrument.md"
INTRO = """# Reports of progress

<!-- made by docs/make_instrument.py -->

`mle-instrument` makes a program report seven operations, each the first time that it has succeeded (RL for MLE agents, section 3.2);
`mle-grade --reward partial-credit` pays 0.1 for each that arrived. "imported packages" comes after the first run of imports; the
others after a call that this table names. A name is matched by what it was imported as; nothing is imported or run to find out.

"""


def main() -> None:
    text = INTRO + as_markdown().rstrip("\n") + "\n"
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"{PAGE} is not up to date: run python docs/make_instrument.py")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
