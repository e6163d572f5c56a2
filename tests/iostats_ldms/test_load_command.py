"""iostats ldms load, history and rollback, with a real etcd."""
import json
import re
import shlex

import pytest
from etcd_desk import EtcdCluster
from trees import ROOT

from iostats.etcd.client import Etcd, EtcdRefused, Stop
from iostats_ldms import cli as ldms
from iostats_ldms import published

pytestmark = pytest.mark.etcd

TEXT = """\
daemons:
  - names: "node-[1-4]"
    hosts: "n-[01-04]"
    endpoints: [{names: "node-[1-4]-ep", ports: 11001}]
samplers:
  - daemons: "node-[1-4]"
    plugins: [mem1]
plugins:
  mem1: {name: meminfo, interval: 1s, config: [{schema: meminfo}]}
iostats:
  - {hosts: "oss[1-2]", settings: {harvest: {interval: 23}}}
"""
OTHER = TEXT.replace("1-4", "1-6").replace("01-04", "01-06").replace("1s", "20s")


@pytest.fixture
def run(etcd, tmp_path, capsys):
    """run("load", text, ...) -> (status, standard output, standard error)."""
    (tmp_path / "site.cfg").write_text(f"[etcd]\nendpoints = {' '.join(etcd.endpoints)}\n"
                                       f"prefix = {etcd.prefix}\n")

    def go(name, *arguments, text=None):
        if text is not None:
            (tmp_path / "cluster.yaml").write_text(text)
            arguments = (str(tmp_path / "cluster.yaml"), *arguments)
        status = ldms.main([name, *arguments, "--config", str(tmp_path / "site.cfg")])
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return status, told.out.replace(etcd.prefix, "orion"), told.err
    go.etcd = etcd
    return go


def test_load_shows_what_is_different_and_makes_it_valid(run):
    assert (0, "+ daemons node-[1-4]\n+ samplers node-[1-4]\n"
               "+ plugin mem1: meminfo, interval 1 s\n"
               "+ iostats oss[1-2]: harvest.interval: 23\n"
               "description 1 of orion is valid\n", "") == run("load", text=TEXT)
    differences = ("- samplers node-[1-4]\n+ samplers node-[1-6]\n")
    status, out, err = run("load", "--dry-run", text=OTHER)
    assert (0, "") == (status, err)
    assert differences in out and "~ plugin mem1: interval: 1 s -> 20 s\n" in out
    assert "is valid" not in out
    assert (0, "description 1 of orion is identical; nothing to load\n", ""
            ) == run("load", text=TEXT)
    status, out, err = run("load", "--note", "two more", text=OTHER)
    assert out.endswith("~ plugin mem1: interval: 1 s -> 20 s\ndescription 2 of orion is valid\n")
    assert (0, "only the text differs\ndescription 3 of orion is valid\n", ""
            ) == run("load", text=OTHER + "# a remark\n")


@pytest.mark.parametrize("by_hand", [None, b'{"revision": 1, "groups": []}', b"no JSON"],
                         ids=["removed", "others", "nonsense"])
def test_what_somebody_wrote_for_agents_by_hand_is_replaced_by_the_same_description(run, by_hand):
    """Its text says the same already, and agents have something else."""
    run("load", text=TEXT)
    with Etcd(run.etcd.endpoints, prefix=run.etcd.prefix) as etcd:
        key = etcd.key("agents")
        if by_hand is None:
            etcd.delete(key)
        else:
            etcd.put(key, by_hand)
        shown = ("only the settings of agents differ: /orion/agents is not from "
                 "description 1\n")
        assert (0, shown, "") == run("load", "--dry-run", text=TEXT)
        assert (0, shown + "description 2 of orion is valid\n", "") == run("load", text=TEXT)
        assert {"revision": 2, "groups": [{"name": "oss[1-2]", "hosts": ["oss1", "oss2"],
                                           "settings": {"harvest.interval": "23"}}]
                } == json.loads(etcd.get(key).value)


@pytest.mark.parametrize("damage", ["removed", "another text"])
@pytest.mark.parametrize("command", ["load", "rollback"])
def test_a_description_whose_text_is_damaged_in_etcd_can_be_replaced(run, command, damage):
    run("load", text=TEXT)
    run("load", text=OTHER)
    with Etcd(run.etcd.endpoints, prefix=run.etcd.prefix) as etcd:
        part = etcd.key("descriptions", published.read_current_revision(etcd).name, "0000")
        if damage == "removed":
            etcd.delete(part)
        else:
            etcd.put(part, b"by hand")
    status, out, err = run(command, *(["1"] if command == "rollback" else []),
                           text=TEXT if command == "load" else None)
    assert 0 == status
    assert out.startswith("+ daemons node-[1-4]\n")
    assert out.endswith("description 3 of orion is valid\n")
    assert 1 == err.count("\n") and "of description 2, got" in err
    assert (0, TEXT, "") == run("history", "3")


def test_numbers_go_on_where_what_is_valid_was_removed_by_hand(run):
    run("load", text=TEXT)
    run("load", text=OTHER)
    with Etcd(run.etcd.endpoints, prefix=run.etcd.prefix) as etcd:
        key = etcd.key("current")
        etcd.put(key, b"by hand")
        status, out, err = run("load", text=TEXT)
        assert (1, "") == (status, out)
        assert err.endswith("got b'by hand'; remove that key (etcdctl del), and load the "
                            "description again\n")
        etcd.delete(key)
    assert run("load", text=TEXT)[1].endswith("description 3 of orion is valid\n")
    assert [3, 2, 1] == [one["revision"] for one in json.loads(run("history", "--json")[1])]


def test_history_and_rollback(run):
    assert (0, "no description of orion was loaded yet: iostats ldms load FILE\n", ""
            ) == run("history")
    run("load", text=TEXT)
    run("load", "--note", "two more", text=OTHER)
    known = json.loads(run("history", "--json")[1])
    assert [(2, True, "two more"), (1, False, "")] == [
        (one["revision"], one["valid"], one["note"]) for one in known]
    status, out, _ = run("rollback")
    assert 0 == status
    assert out.endswith("~ plugin mem1: interval: 20 s -> 1 s\ndescription 3 of orion is valid\n")
    assert (0, TEXT, "") == run("history", "3")
    lines = run("history")[1].splitlines()
    assert lines[0].split() == ["revision", "loaded", "by", "note"]
    assert ["*", "3", "rollback", "to", "1"] == lines[1].split()[:2] + lines[1].split()[-3:]
    assert ["2", "two", "more"] == lines[2].split()[:1] + lines[2].split()[-2:]
    assert (0, OTHER, "") == run("history", "2")


def test_the_members_of_maestros_file(run, tmp_path):
    """etcd.yaml as Maestro has it, with the first member away."""
    port = run.etcd.endpoints[0].rpartition(":")[2]
    (tmp_path / "etcd.yaml").write_text(
        "cluster: orion\nmembers:\n  - host: 127.0.0.1\n    port: 1\n"
        f"  - host: 127.0.0.1\n    port: {port}\n")
    status, out, err = run("load", "--etcd", str(tmp_path / "etcd.yaml"), text=TEXT)
    assert (0, True) == (status, out.endswith("description 1 of orion is valid\n"))
    assert err == ("iostats: etcd: http://127.0.0.1:1: connection refused; asking "
                   f"http://127.0.0.1:{port} from now on\n")


@pytest.mark.parametrize("arguments, text, status, expected", [
    (("load",), "daemons: [", 1, "cluster.yaml:2:1: expected YAML"),
    (("load",), None, 2, "the following arguments are required: FILE (see --help)"),
    (("load", "/no/file"), None, 2, "/no/file: cannot be read: No such file or directory"),
    (("load", "--etcd", "/no/etcd.yaml"), TEXT, 2,
     "/no/etcd.yaml: cannot be read: No such file or directory"),
    (("load", "--etcd", "http://127.0.0.1:1"), TEXT, 3,
     "etcd: http://127.0.0.1:1: connection refused"),
    (("load", "--prefix", "a/b"), TEXT, 2, "[etcd] prefix: expected the name of a cluster"),
    (("rollback",), None, 1, "etcd: no earlier description; there are: none"),
    (("rollback", "23"), None, 1, "etcd: no description 23; there are: none"),
    (("rollback", "x"), None, 2, "expected the number of a description, such as 23, got 'x'"),
    (("history", "0"), None, 2, "expected the number of a description, such as 23, got '0'"),
])
def test_a_mistake_is_one_line(run, arguments, text, status, expected):
    found, out, err = run(*arguments, text=text)
    assert (status, "", 1) == (found, out, len(err.splitlines()))
    assert expected in err


def test_a_description_that_is_no_longer_right_is_replaced_and_not_gone_back_to(run):
    """As another release has put it there."""
    with Etcd(run.etcd.endpoints, prefix=run.etcd.prefix) as etcd:
        published.load(etcd, "daemons: 23\n", (), None, by="x")
    status, out, err = run("load", text=TEXT)
    assert (0, True) == (status, out.startswith("+ daemons node-[1-4]\n"))
    assert "iostats: description 1:1:" in err and "showing all of the new description" in err
    status, out, err = run("rollback", "1")
    assert (1, "") == (status, out) and "iostats: description 1:1:" in err


DOCUMENT = (ROOT / "docs/how-to/ldms.md").read_text().partition("\n## etcd\n")[2].partition(
    "\n## ")[0]


def test_the_document_shows_what_is_printed(run, tmp_path, monkeypatch):
    """Its commands in their order; the moments are others."""
    shown = re.findall(r"(?m)^    (.*)$", DOCUMENT)
    shown = shown[next(at for at, line in enumerate(shown) if line.startswith("$ ")):]
    shown = shown[:next(at for at, line in enumerate(shown) if line.startswith("etcdctl"))]
    monkeypatch.setattr("iostats_ldms.cli.load.find_current_user", lambda: "alice@mgmt1")
    run("load", text=TEXT)
    printed = []
    for line in shown:
        if line.startswith("$ "):
            printed.append(line)
            name, *arguments = shlex.split(line[len("$ iostats ldms "):])
            if name == "load":
                arguments.remove("orion.yaml")
            printed += run(name, *arguments, text=OTHER if name == "load" else None)[1].splitlines()
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert [re.sub(moment, "..", line) for line in shown] == [
        re.sub(moment, "..", line) for line in printed]


def test_the_roles_of_the_document_are_enough(tmp_path):
    """For an agent: to read what is for it, to follow it, and to say with a lease what it has."""
    with EtcdCluster(tmp_path) as cluster:
        for line in re.findall(r"(?m)^    etcdctl (.*)$", DOCUMENT):
            cluster.ctl(*line.split())
        for name in ("ldms", "agents"):
            cluster.ctl("user", "add", f"{name}:23")
            cluster.ctl("user", "grant-role", name, name)
        cluster._need_password("root")
        with Etcd(cluster.endpoints, user="ldms", password="23", prefix="orion") as etcd:
            published.load(etcd, TEXT, (), None, by="x")
            assert [1] == [one.number for one in published.read_history(etcd)]
        with Etcd(cluster.endpoints, user="agents", password="23", prefix="orion") as etcd:
            assert b'{"revision": 1, "groups": []}' == etcd.get(etcd.key("agents")).value
            assert b'{"revision": 1' in next(etcd.follow(
                etcd.key("agents"), Stop())).values[etcd.key("agents")]
            lease = etcd.grant(23)
            etcd.put(etcd.key("agents_seen", "oss1"), b"1", lease)
            assert 23 == etcd.keep_alive(lease)
            for key in ("current", "agents"):
                with pytest.raises(EtcdRefused, match="permission denied"):
                    etcd.put(etcd.key(key), b"1")
