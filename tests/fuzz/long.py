"""
python -m fuzz.long [--seconds S] [TARGET ...]: each target for S seconds, one after the other.

With atheris (coverage-guided, of libFuzzer) where it is installed, and otherwise with edits of the
seeds and of the corpus alone.  What leads somewhere new is kept in the working corpus below
--work, what breaks in WORK/TARGET.found; tests/corpus gets the smallest set of inputs that covers
as much (--keep).
"""
from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent
MOST_MIB = 1500
MOST_KEPT = 24 << 10                # bytes of tests/corpus/TARGET


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.split("\n")[1])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--work", default="/tmp/iostats-fuzz", help="working corpus, findings")
    parser.add_argument("--keep", action="store_true", help="minimise into tests/corpus")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    os.nice(max(0, 15 - os.nice(0)))
    if options.one:
        return _atheris(options.targets[0], Path(options.work), options.seconds, options.keep)
    from fuzz.all import TARGETS
    try:
        import atheris
        guided = bool(atheris.Fuzz)
    except ImportError:
        guided = False
        print("no atheris here: edits without coverage", flush=True)
    failed, before_s = [], 0.0
    for name in options.targets or TARGETS:
        if guided:
            done = subprocess.run(
                [sys.executable, "-m", "fuzz.long", "--one", "--seconds", str(options.seconds),
                 "--work", options.work, *(["--keep"] if options.keep else []), name], cwd=TESTS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            status, said = done.returncode, done.stdout
            if options.keep and (TESTS / "corpus" / name).is_dir():
                _trim(TESTS / "corpus" / name)
            lines = [line for line in said.split("\n") if "stat::" in line or "DONE" in line
                     or "BINGO" in line]
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s, before_s = used.ru_utime + used.ru_stime - before_s, (
                used.ru_utime + used.ru_stime)
            print(f"{name}: {'ok' if not status else 'FOUND'}  CPU {cpu_s:.0f} s  "
                  f"{' '.join(lines[-9:])}", flush=True)
            if status:
                print(said[-3000:], flush=True)
        else:
            status = _unguided(name, TARGETS[name], Path(options.work), options.seconds)
        if status:
            failed.append(name)
    print(f"found in: {' '.join(failed)}" if failed else "nothing found", flush=True)
    return 1 if failed else 0


def _atheris(name, work, seconds, keep):
    import atheris
    with atheris.instrument_imports(include=["iostats"]):
        from fuzz.all import TARGETS
    target = TARGETS[name]
    folder, found = work / name, work / f"{name}.found"
    folder.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
    kept = TESTS / "corpus" / name
    arguments = [sys.argv[0], f"-max_len={target.most_bytes}", "-timeout=20",
                 f"-rss_limit_mb={MOST_MIB}", f"-malloc_limit_mb={MOST_MIB // 2}",
                 f"-artifact_prefix={found}/", "-print_final_stats=1", "-len_control=10"]
    if keep:
        kept.mkdir(parents=True, exist_ok=True)
        arguments += ["-merge=1", str(kept), str(folder)]
    else:
        arguments += [f"-max_total_time={seconds}", str(folder), *([str(kept)] if kept.is_dir()
                                                                    else [])]
    atheris.Setup(arguments, target.run)
    atheris.Fuzz()


def _trim(folder):
    """The smallest inputs of a merged corpus, up to MOST_KEPT bytes; what was found stays."""
    size = 0
    paths = sorted(folder.iterdir(), key=lambda path: (not path.name.startswith("found"),
                                                       path.stat().st_size, path.name))
    for path in paths:
        size += path.stat().st_size
        if size > MOST_KEPT and not path.name.startswith("found"):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def _unguided(name, target, work, seconds):
    from fuzz.tools import corpus, mutated, within
    seeds = [*target.seeds(), *corpus(name)]
    chance, until, count = random.Random(name), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        count += 1
        data = mutated(chance.choice(seeds), chance.randbytes(chance.randrange(40)))[
            :target.most_bytes]
        try:
            with within():
                target.run(data)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_MIB << 10:
                raise MemoryError("more than %d MiB" % MOST_MIB)
        except BaseException:
            found = work / f"{name}.found"
            found.mkdir(parents=True, exist_ok=True)
            path = found / f"found-{count}"
            path.write_bytes(data)
            print(f"{name}: FOUND {path}", flush=True)
            import traceback
            traceback.print_exc()
            return 1
    print(f"{name}: ok  {count} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
