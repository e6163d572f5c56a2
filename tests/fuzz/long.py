"""
python -m fuzz.long [--seconds S] [--seed N] [TARGET ...]: each target for S seconds, one by one.

A target is one of tests/fuzz, or a file of tests/, of which all tests with random cases run, each
time with another seed and more cases.  Without --seed the first seed is a fresh one; what fails
prints the command that repeats just that.

Those of tests/fuzz run with atheris (coverage-guided, of libFuzzer) where it is installed, and
otherwise with edits of the seeds and of the corpus alone.  What leads somewhere new is kept in the
working corpus below --work, what breaks in WORK/TARGET.found.  With --keep nothing is run but what
is there, and tests/corpus gets the smallest inputs that cover as much.
"""
from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent
MOST_MIB = 1500
MOST_KEPT = 24 << 10                # bytes of tests/corpus/TARGET
MOST_EXAMPLES = 3200                # of a test with random cases, before the next seed


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.split("\n")[1])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument("--work", default="/tmp/iostats-fuzz", help="working corpus, findings")
    parser.add_argument("--runs", type=int, help="inputs for each of tests/fuzz, not seconds")
    parser.add_argument("--seed", type=int, help="the first seed (default: a fresh one)")
    parser.add_argument("--repeat", metavar="FILE", help="run TARGET once, with this input")
    parser.add_argument("--keep", action="store_true", help="only minimise WORK into tests/corpus")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1, 1 << 31)
    if options.one:
        return _atheris(options.targets[0], options)
    from fuzz.all import TARGETS
    if options.repeat:
        return _repeat(TARGETS[options.targets[0]], Path(options.repeat))
    if options.keep:
        for name in options.targets or TARGETS:
            _keep(name, TARGETS[name], Path(options.work))
        return 0
    print(f"seed {options.seed}", flush=True)
    try:
        import atheris
        guided = bool(atheris.Fuzz)
    except ImportError:
        guided = False
        print("no atheris here: edits without coverage", flush=True)
    failed = []
    for name in options.targets or [*TARGETS, *_files_with_random_cases()]:
        if name not in TARGETS:
            status = _search(name, options)
        elif guided:
            status = _guided(name, options)
        else:
            status = _unguided(name, TARGETS[name], options)
        if status:
            failed.append(name)
    print(f"found in: {' '.join(failed)}" if failed else "nothing found", flush=True)
    return 1 if failed else 0


def _print_repeat(name, path):
    print(f"repeat it: cd {TESTS} && {shlex.quote(sys.executable)} -m fuzz.long --repeat "
          f"{shlex.quote(str(path))} {name}", flush=True)


def _repeat(target, path):
    from fuzz.tools import within
    with within():
        target.run(path.read_bytes())
    print("nothing found", flush=True)
    return 0


def _files_with_random_cases():
    return [str(path.relative_to(TESTS.parent)) for path in sorted(TESTS.rglob("test_*.py"))
            if re.search(r"(?m)^from hypothesis", path.read_text(encoding="utf-8"))
            and path.name != "test_fuzz.py"]


def _search(path, options):
    """Run the tests with random cases in a file, or one of them."""
    seed, number, until = options.seed, 100, time.monotonic() + options.seconds
    tried = 0
    while True:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "hypothesis",
             "-o", "timeout=3600", "--hypothesis-show-statistics", "--hypothesis-profile=search",
             f"--hypothesis-seed={seed}", path],
            cwd=TESTS.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace",
            env={**os.environ, "IOSTATS_EXAMPLES": str(number), "PYTHONHASHSEED": str(seed)})
        tried += sum(map(int, re.findall(r"(\d+) passing", done.stdout)))
        if done.returncode not in (0, 5):               # 5: there is none
            print(f"{path}: FOUND  seed {seed}\n{done.stdout}", flush=True)
            return 1
        if time.monotonic() >= until:
            print(f"{path}: ok  {tried} cases", flush=True)
            return 0
        seed, number = (seed + 1) % (1 << 31), min(2 * number, MOST_EXAMPLES)


def _guided(name, options):
    length = (["--runs", str(options.runs)] if options.runs else
              ["--seconds", str(options.seconds)])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.long", "--one", *length, "--seed", str(options.seed),
         "--work", options.work, name], cwd=TESTS,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = [line for line in done.stdout.split("\n") if "stat::" in line or "DONE" in line
             or "BINGO" in line]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {'FOUND' if done.returncode else 'ok'}  CPU {cpu_s:.0f} s  "
          f"{' '.join(lines[-9:])}", flush=True)
    if done.returncode:
        print(done.stdout[-3000:], flush=True)
        for path in re.findall(r"Test unit written to (\S+)", done.stdout):
            _print_repeat(name, path)
    return done.returncode


def _atheris(name, options):
    import atheris
    with atheris.instrument_imports(include=["iostats"]):
        from fuzz.all import TARGETS
    target, work = TARGETS[name], Path(options.work)
    directory, found = work / name, work / f"{name}.found"
    directory.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (directory / f"seed-{number}").write_bytes(seed)
    kept = TESTS / "corpus" / name
    arguments = [sys.argv[0], f"-max_len={target.most_bytes}", "-timeout=20",
                 f"-rss_limit_mb={MOST_MIB}", f"-malloc_limit_mb={MOST_MIB // 2}",
                 f"-artifact_prefix={found}/", "-print_final_stats=1", "-len_control=10",
                 f"-seed={options.seed}"]
    arguments += [f"-runs={options.runs}" if options.runs else
                  f"-max_total_time={options.seconds}",
                  str(directory), *([str(kept)] if kept.is_dir() else [])]
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


def _unguided(name, target, options):
    from fuzz.tools import corpus, mutated, within
    seeds = [*target.seeds(), *corpus(name)]
    chance, count = random.Random(f"{options.seed} {name}"), 0
    until = time.monotonic() + options.seconds
    while count < options.runs if options.runs else time.monotonic() < until:
        count += 1
        data = mutated(chance.choice(seeds), chance.randbytes(chance.randrange(40)))[
            :target.most_bytes]
        try:
            with within():
                target.run(data)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MOST_MIB << 10:
                raise MemoryError("more than %d MiB" % MOST_MIB)
        except BaseException:
            found = Path(options.work) / f"{name}.found"
            found.mkdir(parents=True, exist_ok=True)
            path = found / f"found-{options.seed}-{count}"
            path.write_bytes(data)
            print(f"{name}: FOUND  seed {options.seed}, input {count}", flush=True)
            import traceback
            traceback.print_exc(file=sys.stdout)
            _print_repeat(name, path)
            return 1
    print(f"{name}: ok  {count} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
