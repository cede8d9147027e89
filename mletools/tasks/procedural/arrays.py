"""Types of numpy, named without importing it."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy.random import RandomState
    from numpy.typing import NDArray

# Numbers of any type; a docstring gives the shape.
Array: TypeAlias = "NDArray[Any]"
# What tasks.table.generator makes.
Rng: TypeAlias = "RandomState"
