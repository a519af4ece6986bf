package doctor

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Platform is what a host offers, as it can be read without a daemon. An error is why something could not be read or used.
type Platform struct {
	Kernel      string // its release, as `uname -r` prints it
	IOMMUGroups int
	VFIO        bool  // the driver vfio-pci exists or can be loaded
	Pins        error // why nothing can be pinned in the BPF file system

	PFs        []model.PF // with network interfaces
	PFsErr     error
	Driverless []model.PCIAddress // SR-IOV network functions without a driver
	Bridges    []string           // Linux bridges
	OVS        bool               // there is an Open vSwitch with its kernel datapath
	Userspace  []string           // bridges of Open vSwitch whose datapath is in user space, but for those of OVN
	OVN        []string           // those of OVN

	ConfigFile     string
	Config         string // what it contains; "" if it cannot be used
	ConfigErrors   []model.Problem
	ConfigWarnings []string
	VirtualOnly    bool // the host serves virtual PFs only, which need neither SR-IOV nor an IOMMU

	LibvirtURI string
	Libvirt    error
	VMs        int

	Snapshot    bool            // Problems are those of a Snapshot
	SnapshotErr error           // why there is none although config and libvirt can be used
	Problems    []model.Problem // as Examine lists them
}

// Checklist checks everything that Sluice needs, in the order in which a user would put it right. No fault hides those behind it.
func Checklist(p *Platform) []model.Check {
	out := slices.Concat(platformChecks(p), nicChecks(p), switchChecks(p), configChecks(p), libvirtChecks(p))
	if p.SnapshotErr != nil {
		out = append(out, fail("host", p.SnapshotErr.Error(), "put the other faults right first, then run this again"))
	}
	vms := map[string]bool{}
	for _, q := range p.Problems {
		c := checkOf(q)
		if !slices.ContainsFunc(out, func(o model.Check) bool { return o.Subject == c.Subject && o.Text == c.Text }) {
			out = append(out, c)
			vms[c.Subject] = true
		}
	}
	if p.Snapshot && len(vms) == 0 {
		out = append(out, pass("VMs", fmt.Sprintf("nothing is missing (%s)", model.Plural(p.VMs, "VM"))))
	}
	return out
}

func pass(subject, text string) model.Check {
	return model.Check{Subject: subject, Result: model.CheckPass, Text: text}
}

func warn(subject, text, remedy string) model.Check {
	return model.Check{Subject: subject, Result: model.CheckWarn, Text: text, Remedy: remedy}
}

func fail(subject, text, remedy string) model.Check {
	return model.Check{Subject: subject, Result: model.CheckFail, Text: text, Remedy: remedy}
}

// checkOf makes a Check of a Problem.
func checkOf(p model.Problem) model.Check {
	subject := p.Subject
	if subject == "" {
		subject = "host"
	}
	if p.Info {
		return warn(subject, p.Text, p.Remedy)
	}
	return fail(subject, p.Text, p.Remedy)
}

// lacking is fail, or warn for what a host of virtual PFs only does not need.
func lacking(p *Platform, subject, text, remedy string) model.Check {
	if p.VirtualOnly {
		return warn(subject, text, remedy)
	}
	return fail(subject, text, remedy)
}

func platformChecks(p *Platform) (out []model.Check) {
	switch major, minor := 0, 0; {
	case !scanned(p.Kernel, &major, &minor):
		out = append(out, warn("kernel", fmt.Sprintf("its release %q is not understood", p.Kernel), "Linux 6.6 or later is needed: uname -r"))
	case major < 6 || major == 6 && minor < 6:
		out = append(out, fail("kernel", "Linux "+p.Kernel+" has no TCX, with which Sluice limits taps and keeps both paths of a moving VM open",
			"install Linux 6.6 or later"))
	default:
		out = append(out, pass("kernel", "Linux "+p.Kernel))
	}
	if p.IOMMUGroups == 0 {
		out = append(out, lacking(p, "IOMMU", "it is off: no VF can be passed to a VM",
			"enable VT-d or AMD-Vi in the firmware, add intel_iommu=on (Intel) to the kernel's command line, and restart the host"))
	} else {
		out = append(out, pass("IOMMU", fmt.Sprintf("on, with %s", model.Plural(p.IOMMUGroups, "group"))))
	}
	if p.VFIO {
		out = append(out, pass("vfio", "the driver vfio-pci is available"))
	} else {
		out = append(out, lacking(p, "vfio", "the kernel has no driver vfio-pci, with which VFs are passed to VMs",
			"modprobe vfio-pci; if there is no such module, install the distribution's full kernel"))
	}
	if p.Pins == nil {
		out = append(out, pass("bpffs", "the BPF file system is mounted"))
	} else {
		text, remedy := split(p.Pins)
		out = append(out, fail("bpffs", text, remedy))
	}
	return out
}

func scanned(release string, major, minor *int) bool {
	n, _ := fmt.Sscanf(release, "%d.%d", major, minor)
	return n == 2
}

// split parts an error of the form "why; remedy".
func split(err error) (text, remedy string) {
	text, remedy, _ = strings.Cut(err.Error(), "; ")
	return text, remedy
}

func nicChecks(p *Platform) (out []model.Check) {
	for _, at := range p.Driverless {
		out = append(out, warn(string(at), "a NIC with SR-IOV has no driver", "load it: lspci -k -s "+string(at)+" names its modules"))
	}
	switch {
	case p.PFsErr != nil:
		return append(out, fail("SR-IOV", p.PFsErr.Error(), "run this as root, in the host's network namespace"))
	case len(p.PFs) == 0:
		return append(out, lacking(p, "SR-IOV", "no network interface of this host has SR-IOV",
			"enable SR-IOV in the firmware of host and NIC, and load the NIC's driver: lspci -v | grep -i sr-iov"))
	}
	for i := range p.PFs {
		out = append(out, pfChecks(&p.PFs[i])...)
	}
	return out
}

// pfChecks says what a PF's driver can do, and whether VMs can use its VFs. What is wrong with a PF that the config does not list is a
// warning.
func pfChecks(pf *model.PF) []model.Check {
	out := []model.Check{driverCheck(pf)}
	ours := *pf
	ours.Managed = true
	troubles := pfTroubles(&ours)
	for _, t := range troubles {
		t.Info = !pf.Managed
		out = append(out, checkOf(t))
	}
	if len(troubles) == 0 {
		text := fmt.Sprintf("%d of %s, link up, in bridge %s", pf.NumVFs, model.Plural(pf.TotalVFs, "VF"), pf.Uplink.Switch)
		if pf.Speed > 0 {
			text += ", " + model.Bits(float64(pf.Speed)) + "/s"
		}
		out = append(out, pass(pf.Name, text))
	}
	for _, t := range pfAdvice(pf) {
		out = append(out, checkOf(t))
	}
	return out
}

// driverCheck names driver and mode, and what the driver can do for VFs.
func driverCheck(pf *model.PF) model.Check {
	text := "no driver"
	if pf.Driver != "" {
		text = "driver " + pf.Driver
	}
	if pf.Eswitch != model.EswitchUnknown {
		text += ", mode " + string(pf.Eswitch)
	}
	var can, not, unknown []string
	for _, c := range []struct {
		is   model.Tri
		what string
	}{
		{pf.Caps.MaxTxRate, "limit VFs"},
		{pf.Caps.MinTxRate, "guarantee VFs a minimum"},
		{pf.Caps.VFCounters, "count per VF"},
		{pf.Caps.Trust, "trust VFs"},
	} {
		switch c.is {
		case model.Yes:
			can = append(can, c.what)
		case model.No:
			not = append(not, c.what)
		default:
			unknown = append(unknown, c.what)
		}
	}
	for _, part := range []struct {
		how  string
		what []string
	}{{"can ", can}, {"cannot ", not}, {"unknown whether it can ", unknown}} {
		if len(part.what) > 0 {
			text += "; " + part.how + strings.Join(part.what, ", ")
		}
	}
	switch pf.Caps.MaxTxRate {
	case model.Yes:
		return pass(pf.Name, text)
	case model.No:
		return warn(pf.Name, text,
			"nothing to do without SLAs; a NIC with an SLA gets no VF of it, unless bandwidth.in_guest limits it in the guest")
	}
	return warn(pf.Name, text, "`sluice qualify "+pf.Name+"` tries it out")
}

func switchChecks(p *Platform) (out []model.Check) {
	switch {
	case len(p.Bridges) > 0:
		out = append(out, pass("bridge", "Linux bridges: "+strings.Join(p.Bridges, ", ")))
	case !p.OVS && len(p.Userspace)+len(p.OVN) == 0:
		out = append(out, fail("bridge", "there is no Linux bridge and no Open vSwitch to connect taps and PFs",
			"ip link add br0 type bridge; ip link set br0 up; ip link set PF master br0 (or by the host's network configuration)"))
	}
	if p.OVS {
		out = append(out, pass("bridge", "Open vSwitch with its kernel datapath"))
	}
	const inUser = "Open vSwitch with its datapath in user space: "
	if len(p.OVN) > 0 {
		out = append(out, pass("bridge", inUser+strings.Join(p.OVN, ", ")+", under OVN"))
	}
	if len(p.Userspace) > 0 {
		out = append(out, userspaceCheck(p, inUser+strings.Join(p.Userspace, ", ")))
	}
	return out
}

// userspaceCheck says that bridges whose datapath is in user space serve no VFs.
func userspaceCheck(p *Platform, text string) model.Check {
	text += "; no frame passes the programs there that send it to a VF"
	if len(p.OVN) > 0 { // whose bridges must have the same datapath
		return warn("bridge", text, "connect the taps of VMs that are to have VFs by OVN, or by a Linux bridge")
	}
	kernel := make([]string, len(p.Userspace))
	for i, b := range p.Userspace {
		kernel[i] = "ovs-vsctl set bridge " + b + " datapath_type=system"
	}
	remedy := "use Open vSwitch's kernel datapath: " + strings.Join(kernel, "; ") + "; or connect taps and PFs by a Linux bridge, or by OVN " +
		"with NICs in mode switchdev"
	if p.OVS || len(p.Bridges) > 0 {
		return warn("bridge", text, remedy)
	}
	return fail("bridge", text, remedy)
}

func configChecks(p *Platform) (out []model.Check) {
	for _, e := range p.ConfigErrors {
		out = append(out, fail("config", e.Text, e.Remedy))
	}
	if len(out) == 0 {
		out = append(out, pass("config", p.ConfigFile+": "+p.Config))
	}
	for _, text := range p.ConfigWarnings {
		why, remedy, _ := strings.Cut(text, "; ")
		out = append(out, warn("config", why, remedy))
	}
	return out
}

func libvirtChecks(p *Platform) []model.Check {
	if p.Libvirt != nil {
		return []model.Check{fail("libvirt", p.Libvirt.Error(),
			"virsh -c "+p.LibvirtURI+" list must work; libvirt.uri in sluice.yaml names another")}
	}
	return []model.Check{pass("libvirt", fmt.Sprintf("%s answers, %s", p.LibvirtURI, model.Plural(p.VMs, "VM")))}
}
