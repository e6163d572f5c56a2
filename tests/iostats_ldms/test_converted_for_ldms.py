"""
What is converted, LDMS' own parser reads.
"""

import shutil
import subprocess

import pytest
from test_read_published import ADVERTISERS, EXAMPLE_2026, SEED, without

from iostats_ldms.description.convert import to_yaml
from iostats_ldms.description.read import read_description


@pytest.mark.ldms
@pytest.mark.parametrize("text", [SEED, without(EXAMPLE_2026), ADVERTISERS],
                         ids=["2024", "2026", "advertisers"])
def test_ldms_reads_what_was_converted(text, tmp_path):
    """Its own parser, which refuses these texts or pairs their names wrongly."""
    if not shutil.which("ldmsd_yaml_parser"):
        pytest.skip("no ldmsd_yaml_parser (LDMS 4.5) on PATH")
    file = tmp_path / "cluster.yaml"
    file.write_text(to_yaml(read_description(text)[0]), encoding="utf-8")

    done = subprocess.run(["ldmsd_yaml_parser", "-y", str(file), "-n", "cpu-2"],
                          capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    host = "c-02" if text == ADVERTISERS else "c-2"
    listens = [line for line in done.stdout.splitlines() if line.startswith("listen ")]
    assert listens and all(f" host={host}" in line for line in listens), done.stdout
