"""
python -m fuzz.long [--seconds S] [TARGET ...]: each target for S seconds, one after the other.

With atheris (coverage-guided, of libFuzzer) where it is installed, and otherwise with edits of the
seeds and of the corpus alone.  What leads somewhere new is kept in the working corpus below
--work, what breaks in WORK/TARGET.found.  With --keep nothing is run but what is there, and
tests/corpus gets the smallest inputs that cover as much.
"""
from __future__ import annotations

import argparse
import hashlib
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
    parser.add_argument("--keep", action="store_true", help="only minimise WORK into tests/corpus")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    os.nice(max(0, 15 - os.nice(0)))
    if options.one:
        return _atheris(options.targets[0], Path(options.work), options.seconds)
    from fuzz.all import TARGETS
    if options.keep:
        for name in options.targets or TARGETS:
            _keep(name, TARGETS[name], Path(options.work))
        return 0
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
                 "--work", options.work, name], cwd=TESTS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            status, said = done.returncode, done.stdout
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


def _atheris(name, work, seconds):
    import atheris
    with atheris.instrument_imports(include=["iostats"]):
        from fuzz.all import TARGETS
    target = TARGETS[name]
    directory, found = work / name, work / f"{name}.found"
    directory.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (directory / f"seed-{number}").write_bytes(seed)
    kept = TESTS / "corpus" / name
    arguments = [sys.argv[0], f"-max_len={target.most_bytes}", "-timeout=20",
                 f"-rss_limit_mb={MOST_MIB}", f"-malloc_limit_mb={MOST_MIB // 2}",
                 f"-artifact_prefix={found}/", "-print_final_stats=1", "-len_control=10"]
    arguments += [f"-max_total_time={seconds}", str(directory), *([str(kept)] if kept.is_dir()
                                                                else [])]
    atheris.Setup(arguments, target.run)
    atheris.Fuzz()


def _keep(name, target, work):
    """
    Put into tests/corpus the smallest inputs that together go from line to line as all of them do,
    up to MOST_KEPT bytes; what was found stays.
    """
    from fuzz.tools import CORPUS, within
    directory, inside = CORPUS / name, str(TESTS.parent / "iostats")
    found = {path.read_bytes() for path in directory.glob("found*")}
    inputs = {path.read_bytes() for place in (directory, work / name) if place.is_dir()
              for path in place.iterdir()}
    seen, kept, size = set(), [], sum(map(len, found))

    def reached(data):
        steps = set()

        def step(frame, event, argument, last=None):
            if not frame.f_code.co_filename.startswith(inside):
                return None
            last = [0]

            def line(frame, event, argument):
                steps.add((frame.f_code, last[0], frame.f_lineno))
                last[0] = frame.f_lineno
                return line
            return line
        sys.settrace(step)
        try:
            with within():
                target.run(data)
        finally:
            sys.settrace(None)
        return steps
    for data in [*target.seeds(), *sorted(found), *sorted(inputs - found, key=lambda one: (
            len(one), one))]:
        if len(data) > target.most_bytes:
            continue
        steps = reached(data)
        if steps - seen:
            seen |= steps
            if data in inputs - found and size + len(data) <= MOST_KEPT:
                kept.append(data)
                size += len(data)
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        if not path.name.startswith("found"):
            path.unlink()
    for data in kept:
        (directory / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
    if not any(directory.iterdir()):
        directory.rmdir()
    print(f"{name}: {len(inputs)} inputs, {len(kept)} and {len(found)} found kept", flush=True)


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
