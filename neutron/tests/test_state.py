import logging

import pytest

from sluice_neutron.state import REPEAT, State

LIMIT = {"limit": {"bits_per_second": 1e9}}


class Host:
    """A daemon that keeps what it is told, the host's taps, and a clock."""

    def __init__(self):
        self.ports, self.refuses, self.away = {}, {}, None
        self.taps, self.now, self.puts = {"tap1", "tap2"}, 0, 0

    def get_ports(self):
        if self.away:
            raise self.away
        return [dict(p, domain="vm") for p in self.ports.values()]

    def put_ports(self, ports):
        if self.away:
            raise self.away
        self.puts += 1
        self.ports = {p["id"]: p for p in ports}
        return [p | self.refuses.get(p["id"], {}) for p in ports]

    def agent(self):
        return State(self, lambda: self.taps, lambda: self.now)


@pytest.fixture
def host():
    return Host()


def port(n, sla=LIMIT):
    return {"tap": f"tap{n}", "mac": f"52:54:00:00:00:0{n}"} | sla


def test_a_port_comes_changes_and_goes(host):
    agent = host.agent()
    agent.set("p1", port(1))
    assert agent.step() and host.ports == {"p1": dict(port(1), id="p1")}
    agent.set("p1", port(1, {"guarantee": {"bits_per_second": 1}}))
    agent.set("p2", port(2))
    assert agent.step() and "guarantee" in host.ports["p1"] and "p2" in host.ports
    agent.set("p1", None)
    assert agent.step() and set(host.ports) == {"p2"}


def test_it_is_told_again_only_after_a_while(host):
    agent = host.agent()
    agent.set("p1", port(1))
    agent.step()
    agent.step()
    assert host.puts == 1
    host.ports, host.now = {}, REPEAT  # as after a restart of a daemon that has lost its files
    agent.step()
    assert host.puts == 2 and set(host.ports) == {"p1"}


def test_the_daemon_is_away(host, caplog):
    caplog.set_level(logging.INFO)
    agent = host.agent()
    host.away = ConnectionRefusedError("nobody there")
    agent.set("p1", port(1))
    assert not agent.step() and not agent.step()
    host.away = None
    assert agent.step() and set(host.ports) == {"p1"}
    host.away = OSError("again")
    agent.set("p1", None)
    assert not agent.step()
    host.away, host.ports = None, {"p1": dict(port(1), id="p1")}
    assert agent.step() and host.ports == {}
    assert [r.levelname for r in caplog.records] == ["ERROR", "INFO"] * 2


def test_an_agent_that_has_just_started_lifts_nothing(host):
    first = host.agent()
    first.set("p1", port(1))
    first.set("p2", port(2))
    first.step()
    agent = host.agent()
    for _ in range(3):  # Neutron is away: nothing is heard of any port
        host.now += REPEAT
        agent.step()
        assert set(host.ports) == {"p1", "p2"}
    agent.set("p1", port(1, {"receive": {"bits_per_second": 1}}))
    agent.step()
    assert "receive" in host.ports["p1"] and "limit" not in host.ports["p1"] and host.ports["p2"]["limit"]
    agent.set("p2", None)
    agent.step()
    assert set(host.ports) == {"p1"}


def test_a_port_that_went_while_the_agent_was_away(host):
    first = host.agent()
    first.set("p1", port(1))
    first.set("p2", port(2))
    first.step()
    host.taps = {"tap2"}
    agent = host.agent()
    agent.step()
    assert set(host.ports) == {"p2"}
    host.taps = {"tap1", "tap2"}
    agent.step()
    assert set(host.ports) == {"p2"}


def test_the_tap_comes_after_the_port_and_goes_before_it(host):
    host.taps = set()
    agent = host.agent()
    agent.set("p1", port(1))
    agent.step()
    assert host.ports == {}
    for taps, want in [({"tap1"}, {"p1"}), (set(), set()), ({"tap1"}, {"p1"})]:
        host.taps = taps
        agent.step()
        assert set(host.ports) == want


def test_a_whole_new_set(host):
    host.ports = {"p1": dict(port(1), id="p1")}
    agent = host.agent()
    agent.replace({"p2": port(2)})
    agent.step()
    assert set(host.ports) == {"p2"}
    agent.replace({})
    agent.step()
    assert host.ports == {}


def test_refusals_are_logged_once(host, caplog):
    caplog.set_level(logging.INFO)
    host.refuses = {"p1": {"refused": "no room", "remedy": "make some"}}
    agent = host.agent()
    agent.set("p1", port(1))
    agent.set("p2", port(2))
    for _ in range(3):
        host.now += REPEAT
        agent.step()
    assert [r.getMessage().count("no room; make some") for r in caplog.records] == [1]
    assert set(host.ports) == {"p1", "p2"}
    host.refuses, host.now = {}, host.now + REPEAT
    agent.step()
    assert "no longer" in caplog.records[-1].getMessage()
