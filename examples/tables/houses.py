"""Write houses.csv, a table of 320 houses and their prices that this script makes up: nobody's data, free to use.

    python examples/tables/houses.py > examples/tables/houses.csv

The price grows with floor area, garden and condition, differs between districts, falls with the distance to the centre
and with age up to some point, and has noise of a tenth. Some cells are empty, as in tables of people.
"""

import csv
import random
import sys
from collections.abc import Iterator

DISTRICTS = {"harbour": 1.35, "mill": 0.9, "north": 0.8, "old town": 1.5, "park": 1.2}  # and their price levels
CONDITIONS = {"poor": 0.75, "fair": 0.9, "good": 1.0, "new": 1.15}
HEATING = ("gas", "district heating", "heat pump", "oil")
COLUMNS = ("district", "area_m2", "rooms", "year", "garden_m2", "distance_km", "condition", "heating", "price")


def rows(number: int = 320, seed: int = 7) -> Iterator[tuple[object, ...]]:
    """Houses, as values of COLUMNS; an empty text is a missing value."""
    chance = random.Random(seed)
    for _ in range(number):
        district = chance.choice(list(DISTRICTS))
        area = round(min(320.0, max(35.0, chance.lognormvariate(4.7, 0.4))))
        rooms = max(1, round(area / 28 + chance.gauss(0, 0.8)))
        year = chance.randint(1890, 2024)
        garden = 0 if chance.random() < 0.3 else round(chance.lognormvariate(5.2, 0.7))
        distance = round(chance.uniform(0.3, 4) if district == "old town" else chance.uniform(1, 15), 1)
        condition = chance.choices(list(CONDITIONS), (1, 3, 4, 2 if year > 1990 else 0))[0]
        heating = chance.choice(HEATING)
        level = DISTRICTS[district] * CONDITIONS[condition] * (1.08 if heating == "heat pump" else 1.0)
        wear = 1 - 0.25 * min(1.0, (2024 - year) / 70)
        price = (1900 * area + 90 * garden + 6000 * rooms) * level * wear * (1 - 0.02 * distance)
        price *= chance.lognormvariate(0, 0.1)
        yield (
            district,
            area,
            rooms,
            "" if chance.random() < 0.04 else year,
            garden,
            distance,
            condition,
            "" if chance.random() < 0.06 else heating,
            round(price, -2),
        )


if __name__ == "__main__":
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows((*values[:-1], f"{values[-1]:.0f}") for values in rows())
