package api

// Incoming requests VFs for a VM that migrates in; libvirt's hook sends it before QEMU is started: POST /v1/incoming (role
// own). The VFs are reserved for the VM for a minute, and belong to it once libvirt lists it.
type Incoming struct {
	ID   string        `json:"uuid"`
	Name string        `json:"domain"`
	NICs []IncomingNIC `json:"nics"`
}

// IncomingNIC is a NIC that has a VF managed by Sluice on the source host.
type IncomingNIC struct {
	Alias   string `json:"alias"` // of the virtio NIC
	MAC     string `json:"mac"`
	Network string `json:"network,omitempty"` // the bridge; "": not given, which is sufficient if all managed PFs are on one bridge
	VLAN    int    `json:"vlan,omitempty"`
}

// IncomingVF is the VF that such a NIC gets.
type IncomingVF struct {
	MAC     string `json:"mac"`
	VF      string `json:"vf"`
	Address string `json:"pci_address"`
}
