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
	Guests []Guest `yaml:"guests"`
}

// Guest is what the guests of matching VMs may request.
type Guest struct {
	Match        string        `yaml:"match" need:"yes" doc:"shell pattern on the name of the VM, or a UUID"`
	Refuse       bool          `yaml:"refuse"`
	MACs         string        `yaml:"macs"`
	VLANs        model.VLANs   `yaml:"vlans"`
	NoSpoofCheck bool          `yaml:"no_spoof"`
	Addresses    string        `yaml:"addresses"`
	Guarantee    Rate          `yaml:"guarantee"`
	Limit        Rate          `yaml:"limit"`
	Weight       float64       `yaml:"weight" min:"0.001" max:"1000"`
	Counters     time.Duration `yaml:"counters" min:"1s" max:"5s"`
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
			k.unique(seen, g.Match, key+".match", "pattern")
		}
		k.guest(g, key)
	}
}

func (k checker) guest(g *Guest, key string) {
	for _, p := range list(g.MACs) {
		if _, err := path.Match(p, ""); err != nil || strings.Trim(p, "0123456789abcdefABCDEF:*?[]-") != "" {
			k.report(key+".macs", fmt.Sprintf("%q is not a pattern for MACs", model.Shorten(p)), "write one such as 02:*, or 52:54:00:12:34:56")
		}
	}
	if _, err := prefixes(g.Addresses); err != nil {
		k.report(key+".addresses", fmt.Sprintf("%q is not a list of prefixes", model.Shorten(g.Addresses)),
			"write one such as 10.244.0.0/16,fd00::/64")
	}
	if g.Guarantee.Exceeds(g.Limit) {
		k.report(key+".guarantee", fmt.Sprintf("%s is above the limit of %s", g.Guarantee, g.Limit), "raise the limit or lower the guarantee")
	}
	if !g.Refuse {
		return
	}
	for _, name := range []string{"macs", "vlans", "no_spoof", "addresses", "guarantee", "limit", "weight"} {
		if k.good(key + "." + name) {
			k.report(key+"."+name, "contradicts refuse", "keep one of the two")
		}
	}
}
