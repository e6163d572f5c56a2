"""
Lines of the kernel's log, as Lustre prints them, for the tests of events.
"""

UUID = "f15aa50c-8084-47f6-bb2e-fc5ed9687c46"
OST, OSC = "scratch-OST0003", "scratch-OST0003-osc-ffff9a3c5d1e0800"
BOOTED = 1_795_000_000.0
LOST = (f"{OSC}: Connection to {OST} (at 10.9.0.3@o2ib) was lost; in progress operations using "
        "this service will wait for recovery to complete")
EVICTED = (f"{OSC}: This client was evicted by {OST}; in progress operations using this service "
           "will fail.")
RESTORED = f"{OSC}: Connection restored to 10.9.0.3@o2ib (at 10.9.0.3@o2ib)"


def silent(client, target=OST):
    return (f"{target}: haven't heard from client {UUID} (at {client}) in 229 seconds. I think "
            "it's dead, and I am evicting it.")


def lock(client, target=OST):
    return (f"### lock callback timer expired after 151s: evicting client at {client}  ns: "
            f"filter-{target}_UUID lock: ffff880078b9a800/0x7cf5a8a9e1fbe3b6 lrc: 3/0,0 mode: PW/PW"
            f" res: [0x2:0x0:0x0].0 rrc: 3 type: EXT [0->23] flags: 0x60000000010020 nid: {client} "
            "remote: 0x23 expref: 5 pid: 37 timeout: 41 lvb_type: 0")


def failed_lock(client, target=OST):
    return (f"{target}: A client on nid {client} was evicted due to a lock blocking callback time "
            "out: rc -107")


def record(seconds, text, label="Lustre", number=23, flags="-", priority=4):
    return f"{priority},{number},{round(seconds * 1e6)},{flags};{label}: {text}\n".encode()
