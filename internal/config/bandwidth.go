package config

import (
	"fmt"
	"time"

	"sluice/internal/model"
)

// Bandwidth configures how SLAs are kept.
type Bandwidth struct {
	Enabled    bool          `yaml:"enabled"`
	Allocator  string        `yaml:"allocator"`
	Period     time.Duration `yaml:"period" min:"20ms" max:"10s"`
	Tree       string        `yaml:"tree" enum:"auto|off"`
	Overcommit string        `yaml:"overcommit" enum:"refuse|allow"`
	Packets    Rate          `yaml:"packets"`
	InGuest    bool          `yaml:"in_guest" reload:"no"`
	Metadata   bool          `yaml:"metadata" reload:"no"`
	Stop       string        `yaml:"stop" enum:"keep|lift"`
}

// Rules returns the part of the configuration that placement and bandwidth control read.
func (c *Config) Rules() model.Rules {
	r := model.Rules{
		Policy: c.Policy, Interval: c.Interval, Params: c.Params,
		KeepSLAs: c.Bandwidth.Enabled, HostPackets: c.Bandwidth.Packets.Packets, Overcommit: c.Bandwidth.Overcommit == "allow",
		Worth: c.Worth.model(),
	}
	for i := range c.VMs {
		r.VMs = append(r.VMs, c.VMs[i].rule(c.pos[fmt.Sprintf("vms[%d]", i)]))
	}
	for i := range c.Classes {
		k := &c.Classes[i]
		r.Classes = append(r.Classes, model.Class{Name: k.Name, Weight: k.Weight, Priority: k.Priority, Sensitivity: k.Latency, SLA: model.SLA{
			Guarantee: k.Guarantee, Limit: k.Limit, Receive: k.Receive, Weight: k.Weight, ClassMin: k.Minimum.Bits,
			Source: "class " + k.Name + ", " + c.pos[fmt.Sprintf("classes[%d]", i)].String(),
		}})
	}
	return r
}

// rule converts the entry at pos to a model.VMRule.
func (v *VM) rule(pos Pos) model.VMRule {
	r := model.VMRule{
		Match: v.Match, Pin: v.Pin, Forbid: v.Forbid, Weight: v.Weight,
		Priority: v.Priority, Class: v.Class, NIC: v.NIC, Failover: v.Failover, SLANIC: v.SLANIC, Sensitivity: v.Latency,
		SLA: model.SLA{Guarantee: v.Guarantee, Limit: v.Limit, Receive: v.Receive, Weight: v.Weight},
	}
	if v.SLANIC != "" {
		r.Weight = 0 // it applies to one NIC's share, not to the VM's score
	}
	if r.SLA != (model.SLA{}) {
		r.SLA.Source = pos.String()
	}
	return r
}
