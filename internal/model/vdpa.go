package model

import "strings"

// VDPADir holds, for each vDPA device of ours, a link by its name to its character device. The kernel renumbers these devices at
// every start, while a domain's XML needs a stable name.
const VDPADir = "/run/sluice/vdpa"

// VDPAPath returns the source of a virtual PF's function in a domain's XML.
func VDPAPath(name string) string { return VDPADir + "/" + name }

const vdpaPrefix = "sluice-"

// VDPAName returns the name on the vDPA bus of the device of a virtual PF (vf is -1) or of one of its VFs.
func VDPAName(vm VMID, vpf string, vf int) string {
	return vdpaPrefix + string(vm) + "-" + strings.TrimPrefix(VPFAlias(vpf, vf), vpfPrefix)
}

// VDPAOurs reports whether VDPAName made this name, and for which VM.
func VDPAOurs(name string) (vm VMID, ours bool) {
	rest, ours := strings.CutPrefix(name, vdpaPrefix)
	if !ours || len(rest) <= uuidLen || rest[uuidLen] != '-' || strings.ContainsRune(rest, '/') {
		return "", false
	}
	return VMID(rest[:uuidLen]), true
}

const uuidLen = 36

// VDPAManager is a management device, which creates vDPA devices: a VF of a NIC, for example.
type VDPAManager struct {
	Name   string `json:"name"` // bus and device, "pci/0000:03:00.2"; without a bus the device alone, "vduse"
	Net    bool   `json:"net"`  // creates network devices
	MaxVQs int    `json:"max_vqs,omitempty"`
}

// VDPADevice is a network device on the vDPA bus.
type VDPADevice struct {
	Name    string `json:"name"`
	Manager string `json:"manager"` // the VDPAManager that created it
	MAC     MAC    `json:"mac"`     // zero: the kernel does not report it
	MTU     int    `json:"mtu,omitempty"`
	Pairs   int    `json:"pairs,omitempty"`  // of queues; 0: one, or the kernel does not report them
	Driver  string `json:"driver,omitempty"` // "vhost_vdpa" gives it to VMs, "virtio_vdpa" to the host
	Node    string `json:"node,omitempty"`   // its character device, "/dev/vhost-vdpa-0"
	Linked  bool   `json:"linked,omitempty"` // VDPAPath links to Node
	InUse   Tri    `json:"in_use"`           // a driver, in a guest or in the host, has set it up
}

// VDPAWant is a desired vDPA device.
type VDPAWant struct {
	Name    string
	Manager string // a pattern for names of management devices, as for path.Match: "pci/0000:03:00.*"
	MAC     MAC
	MTU     int // 0: the device's default
	Pairs   int // of queues; 0: the device's default
}
