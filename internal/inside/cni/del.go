package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"

	"sluice/internal/base/sleep"
	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

// Del takes the VF from the container and gives it back. It ignores steps that are already done. An unreachable host is an error, since
// otherwise the VF would stay assigned to the container and nobody would retry.
func (p *Plugin) Del(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	r, err := p.load(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if r == nil { // ADD did nothing, apart from what IPAM may have done
		return releaseAddresses(ctx, args, conf)
	}
	unlock, err := p.lock(ctx, r.Device)
	if err != nil {
		return err
	}
	defer unlock()
	return p.release(ctx, args, conf, r)
}

// release undoes what is on record, however much of it was done or undone already. The caller holds the device's lock. The record stays
// while the interface has not come back: the kernel returns it once it has destroyed the container's network namespace, and the next
// ADD for the VF, or GC, restores its name and MAC.
func (p *Plugin) release(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record) error {
	err := errors.Join(p.takeBack(ctx, args, conf, r), p.detach(ctx, r.VF, r.owner()), p.restore(ctx, r), releaseAddresses(ctx, args, conf))
	if err != nil || !p.isBack(r) {
		return err
	}
	return p.remove(r)
}

// isBack reports whether the container no longer has the interface: it is in this namespace, its VF is gone, or the kernel has
// rebooted.
func (p *Plugin) isBack(r *record) bool {
	name, _ := p.netdev(r.Device)
	_, err := fs.Stat(p.Sys, "bus/pci/devices/"+r.Device)
	return name != "" || err != nil || r.BootID != p.BootID
}

// takeBack has host-device move the interface back. If the container's network namespace is gone, the kernel does so.
func (p *Plugin) takeBack(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record) error {
	call := *args
	call.Netns = cmp.Or(args.Netns, r.Netns)
	if p.isBack(r) {
		return nil
	}
	if r.NetnsID != netnsID(call.Netns) {
		p.awaitBack(ctx, r)
		return nil
	}
	err := delegate(ctx, &call, "DEL", conf.forHostDevice(r.Netdev).withoutIPAM())
	if err != nil && slices.ContainsFunc([]string{fmt.Sprintf("failed to find %q", r.IfName), "failed to find original ifname"},
		func(text string) bool { return strings.Contains(err.Error(), text) }) {
		return nil // root in the container renamed it; it has no link now, and returns when the namespace ends
	}
	return err
}

// awaitBack gives the kernel time to destroy a network namespace, which happens asynchronously.
func (p *Plugin) awaitBack(ctx context.Context, r *record) {
	ctx, cancel := context.WithTimeout(ctx, backTime)
	defer cancel()
	for !p.isBack(r) && sleep.For(ctx, pollEvery) == nil {
	}
}

// detach tells the host that the VF is free. It is not an error if the host does not know the VF or the owner.
func (p *Plugin) detach(ctx context.Context, vf channel.VF, owner string) error {
	err := p.Host.Detach(ctx, channel.Detach{VF: vf, Owner: owner})
	var refused *channel.Error
	if errors.As(err, &refused) && refused.Code == channel.CodeUnknown {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tell the host that VF %d of %s is free: %w", vf.Index, vf.PF, err)
	}
	return nil
}

// restore gives the interface its original name and MAC.
func (p *Plugin) restore(ctx context.Context, r *record) error {
	name, mac := p.netdev(r.Device)
	if name == "" || r.BootID != p.BootID || name == r.Netdev && mac == r.MAC {
		return nil
	}
	return setLink(ctx, name, r.Netdev, r.MAC)
}

func releaseAddresses(ctx context.Context, args *skel.CmdArgs, conf *Conf) error {
	if d, ok := conf.forIPAM(); ok {
		return delegate(ctx, args, "DEL", d)
	}
	return nil
}

// GC releases the VFs of containers that no longer exist: those on record, and those that only the host knows of.
func (p *Plugin) GC(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	valid := map[string]bool{}
	for _, a := range conf.ValidAttachments {
		valid[owner(a.ContainerID, a.IfName)] = true
	}
	attached, err := p.Host.List(ctx) // before the records: a later attachment might have a record that was not read
	if err != nil {
		err = fmt.Errorf("ask the host what is attached: %w", err)
	}
	all, e := p.records()
	err = errors.Join(err, e)
	known := map[string]bool{}
	for _, r := range all {
		known[r.owner()] = true
		if r.Network == conf.Name && !valid[r.owner()] {
			err = errors.Join(err, p.collect(ctx, args, conf, r))
		}
	}
	err = errors.Join(err, p.collectUnknown(ctx, attached, known, valid))
	if d, ok := conf.forIPAM(); ok {
		err = errors.Join(err, delegate(ctx, args, "GC", d))
	}
	return err
}

// collect does the DEL of a container that is gone.
func (p *Plugin) collect(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record) error {
	unlock, err := p.lock(ctx, r.Device)
	if err != nil {
		return err
	}
	defer unlock()
	if r, err = p.load(r.Container, r.IfName); err != nil || r == nil { // another call has released it
		return err
	}
	return p.release(ctx, &skel.CmdArgs{ContainerID: r.Container, IfName: r.IfName, Netns: r.Netns, Path: args.Path}, conf, r)
}

// collectUnknown detaches owners without a record, unless a container has the VF: it may belong to another network, whose containers
// are not listed here.
func (p *Plugin) collectUnknown(ctx context.Context, attached []channel.Held, known, valid map[string]bool) error {
	pfs, err := vfsysfs.PFs(p.Sys)
	if err != nil {
		return err
	}
	for _, held := range attached {
		if held.Owner == "" || known[held.Owner] || valid[held.Owner] || !idle(pfs, held.VF) {
			continue
		}
		err = errors.Join(err, p.detach(ctx, held.VF, held.Owner))
	}
	return err
}

// idle reports whether no container can have the VF: its interface is in this namespace, or the VF does not exist.
func idle(pfs []vfsysfs.PF, vf channel.VF) bool {
	for _, pf := range pfs {
		for _, v := range pf.VFs {
			if pf.MAC == vf.PF && v.Index == vf.Index {
				return v.Netdev != ""
			}
		}
	}
	return true
}
