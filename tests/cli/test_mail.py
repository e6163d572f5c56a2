"""
`iostats mail` and hooks/slurm_mail, with a program in place of mail(1) that keeps what it gets: a
mail is sent whatever happens, and with the report where a job has ended.

The subjects are those of Slurm's mail_job_info(), src/slurmctld/agent.c.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from processes import REPOSITORY, Done, until
from site_desk import SiteDesk, a_report, free_port, script

SUBJECT = "Slurm Job_id={job} Name=solve Ended, Run time 00:31:07, COMPLETED, ExitCode 0"
BODY = "what Slurm says\n"
GOES_ON = [
    "Slurm Job_id={job} Name=solve Began, Queued time 00:00:41",
    "Slurm Job_id={job} Name=Ended Began, Queued time 00:00:41",
    "Slurm Job_id={job} Name=solve Reached 90% of time limit, Run time 00:27:00",
    "Slurm Job_id={job} Name=solve Reached time limit, Run time 00:30:00",
    "Slurm Job_id={job} Name=solve Invalid dependency",
    "Slurm Array Summary Job_id={job}_* ({job}) Name=solve Began",
    "Ended", "Job {job} Ended, Run time 00:31:07", ""]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A desk with a running server and a mail program that keeps what it gets."""
    with SiteDesk(tmp_path_factory.mktemp("site")) as desk:
        recorder(desk)
        desk.server = desk.site()
        yield desk


@pytest.fixture
def desk(tmp_path):
    """A desk of one's own, with no server, and with a secret."""
    with SiteDesk(tmp_path) as one:
        recorder(one)
        one.site_secret.write_text("s" * 64)
        one.site_secret.chmod(0o600)
        yield one


def recorder(desk):
    """A mail program that keeps its arguments and its input, and ends as it is told."""
    (desk.directory / "sent").mkdir()
    script(desk.bin / "recorder", f"""#!/bin/sh
cd '{desk.directory}/sent'
/bin/cat >body
for argument in "$@"; do printf '%s\\n' "$argument"; done >arguments
exit "$(/bin/cat status 2>/dev/null || echo 0)"
""")
    desk.configure(site_mail_program=f"{desk.bin}/recorder -r iostats")


def mail(desk, subject, *, stdin=BODY, wait="60", status=None, address="alice@example.org"):
    """Send a mail; (the Done, the body that went out)."""
    sent = desk.directory / "sent"
    for old in sent.iterdir():
        old.unlink()
    if status is not None:
        (sent / "status").write_text(str(status))
    done = desk.iostats("mail", "--wait", wait, "-s", subject, address, stdin=stdin)
    assert ["-r", "iostats", "-s", subject, address] == (
        sent / "arguments").read_text().split("\n")[:-1]
    return done, (sent / "body").read_text()


def work(site, reads=23, *, about=(), **fields):
    """A job with a record; its id."""
    job = site.new_job()
    site.send(a_report(job, "nid1", reads=reads, about={"nodes": "nid1", **dict(about)},
                       **{"ended": time.time(), **fields}))
    site.record(job)
    return job


def test_the_mail_about_a_jobs_end_has_its_report(site):
    """After the text that was to be sent, in plain letters."""
    job = work(site)
    done, body = mail(site, SUBJECT.format(job=job))
    assert (0, "", "") == (done.status, done.out, done.err)
    assert body.startswith(f"{BODY}\nJob {job} of alice: 1 node, 00:00:37 from ")
    assert "File data transfer statistics" in body and "40.0 KiB" in body
    assert "+--" not in body


@pytest.mark.parametrize("how", ["Ended, Run time 00:31:07, COMPLETED, ExitCode 0",
                                 "Failed, Run time 00:31:07, FAILED, ExitCode 7",
                                 "Failed, Run time 00:31:07, TIMEOUT",
                                 "Requeued, Run time 00:31:07", "Ended"])
def test_a_job_ends_in_several_ways(site, how):
    job = work(site)
    _, body = mail(site, f"Slurm Job_id={job} Name=a job, Began Job_id=1 {how}")
    assert f"Job {job} of alice: 1 node" in body


@pytest.mark.parametrize("subject", GOES_ON)
def test_any_other_mail_is_sent_as_it_is(site, subject):
    """At once, also where a report is still to come: there is nothing to wait for."""
    for job in (work(site), site.new_job()):
        done, body = mail(site, subject.format(job=job), wait="3600")
        assert (0, "", BODY) == (done.status, done.err, body)


def test_a_mail_waits_for_the_record(site):
    """Slurm sends it when the last epilog may not have run."""
    job, found = site.new_job(), []
    sender = threading.Thread(target=lambda: found.append(
        mail(site, SUBJECT.format(job=job), wait="40")))
    sender.start()
    time.sleep(0.5)
    site.send(a_report(job, "nid1", about={"nodes": "nid1"}, ended=time.time()))
    sender.join()
    [(done, body)] = found
    assert 0 == done.status and f"Job {job} of alice: 1 node" in body


def test_a_mail_has_the_run_that_has_ended_and_not_the_one_before(site):
    """The second run's record comes later than its mail is made; the first one's is there."""
    job = work(site, ended=time.time() - 1000, about={"attempt": 0})
    found = []
    sender = threading.Thread(target=lambda: found.append(mail(site, SUBJECT.format(job=job))))
    sender.start()
    time.sleep(0.5)
    site.send(a_report(job, "nid1", "37", ended=time.time(), elapsed_s=41.0,
                       about={"nodes": "nid1", "attempt": 1}))
    sender.join()
    [(done, body)] = found
    assert 0 == done.status and f"Job {job} of alice: 1 node, 00:00:41" in body
    assert 1 == body.count("Job ")
    _, body = mail(site, SUBJECT.format(job=work(site, ended=time.time() - 1000)), wait="0.2")
    assert "00:00:37" in body                              # there is no other one


def test_a_task_of_an_array_is_found_by_its_raw_job_id(site):
    """Slurm names the array, the task, and the number that nodes know."""
    job = work(site)
    _, body = mail(site, f"Slurm Array Task Job_id=999_3 ({job}) Name=solve Ended, Run time "
                         f"00:31:07, COMPLETED, ExitCode 0")
    assert f"Job {job} of alice: 1 node" in body


def test_the_mail_about_an_array_has_the_total_of_its_tasks(site):
    script(site.bin / "squeue", f"#!/bin/sh\nexec /bin/cat '{site.directory}/squeue.json'\n")
    import json
    (site.directory / "squeue.json").write_text(json.dumps({"jobs": [
        {"job_id": 5000 + task, "array_job_id": 5000, "array_task_id": task, "user_name": "alice",
         "job_state": ["COMPLETED"], "nodes": "nid1",
         "exit_code": {"return_code": {"set": True, "number": 0}}} for task in range(23)]}))
    for task in range(23):
        site.send(a_report(str(5000 + task), "nid1", ended=time.time(),
                           about={"nodes": "nid1", "scheduler": "slurm"}))
    until(lambda: len(site.records("5000")) == 23, what="23 records")
    _, body = mail(site, "Slurm Array Summary Job_id=5000_* (5000) Name=solve Ended, COMPLETED, "
                         "ExitCode [0-0]")
    assert "Array 5000 of alice: 23 tasks (23 COMPLETED)\n" in body
    assert "scratch        921.0 KiB    0 bytes" in body and "\nJob " not in body
    (site.bin / "squeue").unlink()


def test_a_mail_is_sent_when_the_job_is_unknown(desk):
    """No server; and one that does not know the job."""
    done, body = mail(desk, SUBJECT.format(job="4711"), wait="0.1")
    assert 0 == done.status
    assert body.startswith(BODY + "\nNo I/O report of job 4711: no answer from the site's server")
    desk.site()
    done, body = mail(desk, SUBJECT.format(job="4711"), wait="0")
    assert (0, f"{BODY}\nNo I/O report of job 4711: unknown reason\n") == (done.status, body)


def test_the_status_is_the_mail_programs(site):
    for subject in (GOES_ON[0], SUBJECT):
        done, _ = mail(site, subject.format(job=work(site)), status=37)
        assert 37 == done.status
    (site.directory / "sent" / "status").unlink()


def test_a_mail_in_any_encoding_is_sent(site):
    """Latin-1, in the C locale, with the input closed."""
    job = work(site)
    env = {"PATH": str(site.bin), "PYTHONPATH": str(REPOSITORY), "LC_ALL": "C"}
    command = [sys.executable, "-m", "iostats", "mail", "--config", site.cfg, "-s",
               SUBJECT.format(job=job), "alice"]
    done = subprocess.run(command, env=env, input=b"gr\xfc\xdfe\n", capture_output=True, timeout=60)
    assert (0, b"") == (done.returncode, done.stderr)
    body = (site.directory / "sent" / "body").read_bytes()
    assert body.startswith(b"gr\xfc\xdfe\n\nJob ")
    done = subprocess.run(["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command], env=env,
                          capture_output=True, timeout=60)
    assert (0, b"") == (done.returncode, done.stderr)
    assert (site.directory / "sent" / "body").read_bytes().startswith(f"\nJob {job}".encode())


def test_a_line_break_in_a_jobs_name_makes_no_header_of_the_mail(site):
    """`sbatch -J $'x\\nBcc: ...'`: some mail programs write the subject as it is."""
    name = "x\nBcc: eve@example.org\r\n\r\nhello"
    subject = SUBJECT.format(job=work(site)).replace("solve", name)
    done = site.iostats("mail", "--wait", "20", "-s", subject, "alice@example.org", stdin=BODY)
    assert 0 == done.status
    sent = (site.directory / "sent" / "arguments").read_text().split("\n")[:-1]
    assert ["-r", "iostats", "-s", subject.replace("\n", " ").replace("\r ", " "),
            "alice@example.org"] == sent


def test_an_address_is_no_option_of_the_mail_program(site):
    """--mail-user is the job's user's to choose, and Slurm's controller sends the mail."""
    for old in (site.directory / "sent").iterdir():
        old.unlink()
    done = site.iostats("mail", "-s", "Slurm Job_id=4711 Name=x Began", "-A/etc/passwd", stdin=BODY)
    assert (2, "") == (done.status, done.out)
    assert "expected -s SUBJECT ADDRESS, got the address '-A/etc/passwd'" in done.line
    assert [] == list((site.directory / "sent").iterdir())


def test_a_mail_is_sent_with_a_broken_configuration(desk):
    """By what is in force without it; here it is not there, and that is said."""
    desk.cfg.write_text("[site]\nmail_programme = x\n")
    done = desk.iostats("mail", "-s", SUBJECT.format(job="4711"), "alice", stdin=BODY)
    assert "has no key 'mail_programme'" in done.lines[0]
    if not os.path.exists("/usr/bin/mail"):
        assert (2, "iostats: /usr/bin/mail: cannot be run: No such file or directory") == (
            done.status, done.lines[1])


def test_a_mail_program_that_cannot_be_run_is_one_line(desk):
    for program, why in (("/nowhere/mail", "/nowhere/mail: cannot be run: No such file"),
                         ("", "no mail program: cannot be run"),
                         (str(desk.directory), "cannot be run: Permission denied")):
        desk.configure(site_mail_program=program)
        done = desk.iostats("mail", "-s", GOES_ON[0], "alice", stdin=BODY)
        assert 2 == done.status and why in done.line


@pytest.mark.parametrize("arguments", [(), ("--wait",), ("--wait", "long", "-s", "x", "alice"),
                                       ("--wait", "10")])
def test_bad_usage_is_one_line_and_status_2(site, arguments):
    done = site.iostats("mail", *arguments)
    assert 2 == done.status and "expected -s SUBJECT ADDRESS" in done.line


def test_slurms_script_passes_on_all_that_it_gets(site, tmp_path):
    """As slurmctld calls it: an environment of its own, no arguments but three, no input."""
    job = work(site)
    link = tmp_path / "mailprog"
    link.symlink_to(REPOSITORY / "hooks" / "slurm_mail")
    config = {name.upper().replace(".", "_"): str(value) for name, value in site.choices.items()}
    subject = SUBJECT.format(job=job)
    done = subprocess.run(
        [link, "-s", subject, "alice@example.org"], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, cwd="/", env={
            "PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "SLURM_JOB_ID": job,
            **{f"IOSTATS_{name}": value for name, value in config.items()}})
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    assert subject in (site.directory / "sent" / "arguments").read_text()
    assert (site.directory / "sent" / "body").read_text().startswith(
        f"\nJob {job} of alice: 1 node")


def bare(site, tmp_path, *, lacks=""):
    """Run hooks/slurm_mail by a Python without any package; what was sent."""
    home = tmp_path / "home"
    shutil.copytree(REPOSITORY / "iostats", home / "iostats",
                    ignore=shutil.ignore_patterns("__pycache__"))
    (home / "hooks").mkdir()
    # An address of a job's own; /usr/bin/mail is a recorder, where even our own files are broken.
    text = (REPOSITORY / "hooks" / "slurm_mail").read_text()
    script(home / "hooks" / "slurm_mail", text.replace("/usr/bin/mail", f"{site.bin}/recorder"))
    python = script(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    if lacks:
        (home / "iostats" / lacks).unlink()
    for old in (site.directory / "sent").iterdir():
        old.unlink()
    done = subprocess.run(
        [home / "hooks/slurm_mail", "-s", SUBJECT.format(job="4711"), "alice@example.org"],
        input=BODY, capture_output=True, text=True, timeout=60, cwd="/", env={
            "PATH": "/usr/bin:/bin", "PYTHON": str(python),
            "IOSTATS_SITE_MAIL_PROGRAM": f"{site.bin}/recorder"})
    sent = site.directory / "sent"
    return done, (sent / "arguments").read_text().splitlines(), (sent / "body").read_text()


@pytest.mark.parametrize("lacks, why", [
    ("", "has no package '(tabulate|msgspec|ClusterShell)'; sudo make install-site"),
    ("base/config.py", "cannot import name 'config'"),
    ("base/errors.py", "No module named 'iostats.base.errors'"),
    ("cli/mail.py", "No module named 'iostats.cli.mail'")])
def test_a_mail_is_sent_without_the_packages_and_while_files_are_replaced(desk, tmp_path, lacks,
                                                                           why):
    """By a Python that has nothing; it was lost, with a traceback in the log of slurmctld."""
    done, arguments, body = bare(desk, tmp_path, lacks=lacks)
    assert (0, ["-s", SUBJECT.format(job="4711"), "alice@example.org"], BODY) == (
        done.returncode, arguments, body)
    [line] = done.stderr.splitlines()
    assert line.startswith("iostats: mail: sent without the report: ") and re.search(why, line)


def test_another_program_on_the_port_delays_a_mail_up_to_its_limit(desk):
    """One that accepts and never answers costs the time that was given; mail() has a limit."""
    from processes import Listener
    with Listener(free_port(), None) as other:
        desk.configure(site_port=other.port)
        done, body = mail(desk, SUBJECT.format(job="4711"), wait="0.5")
        assert isinstance(done, Done) and 0 == done.status and "No I/O report" in body
