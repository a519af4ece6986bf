from types import SimpleNamespace as Row

from sluice_neutron.rows import ports_of, taps_of

NOVA = {"neutron:device_owner": "compute:nova"}


def port(name, options=None, external_ids=NOVA, addresses=("52:54:00:00:00:01 10.0.0.1",)):
    return Row(name=name, addresses=addresses, options=options or {}, external_ids=external_ids)


def qos(port_id, direction, **bandwidth):
    return Row(external_ids={"neutron:port_id": port_id}, direction=direction, bandwidth=bandwidth)


def test_taps():
    rows = [
        Row(name="tap1", external_ids={"iface-id": "p1"}),
        Row(name="eth0_1", external_ids={"iface-id": "p2", "sluice-tap": "tap2"}),
        Row(name="tap2", external_ids={"sluice-iface-id": "p2"}),
        Row(name="br-int", external_ids={}),
    ]
    assert taps_of(rows) == {"p1": "tap1", "p2": "tap2"}


def test_ports():
    taps = {"p1": "tap1", "p2": "tap2", "p3": "tap3", "dhcp": "tap4", "raw": "tap5"}
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
    mac = "52:54:00:00:00:01"
    assert ports_of(taps, ports, rows) == {
        "p1": {"tap": "tap1", "mac": mac, "guarantee": {"bits_per_second": 1000000}, "limit": {"bits_per_second": 2000000}},
        "p2": {"tap": "tap2", "mac": mac, "limit": {"bits_per_second": 3000000}, "receive": {"bits_per_second": 4000000}},
    }
