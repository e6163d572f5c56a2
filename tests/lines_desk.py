"""
A Harvest that is asked for time lines: storage servers whose targets are read every 20 s.
"""

import msgspec
from harvest_inside import BEGAN, HarvestInside

from iostats.answers.selected_run import JobHistoryParams
from iostats.answers.time_line_queries import FileSystemLinesParams, TimeLineAnswers
from iostats.base.cooperative import run_to_end
from iostats.harvest.time_lines.intake import FOLD_EVERY_S
from iostats.load.time_lines import parse_history


def read(line):
    """(seconds since BEGAN of its begin, width, its read_bytes)."""
    return line.began - BEGAN, line.every_s, line.amounts["read_bytes"]


class LinesDesk(HarvestInside):
    """A Harvest that is asked for lines; sweeps are every 20 s."""

    def __init__(self, path, **choices):
        super().__init__(path, **choices)
        self.done = {}

    def sweep(self, *servers, **gains):
        """
        20 s later the storage servers send: `servers`: ("oss1", [(target, {job: bytes read since
        the last sweep})]).
        """
        self.now += 20
        for node, targets in servers:
            blocks = []
            for target, jobs in targets:
                for job, amount in jobs.items():
                    count, total_bytes = self.done.get((target, job), (0, 0))
                    self.done[target, job] = count + 23, total_bytes + amount
                blocks += [self.block(target, [job], BEGAN + 3, read_bytes=self.done[target, job],
                                      ended=False) for job in jobs]
                blocks.append(self.block(target, ended=True))
            self.send(node, *blocks, **gains)

    def fold(self):
        """An hour later all is in the store."""
        self.now += FOLD_EVERY_S
        while self.harvest.lines.step():
            pass
        assert not self.harvest.lines.recent

    def pass_days(self, days):
        """
        That number of days later, by the store's time, what is due was done: a day's worth an hour.
        """
        for table in ("job_lines", "target_lines"):
            self.store.change(f"UPDATE {table} SET made = made - ?", (days * 86400.0,))
        for _ in range(3):
            self.fold()

    def history(self, job="4711", user=None, **which):
        answers = TimeLineAnswers(self.harvest, lambda: False, lambda: self.now)
        return parse_history(msgspec.json.decode(msgspec.json.encode(run_to_end(
            answers.job_history(JobHistoryParams(job, **which), user)))))

    def file_system(self, since=BEGAN - 60, until=BEGAN + 7200, most=5, user=None):
        answers = TimeLineAnswers(self.harvest, lambda: False, lambda: self.now)
        return run_to_end(answers.file_system_lines(
            FileSystemLinesParams("scratch", since, until, most), user))
