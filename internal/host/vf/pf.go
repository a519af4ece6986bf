// Package vf finds PFs and their VFs, and changes VFs: MAC, VLAN and rates through the PF's driver, devlink rate objects, and the
// host driver that a VF is bound to.
package vf

import (
	"context"
	"errors"
	"os"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/bridge"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Functions manages the PFs and VFs of the host.
type Functions struct {
	k       *sysif.Kernel
	bridges *bridge.Bridges
	devlink *devlink
}

// New returns the Functions of the host. They need no closing.
func New(k *sysif.Kernel, bridges *bridge.Bridges) *Functions {
	return &Functions{k: k, bridges: bridges, devlink: &devlink{k.Generic}}
}

// PFInfo is a PF with its VFs and their use by the host. Owner, Holder and InGuest of the VFs, and Managed, Network and Uplink of
// the PF stay zero.
type PFInfo struct {
	model.PF
	Uses []Use // Uses[i] is about VFs[i]
}

// Use describes how the host itself uses a VF.
type Use struct {
	HostNetdev   string // the VF's netdev in this network namespace, "" for none
	HostNetdevUp bool   // that netdev is administratively up
	OtherNetns   bool   // a network driver is bound, but its netdev is not in this namespace
}

// PFs lists the SR-IOV capable PFs, sorted by name, with their VFs and the PFs' own unicast filters. Devices that vanish while
// being read are omitted. The MAC of a VF that ClearVF had to park reads as zero.
func (h *Functions) PFs(ctx context.Context) ([]PFInfo, error) {
	found, err := h.discover(ctx)
	if err != nil {
		return nil, sysif.Fail("list", "PFs", err)
	}
	var pfs []PFInfo
	for _, pf := range found {
		switch err := h.addNetlink(ctx, &pf); {
		case err == nil:
			pfs = append(pfs, pf)
		case !errors.Is(err, model.ErrGone):
			return nil, err
		}
	}
	return pfs, nil
}

// discover reads sysfs, where reading a link's speed can be as slow as its driver.
func (h *Functions) discover(ctx context.Context) (found []PFInfo, err error) {
	var pfs []PFInfo // not the result: still being written if ctx ends
	err = h.k.Busy.Exclusive(ctx, "discover", func() error {
		pfs = discover(h.k.Sys)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return pfs, nil
}

// addNetlink fills in what sysfs does not show.
func (h *Functions) addNetlink(ctx context.Context, pf *PFInfo) error {
	states, err := h.vfStates(ctx, pf.Name, netdev.ExtVF|netdev.ExtSkipStats)
	if err != nil {
		return err
	}
	addStates(pf, states)
	if len(h.devlinkRates(ctx, pf.Name)) > 0 {
		pf.Caps.MaxTxRate, pf.Caps.MinTxRate = model.Yes, model.Yes
	}
	// Without the mode nothing may be decided: a VF of a PF in switchdev mode is cut off. Devlink does not tell it to processes
	// without privileges, but those change nothing.
	if pf.Eswitch, err = h.devlink.eswitch(ctx, pf.Address, pf.Driver); err != nil && !errors.Is(err, os.ErrPermission) {
		return sysif.Fail("read the mode of the embedded switch of", "PF "+pf.Name, err)
	}
	pf.SelfFDB, err = h.bridges.SelfsOf(ctx, pf.Name, pf.Index)
	return err
}

// addStates fills in the driver's settings for the VFs found in sysfs.
func addStates(pf *PFInfo, states []vfState) {
	byIndex := map[int]vfState{}
	for _, s := range states {
		byIndex[s.Index] = s
	}
	for i := range pf.VFs {
		vf := &pf.VFs[i]
		s, ok := byIndex[vf.ID.Index]
		if !ok {
			continue
		}
		vf.MAC, vf.VLAN = s.MAC, s.VLAN
		if s.MAC == parkedMAC(pf.MAC, vf.ID.Index) {
			vf.MAC = model.MAC{}
		}
		vf.MinTxRate, vf.MaxTxRate, vf.RateNode = s.MinTxRate, s.MaxTxRate, s.RateNode
		vf.SpoofCheck, vf.Trust = s.SpoofCheck, s.Trust
	}
}

// VFCounters returns the counters of a PF's VFs by VF index; rx is what the VF received. They are valid only if Caps.VFCounters
// is Yes: drivers without counters report zeros.
func (h *Functions) VFCounters(ctx context.Context, pf string) (map[int]netdev.Counters, error) {
	states, err := h.vfStates(ctx, pf, netdev.ExtVF)
	if err != nil {
		return nil, err
	}
	counters := make(map[int]netdev.Counters, len(states))
	for _, s := range states {
		counters[s.Index] = s.Counters
	}
	return counters, nil
}

func (h *Functions) vfStates(ctx context.Context, pf string, ext uint32) ([]vfState, error) {
	states, err := rtnl.Get(ctx, h.k.Read, netdev.LinkRequest(pf, ext), decodeVFs)
	if ext&netdev.ExtSkipStats != 0 { // settings are requested, not counters
		addLeaves(states, h.devlinkRates(ctx, pf), h.driver(pf))
	}
	return states, sysif.Fail("read VFs of", "PF "+pf, err)
}

// addLeaves replaces the rates that a driver reports by those of rate objects.
func addLeaves(states []vfState, leaves map[int]devlinkRate, driver string) {
	for i := range states {
		if leaf, ok := leaves[states[i].Index]; ok {
			states[i].MaxTxRate, states[i].MinTxRate, states[i].RateNode = leaf.rates.Max, leaf.rates.Min, leaf.foreignNode(driver)
		}
	}
}

// driver returns the name of a PF's driver.
func (h *Functions) driver(pf string) string {
	return h.k.Sys.Target(sysif.PCIDir(sysif.PCIOf(h.k.Sys, "class/net/"+pf+"/device")) + "/driver")
}
