"""temporary, until the real one lands"""

import math


def bernoulli_upper(mean: float, level: float) -> float:
    return min(1.0, mean + math.sqrt(level / 2))


def beta_upper_quantile(tail: float, a: float, b: float) -> float:
    m = a / (a + b)
    return min(1.0, m + math.sqrt(-2 * math.log(tail) * m * (1 - m) / (a + b + 1)))
