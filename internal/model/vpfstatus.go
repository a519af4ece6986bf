package model

// VirtualPFStatus is the current state of a virtual PF.
type VirtualPFStatus struct {
	VirtualPF
	Running   bool             `json:"running"`            // its VM runs with all of its functions
	Functions []FunctionStatus `json:"functions"`          // the PF itself, then VF 0, 1, ...
	Problems  []Problem        `json:"problems,omitempty"` // with the virtual PF as a whole
	Why       string           `json:"why,omitempty"`      // why it does not run
}

// FunctionStatus is the current state of a function of a virtual PF.
type FunctionStatus struct {
	VF       int        `json:"vf"` // -1: the PF itself
	Alias    string     `json:"alias"`
	MAC      MAC        `json:"mac"`             // of its frames: the grant's, else its own
	Tap      string     `json:"tap,omitempty"`   // "": its VM does not run, or it has no tap (backend vdpa)
	Carrier  Tri        `json:"carrier"`         // the effective carrier, in QEMU; Unknown: its VM does not run
	InForce  bool       `json:"stands"`          // the policy was read back as it should be
	Owner    string     `json:"owner,omitempty"` // who in the guest has it
	Drops    SwitchDrop `json:"drops"`           // since the port was created; an igb's PF has those that belong to no function
	Problems []Problem  `json:"problems,omitempty"`
	Why      string     `json:"why,omitempty"` // why it has no carrier
}
