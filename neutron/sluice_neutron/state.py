"""The ports of this host as Neutron wants them, told to Sluice's daemon as a whole, again and again."""

import logging
import socket
import threading
import time

LOG = logging.getLogger(__name__)

LOOK = 2  # seconds between looks at the host's taps
REPEAT = 10  # seconds after which the daemon is told again: it may have been started anew
RETRY = 1  # seconds after a failure
SAME = ("id", "tap", "mac", "guarantee", "limit", "receive")


def interfaces():
    """Return the names of this host's interfaces."""
    return {name for _, name in socket.if_nameindex()}


class State:
    """Ports by ID. The daemon is told only of those whose tap exists: Nova makes some taps later than the port, and stops VMs.

    An agent that has just started does not know yet what ports ask for, and learns nothing while Neutron is away. So it begins with what the
    daemon was told before, until it hears of each port or the port's tap is gone.
    """

    def __init__(self, daemon, exists=interfaces, clock=time.monotonic):
        self._daemon, self._exists, self._clock = daemon, exists, clock
        self._lock, self._news = threading.Lock(), threading.Event()
        self._ports = {}  # ID -> what to tell, or None: known to ask for nothing
        self._before = None  # ID -> what an earlier agent has told; None: not asked yet
        self._told, self._told_at = None, None
        self._refused, self._failure = {}, None

    def set(self, port_id, port):
        """Have the daemon told of a port: a dict as in its API without id, or None if nothing is asked for it."""
        with self._lock:
            self._ports[port_id] = dict(port, id=port_id) if port else None
        self._news.set()

    def replace(self, ports):
        """Set all ports, {ID: dict}; those that are left out are gone."""
        with self._lock:
            self._ports = {i: dict(p, id=i) for i, p in ports.items()}
            self._before = {}
        self._news.set()

    def start(self):
        threading.Thread(target=self._run, name="sluice", daemon=True).start()

    def _run(self):
        while True:
            self._news.wait(LOOK if self.step() else RETRY)

    def step(self):
        """Tell the daemon what is new, or tell it all again. Return whether it has heard it."""
        self._news.clear()
        try:
            self._tell()
        except Exception as failure:  # noqa: BLE001 - nobody would notice that the thread has ended
            if self._failure is None:
                LOG.error("Sluice's daemon does not take the SLAs of ports; they are sent again until it does: %s", failure)
            self._failure, self._told = failure, None
            return False
        if self._failure is not None:
            LOG.info("Sluice's daemon takes the SLAs of ports again")
            self._failure = None
        return True

    def _tell(self):
        if self._before is None:
            before = {p["id"]: {k: p[k] for k in SAME if k in p} for p in self._daemon.get_ports()}
            with self._lock:
                if self._before is None:
                    self._before = before
        names, now = self._exists(), self._clock()
        with self._lock:
            self._before = {i: p for i, p in self._before.items() if i not in self._ports and p["tap"] in names}
            self._ports = {i: p for i, p in self._ports.items() if p}
            ports = [p for p in (self._before | self._ports).values() if p["tap"] in names]
        ports.sort(key=lambda p: p["id"])
        if ports == self._told and now - self._told_at < REPEAT:
            return
        answer = self._daemon.put_ports(ports)
        self._told, self._told_at = ports, now
        LOG.debug("Sluice's daemon has taken the SLAs of %d ports", len(ports))
        self._report(answer)

    def _report(self, answer):
        refused = {p["id"]: (p["refused"], p.get("remedy", "")) for p in answer if p.get("refused")}
        for port_id, (why, remedy) in refused.items():
            if self._refused.get(port_id) != (why, remedy):
                LOG.error("Sluice does not keep what is guaranteed to port %s (its limits it does): %s; %s", port_id, why, remedy)
        for port_id in self._refused.keys() - refused.keys():
            LOG.info("Sluice no longer refuses what is guaranteed to port %s", port_id)
        self._refused = refused
