"""
html_page: a job's page (`iostats report --html`), whole process.

    16 x 26, 1,000 x 1,000: nodes and targets of the job, whose record lies in a file
"""

import os
import subprocess
import sys
import tempfile

from measure import HERE, BenchmarkError, Table, environment, median_ratio

sys.path[:0] = [os.path.join(HERE, os.pardir, "tests")]

_AIM_S, _AIM_BYTES = 0.3, 200_000


def run(quick):
    """[Table]: CPU seconds of a page, against a bare interpreter and the report as text."""
    import page_records

    from iostats.report.json_and_csv import format_json
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for kind in ("realistic", "wide"):
            record, _ = getattr(page_records, kind)()
            path, page = f"{directory}/{kind}.json", f"{directory}/{kind}.html"
            with open(path, "w", encoding="utf-8") as file:
                file.write(format_json(record))
            commands = {
                "bare": ["-c", "pass"],
                "text": ["-m", "iostats", "report", path],
                "page": ["-m", "iostats", "report", "--html", page, path]}
            found = {name: [] for name in commands}
            for _ in range(1 if quick else 9):
                for name, command in commands.items():
                    found[name].append(_seconds(command, directory))
            best, size = min(found["page"]), os.path.getsize(page)
            rows.append([
                f"{record.coverage.reported:,} x {len(record.file_systems[-1].targets):,}",
                f"{min(found['bare']) * 1e3:.0f} ms", f"{min(found['text']) * 1e3:.0f} ms",
                f"{best * 1e3:.0f} ms", f"{median_ratio(found['page'], found['bare']):.1f}",
                f"{median_ratio(found['page'], found['text']):.2f}", f"{size / 1000:.0f} kB",
                "met" if best <= _AIM_S and size <= _AIM_BYTES else "missed"])
    return [Table("A job's page, whole process", [
        "nodes x targets", "python -c pass", "as text", "as a page", "to bare", "to text", "size",
        f"{_AIM_S * 1e3:.0f} ms, {_AIM_BYTES // 1000} kB"], rows, [
            "CPU seconds, the best of the rounds; ratios are medians.  No process waits."])]


def _seconds(command, directory):
    child = subprocess.Popen([sys.executable, *command], env=environment(), cwd=directory,
                             stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise BenchmarkError(f"{' '.join(command)}: exit status {child.returncode}")
    return used.ru_utime + used.ru_stime
