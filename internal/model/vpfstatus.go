package model

// VirtualPFStatus is a virtual PF as it stands.
type VirtualPFStatus struct {
	VirtualPF
	Running   bool             `json:"running"`            // its VM runs, with all of its functions
	Functions []FunctionStatus `json:"functions"`          // the PF itself, then VF 0, 1, ...
	Problems  []Problem        `json:"problems,omitempty"` // with the virtual PF as a whole
	Why       string           `json:"why,omitempty"`      // why it does not run
}

// FunctionStatus is what stands of a function of a virtual PF.
type FunctionStatus struct {
	VF       int        `json:"vf"` // -1: the PF itself
	Alias    string     `json:"alias"`
	MAC      MAC        `json:"mac"`             // that its frames have: of a grant, else its own
	Tap      string     `json:"tap,omitempty"`   // "": its VM does not run, or it has none (backend vdpa)
	Carrier  Tri        `json:"carrier"`         // in QEMU, where it counts; Unknown: its VM does not run
	Stands   bool       `json:"stands"`          // the policy was read back as it should be
	Owner    string     `json:"owner,omitempty"` // who in the guest has it
	Drops    SwitchDrop `json:"drops"`           // since the port was made; an igb's PF has those that belong to no function
	Problems []Problem  `json:"problems,omitempty"`
	Why      string     `json:"why,omitempty"` // why it has no carrier
}
