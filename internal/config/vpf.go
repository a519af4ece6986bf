package config

import "sluice/internal/model"

// VirtualPFs says what guests may ask of the host for their virtual VFs.
type VirtualPFs struct {
	Guests []Guest `yaml:"guests" doc:"rules for single VMs; the first that matches counts; fragments add to the list"`
}

// Guest is what the guests of the VMs may ask for whose name or UUID matches.
type Guest struct {
	Match    string      `yaml:"match" need:"yes" doc:"shell pattern on the name of the VM, or a UUID"`
	Refuse   bool        `yaml:"refuse" doc:"nothing at all; without a rule a guest may take and give back its virtual VFs as the host has set them, forbid them more, and divide what the virtual PF is guaranteed and allowed"`
	AnyMAC   bool        `yaml:"any_mac" doc:"another MAC for a virtual VF than its own, if nobody else on the host has it"`
	VLANs    model.VLANs `yaml:"vlans" doc:"VLANs that it may move a virtual VF to, as access or trunk: '10-20,30'"`
	NoSpoof  bool        `yaml:"no_spoof" doc:"a virtual VF without a check of source MACs"`
	Counters bool        `yaml:"counters" doc:"sluice-guest reports the counters of its NICs where no guest agent answers: as untrusted as an agent"`
}

// GuestPolicy is what the guest of a VM may ask for.
func (c *Config) GuestPolicy(id model.VMID, name string) model.GuestPolicy {
	for i := range c.VirtualPFs.Guests {
		if g := &c.VirtualPFs.Guests[i]; model.Matches(g.Match, id, name) {
			return model.GuestPolicy{Match: g.Match, Refuse: g.Refuse, AnyMAC: g.AnyMAC, VLANs: g.VLANs, NoSpoof: g.NoSpoof, Counters: g.Counters}
		}
	}
	return model.GuestPolicy{}
}
