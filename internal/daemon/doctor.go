package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/config"
	"sluice/internal/control/doctor"
	"sluice/internal/edge/answer"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/survey"
	"sluice/internal/host/sysif"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/model"
)

// Doctor checks this host without a daemon and without changing anything. A fault hides no other: what cannot be read or used is one
// line of the checklist.
func Doctor(ctx context.Context, path string) api.Doctor {
	p, c := platform(ctx, path)
	if c != nil && p.Libvirt == nil {
		if err := addProblems(ctx, &p, c); err != nil {
			p.SnapshotErr = err
		}
	}
	return answer.Checklist(doctor.Checklist(&p))
}

// platform reads what can be read without a Snapshot. The config is nil if it cannot be used.
func platform(ctx context.Context, path string) (doctor.Platform, *config.Config) {
	p := survey.Look(sysif.NewTree("", "/sys"), sysif.NewTree("", "/proc"), sysif.NewTree("", "/lib/modules"))
	c, err := load(path)
	p.ConfigFile = path
	reject(&p, err)
	uri := config.Default().Libvirt.URI
	if c != nil {
		uri = c.Libvirt.URI
		p.Config = model.Plural(len(c.PFs), "PF") + ", " + model.Plural(len(c.VMs), "rule")
		p.ConfigWarnings = c.Warnings()
	}
	p.LibvirtURI = uri
	p.VMs, p.Libvirt = askLibvirt(ctx, uri)
	k, err := kernel.New(kernel.Options{})
	if err != nil {
		p.PFsErr = err
		return p, c
	}
	defer k.Close()
	readNICs(ctx, &p, k)
	for i := range p.PFs {
		p.PFs[i].Managed = c != nil && slices.ContainsFunc(c.PFs, func(pf config.PF) bool { return pf.Name == p.PFs[i].Name })
	}
	if c != nil && p.PFsErr == nil {
		reject(&p, c.CheckWorld(p.PFs))
	}
	return p, c
}

// reject adds what makes the config unusable.
func reject(p *doctor.Platform, err error) {
	list := config.Errors(err)
	if err != nil && len(list) == 0 {
		list = []*config.Error{{Text: err.Error()}}
	}
	for _, e := range list {
		short := *e
		short.Remedy = ""
		p.ConfigErrors = append(p.ConfigErrors, model.Problem{Text: short.Error(), Remedy: e.Remedy})
	}
}

// askLibvirt counts the VMs that libvirt knows.
func askLibvirt(ctx context.Context, uri string) (int, error) {
	virt, err := libvirt.Open(ctx, libvirt.Options{URI: uri, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer virt.Close()
	list, err := virt.Definitions(ctx, nil)
	return len(list), err
}

// readNICs reads PFs and bridges.
func readNICs(ctx context.Context, p *doctor.Platform, k *kernel.Host) {
	p.Pins = k.CheckMirrors()
	list, err := k.Links(ctx)
	if err != nil {
		p.PFsErr = err
		return
	}
	for i := range list {
		switch list[i].Kind {
		case "bridge":
			p.Bridges = append(p.Bridges, list[i].Name)
		case "openvswitch":
			p.OVS = true
		}
	}
	slices.Sort(p.Bridges)
	vswitch := ovs.New(ctx, k, slog.New(slog.DiscardHandler))
	defer vswitch.Close()
	p.OVN, p.Userspace = vswitch.Userspace()
	pfs, err := k.PFs(ctx)
	if err != nil {
		p.PFsErr = err
		return
	}
	var links uplink.Links
	links.Index(list)
	uplinks := uplink.Set{bridge.New(k), vswitch.OVN(), vswitch}
	for i := range pfs {
		pf := pfs[i].PF
		uplinks.Find(&links, &pf)
		p.PFs = append(p.PFs, pf)
	}
}

// addProblems adds what a Snapshot shows.
func addProblems(ctx context.Context, p *doctor.Platform, c *config.Config) error {
	h, err := openHost(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer h.close()
	v, err := observeOnce(ctx, c, h)
	if err != nil {
		return err
	}
	p.Snapshot = true
	p.Problems = answer.Diagnose(v, h.examine, time.Time{}, 0)
	p.VirtualOnly = len(c.PFs) == 0 && slices.ContainsFunc(v.Snapshot.VMs, func(vm model.VM) bool {
		return slices.ContainsFunc(vm.NICs, func(n model.NIC) bool { return n.VirtualPF != "" })
	})
	return nil
}

// allFaults adds to an error everything else that prevents a command without a daemon: sluice.yaml, and libvirt.
func allFaults(ctx context.Context, path string, err error) error {
	p, _ := platform(ctx, path)
	var list []string
	for _, c := range doctor.Checklist(&p) {
		if c.Result == model.CheckFail && (c.Subject == "config" || c.Subject == "libvirt") {
			list = append(list, fmt.Sprintf("%s; %s", c.Text, c.Remedy))
		}
	}
	if len(list) < 2 {
		return err
	}
	return errors.New(strings.Join(list, "\n"))
}
