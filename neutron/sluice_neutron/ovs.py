"""Extension of neutron-openvswitch-agent."""

import logging
import threading

from neutron.api.rpc.callbacks import events, resources
from neutron.api.rpc.callbacks.consumer import registry
from neutron.api.rpc.handlers import resources_rpc
from neutron_lib import constants, context
from neutron_lib.agent import l2_extension

from sluice_neutron import config, policies
from sluice_neutron.daemon import Daemon
from sluice_neutron.state import State

LOG = logging.getLogger(__name__)


class SluiceExtension(l2_extension.L2AgentExtension):
    """Neutron's server says what changes; every now and then all policies are read again, because a message can be lost."""

    def initialize(self, connection, driver_type):
        options = config.read()
        state = State(Daemon(options.socket))
        self._policies = policies.Policies(state, self._pull)
        self._remote = resources_rpc.ResourcesPullRpcApi()
        registry.register(self._changed, resources.QOS_POLICY)
        topic = resources_rpc.resource_type_versioned_topic(resources.QOS_POLICY)
        connection.create_consumer(topic, [resources_rpc.ResourcesPushRpcCallback()], fanout=True)
        state.start()
        threading.Thread(target=self._policies.run, args=(options.refresh,), name="sluice-refresh", daemon=True).start()

    def _pull(self, policy_id):
        """Return a policy, or None if there is none; raise if Neutron does not answer."""
        try:
            return self._remote.pull(context.get_admin_context_without_session(), resources.QOS_POLICY, policy_id)
        except resources_rpc.ResourceNotFound:
            return None

    def _changed(self, _context, _resource_type, changed, event_type):
        if event_type != events.DELETED:
            for policy in changed:
                self._policies.changed(policy)

    def handle_port(self, _context, data):
        if not data["device_owner"].startswith(constants.DEVICE_OWNER_COMPUTE_PREFIX):
            return
        vif = data.get("vif_port")
        name = vif.port_name if vif else ""
        self._policies.set_port(
            data["port_id"],
            {"tap": tap_of(data["port_id"], name), "mac": data["mac_address"]},
            data.get("qos_policy_id") or data.get("qos_network_policy_id"),
        )

    def delete_port(self, _context, data):
        self._policies.set_port(data["port_id"], None, None)


def tap_of(port_id, name):
    """Return the name of a VM's tap: that of the bridge's port, unless that leads to a bridge of the VM's own (hybrid plug)."""
    if name and not name.startswith("qvo"):
        return name
    return ("tap" + port_id)[: constants.DEVICE_NAME_MAX_LEN - 1]
