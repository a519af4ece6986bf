package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// remedyExec says how to allow a guest's agent to run commands.
const remedyExec = "let the guest's agent run guest-exec and guest-exec-status: remove them from block-rpcs in " +
	"/etc/qemu/qemu-ga.conf (Debian, Ubuntu), or from BLACKLIST_RPC, or add them to --allow-rpcs of FILTER_RPC_ARGS, in " +
	"/etc/sysconfig/qemu-ga (RHEL and derivatives), and restart qemu-guest-agent"

// Ability tells whether limits can be set inside a guest.
type Ability struct {
	Limits model.Tri
	Why    string // why not, or why that is unknown
	Remedy string // what to do about it
}

// maxCommands bounds how many commands an agent may list. QEMU's agent has about 60.
const maxCommands = 1024

// Ability asks the VM's agent whether it may run the commands that limits need, and the guest whether it has the programs. Whether the
// guest's kernel has HTB is known only when a limit is set.
func (s *Shaper) Ability(ctx context.Context, vm model.VMID) Ability {
	lacks, err := s.c.blocked(ctx, vm, "guest-exec", "guest-exec-status")
	switch {
	case err != nil:
		return Ability{Why: "the guest agent does not answer: " + err.Error(), Remedy: "run qemu-guest-agent in the guest"}
	case len(lacks) > 0:
		return Ability{Limits: model.No, Why: "its guest agent does not allow " + strings.Join(lacks, " and "), Remedy: remedyExec}
	}
	_, err = s.script(ctx, channelKey{vm: vm}, "check", "", "")
	switch {
	case err == nil:
		return Ability{Limits: model.Yes}
	case ctx.Err() != nil || errors.Is(err, model.ErrGuest):
		return Ability{Why: err.Error(), Remedy: "check the guest's agent"}
	}
	return Ability{Limits: model.No, Why: err.Error(), Remedy: "a Linux guest with iproute2 and coreutils can be limited"}
}

// blocked returns those of the commands that the agent lacks or may not run.
func (c *Client) blocked(ctx context.Context, vm model.VMID, commands ...string) ([]string, error) {
	var info struct {
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := c.do(ctx, vm, "guest-info", nil, &info); err != nil {
		return nil, fmt.Errorf("ask what it allows: %w", err)
	}
	if len(info.Commands) > maxCommands {
		return nil, bad("%d commands", len(info.Commands))
	}
	for _, cmd := range info.Commands {
		if cmd.Enabled {
			commands = slices.DeleteFunc(commands, func(name string) bool { return name == cmd.Name })
		}
	}
	return commands, nil
}
