// Package vfsysfs reads from sysfs in a guest which SR-IOV PFs there are, and which VF has a given PCI address. It only reads from the
// fs.FS that it is given, usually os.DirFS("/sys").
package vfsysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/channel"
)

// PF is a PCI device that can have VFs.
type PF struct {
	Address  string // PCI address: "0000:01:00.0"
	Driver   string // "" if no driver is bound
	Netdev   string // "" if there is none in this sysfs's network namespace
	MAC      string // of Netdev, in lower case
	TotalVFs int
	NumVFs   int
	VFs      []VF // by Index
}

// VF is one of a PF's VFs.
type VF struct {
	Address string
	Index   int    // n of the PF's link virtfn<n>
	Driver  string // "" if no driver is bound
	Netdev  string // "" if there is none, or a container has it
}

const devices = "bus/pci/devices"

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// PFs lists the devices that can have VFs, sorted by address. A system without a PCI bus has none.
func PFs(sys fs.FS) ([]PF, error) {
	entries, err := fs.ReadDir(sys, devices)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the PCI devices: %w", err)
	}
	var out []PF
	for _, e := range entries {
		if _, err := fs.Stat(sys, dir(e.Name())+"/sriov_totalvfs"); err == nil {
			out = append(out, readPF(sys, e.Name()))
		}
	}
	slices.SortFunc(out, func(a, b PF) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}

// Find returns the VF that has a PCI address, as the channel identifies it, and its network interface and driver. The interface is ""
// if there is none in this sysfs's network namespace: a container has it, or no driver is bound. The PF's MAC is the current one of its
// interface.
func Find(sys fs.FS, address string) (vf channel.VF, netdev, driver string, err error) {
	if !pciAddress.MatchString(address) {
		return vf, "", "", fmt.Errorf("%q is not a PCI address: give one like 0000:01:00.1", address)
	}
	if _, err := fs.Stat(sys, dir(address)); err != nil {
		return vf, "", "", fmt.Errorf("no PCI device %s: has the number of VFs been changed? See sluice-guest vfs", address)
	}
	parent := target(sys, dir(address)+"/physfn")
	if parent == "" {
		return vf, "", "", fmt.Errorf("PCI device %s is not a VF: give the address of a VF, see sluice-guest vfs", address)
	}
	pf := readPF(sys, parent)
	if pf.MAC == "" {
		return vf, "", "", fmt.Errorf("PF %s of VF %s has no network interface here, in the guest's initial network namespace: "+
			"bind its driver, or move the interface back",
			parent, address)
	}
	i := slices.IndexFunc(pf.VFs, func(v VF) bool { return v.Address == address })
	if i < 0 {
		return vf, "", "", fmt.Errorf("PF %s does not list VF %s: its number of VFs is being changed; try again", parent, address)
	}
	return channel.VF{PF: pf.MAC, Index: pf.VFs[i].Index}, pf.VFs[i].Netdev, pf.VFs[i].Driver, nil
}

func readPF(sys fs.FS, address string) PF {
	d := dir(address)
	pf := PF{
		Address: address, Driver: target(sys, d+"/driver"),
		TotalVFs: number(sys, d+"/sriov_totalvfs"), NumVFs: number(sys, d+"/sriov_numvfs"),
	}
	pf.Netdev, pf.MAC = Netdev(sys, address)
	entries, _ := fs.ReadDir(sys, d) // a device that is gone by now has no VFs
	for _, e := range entries {
		n, isVF := strings.CutPrefix(e.Name(), "virtfn")
		i, err := strconv.Atoi(n)
		vf := target(sys, d+"/"+e.Name())
		if !isVF || err != nil || vf == "" {
			continue
		}
		name, _ := Netdev(sys, vf)
		pf.VFs = append(pf.VFs, VF{Address: vf, Index: i, Driver: target(sys, dir(vf)+"/driver"), Netdev: name})
	}
	slices.SortFunc(pf.VFs, func(a, b VF) int { return a.Index - b.Index })
	return pf
}

// Netdev returns the device's network interface and its current MAC, both "" if there is none in this sysfs's network namespace. The
// interface of a virtio device is below a child device on the virtio bus.
func Netdev(sys fs.FS, address string) (name, mac string) {
	d := dir(address)
	places := []string{d}
	entries, _ := fs.ReadDir(sys, d)
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "virtio"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			places = append(places, d+"/"+e.Name())
		}
	}
	for _, place := range places {
		nets, _ := fs.ReadDir(sys, place+"/net")
		for _, n := range nets {
			if mac := text(sys, place+"/net/"+n.Name()+"/address"); mac != "" {
				return n.Name(), strings.ToLower(mac)
			}
		}
	}
	return "", ""
}

func dir(address string) string { return devices + "/" + address }

// target returns the last element of a link's target, "" if there is no link.
func target(sys fs.FS, link string) string {
	to, err := fs.ReadLink(sys, link)
	if err != nil {
		return ""
	}
	return path.Base(to)
}

func text(sys fs.FS, file string) string {
	b, _ := fs.ReadFile(sys, file)
	return strings.TrimSpace(string(b))
}

// number returns the number in a file, 0 if there is none.
func number(sys fs.FS, file string) int {
	n, _ := strconv.Atoi(text(sys, file))
	return n
}
