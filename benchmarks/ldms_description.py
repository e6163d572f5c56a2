"""
ldms_description: a cluster's description is read, and converted.

    one entry: all samplers in one entry with host lists; an entry each: the longest way to write
    the same; both with 64 aggregators that share them
    PyYAML: its C loader on the same text, which makes a tree of texts and numbers and checks none
    LDMS: its own parser makes the configuration of one daemon (where ldmsd_yaml_parser is on PATH)
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from measure import HERE, BenchmarkError, Table, environment, median_ratio, peak_mib

_TAIL = """\
  - {{names: "agg-[1-64]", hosts: "a-[1-64]", endpoints: [{{names: "agg-[1-64]-e", ports: 10041}}]}}
aggregators:
  - daemons: "agg-[1-64]"
    peers: [{{daemons: "s-[1-{count}]", endpoints: "s-[1-{count}]-e", reconnect: 20s, type: active,
             updaters: [{{interval: 1s}}]}}]
samplers: [{{daemons: "s-[1-{count}]", plugins: [m]}}]
plugins: {{m: {{name: meminfo, interval: 1s, config: [{{schema: meminfo}}]}}}}
"""


def run(quick):
    """[Table]: CPU seconds to read a description, against PyYAML's loader on the same text."""
    rows = []
    for count in (1_000,) if quick else (1_000, 10_000, 100_000):
        for how in ("one entry", "an entry each"):
            found = _measured(count, how)
            rows.append([f"{count:,}", how, f"{min(found['yaml']):.3f} s",
                         f"{min(found['read']):.3f} s",
                         f"{median_ratio(found['read'], found['yaml']):.1f}"
                         if how == "an entry each" else "-",
                         f"{min(found['read']) / count * 1e6:.0f} us",
                         f"{min(found['convert']):.3f} s", f"{found['peak_mib']:.0f} MiB",
                         _of_ldms(count, how, quick)])
    return [Table("A description is read and converted", [
        "samplers", "written as", "PyYAML", "read", "ratio", "a sampler", "convert", "peak",
        "LDMS, one daemon"], rows, ["CPU seconds of one process."])]


def _measured(count, how):
    done = subprocess.run([sys.executable, f"{HERE}/ldms_description.py", str(count), how],
                          env=environment(), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise BenchmarkError(f"ldms_description.py: exit status {done.returncode}")
    return json.loads(done.stdout)


def _of_ldms(count, how, quick):
    """CPU seconds of LDMS' own parser for one aggregator; "-" without it, or with very many."""
    if not shutil.which("ldmsd_yaml_parser") or count > (1_000 if quick else 10_000):
        return "-"
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "cluster.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text(count, how))
        before = os.times()
        done = subprocess.run(["ldmsd_yaml_parser", "-y", path, "-n", "agg-1"],
                              capture_output=True, check=False)
        after = os.times()
    if done.returncode:
        raise BenchmarkError(f"ldmsd_yaml_parser: {done.stderr[-200:]!r}")
    used = (after.children_user - before.children_user
            + after.children_system - before.children_system)
    return f"{used:.2f} s"


def text(count, how):
    """The description of that number of samplers."""
    if how == "one entry":
        samplers = (f'  - {{names: "s-[1-{count}]", hosts: "n-[1-{count}]",\n'
                    f'     endpoints: [{{names: "s-[1-{count}]-e", ports: 10037}}]}}\n')
    else:
        samplers = "".join(f"  - names: s-{number}\n    hosts: n-{number}\n    endpoints:\n"
                           f"      - names: s-{number}-e\n        ports: 10037\n"
                           for number in range(1, count + 1))
    return "daemons:\n" + samplers + _TAIL.format(count=count)


def _child(count, how):

    import yaml

    from iostats_ldms.description.convert import to_yaml
    from iostats_ldms.description.read import read_description
    content = text(count, how)
    found = {"yaml": [], "read": [], "convert": []}
    for _ in range(3 if count < 100_000 else 1):
        before = time.process_time()
        one, warnings = read_description(content)
        after = time.process_time()
        to_yaml(one)
        found["convert"].append(time.process_time() - after)
        found["read"].append(after - before)
        assert count + 64 == len(one.daemons) and not warnings
        found["peak_mib"] = peak_mib()
        del one
        before = time.process_time()
        yaml.load(content, Loader=yaml.CSafeLoader)
        found["yaml"].append(time.process_time() - before)
    print(json.dumps(found))


if __name__ == "__main__":
    _child(int(sys.argv[1]), sys.argv[2])
