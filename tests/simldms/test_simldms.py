"""python -m simldms: a process that can be killed, hang, die of a command, and refuse a file."""

import signal
import subprocess
import sys

import pytest
from ldms_desk import LdmsProcess, asked, producer_line, sampler_lines
from processes import REPOSITORY, free_port, until

from iostats_ldms.control.errors import ControlError


@pytest.fixture
def started(tmp_path):
    all_of_them = []

    def start(name, *lines, **options):
        all_of_them.append(LdmsProcess(tmp_path, name, lines, **options))
        return all_of_them[-1].start()
    yield start
    for one in all_of_them:
        one.kill()


def simldms(*arguments, text=""):
    return subprocess.run([sys.executable, "-m", "simldms", *arguments], cwd=REPOSITORY, input=text,
                          capture_output=True, text=True, timeout=60)


def test_it_collects_is_killed_and_comes_back(started):
    node = started("node-23", *sampler_lines("node-23"))
    agg = started("agg-1", producer_line("node-23", node.port, reconnect="200ms"),
                  "prdcr_start name=node-23", "updtr_add name=u interval=500ms",
                  "updtr_prdcr_add name=u regex=.*", "updtr_start name=u", kind="4.4.6")
    until(lambda: '"READY"' in asked(agg.port, "prdcr_status")[0].text)
    node.kill()
    until(lambda: '"DISCONNECTED"' in asked(agg.port, "prdcr_status")[0].text)
    node.start()
    until(lambda: '"READY"' in asked(agg.port, "prdcr_status")[0].text)
    node.process.terminate()
    assert 0 == node.process.wait(30)


def test_it_dies_of_an_interval_of_0_as_the_real_one_does(started):
    node = started("node-23", *sampler_lines("node-23"))
    with pytest.raises(ControlError):
        asked(node.port, "stop name=meminfo", "start name=meminfo interval=0")
    assert 139 == node.process.wait(30)
    assert "division by zero" in node.log.read_text()


@pytest.mark.parametrize("line, status", [
    ("frobnicate name=x", 38), ("prdcr_add name=n1", 22), ("prdcr_start name=n1", 2),
    ("prdcr_add name=n1 frobnicate=x", 22)])
def test_a_file_that_is_refused_is_told_and_its_errno_is_the_status(line, status):
    done = simldms("-x", f"sock:{free_port()}", "-c", "-", text=f"# ours\n\n{line}\n")
    assert status == done.returncode
    assert done.stderr.startswith("simldms: -: line 3: ") and done.stderr.count("\n") == 1


def test_a_port_that_is_in_use(started):
    node = started("node-23")
    done = simldms("-x", f"sock:{node.port}")
    assert 7 == done.returncode
    assert f"cannot listen on sock:{node.port}" in done.stderr


@pytest.mark.parametrize("arguments", [
    ("-x", "sock:x"), ("--sets", "meminfo=3"), ("--version", "4.6"), ("--auth", "ovis:/nosuch"),
    ("--auth", "naive"), ("--says", "x")])
def test_bad_usage(arguments):
    done = simldms(*arguments)
    assert 2 == done.returncode
    assert "Traceback" not in done.stderr


def test_who_has_not_the_secret_word_is_refused(started, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secretword=twenty-three-37\n")
    secret.chmod(0o600)
    node = LdmsProcess(tmp_path, "node-23", options=["--auth", f"ovis:{secret}"])
    node.answers = lambda: _is_refused(node.port)
    try:
        node.start()
    finally:
        node.kill()


def _is_refused(port):
    try:
        asked(port, "daemon_status")
    except ControlError as error:
        return "refuses the connection" in str(error)
    return False


def test_it_says_what_it_is_told_to_say_and_makes_the_sets_it_is_told_to(started):
    node = started("node-23", *sampler_lines("node-23", plugin="lustre_client"),
                   options=["--says", "prdcr_status=oops", "--sets", "lustre_client=3,2200,392"])
    assert "oops" == asked(node.port, "prdcr_status")[0].text
    assert '"node-23/lustre_client-2"' in asked(node.port, "plugn_sets")[0].text
    node.process.send_signal(signal.SIGTERM)
    assert 0 == node.process.wait(30)
