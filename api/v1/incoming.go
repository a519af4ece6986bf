package api

// Incoming asks for VFs for a VM that migrates in, which libvirt's hook does before QEMU is started: POST /v1/incoming (role own).
// The VFs are kept for the VM for a minute; from when libvirt lists it on they are its own.
type Incoming struct {
	ID   string        `json:"uuid"`
	Name string        `json:"domain"`
	NICs []IncomingNIC `json:"nics"`
}

// IncomingNIC is a NIC that has a VF of Sluice's behind it where the VM comes from.
type IncomingNIC struct {
	Alias   string `json:"alias"` // of the virtio NIC
	MAC     string `json:"mac"`
	Network string `json:"network,omitempty"` // the bridge; "": not told, which will do where all managed PFs are on one
	VLAN    int    `json:"vlan,omitempty"`
}

// IncomingVF is the VF that such a NIC gets.
type IncomingVF struct {
	MAC     string `json:"mac"`
	VF      string `json:"vf"`
	Address string `json:"pci_address"`
}
