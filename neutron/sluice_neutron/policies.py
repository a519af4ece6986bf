"""Which port has which QoS policy, and what each policy asks for."""

import logging
import threading

from sluice_neutron.rules import sla_of

LOG = logging.getLogger(__name__)


class Policies:
    """Keeps a State up to date. While Neutron is away, everything stays as it was, also for ports whose policy was never read."""

    def __init__(self, state, pull):
        self._state, self._pull = state, pull
        self._lock, self._wanted = threading.Lock(), threading.Event()
        self._ports = {}  # ID -> ({tap, mac}, policy ID)
        self._slas = {}  # policy ID -> SLA
        self._notes = {}  # policy ID -> what was logged of it

    def set_port(self, port_id, nic, policy_id):
        """Say what policy a port has; nic None: the port is gone."""
        with self._lock:
            if nic is None or policy_id is None:
                self._ports.pop(port_id, None)
                self._state.set(port_id, None)
            else:
                self._ports[port_id] = (nic, policy_id)
                self._apply(policy_id)
            used = {p for _, p in self._ports.values()}
            self._slas = {p: s for p, s in self._slas.items() if p in used}

    def changed(self, policy):
        """Take a policy as Neutron says it is now."""
        sla, notes = sla_of(policy.rules)
        with self._lock:
            if not any(p == policy.id for _, p in self._ports.values()):
                return
            self._slas[policy.id] = sla
            self._apply(policy.id)
            if notes != self._notes.get(policy.id, []):
                self._notes[policy.id] = notes
                for note in notes:
                    LOG.warning("QoS policy %s: %s", policy.id, note)

    def _apply(self, policy_id):
        sla = self._slas.get(policy_id)
        if sla is None:
            self._wanted.set()
            return
        for port_id, (nic, policy) in self._ports.items():
            if policy == policy_id:
                self._state.set(port_id, nic | sla if sla else None)

    def run(self, every):
        """Read policies that are not known yet at once, and all of them again every so many seconds."""
        every_one = False
        while True:
            if self.refresh(every_one):
                every_one = not self._wanted.wait(every)
            else:
                self._wanted.wait(1)
            self._wanted.clear()

    def refresh(self, every_one):
        """Read the policies of all ports, or those that are not known. Return whether Neutron has answered."""
        with self._lock:
            wanted = {p for _, p in self._ports.values() if every_one or p not in self._slas}
        for policy_id in sorted(wanted):
            try:
                self.changed(self._pull(policy_id) or _Gone(policy_id))
            except Exception as failure:  # noqa: BLE001 - whatever oslo.messaging raises
                LOG.warning("QoS policy %s cannot be read from Neutron; its ports keep what they have: %s", policy_id, failure)
                return False
        return True


class _Gone:
    """A policy that Neutron does not have."""

    rules = ()

    def __init__(self, policy_id):
        self.id = policy_id
