"""What the rules of a QoS policy ask of Sluice. Pure: no clock, no I/O."""

EGRESS, INGRESS, ANY = "egress", "ingress", "any"  # as seen from the VM: egress is what it sends

# (type of rule, direction) -> (attribute, its unit in 1/s, field of the SLA, field of the rate)
KEPT = {
    ("bandwidth_limit", EGRESS): ("max_kbps", 1000, "limit", "bits_per_second"),
    ("bandwidth_limit", INGRESS): ("max_kbps", 1000, "receive", "bits_per_second"),
    ("minimum_bandwidth", EGRESS): ("min_kbps", 1000, "guarantee", "bits_per_second"),
    ("packet_rate_limit", EGRESS): ("max_kpps", 1000, "limit", "packets_per_second"),
    ("packet_rate_limit", INGRESS): ("max_kpps", 1000, "receive", "packets_per_second"),
    ("minimum_packet_rate", EGRESS): ("min_kpps", 1000, "guarantee", "packets_per_second"),
    # Of both directions together; what a VM can be promised is to be able to send as much.
    ("minimum_packet_rate", ANY): ("min_kpps", 1000, "guarantee", "packets_per_second"),
}

NOT_KEPT = {
    "minimum_bandwidth": "Sluice guarantees only what a port sends",
    "minimum_packet_rate": "Sluice guarantees only what a port sends",
    "dscp_marking": "Sluice marks nothing; the extension qos does",
}


def sla_of(rules):
    """Return the SLA that rules ask for, as fields of a port in Sluice's API, and why some of them are not kept."""
    sla, notes = {}, []
    for rule in rules:
        direction = getattr(rule, "direction", EGRESS)
        kept = KEPT.get((rule.rule_type, direction))
        if kept is None:
            why = NOT_KEPT.get(rule.rule_type, "Sluice does not know such rules")
            notes.append(f"rule {rule.id} ({rule.rule_type}, {direction}) is not kept: {why}")
            continue
        attribute, unit, part, rate = kept
        value = getattr(rule, attribute)
        if value:  # 0 limits and guarantees nothing, as in Neutron's own drivers
            there = sla.setdefault(part, {})
            there[rate] = max(there.get(rate, 0), value * unit)
    return sla, notes
