"""
How much, from which seed, and what came of it.

    IOSTATS_CHAOS=1        the whole of it, as `make chaos` has it; otherwise a small part
    IOSTATS_CHAOS_SEED=N   all dice begin with it (23)
    IOSTATS_CHAOS_FIGURES=FILE   a line of JSON for each campaign is added there
"""
from __future__ import annotations

import json
import os
import random
import subprocess

import pytest
from processes import fill

WHOLE = os.environ.get("IOSTATS_CHAOS", "") not in ("", "0")
SEED = int(os.environ.get("IOSTATS_CHAOS_SEED") or 23)

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


class TinyDisk:
    """A tmpfs of 1 MiB, or so, that can be filled to the last byte."""

    def __init__(self, path, size="1m"):
        self.path = path
        os.makedirs(path, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "iostats",
                           str(path)], stderr=subprocess.DEVNULL).returncode:
            pytest.skip("no tmpfs can be mounted")

    def fill(self, but=0):
        """Leave `but` bytes free."""
        with open(os.path.join(self.path, ".full"), "wb", buffering=0) as file:
            fill(file)
            if but:
                file.truncate(max(0, file.tell() - but))

    def calm(self):
        """There is room again."""
        try:
            os.unlink(os.path.join(self.path, ".full"))
        except FileNotFoundError:
            pass

    def close(self):
        subprocess.run(["umount", "-l", str(self.path)], check=False)
