"""
dashboards/alerts.yml: what each rule needs is on our page, and by the promtool of a real Prometheus
each comes when it should, and no other.
"""
from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from trees import ROOT

from iostats.sinks.prometheus.event_page import EVENT_FAMILIES

ALERTS = ROOT / "dashboards" / "alerts.yml"
TEXT = ALERTS.read_text(encoding="utf-8")
NAMES = re.findall(r"(?m)^ +- alert: (\w+)$", TEXT)
PAGE = {name + "_total" * (kind == "counter") for name, (kind, _, _) in EVENT_FAMILIES.items()} | {
    "iostats_agent_up"}

# What the page has, minute by minute from 0 on, and the alerts 20 minutes later, (name, labels).
EVICTED = 'iostats_events_total{kind="evicted",severity="critical",fs="scratch"}'
HEARD = 'iostats_storage_servers{state="heard"}'
CASES = {
    "all is well": ({EVICTED: "23x30", 'iostats_storage_server_healthy{node="oss1"}': "1x30",
                     'iostats_storage_server_heard_timestamp_seconds{node="oss1"}': "0+60x30",
                     "iostats_dropped_events_total": "0x30",
                     'iostats_agent_up{node="oss1"}': "1x30"}, []),
    "requests wait two seconds": (
        {'iostats_service_wait_us_total{node="oss1",service="ost_io"}': "0+240000000x30",
         'iostats_service_requests_total{node="oss1",service="ost_io"}': "0+120x30"},
        [("LustreRequestsWait", "node: oss1, service: ost_io")]),
    "requests wait half a second, and few wait long": (
        {'iostats_service_wait_us_total{node="oss1",service="ost_io"}': "0+60000000x30",
         'iostats_service_requests_total{node="oss1",service="ost_io"}': "0+120x30",
         'iostats_service_wait_us_total{node="oss1",service="ost"}': "0+240000000x30",
         'iostats_service_requests_total{node="oss1",service="ost"}': "0+41x30"}, []),
    "a target is down": (
        {'iostats_target_not_up{fs="scratch",target="scratch-OST0003",state="down",node="oss1"}':
            "_x17 1x12"},
        [("LustreTargetDown", 'node: oss1, target: scratch-OST0003, fs: scratch, state: down')]),
    "a target is down for some seconds": (
        {'iostats_target_not_up{fs="scratch",target="scratch-OST0003",state="down",node="oss1"}':
            "_x20 1x12"}, []),
    "a recovery takes long": (
        {'iostats_target_not_up{fs="scratch",target="scratch-OST0003",state="recovering",'
         'node="oss1"}': "1x30"},
        [("LustreTargetRecovering",
          "node: oss1, target: scratch-OST0003, fs: scratch, state: recovering")]),
    "a recovery": (
        {'iostats_target_not_up{fs="scratch",target="scratch-OST0003",state="recovering",'
         'node="oss1"}': "_x10 1x20"}, []),
    "a target is nearly full": (
        {'iostats_target_size_bytes{fs="scratch",target="scratch-OST0003"}': "1000x30",
         'iostats_target_available_bytes{fs="scratch",target="scratch-OST0003"}': "99x30"},
        [("LustreTargetNearlyFull", "target: scratch-OST0003, fs: scratch")]),
    "few inodes are left": (
        {'iostats_target_inodes{fs="scratch",target="scratch-MDT0000"}': "1000x30",
         'iostats_target_free_inodes{fs="scratch",target="scratch-MDT0000"}': "99x30"},
        [("LustreTargetNearlyFull", "target: scratch-MDT0000, fs: scratch")]),
    "a target fills fast": (
        {'iostats_target_size_bytes{fs="scratch",target="scratch-OST0003"}': "1000000x30",
         'iostats_target_available_bytes{fs="scratch",target="scratch-OST0003"}': "230000-100x30"},
        [("LustreTargetFullInThreeDays", "target: scratch-OST0003, fs: scratch")]),
    "a target fills slowly": (
        {'iostats_target_size_bytes{fs="scratch",target="scratch-OST0003"}': "1000000x30",
         'iostats_target_available_bytes{fs="scratch",target="scratch-OST0003"}': "230000-41x30"},
        []),
    "the network drops messages": (
        {'iostats_lnet_messages_total{node="oss1",kind="sent"}': "0+1000x30",
         'iostats_lnet_messages_total{node="oss1",kind="received"}': "0+1000x30",
         'iostats_lnet_messages_total{node="oss1",kind="dropped"}': "0+41x30"},
        [("LustreNetworkDropsMessages", "node: oss1")]),
    "few messages are dropped": (
        {'iostats_lnet_messages_total{node="oss1",kind="sent"}': "0+1000x30",
         'iostats_lnet_messages_total{node="oss1",kind="received"}': "0+1000x30",
         'iostats_lnet_messages_total{node="oss1",kind="dropped"}': "0+11x30"}, []),
    "the network resends messages": (
        {'iostats_lnet_messages_total{node="oss1",kind="sent"}': "0+1000x30",
         'iostats_lnet_resent_messages_total{node="oss1"}': "0+41x30"},
        [("LustreNetworkResendsMessages", "node: oss1")]),
    "few messages are resent": (
        {'iostats_lnet_messages_total{node="oss1",kind="sent"}': "0+4100x30",
         'iostats_lnet_resent_messages_total{node="oss1"}': "0+37x30"}, []),
    "an interface is unhealthy": (
        {'iostats_lnet_health{node="oss1",nid="10.9.0.3@o2ib"}': "900x30",
         'iostats_lnet_health{node="oss2",nid="10.9.0.4@o2ib"}': "1000x30"},
        [("LustreNetworkUnhealthy", "node: oss1, nid: 10.9.0.3@o2ib")]),
    "messages wait for peers": (
        {'iostats_lnet_waiting_peers{node="oss1",lnet="o2ib"}': "3x30",
         'iostats_lnet_waiting_peers{node="oss2",lnet="o2ib"}': "3x7 0x23"},
        [("LustreNetworkPeersWait", "node: oss1, lnet: o2ib")]),
    "a router is down": (
        {'iostats_lnet_down{node="oss1",nid="10.9.1.2@o2ib"}': "1x30"},
        [("LustreNetworkDown", "node: oss1, nid: 10.9.1.2@o2ib")]),
    "not healthy": ({'iostats_storage_server_healthy{node="oss1"}': "1x18 0x10"},
                    [("LustreServerNotHealthy", "node: oss1")]),
    "an LBUG": ({'iostats_events_total{kind="lbug",severity="fatal",fs=""}': "0x17 1x12"},
                [("LustreBug", "kind: lbug")]),
    "an LBUG an hour ago": ({'iostats_events_total{kind="lbug",severity="fatal",fs=""}':
                             "0x2 1x30"}, []),
    "data were lost": ({'iostats_events_total{kind="data_lost",severity="fatal",fs="scratch"}':
                        "0x17 1x12"}, [("LustreDataLost", "kind: data_lost, fs: scratch")]),
    "some evictions": ({EVICTED: "37x17 60x12"}, [("LustreClientsEvicted", "fs: scratch")]),
    "many evictions": ({EVICTED: "37x17 1037x12"}, [("LustreClientsEvicted", "fs: scratch"),
                                                    ("LustreManyClientsEvicted", "fs: scratch")]),
    "a flood": ({'iostats_events_total{kind="timeouts",severity="warning",fs="scratch"}':
                 "0x17 23000x12"}, [("LustreEventFlood", "")]),
    "so many that some are counted only": ({"iostats_dropped_events_total": "7x17 48x12"},
                                           [("LustreEventFlood", "")]),
    "lines were lost": ({'iostats_events_total{kind="log_lost",severity="warning",fs=""}':
                         "0x17 41x12"}, [("LustreKernelLogLost", "kind: log_lost")]),
    "a storage server is silent": (
        {'iostats_storage_server_heard_timestamp_seconds{node="oss1"}': "0+60x16 960x12"},
        [("LustreServerSilent", "node: oss1")]),
    "no sweeps": ({'iostats_agent_up{node="oss1"}': "1x10 0x20"},
                  [("IostatsAgentMissesSweeps", "node: oss1")]),
    "nothing at all": ({HEARD: "1x5 _x25"}, [("IostatsSiteServerGone", "state: heard")]),
}


def test_every_name_is_one_of_our_page():
    """A metric with another name would never alert."""
    used = set(re.findall(r"\biostats_\w+", "\n".join(re.findall(r"(?m)^ +expr: (.*)$", TEXT))))
    assert used and used <= PAGE


def test_every_rule_has_a_case():
    """In which it comes."""
    assert set(NAMES) == {name for _, alerts in CASES.values() for name, _ in alerts}
    assert len(set(NAMES)) == len(NAMES) > 10


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if not found:
        pytest.skip("needs Debian's prometheus")
    return found


@pytest.mark.prometheus
def test_promtool_takes_the_rules(promtool):
    """Of whatever release is there."""
    done = subprocess.run([promtool, "check", "rules", ALERTS], capture_output=True, text=True)
    assert (0, True) == (done.returncode, f"{len(NAMES)} rules found" in done.stdout), done


@pytest.mark.prometheus
@pytest.mark.parametrize("case", CASES)
def test_each_alert_comes_when_it_should(promtool, tmp_path, case):
    """And none of the others."""
    series, expected = CASES[case]
    series = {HEARD: "1x30", **series}
    lines = [f"rule_files: ['{ALERTS}']", "evaluation_interval: 1m", "tests:",
             "  - interval: 1m", "    input_series:"]
    for name, values in series.items():
        lines += [f"      - series: '{name}'", f"        values: '{values}'"]
    lines.append("    alert_rule_test:")
    severities = dict(re.findall(r"(?s)- alert: (\w+)\n.*?severity: (\w+)", TEXT))
    for name in NAMES:
        lines += ["      - eval_time: 20m", f"        alertname: {name}"]
        alerts = [labels for one, labels in expected if one == name]
        if alerts:
            lines.append("        exp_alerts:")
        for labels in alerts:
            lines.append(f"          - exp_labels: {{{labels}{', ' * bool(labels)}"
                         f"severity: {severities[name]}}}")
            lines.append("            exp_annotations: {}")
    path = tmp_path / "test.yml"
    path.write_text("\n".join(lines) + "\n")
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True)
    # Annotations have texts, which are not repeated here: what differs in them alone is right.
    got = re.findall(r"(?s)alertname: (\w+), time: 20m, *\n *exp:(.*?)got:(.*?)(?=\n +alertname|"
                     r"\Z)", done.stdout + done.stderr)
    for name, wanted, found in got:
        assert labels_in(wanted) == labels_in(found), (name, wanted, found)
        assert "%!" not in found and "error" not in found.lower().replace("errors of", "")
    assert {name for name, _, _ in got} == {name for name, _ in expected}, done


def labels_in(text):
    """The sets of labels that promtool prints."""
    return sorted(re.findall(r"Labels:({.*?})", text.replace("\n", " ")))
