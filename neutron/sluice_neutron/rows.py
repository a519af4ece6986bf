"""What rows of OVN's and Open vSwitch's databases say of ports. Pure."""


def taps_of(interfaces):
    """Return {port ID: tap}. While a VM uses a VF, Sluice has moved its port to the representor, which names the tap."""
    out = {}
    for row in interfaces:
        port_id = row.external_ids.get("iface-id")
        if port_id:
            out[port_id] = row.external_ids.get("sluice-tap", row.name)
    return out


def ports_of(taps, logical_ports, qos):
    """Return {port ID: what it asks for} of VMs' ports at these taps. Neutron has applied policies of networks to each of their ports."""
    out = {}
    for row in logical_ports:
        owner = row.external_ids.get("neutron:device_owner", "")
        if row.name in taps and row.addresses and owner.startswith("compute:"):
            port = out[row.name] = {"tap": taps[row.name], "mac": row.addresses[0].split()[0]}
            # bit/s; Neutron sets these for networks of a physical network, and rows of QoS for others
            for part, option in (("guarantee", "qos_min_rate"), ("limit", "qos_max_rate")):
                if int(row.options.get(option, 0)):
                    port[part] = {"bits_per_second": int(row.options[option])}
    for row in qos:
        port = out.get(row.external_ids.get("neutron:port_id"))
        rate = row.bandwidth.get("rate", 0)  # kbit/s
        if port is not None and rate:
            port["limit" if row.direction == "from-lport" else "receive"] = {"bits_per_second": rate * 1000}
    return {i: p for i, p in out.items() if len(p) > 2}
