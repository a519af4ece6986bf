package config

import (
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"

	"sluice/internal/model"
)

// VirtualPFs configures what guests may request from the host for their virtual VFs.
type VirtualPFs struct {
	Guests []Guest `yaml:"guests" doc:"rules for single VMs; the first that matches counts; fragments add to the list. Without one a guest may take and give back its virtual VFs as the host has set them, and narrow what they may do"`
}

// Guest is what the guests of matching VMs may request.
type Guest struct {
	Match        string        `yaml:"match" need:"yes" doc:"shell pattern on the name of the VM, or a UUID"`
	Refuse       bool          `yaml:"refuse" doc:"it may ask for nothing, and have no virtual VF but those whose link is always up"`
	MACs         string        `yaml:"macs" doc:"MACs that a virtual VF may have instead of its own, if nobody else on the host has them: shell patterns with commas between, such as '02:*'"`
	VLANs        model.VLANs   `yaml:"vlans" doc:"VLANs that it may move a virtual VF to, as access or trunk: '10-20,30'"`
	NoSpoofCheck bool          `yaml:"no_spoof" doc:"it may switch off the check of source MACs of a virtual VF"`
	Addresses    string        `yaml:"addresses" doc:"IP addresses that it may bind virtual VFs to: prefixes with commas between, such as '10.244.0.0/16'; unset: any"`
	Guarantee    Rate          `yaml:"guarantee" doc:"the most that one virtual VF may be guaranteed of what the virtual PF is; unset: nothing"`
	Limit        Rate          `yaml:"limit" doc:"the highest limit of one virtual VF, which one has that asks for none; unset: that of the virtual PF"`
	Weight       float64       `yaml:"weight" min:"0.001" max:"1000" doc:"the highest weight that one virtual VF may ask for; unset: the weight that the host has given it, else 1"`
	Counters     time.Duration `yaml:"counters" min:"1s" max:"5s" doc:"how often sluice-guest reports the counters of its NICs, which then count in place of what its guest agent says, and are as untrusted; unset: never"`
}

// GuestPolicy returns what the guest of a VM may request.
func (c *Config) GuestPolicy(id model.VMID, name string) model.GuestPolicy {
	for i := range c.VirtualPFs.Guests {
		if g := &c.VirtualPFs.Guests[i]; model.Matches(g.Match, id, name) {
			addresses, _ := prefixes(g.Addresses) // Load has checked them
			return model.GuestPolicy{
				Attach: !g.Refuse, MACs: list(strings.ToLower(g.MACs)), VLANs: g.VLANs, NoSpoofCheck: g.NoSpoofCheck, Addresses: addresses,
				Guarantee: g.Guarantee, Limit: g.Limit, Weight: g.Weight, Counters: int(g.Counters / time.Second),
			}
		}
	}
	return model.GuestPolicy{Attach: true}
}

// list splits text at commas.
func list(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func prefixes(text string) (out []netip.Prefix, err error) {
	for _, part := range list(text) {
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// guests checks the rules about what guests may request.
func (k checker) guests() {
	seen := map[string]string{}
	for i := range k.VirtualPFs.Guests {
		g, key := &k.VirtualPFs.Guests[i], fmt.Sprintf("virtual_pfs.guests[%d]", i)
		if model.IsUUID(g.Match) {
			g.Match = strings.ToLower(g.Match)
		}
		if k.good(key+".match") && k.pattern(g.Match, key+".match") {
			k.unique(seen, g.Match, key+".match", "a rule for VM")
		}
		k.guest(g, key)
	}
}

func (k checker) guest(g *Guest, key string) {
	for _, p := range list(g.MACs) {
		if _, err := path.Match(p, ""); err != nil || strings.Trim(p, "0123456789abcdefABCDEF:*?[]-") != "" {
			k.at(key+".macs", fmt.Sprintf("%q is no pattern of a MAC", shorten(p)), "write one such as 02:*, or 52:54:00:12:34:56")
		}
	}
	if _, err := prefixes(g.Addresses); err != nil {
		k.at(key+".addresses", fmt.Sprintf("%q is no list of prefixes", shorten(g.Addresses)), "write one such as 10.244.0.0/16,fd00::/64")
	}
	if above(g.Guarantee.Bits, g.Limit.Bits) || above(g.Guarantee.Packets, g.Limit.Packets) {
		k.at(key+".guarantee", fmt.Sprintf("%s is above the limit of %s", g.Guarantee, g.Limit), "raise the limit or lower the guarantee")
	}
	if !g.Refuse {
		return
	}
	for _, name := range []string{"macs", "vlans", "no_spoof", "addresses", "guarantee", "limit", "weight"} {
		if k.good(key + "." + name) {
			k.at(key+"."+name, "contradicts refuse", "keep one of the two")
		}
	}
}
