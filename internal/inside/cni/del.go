package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"

	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

// Del takes the VF from the container and gives it back. What has been done of that already is no error; that the host
// cannot be told is one: else the VF would stay the container's, and nobody would try again.
func (p *Plugin) Del(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	r, err := p.load(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if r == nil { // ADD never got so far that anything is to be undone but what IPAM did
		return releaseAddresses(ctx, args, conf)
	}
	unlock, err := p.lock(ctx, r.Device)
	if err != nil {
		return err
	}
	defer unlock()
	return p.release(ctx, args, conf, r)
}

// release undoes what is on record, whatever of it has been done or undone already. The device's lock is held. An interface that
// has not come back yet stays on record: it does when the kernel is done with the container's network namespace, and the
// next ADD for the VF, or GC, gives it its name and MAC.
func (p *Plugin) release(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record) error {
	err := errors.Join(p.takeBack(ctx, args, conf, r), p.detach(ctx, r.VF, r.owner()), p.restore(ctx, r), releaseAddresses(ctx, args, conf))
	if err != nil || !p.isBack(r) {
		return err
	}
	return p.remove(r)
}

// isBack says that the container no longer has the interface: it is here, or gone with its VF or with the kernel that made it.
func (p *Plugin) isBack(r *record) bool {
	name, _ := p.netdev(r.Device)
	_, err := fs.Stat(p.Sys, "bus/pci/devices/"+r.Device)
	return name != "" || err != nil || r.BootID != p.BootID
}

// takeBack has host-device bring the interface back. Where the container's network namespace has gone, the kernel does so.
func (p *Plugin) takeBack(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record) error {
	call := *args
	call.Netns = first(args.Netns, r.Netns)
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
		return nil // who is root in the container has renamed it. It has no link now, and comes back with the end of the namespace
	}
	return err
}

// awaitBack gives the kernel time to clear up a network namespace that has gone, which it does after the fact.
func (p *Plugin) awaitBack(ctx context.Context, r *record) {
	ctx, cancel := context.WithTimeout(ctx, backTime)
	defer cancel()
	for !p.isBack(r) && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
}

// detach tells the host that nobody has the VF. That it knows neither VF nor owner is just as well.
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

// restore gives the interface the name and the MAC that it had.
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

// GC gives back what containers have that no longer are: those on record, and those that only the host remembers.
func (p *Plugin) GC(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	valid := map[string]bool{}
	for _, a := range conf.ValidAttachments {
		valid[owner(a.ContainerID, a.IfName)] = true
	}
	attached, err := p.Host.List(ctx) // before the records: what is attached later may have one that we did not see
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

// collect is a DEL that nobody called.
func (p *Plugin) collect(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record) error {
	unlock, err := p.lock(ctx, r.Device)
	if err != nil {
		return err
	}
	defer unlock()
	if r, err = p.load(r.Container, r.IfName); err != nil || r == nil { // done by somebody else meanwhile
		return err
	}
	return p.release(ctx, &skel.CmdArgs{ContainerID: r.Container, IfName: r.IfName, Netns: r.Netns, Path: args.Path}, conf, r)
}

// collectUnknown detaches owners of which there is no record, unless a container has the VF: it may be of
// another network, whose containers we are not told.
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

// idle says that no container can have the VF: its interface is here, or there is no such VF.
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
