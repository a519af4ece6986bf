package model

import "strings"

// VDPADir holds a link for each vDPA device of ours, by its name, to its character device: the kernel numbers those
// anew at every start, and a domain's XML has to name one that stays.
const VDPADir = "/run/sluice/vdpa"

// VDPAPath is what a domain's XML has as the source of a virtual PF's function.
func VDPAPath(name string) string { return VDPADir + "/" + name }

const vdpaPrefix = "sluice-"

// VDPAName names the vDPA device of a virtual PF (vf is -1) or of one of its VFs on the vDPA bus.
func VDPAName(vm VMID, vpf string, vf int) string {
	return vdpaPrefix + string(vm) + "-" + strings.TrimPrefix(VPFAlias(vpf, vf), vpfPrefix)
}

// VDPAOurs says whether VDPAName gives a vDPA device its name, and for which VM.
func VDPAOurs(name string) (vm VMID, ours bool) {
	rest, ours := strings.CutPrefix(name, vdpaPrefix)
	if !ours || len(rest) <= uuidLen || rest[uuidLen] != '-' || strings.ContainsRune(rest, '/') {
		return "", false
	}
	return VMID(rest[:uuidLen]), true
}

const uuidLen = 36

// VDPAManager is a management device: what makes vDPA devices, such as a VF of a NIC.
type VDPAManager struct {
	Name   string `json:"name"` // bus and device, "pci/0000:03:00.2"; without a bus the device alone, "vduse"
	Net    bool   `json:"net"`  // makes network devices
	MaxVQs int    `json:"max_vqs,omitempty"`
}

// VDPADevice is a network device on the vDPA bus.
type VDPADevice struct {
	Name    string `json:"name"`
	Manager string `json:"manager"` // the VDPAManager that made it
	MAC     MAC    `json:"mac"`     // zero: the kernel does not say
	MTU     int    `json:"mtu,omitempty"`
	Pairs   int    `json:"pairs,omitempty"`  // of queues; 0: one, or the kernel does not say
	Driver  string `json:"driver,omitempty"` // "vhost_vdpa" gives it to VMs, "virtio_vdpa" to the host
	Node    string `json:"node,omitempty"`   // its character device, "/dev/vhost-vdpa-0"
	Linked  bool   `json:"linked,omitempty"` // VDPAPath leads there
	InUse   Tri    `json:"in_use"`           // a driver, in a guest or in the host, has set it up
}

// VDPAWant is a device that should be.
type VDPAWant struct {
	Name    string
	Manager string // a pattern for names of management devices, as of path.Match: "pci/0000:03:00.*"
	MAC     MAC
	MTU     int // 0: what the device has by itself
	Pairs   int // of queues; 0: likewise
}
