"""
Random histories: whatever happens to storage servers and to the site's server, what is in the
intervals of a job's line, and what is unplaced, is together what was harvested.
"""

import tempfile
from pathlib import Path

from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lines_desk import LinesDesk

from iostats.load.time_lines import compute_total, count_intervals

_SERVERS = {"oss1": ["OST0000", "OST0001"], "oss2": ["OST0002"]}
_JOBS = ("4711", "4712")
# One sweep: who is silent; and of each target what each job reads.
_SWEEP = st.tuples(st.just("sweep"), st.sampled_from([(), (), (), ("oss1",), ("oss2",)]),
                   st.lists(st.sampled_from([0, 0, 23, 37, 41_003]), min_size=6, max_size=6))
_OTHER = st.tuples(st.sampled_from(["killed", "checkpoint", "fold", "killed in a fold"]),
                   st.integers(0, 5))
_REBOOT = st.tuples(st.just("boots"), st.sampled_from(sorted(_SERVERS)))


class _History:
    """A desk on which all this happens."""

    def __init__(self, directory):
        self.desk = LinesDesk(Path(directory) / "site.sqlite")
        self.boots = dict.fromkeys(_SERVERS, 0)
        for server in _SERVERS:
            self.sweep_of(server, [0] * 6)

    def sweep_of(self, server, amounts):
        of_each = {target: {job: amount for job, amount in zip(
            _JOBS, amounts[2 * number:2 * number + 2]) if amount}
            for number, target in enumerate(one for some in _SERVERS.values() for one in some)}
        self.desk.now -= 20                         # they sweep at the same moment
        self.desk.sweep((server, [(target, of_each[target]) for target in _SERVERS[server]]),
                        run=f"{self.boots[server]:016x}",
                        boot_id=f"{self.boots[server]:032x}")

    def do(self, what, *how):
        desk = self.desk
        if what == "sweep":
            silent, amounts = how
            desk.now += 20
            for server in _SERVERS:
                if server not in silent:
                    self.sweep_of(server, amounts)
        elif what == "boots":
            [server] = how
            self.boots[server] += 1
            for key in [key for key in desk.done if key[0] in _SERVERS[server]]:
                del desk.done[key]
        elif what == "killed":
            desk.again()
        elif what == "checkpoint":
            desk.harvest.checkpoints.write(list(desk.harvest.targets)[how[0] % 3:])
        else:
            desk.now += 3600
            for _ in range(how[0] if what == "killed in a fold" else 1000):
                if not desk.harvest.lines.step():
                    break
            if what == "killed in a fold":
                desk.again()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(_SWEEP, _SWEEP, _SWEEP, _OTHER, _REBOOT), min_size=3, max_size=14))
@example([("sweep", (), [23] * 6), ("killed in a fold", 4), ("sweep", (), [37] * 6), ("fold", 0)])
@example([("fold", 0), ("sweep", (), [23, 0, 0, 0, 0, 0]), ("fold", 0), ("sweep", (), [0] * 6),
          ("sweep", (), [0, 0, 0, 0, 23, 0])])      # unplaced, an hour before the first bin
@example([("sweep", (), [23] * 6), ("checkpoint", 0), ("killed", 0), ("sweep", (), [37] * 6)])
def test_what_is_in_a_line_and_what_is_unplaced_is_what_was_harvested(history):
    with tempfile.TemporaryDirectory() as directory:
        world = _History(directory)
        for one in history:
            world.do(*one)
        desk = world.desk
        for job in _JOBS:
            if desk.harvest.lives.find_life(job) is None:
                continue
            harvested = desk.totals(job).get("scratch", (0, 0, False))[0]
            found = desk.history(job)
            assert harvested == sum(
                compute_total(one.job, "read_bytes")[0] for one in found.file_systems)
            assert harvested == sum(compute_total(one.job, "read_bytes")[0]
                                    for one in found.targets)
            for one in [*found.file_systems, *found.targets]:
                places = range(count_intervals(one.job))
                if not places:                      # at a time that is not known
                    continue
                assert compute_total(one.all, "read_bytes")[0] >= compute_total(one.job,
                                                                                "read_bytes")[0]
                assert [] == [place for place in places
                              if one.job.amounts["read_bytes"][place] is None
                              and (one.job.known or [1])[place] > 0]
        desk.store.close()
