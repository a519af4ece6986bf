from types import SimpleNamespace as Row

from sluice_neutron.rows import nics_of, ports_of

NOVA = {"neutron:device_owner": "compute:nova"}


def port(name, options=None, external_ids=NOVA):
    return Row(name=name, options=options or {}, external_ids=external_ids)


def qos(port_id, direction, **bandwidth):
    return Row(external_ids={"neutron:port_id": port_id}, direction=direction, bandwidth=bandwidth)


def nic(n):
    return {"tap": f"tap{n}", "mac": f"52:54:00:00:00:0{n}"}


def test_nics():
    rows = [
        Row(name="tap1", external_ids={"iface-id": "p1", "attached-mac": "52:54:00:00:00:01"}),
        Row(name="eth0_1", external_ids={"iface-id": "p2", "attached-mac": "52:54:00:00:00:02", "sluice-tap": "tap2"}),
        Row(name="tap2", external_ids={"sluice-iface-id": "p2", "attached-mac": "52:54:00:00:00:02"}),
        Row(name="tap-dhcp", external_ids={"iface-id": "p3"}),
        Row(name="br-int", external_ids={}),
    ]
    assert nics_of(rows) == {"p1": nic(1), "p2": nic(2)}


def test_ports():
    nics = {"p1": nic(1), "p2": nic(2), "p3": nic(3), "dhcp": nic(4), "raw": nic(5)}
    limited = {"qos_min_rate": "1000000", "qos_max_rate": "2000000", "qos_burst": "5"}
    ports = [
        port("p1", limited),
        port("p2"),
        port("p3"),
        port("dhcp", limited, {"neutron:device_owner": "network:dhcp"}),
        port("raw", limited, {}),
        port("elsewhere", limited),
    ]
    rows = [
        qos("p2", "from-lport", rate=3000, burst=1),
        qos("p2", "to-lport", rate=4000),
        qos("p3", "from-lport"),  # DSCP only
        qos("elsewhere", "to-lport", rate=1),
        Row(external_ids={}, direction="to-lport", bandwidth={"rate": 1}),  # of a router
    ]
    assert ports_of(nics, ports, rows) == {
        "p1": nic(1) | {"guarantee": {"bits_per_second": 1000000}, "limit": {"bits_per_second": 2000000}},
        "p2": nic(2) | {"limit": {"bits_per_second": 3000000}, "receive": {"bits_per_second": 4000000}},
    }
