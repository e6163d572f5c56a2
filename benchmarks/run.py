#!/usr/bin/env python3
"""
The figures of benchmarks/README.md, as plain text; the last full run is kept in results.txt, and
curves.py draws how they grow from it.

    run.py                     all figures, about half an hour
    run.py client wide         some of them; results.txt stays as it is
    run.py --quick             few and small rounds, to see that it works
"""

import argparse
import importlib
import os
import platform
import signal
import sys
import time
import traceback

FIGURES = ("client", "wide", "server", "dispatcher", "http_layer", "batch", "resets", "job_list",
           "job_stats", "agent", "exports", "harvest_server", "site_clients", "nodes", "scale",
           "stores", "store_scale", "node_sinks", "relay", "site_events", "kernel_log",
           "report_text", "time_lines", "event_scans", "storage_sources", "node_events",
           "idle_time", "collector",
           "event_sinks", "ldms_balance", "configurations", "ldms_description", "monitor",
           "ldms_control", "etcd_client", "agent_settings", "ldms_instances", "html_page", "why",
           "web")
HERE = os.path.dirname(os.path.abspath(__file__))


def main(arguments=None):
    """Run the figures; the exit status: 0, or 1 where one of them failed."""
    parser = argparse.ArgumentParser(
        prog="run.py", description="Measure iostats against a bare minimum or a peer.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE",
                        help=f"some of: {' '.join(FIGURES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few and small rounds")
    options = parser.parse_args(arguments)
    unknown = set(options.figures) - set(FIGURES)
    if unknown:
        parser.error(f"no figure {' '.join(sorted(unknown))}; there are: {' '.join(FIGURES)}")

    # As for ^C: what was started is stopped, and what was written is removed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    sys.path.insert(0, os.path.dirname(HERE))           # runs without an installation, too
    texts, failed = [_machine()], False
    print(texts[0])
    for name in options.figures or FIGURES:
        try:
            for table in importlib.import_module(name).run(options.quick):
                texts.append(as_text(table))
                print("\n" + texts[-1], flush=True)
        except Exception as error:                      # the others are measured all the same
            failed = True
            print(f"run.py: {name} failed: {_reason(error)}", file=sys.stderr, flush=True)
    if failed:
        return 1
    if not options.figures and not options.quick:
        with open(os.path.join(HERE, "results.txt"), "w", encoding="utf-8") as file:
            file.write("\n\n".join(texts) + "\n")
        import curves
        return curves.main([])
    return 0


def _reason(error):
    """An exception in one line; of one that no figure raises itself, with its kind and place."""
    from measure import BenchmarkError
    text = " ".join(str(error).split())
    if isinstance(error, BenchmarkError):
        return text
    place = [frame for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename.startswith(HERE)][-1]
    return f"{type(error).__name__} at {place.filename}:{place.lineno}: {text}"


def _machine():
    return (f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}, {platform.system()} {platform.release()}")


def as_text(table):
    """A Table, as it is printed."""
    from tabulate import tabulate
    body = tabulate(table.rows, table.headers, tablefmt="simple", disable_numparse=True,
                    colalign=("left",) + ("right",) * (len(table.headers) - 1))
    return "\n".join([table.title, "", body, *table.notes])


if __name__ == "__main__":
    sys.exit(main())
