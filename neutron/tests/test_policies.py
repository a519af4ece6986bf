import logging
from types import SimpleNamespace

import sluice_neutron.state
from sluice_neutron.policies import Policies


class Neutron:
    def __init__(self):
        self.policies, self.away, self.pulled = {}, False, []

    def pull(self, policy_id):
        self.pulled.append(policy_id)
        if self.away:
            raise TimeoutError("no answer")
        return self.policies.get(policy_id)

    def limit(self, policy_id, kbps):
        rule = SimpleNamespace(id="r", rule_type="bandwidth_limit", direction="egress", max_kbps=kbps)
        self.policies[policy_id] = SimpleNamespace(id=policy_id, rules=[rule])
        return self.policies[policy_id]


class State(dict):
    set = dict.__setitem__


def limit(kbps):
    return {"tap": "tap1", "limit": {"bits_per_second": kbps * 1000}}


NIC = {"tap": "tap1"}


def start():
    neutron, state = Neutron(), State()
    return neutron, state, Policies(state, neutron.pull)


def test_a_policy_is_read_once_and_then_heard_of():
    neutron, state, policies = start()
    neutron.limit("q1", 10)
    policies.set_port("p1", NIC, "q1")
    assert state == {}, "before the policy is known, nothing is said of the port"
    assert policies.refresh(False) and state == {"p1": limit(10)}
    policies.set_port("p2", NIC, "q1")
    assert state["p2"] == limit(10) and policies.refresh(False) and neutron.pulled == ["q1"]
    policies.changed(neutron.limit("q1", 20))
    assert state == {"p1": limit(20), "p2": limit(20)}
    policies.changed(neutron.limit("q2", 30))  # of no port here
    assert state == {"p1": limit(20), "p2": limit(20)}


def test_another_policy_and_none():
    neutron, state, policies = start()
    neutron.limit("q1", 10)
    neutron.limit("q2", 20)
    policies.set_port("p1", NIC, "q1")
    policies.refresh(False)
    policies.set_port("p1", NIC, "q2")
    assert state["p1"] == limit(10), "until the new policy is known, the old one counts"
    policies.refresh(False)
    assert state["p1"] == limit(20)
    policies.set_port("p1", NIC, None)
    assert state["p1"] is None
    policies.set_port("p1", NIC, "q1")
    policies.refresh(False)
    policies.set_port("p1", None, None)
    assert state["p1"] is None and policies.refresh(True) and neutron.pulled == ["q1", "q2", "q1"]


def test_neutron_is_away():
    neutron, state, policies = start()
    neutron.limit("q1", 10)
    policies.set_port("p1", NIC, "q1")
    policies.refresh(False)
    neutron.away = True
    neutron.limit("q1", 20)
    policies.set_port("p2", NIC, "q2")
    assert not policies.refresh(True) and not policies.refresh(False)
    assert state == {"p1": limit(10)}
    neutron.away = False
    assert policies.refresh(True) and state == {"p1": limit(20), "p2": None}, "the change was lost, and is found; q2 does not exist"


def test_what_is_not_kept_is_logged_once(caplog):
    neutron, state, policies = start()
    mark = SimpleNamespace(id="r", rule_type="dscp_marking", dscp_mark=1)
    neutron.policies["q1"] = SimpleNamespace(id="q1", rules=[mark])
    policies.set_port("p1", NIC, "q1")
    for _ in range(2):
        policies.refresh(True)
    assert state["p1"] is None
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


def test_neutron_is_away_for_an_hour_and_the_agent_restarts():
    neutron = Neutron()
    neutron.limit("q1", 10)
    host, now = {}, 0  # what the daemon was told, and the clock in s

    class Daemon:
        def get_ports(self):
            return list(host.values())

        def put_ports(self, ports):
            host.clear()
            host.update({p["id"]: p for p in ports})
            return ports

    def agent():
        state = sluice_neutron.state.State(Daemon(), lambda: {"tap1"}, lambda: now)
        return state, Policies(state, neutron.pull)

    state, policies = agent()
    policies.set_port("p1", NIC, "q1")
    assert policies.refresh(False) and state.step() and "limit" in host["p1"]
    told, neutron.away = dict(host), True
    for minute in range(60):
        if minute == 30:
            state, policies = agent()  # it hears of no port
        if minute == 45:
            policies.set_port("p1", NIC, "q1")  # it hears of the port, but its policy cannot be read
        now += 60
        assert policies.refresh(True) == (30 <= minute < 45) and state.step() and host == told
    neutron.away = False
    neutron.limit("q1", 20)
    assert policies.refresh(True) and state.step() and host["p1"]["limit"] == {"bits_per_second": 20_000}
