import random

import numpy as np

print(random.random(), np.random.rand(3), np.random.permutation(9))
