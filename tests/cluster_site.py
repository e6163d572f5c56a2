"""The site's server and its hooks on a cluster, for the tests of any batch system."""
import json

from processes import until

BLOCK = 65536
CLIENT = "/usr/bin/python3 -I -S {home}/iostats_client.py"
CONFIG = """
[node]
hook_dir = /run/iostats-node
# A machine of two cores with five nodes on it, and whatever else it has to do.
hook_timeout = 100
[site]
host = ctl
secret = {directory}/site.secret
store = {directory}/site.sqlite
deadline = {deadline}
show = output home comment
"""


# Named as what it is in the place of.
SERVER = """
import sys
sys.path.insert(0, {home!r})
from iostats.cli import server
{times}
sys.exit(server.main())
"""


class ClusterSite:
    """
    The site's server on ctl, and the hooks on all nodes; `times`: statements that make the server
    wait for less than on real nodes.
    """

    def __init__(self, cluster, deadline=150, times=""):
        self.cluster = cluster
        self.lustre = cluster.mount("scratch", "2.15")
        self.directory = cluster.directory / "site"
        self.directory.mkdir(exist_ok=True)
        for old in self.directory.iterdir():
            old.unlink()
        self.site_cfg = cluster.home / "site.cfg"
        self._before = self.site_cfg.read_text()
        self.site_cfg.write_text(CONFIG.format(directory=self.directory, deadline=deadline))
        self.process, self._program = None, cluster.home / "iostats_server.py"
        if times:
            self._program = self.directory / "iostats_server.py"
            self._program.write_text(SERVER.format(home=str(cluster.home), times=times))
        self.begin()
        for hook in ("prolog", "epilog"):
            cluster.hook(hook, f"exec {CLIENT.format(home=cluster.home)} {hook} "
                         f"--root {self.lustre.root} 2>>{self.directory}/{hook}.$(hostname)")

    def begin(self):
        """Start the server, and wait until it listens."""
        self.log = self.directory / "log"
        self.log.touch()
        said = len(self.log.read_text())
        self.process = self.cluster.begin(
            "ctl", "/bin/sh", "-c", f"exec {self.cluster.python} "
                                    f"{self._program} --site 2>>{self.log}")
        until(lambda: "the site's server on" in self.log.read_text()[said:], what="the server")

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()
        # what setpriv began dies with it; the port tells when
        until(lambda: self.cluster.ctl("pgrep", "-f", "iostats_server.py --site",
                                       check=False).returncode, what="its end")

    def close(self):
        self.kill()
        self.site_cfg.write_text(self._before)
        for node in self.cluster.nodes:
            self.cluster.node(node, "rm", "-rf", "/run/iostats-node", check=False)

    def iostats(self, *arguments, user=None, **how):
        """`iostats` on ctl, as root or a user; the CompletedProcess."""
        return self.cluster.ctl("env", f"PYTHONPATH={self.cluster.home}", self.cluster.python, "-m",
                                "iostats", *arguments, user=user, **how)

    def report(self, *arguments, **how):
        """`iostats report` on ctl."""
        return self.iostats("report", *arguments, **how)

    def records(self, job, count=1, more=()):
        """[record] of a job, when there are `count` of them."""
        def there():
            done = self.report("--format", "json", *more, job, check=False)
            found, text = [], done.stdout
            while text.strip():
                record, end = json.JSONDecoder().raw_decode(text.lstrip())
                found.append(record)
                text = text.lstrip()[end:]
            return found if len(found) >= count else None
        return until(there, 150, f"{count} records of job {job}")

    def record(self, job):
        [record] = self.records(job)
        return record

    def errors(self):
        """What the hooks had to say."""
        return "".join(path.read_text() for path in sorted(self.directory.glob("*log.node*")))


def written(record):
    """(blocks written, writes, nodes that reported, complete)."""
    [fs] = record["file_systems"]
    blocks, rest = divmod(fs["application"]["write_bytes"], BLOCK)
    assert rest == 0
    return (blocks, fs["application"]["write_calls"], record["coverage"]["reported"],
            record["coverage"]["complete"])
