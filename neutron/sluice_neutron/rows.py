"""What rows of OVN's and Open vSwitch's databases say of ports. Pure."""


def nics_of(interfaces):
    """Return {port ID: {tap, mac}}. While a VM uses a VF, Sluice has moved its port to the representor, which names the tap.

    The MAC is what Nova and libvirt write here: OVN has none of a port without port security, and several of one with address pairs.
    """
    out = {}
    for row in interfaces:
        port_id, mac = row.external_ids.get("iface-id"), row.external_ids.get("attached-mac")
        if port_id and mac:
            out[port_id] = {"tap": row.external_ids.get("sluice-tap", row.name), "mac": mac}
    return out


def ports_of(nics, logical_ports, qos):
    """Return {port ID: what it asks for} of VMs' ports at these NICs. Neutron has applied policies of networks to each of their ports."""
    out = {}
    for row in logical_ports:
        owner = row.external_ids.get("neutron:device_owner", "")
        if row.name in nics and owner.startswith("compute:"):
            port = out[row.name] = dict(nics[row.name])
            # bit/s; of networks of a physical network, if they have a minimum. Otherwise Neutron adds rows of QoS.
            for part, option in (("guarantee", "qos_min_rate"), ("limit", "qos_max_rate")):
                if int(row.options.get(option, 0)):
                    port[part] = {"bits_per_second": int(row.options[option])}
    for row in qos:
        port = out.get(row.external_ids.get("neutron:port_id"))
        rate = row.bandwidth.get("rate", 0)  # kbit/s
        if port is not None and rate:
            port["limit" if row.direction == "from-lport" else "receive"] = {"bits_per_second": rate * 1000}
    return {i: p for i, p in out.items() if len(p) > 2}
