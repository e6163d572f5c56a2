"""
Amounts over time in a bounded number of equal bins: when they are full, two become one.

A value is never split or scaled: the sum over the bins is the sum of what was added.
"""

MOST_BINS = 240


class Series:
    """
    Amounts of several metrics over time.

    Attributes:
        every_s: width of a bin.
        began: where the first bin begins, in seconds of any clock; None while empty.
        bins: metric -> [amount of each bin].
    """

    def __init__(self, every_s, metrics, most=MOST_BINS):
        self.every_s, self.began, self._most = every_s, None, most
        self.bins = {metric: [] for metric in metrics}

    def __len__(self):
        return len(next(iter(self.bins.values())))

    def add(self, at, amounts):
        """Add `amounts` (metric -> integer) of the moment `at` to its bin."""
        if self.began is None:
            self.began = at
        while at < self.began:
            # An even number of bins in front, so that those that are there stay pairs.
            self.began -= 2 * self.every_s
            for values in self.bins.values():
                values[:0] = (0, 0)
            self._halve_when_full()
        place = int((at - self.began) / self.every_s)
        while place >= self._most:
            self._halve()
            place = int((at - self.began) / self.every_s)
        for metric, values in self.bins.items():
            values.extend([0] * (place + 1 - len(values)))
            values[place] += amounts.get(metric, 0)

    def add_all(self, other, shift_s=0.0):
        """Add what another Series has, bin by bin, each at its middle; `shift_s` later."""
        for place in range(len(other)):
            self.add(other.began + (place + 0.5) * other.every_s + shift_s,
                     {metric: values[place] for metric, values in other.bins.items()})

    def _halve_when_full(self):
        if len(self) > self._most:
            self._halve()

    def _halve(self):
        self.every_s *= 2
        for metric, values in self.bins.items():
            self.bins[metric] = [sum(values[place:place + 2])
                                 for place in range(0, len(values), 2)]

    def as_dict(self):
        """{"began", "every_s", and each metric's amounts}; for JSON."""
        return {"began": self.began, "every_s": self.every_s, **self.bins}


def sparkline(values, width=60):
    """
    `values` as a line of blocks, at most `width` long; the highest is full, 0 is a blank.

    >>> sparkline([0, 1, 4, 8])
    ' ▁▄█'
    """
    step = max(1, -(-len(values) // width))
    columns = [sum(values[place:place + step]) for place in range(0, len(values), step)]
    top = max(columns, default=0)
    return "".join(" " if not value else "▁▂▃▄▅▆▇█"[max(0, -(-value * 8 // top) - 1)]
                   for value in columns)
