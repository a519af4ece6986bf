"""Agent extensions of OpenStack Neutron: the QoS policy of each port on this host becomes the SLA of its NIC in Sluice."""
