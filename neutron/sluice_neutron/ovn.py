"""Extension of neutron-ovn-agent. OVN's databases have everything, and their client keeps a copy while they are away."""

import logging
import threading

from neutron.agent.ovn.extensions import extension_manager
from ovsdbapp.backend.ovs_idl import event

from sluice_neutron import config
from sluice_neutron.daemon import Daemon
from sluice_neutron.rows import nics_of, ports_of
from sluice_neutron.state import State

LOG = logging.getLogger(__name__)

LOOK = 10  # seconds after which the databases are looked at again even if they report no change


def _changed(table, report):
    """Return a class of events that reports any change in a table. Neutron 26 takes only classes, which it calls with the agent."""

    class Changed(event.RowEvent):
        def __init__(self, _agent):
            super().__init__((self.ROW_CREATE, self.ROW_UPDATE, self.ROW_DELETE), table, None)

        def match_fn(self, _event, _row, _old):
            return True

        def run(self, _event, _row, _old):
            report()

    return Changed


class SluiceExtension(extension_manager.OVNAgentExtension):
    def __init__(self):
        super().__init__()
        self._news = threading.Event()
        self._state = State(Daemon(config.read().socket))

    name = "Sluice"
    nb_idl_tables = ("QoS", "Logical_Switch_Port")
    sb_idl_tables = ()
    sb_idl_events = ()

    @property
    def ovs_idl_events(self):
        return [_changed("Interface", self._news.set)]

    @property
    def nb_idl_events(self):
        return [_changed(table, self._news.set) for table in self.nb_idl_tables]

    def start(self):
        super().start()
        threading.Thread(target=self._run, name="sluice-ovn", daemon=True).start()

    def _run(self):
        ready = False
        while True:
            self._news.clear()
            try:
                self._state.replace(self._read())
            except Exception:  # rows may change while they are read
                LOG.exception("the QoS policies of ports cannot be read from OVN; they stay as they are")
            else:
                if not ready:
                    self._state.start()
                    ready = True
            self._news.wait(LOOK)

    def _read(self):
        """Return what the ports on this host ask for."""
        nb, ovs = self.agent_api.nb_idl, self.agent_api.ovs_idl
        with ovs.ovsdb_connection.lock:
            nics = nics_of(ovs.tables["Interface"].rows.values())
        with nb.ovsdb_connection.lock:
            return ports_of(nics, nb.tables["Logical_Switch_Port"].rows.values(), nb.tables["QoS"].rows.values())
