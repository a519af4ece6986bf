package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

// Add gives the container a VF, or leaves everything as it was.
func (p *Plugin) Add(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	request, err := conf.request(args)
	if err != nil {
		return err
	}
	if r, err := p.load(args.ContainerID, args.IfName); err != nil {
		return err
	} else if r != nil {
		return types.NewError(types.ErrInvalidEnvironmentVariables,
			fmt.Sprintf("container %s has interface %s already, or an ADD for it was not finished: call DEL first", args.ContainerID, args.IfName),
			"")
	}
	// Ask the host first, so that an unreachable host fails the ADD before there is anything to undo.
	attached, err := p.Host.List(ctx)
	if err != nil {
		return fmt.Errorf("ask the host what is attached: %w", err)
	}
	if netnsID(args.Netns) == "" {
		return types.NewError(types.ErrInvalidNetNS, fmt.Sprintf("no network namespace at %q", args.Netns), "")
	}
	device, unlock, err := p.choose(ctx, conf, attached)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := p.prepare(ctx, args, conf, device)
	if err != nil {
		return err
	}
	request.VF = r.VF
	result, err := p.carryOut(ctx, args, conf, r, request)
	if err != nil {
		return p.undo(args, conf, r, err)
	}
	return types.PrintResult(result, conf.CNIVersion)
}

// choose locks the device that was passed, or the first free one of the list.
func (p *Plugin) choose(ctx context.Context, conf *Conf, attached []channel.Held) (device string, unlock func(), err error) {
	candidates, err := conf.candidates()
	if err != nil {
		return "", nil, err
	}
	if len(candidates) == 1 {
		unlock, err := p.lock(ctx, candidates[0])
		return candidates[0], unlock, err
	}
	for _, device := range candidates {
		unlock, err := p.tryLock(device)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if p.free(device, attached) {
			return device, unlock, nil
		}
		unlock()
	}
	return "", nil, types.NewError(types.ErrTryAgainLater,
		fmt.Sprintf("none of the %d devices of network %s is free", len(candidates), conf.Name), "")
}

// free reports whether the VF's interface is in this namespace and nobody has the VF attached, except owners on record, which clear
// detaches.
func (p *Plugin) free(device string, attached []channel.Held) bool {
	vf, netdev, _, err := vfsysfs.Find(p.Sys, device)
	if err != nil || netdev == "" {
		return false
	}
	records, _ := p.records()
	return !slices.ContainsFunc(attached, func(h channel.Held) bool {
		return h.VF == vf && h.Owner != "" && !slices.ContainsFunc(records, func(r *record) bool { return r.owner() == h.Owner })
	})
}

// prepare checks the VF, cleans up what an earlier user left on it, and records what is about to be done.
func (p *Plugin) prepare(ctx context.Context, args *skel.CmdArgs, conf *Conf, device string) (*record, error) {
	vf, netdev, driver, err := vfsysfs.Find(p.Sys, device)
	if err != nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	if netdev == "" && driver == "" {
		return nil, fmt.Errorf("VF %s has no driver: bind one that creates a network interface (virtio-pci, igbvf)", device)
	}
	if netdev == "" {
		return nil, types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("VF %s has no network interface here: a container has it, or its driver %s creates none", device, driver), "")
	}
	if err := p.clear(ctx, args, device); err != nil {
		return nil, err
	}
	r := &record{
		Network: conf.Name, Container: args.ContainerID, IfName: args.IfName, Netns: args.Netns, NetnsID: netnsID(args.Netns),
		BootID: p.BootID, Device: device, VF: vf,
	}
	if r.Netdev, r.MAC = p.netdev(device); r.Netdev == "" {
		return nil, fmt.Errorf("the network interface of VF %s has gone: try again", device)
	}
	return r, p.save(r)
}

// clear releases what is on record for the device. Nobody can be using it, since this process holds its lock and its interface is in
// this namespace: an ADD or DEL was interrupted, or the guest has rebooted. IPAM is left to the DEL or GC of that container.
func (p *Plugin) clear(ctx context.Context, args *skel.CmdArgs, device string) error {
	all, err := p.records()
	for _, r := range all {
		if r.Device == device {
			err = errors.Join(err, p.release(ctx, &skel.CmdArgs{ContainerID: r.Container, IfName: r.IfName, Path: args.Path}, &Conf{}, r))
		}
	}
	return err
}

// carryOut has the host put the policy in force and bring the link up before it moves the interface into the container.
func (p *Plugin) carryOut(ctx context.Context, args *skel.CmdArgs, conf *Conf, r *record, request channel.Attach) (*current.Result, error) {
	attached, err := p.Host.Attach(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("ask the host for VF %s: %w", r.Device, err)
	}
	if mac := strings.ToLower(attached.MAC); mac != "" && mac != r.MAC {
		if err := setLink(ctx, r.Netdev, "", mac); err != nil {
			return nil, err
		}
	}
	result, err := delegateAdd(ctx, args, conf.forHostDevice(r.Netdev))
	if err != nil {
		return nil, err
	}
	if conf.CheckAddresses {
		// So far the policy allowed none of these addresses. No process of the pod runs before ADD has returned.
		for _, ip := range result.IPs {
			request.Addresses = append(request.Addresses, ip.Address.IP.String())
		}
		if _, err := p.Host.Attach(ctx, request); err != nil {
			return nil, fmt.Errorf("ask the host to restrict VF %s to the addresses from IPAM: %w", r.Device, err)
		}
	}
	for _, i := range result.Interfaces {
		i.PciID = r.Device
	}
	return after(conf, result)
}

// after appends the result to that of the earlier plugins in the chain.
func after(conf *Conf, result *current.Result) (*current.Result, error) {
	if conf.RawPrevResult == nil {
		return result, nil
	}
	if err := version.ParsePrevResult(&conf.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, err.Error(), "")
	}
	prev, err := current.NewResultFromResult(conf.PrevResult)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, err.Error(), "")
	}
	for _, ip := range result.IPs {
		if ip.Interface != nil {
			ip.Interface = current.Int(*ip.Interface + len(prev.Interfaces))
		}
	}
	prev.Interfaces = append(prev.Interfaces, result.Interfaces...)
	prev.IPs = append(prev.IPs, result.IPs...)
	prev.Routes = append(prev.Routes, result.Routes...)
	return prev, nil
}

// undo restores the state before ADD, and returns the reason. What cannot be undone now stays on record for DEL.
func (p *Plugin) undo(args *skel.CmdArgs, conf *Conf, r *record, why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	if err := p.release(ctx, args, conf, r); err != nil {
		return fmt.Errorf("%w (and DEL has to clean up: %s)", why, err.Error())
	}
	return why
}
