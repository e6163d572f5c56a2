"""
How much, from which seed, and what came of it.

    IOSTATS_CHAOS=1        the whole of it, as `make chaos` has it; otherwise a small part
    IOSTATS_CHAOS_SEED=N   all dice begin with it; without it the whole has a fresh seed, the small
                           part 23
    IOSTATS_CHAOS_FIGURES=FILE   a line of JSON for each campaign is added there
"""
from __future__ import annotations

import json
import os
import random

import pytest

WHOLE = os.environ.get("IOSTATS_CHAOS", "") not in ("", "0")
SEED = int(os.environ.get("IOSTATS_CHAOS_SEED") or (
    random.SystemRandom().randrange(1 << 31) if WHOLE else 23))

as_root = [pytest.mark.root,
           pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")]


def dice(name):
    """Random numbers of one campaign: the same ones for the same seed, whatever else runs."""
    return random.Random(f"{SEED} {name}")


def tell(what, **figures):
    """Print the figures of a campaign, and keep them where IOSTATS_CHAOS_FIGURES says."""
    line = json.dumps({"campaign": what, "seed": SEED, **figures})
    print(f"\nchaos: {line}")
    path = os.environ.get("IOSTATS_CHAOS_FIGURES")
    if path:
        with open(path, "a") as file:
            file.write(line + "\n")
