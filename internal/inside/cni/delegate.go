package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

const hostDevice = "host-device"

// delegated is the configuration for a call of another plugin.
type delegated struct {
	plugin string
	raw    map[string]json.RawMessage
}

// delegate runs another plugin.
func delegate(ctx context.Context, args *skel.CmdArgs, command string, d delegated) error {
	path, err := d.find(args.Path)
	if err == nil {
		err = invoke.ExecPluginWithoutResult(ctx, path, marshal(d.raw), environment(args, command), nil)
	}
	return d.failed(command, err)
}

// delegateAdd runs another plugin's ADD.
func delegateAdd(ctx context.Context, args *skel.CmdArgs, d delegated) (*current.Result, error) {
	path, err := d.find(args.Path)
	if err != nil {
		return nil, d.failed("ADD", err)
	}
	r, err := invoke.ExecPluginWithResult(ctx, path, marshal(d.raw), environment(args, "ADD"), nil)
	if err != nil {
		return nil, d.failed("ADD", err)
	}
	return current.NewResultFromResult(r)
}

func (d delegated) find(cniPath string) (string, error) {
	path, err := invoke.FindInPath(d.plugin, filepath.SplitList(cniPath))
	if err != nil {
		return "", fmt.Errorf("%w: install it (package containernetworking-plugins, or github.com/containernetworking/plugins)", err)
	}
	return path, nil
}

func (d delegated) failed(command string, err error) error {
	if err == nil {
		return nil
	}
	text := fmt.Sprintf("%s of plugin %s: %v", command, d.plugin, err)
	var e *types.Error
	if errors.As(err, &e) {
		return types.NewError(e.Code, text, "")
	}
	return errors.New(text)
}

// environment sets IgnoreUnknown, so that the called plugin ignores arguments meant for this one: some reject unknown arguments.
func environment(args *skel.CmdArgs, command string) *invoke.Args {
	return &invoke.Args{
		Command: command, ContainerID: args.ContainerID, NetNS: args.Netns, IfName: args.IfName, Path: args.Path,
		PluginArgsStr: strings.TrimPrefix(args.Args+";IgnoreUnknown=1", ";"),
	}
}
