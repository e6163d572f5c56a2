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
        began: where the first bin begins, in seconds of any clock; None while that is open.
        bins: metric -> [amount of each bin].
    """

    def __init__(self, every_s, metrics, began=None, most=MOST_BINS):
        """`most`: of bins, 4 or more."""
        self.every_s, self.began, self._most = every_s, began, most
        self.bins = {metric: [] for metric in metrics}

    def __len__(self):
        return len(next(iter(self.bins.values())))

    def add(self, at, amounts):
        """Add `amounts` (metric -> integer) of the moment `at` to its bin."""
        if self.began is None:
            self.began = at
        elif at < self.began:
            self._begin_at(at)
        place = int((at - self.began) / self.every_s)
        while place >= self._most:
            self._halve()
            place = int((at - self.began) / self.every_s)
        for metric, values in self.bins.items():
            values.extend([0] * (place + 1 - len(values)))
            values[place] += amounts.get(metric, 0)

    def add_all(self, other, shift_s=0.0):
        """Add what another Series has, bin by bin, each at its middle; `shift_s` later."""
        while self.every_s < other.every_s:
            self._halve()             # or its bins would be peaks with a gap beside each
        for place in range(len(other)):
            self.add(other.began + (place + 0.5) * other.every_s + shift_s,
                     {metric: values[place] for metric, values in other.bins.items()})

    def _begin_at(self, at):
        """Bins in front, down to `at`: an even number, so that those that are there stay pairs."""
        def missing():
            return 2 * (int((self.began - at) / (2 * self.every_s)) + 1)
        while missing() + len(self) > self._most:
            self._halve()
        self.began, in_front = self.began - missing() * self.every_s, [0] * missing()
        for values in self.bins.values():
            values[:0] = in_front

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
