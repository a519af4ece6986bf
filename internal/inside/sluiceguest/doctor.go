package sluiceguest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"time"

	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

// finding is one line of doctor.
type finding struct {
	OK     bool   `json:"ok"`
	Check  string `json:"check"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// doctor checks what virtual VFs need in the guest. root contains dev and sys.
func doctor(ctx context.Context, root fs.FS, port, socket string) []finding {
	var out []finding
	if port == "" {
		found, err := findPort(root)
		out = append(out, said("channel port", found, err, ""))
	}
	out = append(out, asked(ctx, socket)...)
	return append(out, inspect(root)...)
}

// said turns an error, whose text may already contain a remedy, or success into a finding.
func said(check, text string, err error, remedy string) finding {
	if err != nil {
		return finding{Check: check, Text: err.Error(), Remedy: remedy}
	}
	return finding{OK: true, Check: check, Text: text}
}

// asked checks the service and, through it, the daemon.
func asked(ctx context.Context, socket string) []finding {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	c, err := channel.Dial(ctx, socket)
	if err != nil {
		return []finding{said("service", "", err, "systemctl enable --now sluice-guest, or run sluice-guest as root in another way")}
	}
	defer c.Close()
	service := finding{OK: true, Check: "service", Text: socket + " answers"}
	var w channel.Welcome
	if err := c.Call(ctx, channel.MethodHello, channel.Hello{}, &w); err != nil {
		return []finding{service, said("daemon", "", err, "on the host: systemctl status sluice, sluice doctor")}
	}
	held, err := c.List(ctx)
	text := fmt.Sprintf("Sluice %s; the VM has %d virtual VFs", w.Program, len(held))
	return []finding{service, said("daemon", text, err, "on the host: sluice vpf list")}
}

const answerFor = 10 * time.Second

// inspect checks the PFs and their VFs.
func inspect(root fs.FS) []finding {
	sys, err := fs.Sub(root, "sys")
	if err != nil {
		return []finding{said("PFs", "", err, "")}
	}
	pfs, err := vfsysfs.PFs(sys)
	if err != nil {
		return []finding{said("PFs", "", err, "mount sysfs at /sys")}
	}
	if len(pfs) == 0 {
		return []finding{{
			Check: "PFs", Text: "no PCI device here can have VFs",
			Remedy: "on the host: sluice vpf define, then sluice doctor; QEMU 10.1 or later is needed",
		}}
	}
	var out []finding
	for i := range pfs {
		out = append(out, inspectPF(sys, &pfs[i])...)
	}
	return out
}

func inspectPF(sys fs.FS, pf *vfsysfs.PF) []finding {
	check := "PF " + pf.Address
	switch {
	case pf.Driver == "":
		return []finding{{Check: check, Text: "has no driver", Remedy: "modprobe virtio_net, or igb: by lspci -nnk -s " + pf.Address}}
	case pf.MAC == "":
		return []finding{{
			Check: check, Text: "has no network interface here, so its VFs cannot be identified to the host",
			Remedy: "move its interface back to the initial network namespace, or bind its driver again",
		}}
	case pf.NumVFs == 0:
		return []finding{{
			Check: check, Text: fmt.Sprintf("%s (%s) has none of its %d VFs", pf.Netdev, pf.MAC, pf.TotalVFs),
			Remedy: fmt.Sprintf("echo %d > /sys/bus/pci/devices/%s/sriov_numvfs", pf.TotalVFs, pf.Address),
		}}
	case len(pf.VFs) != pf.NumVFs:
		return []finding{{
			Check: check, Text: fmt.Sprintf("sriov_numvfs is %d, but there are %d VFs", pf.NumVFs, len(pf.VFs)),
			Remedy: "write 0 to sriov_numvfs, then the number; dmesg says what failed",
		}}
	}
	out := []finding{{OK: true, Check: check, Text: fmt.Sprintf("%s (%s, %s) has %d of %d VFs", pf.Netdev, pf.MAC, pf.Driver, pf.NumVFs,
		pf.TotalVFs)}}
	for i := range pf.VFs {
		out = append(out, inspectVF(sys, pf, &pf.VFs[i]))
	}
	return out
}

// drivers maps a PF's driver to that of its VFs, where they differ.
var drivers = map[string]string{"virtio-pci": "virtio_net", "igb": "igbvf"}

func inspectVF(sys fs.FS, pf *vfsysfs.PF, vf *vfsysfs.VF) finding {
	check := "VF " + vf.Address
	if _, _, _, err := vfsysfs.Find(sys, vf.Address); err != nil {
		return finding{Check: check, Text: err.Error(), Remedy: "write 0 to sriov_numvfs of the PF, then the number"}
	}
	if vf.Driver == "" {
		return finding{
			Check: check, Text: fmt.Sprintf("number %d of %s has no driver", vf.Index, pf.Netdev),
			Remedy: "modprobe " + cmp.Or(drivers[pf.Driver], "the VF's driver"),
		}
	}
	return finding{OK: true, Check: check, Text: fmt.Sprintf("number %d of %s, driver %s, interface %s", vf.Index, pf.Netdev, vf.Driver,
		cmp.Or(vf.Netdev, "in a container"))}
}

// printFindings prints findings as text. It returns false if any of them failed.
func printFindings(w io.Writer, all []finding) bool {
	good := true
	for _, f := range all {
		mark := "ok  "
		if !f.OK {
			mark, good = "FAIL", false
		}
		fmt.Fprintf(w, "%s  %s: %s\n", mark, f.Check, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(w, "      remedy: %s\n", f.Remedy)
		}
	}
	return good
}
