// Package cni implements the CNI plugin sluice-cni, which gives a container a virtual VF. It first asks the host, over the channel of
// sluice-guest, to put the policy in force; then the stock plugin host-device moves the VF's interface into the container and runs
// IPAM.
//
// ADD records each step before it takes it. Whatever interrupts it, DEL, GC or the next ADD for the same VF restores the interface and
// gives the VF back to the host.
package cni

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

// StateDir is the directory of the records.
const StateDir = "/var/lib/cni/sluice"

// Deadlines. A runtime waits for minutes; the host's part of an ADD takes well under a second.
const (
	callTime    = 2 * time.Minute
	cleanUpTime = time.Minute
	backTime    = 2 * time.Second
	pollEvery   = 20 * time.Millisecond
)

// Plugin holds the environment of the commands.
type Plugin struct {
	Sys    fs.FS  // os.DirFS("/sys") of the network namespace that the VFs' interfaces come from
	Host   Host   // over the channel
	Dir    string // StateDir
	BootID string // of the running kernel: interfaces recorded under another boot ID no longer exist
}

// Host sets policy; *Client implements it.
type Host interface {
	Attach(context.Context, channel.Attach) (channel.Attached, error)
	Detach(context.Context, channel.Detach) error
	List(context.Context) ([]channel.Held, error)
}

// New returns the plugin as it runs in a guest.
func New() *Plugin {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // every Linux has it
	return &Plugin{Sys: os.DirFS("/sys"), Host: &Client{Path: channel.Socket}, Dir: StateDir, BootID: string(boot)}
}

// Funcs returns the commands. Their errors have codes of the CNI specification.
func (p *Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{
		Add: command(p.Add), Del: command(p.Del), Check: command(p.Check), Status: command(p.Status), GC: command(p.GC),
	}
}

func command(f func(context.Context, *skel.CmdArgs) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		if err := f(ctx, args); err != nil {
			return coded(err)
		}
		return nil
	}
}

// codeNotAvailable is the specification's code for a plugin that cannot serve ADD.
const codeNotAvailable uint = 50

// Error codes of this plugin (the specification leaves those from 100 on to plugins).
const (
	CodeDenied  = 100 // host policy forbids it
	CodeUnknown = 101 // the host knows no such VF, or the VF is not the container's
)

// coded gives an error the code that the specification has for it.
func coded(err error) *types.Error {
	var known *types.Error
	if errors.As(err, &known) {
		return types.NewError(known.Code, err.Error(), "")
	}
	code := types.ErrInternal
	var refused *channel.Error
	switch {
	case errors.As(err, &refused):
		code = map[string]uint{
			channel.CodeDenied: CodeDenied, channel.CodeUnknown: CodeUnknown,
			channel.CodeInvalid: types.ErrInvalidNetworkConfig, channel.CodeVersion: codeNotAvailable,
		}[refused.Code]
		if code == 0 {
			code = types.ErrTryAgainLater // busy, failed, no daemon
		}
	case errors.Is(err, context.DeadlineExceeded):
		code = types.ErrTryAgainLater
	}
	return types.NewError(code, err.Error(), "")
}

// Check reports whether everything is as ADD left it.
func (p *Plugin) Check(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	r, err := p.load(args.ContainerID, args.IfName)
	if err != nil {
		return err
	}
	if r == nil {
		return types.NewError(types.ErrUnknownContainer,
			fmt.Sprintf("container %s has no interface %s of this plugin", args.ContainerID, args.IfName), "")
	}
	all, err := p.Host.List(ctx)
	if err != nil {
		return fmt.Errorf("ask the host what is attached: %w", err)
	}
	if !slices.ContainsFunc(all, func(h channel.Held) bool { return h.VF == r.VF && h.Owner == r.owner() }) {
		return types.NewError(CodeUnknown, fmt.Sprintf("the host no longer has VF %s attached for %s: delete the pod, so that it is added again",
			r.Device, r.owner()), "")
	}
	return delegate(ctx, args, "CHECK", conf.forHostDevice(r.Netdev))
}

// Status reports whether ADD could be served.
func (p *Plugin) Status(ctx context.Context, args *skel.CmdArgs) error {
	conf, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := p.Host.List(ctx); err != nil {
		return types.NewError(codeNotAvailable, fmt.Sprintf("the host does not answer: %v", err), "")
	}
	if err := delegate(ctx, args, "STATUS", conf.forHostDevice("")); err != nil {
		return types.NewError(codeNotAvailable, err.Error(), "")
	}
	return nil
}

// netdev returns the VF's interface in this network namespace, "" if there is none.
func (p *Plugin) netdev(device string) (name, mac string) { return vfsysfs.Netdev(p.Sys, device) }
