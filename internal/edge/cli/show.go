package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/client"
	"sluice/internal/model"
)

func (a *app) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "show the state of the host in a few lines",
		Long: `Shows the mode and the policy, the numbers of VFs and VMs and how they are used, the load
and the part of it that VMs with a VF have, the moves so far, and whether doctor or fsck
found something.

Foreign VFs are used by somebody else, on the host or in a VM. Repairs concern what fsck
finds; in enforce mode, findings that cut a VM off are repaired automatically. After the
first start there is one for each VM on each PF of its network, which lacks a filter for
the VM.`,
		Example: "sluice status\nsluice status -o json | jq .vms.holding",
		Args:    noArgs,
	}
	return answering(a, c, (*client.Client).Status, printStatus)
}

func printStatus(w io.Writer, s api.Status) {
	put := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-9s "+format+"\n", append([]any{name}, args...)...)
	}
	put("Sluice", "%s, %s, %s", orDash(s.Version), upText(s), modeText(s))
	put("Policy", "%s, %s", s.Policy, pace(s))
	put("VFs", "%d: %s", s.VFs.Total, vfText(s.VFs))
	for _, pf := range s.PFs {
		put("", "%s", pfText(pf))
	}
	put("VMs", "%d: %d with a VF%s, %d should have one, %d cannot be moved, load of %d unknown", s.VMs.Total, s.VMs.Holding,
		foreignText(s.VMs.Foreign), s.VMs.Wanting, s.VMs.Vetoed, s.VMs.Unknown)
	if s.Overrides > 0 {
		put("", "%s: pins, releases and SLAs set at run time (`sluice overrides`)", model.Plural(s.Overrides, "override"))
	}
	put("Load", "%s packets/s, %s/s; VMs with a VF have %s of the packets", model.SI(s.Load.PPS), model.Bits(8*s.Load.Bytes),
		percent(s.Load.VFShare))
	if text := bandwidthText(s.Bandwidth, s.Mode); text != "" {
		put("Bandwidth", "%s", text)
	}
	put("Moves", "%d under way, %d %s", s.Moves.Active, s.Moves.Pending, pendingWord(s.Mode))
	put("", "since the start %s%s, %s%s, %d failed (%d in the last hour), %d retries%s", model.Plural(int(s.Moves.Plugs), "plug"),
		mean(s.Moves.Plugs, s.Moves.PlugMean),
		model.Plural(int(s.Moves.Unplugs), "unplug"), mean(s.Moves.Unplugs, s.Moves.UnplugMean), s.Moves.Failed, s.Moves.FailedHour,
		s.Moves.Retries,
		repairs(s.Moves.Repairs))
	for i, m := range s.Recent {
		put(map[bool]string{true: "Last"}[i == 0], "%s", moveLine(m))
	}
	put("Health", "%s", healthText(s))
	if s.Error != "" {
		put("Error", "%s", lines(s.Error, 10))
	}
}

// mean formats the mean time of n moves, "" if n is 0.
func mean(n uint64, s float64) string {
	if n == 0 {
		return ""
	}
	return " (mean " + seconds(s) + ")"
}

// repairs formats a count of repairs, "" if it is 0.
func repairs(n uint64) string {
	if n == 0 {
		return ""
	}
	return ", " + model.Plural(int(n), "repair") + " of filters and settings" //nolint:gosec // a count of repairs
}

// foreignText says how many of the VMs with a VF have one that Sluice did not assign.
func foreignText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d foreign)", n)
}

// pace says how often the policy decides.
func pace(s api.Status) string {
	if !s.Rounds {
		return "decides at every sample"
	}
	return "a round every " + time.Duration(s.Interval*float64(time.Second)).String()
}

// upText formats the daemon's uptime, as measured by the daemon.
func upText(s api.Status) string {
	text := "up " + (time.Duration(s.Uptime) * time.Second).String()
	if s.Observed.IsZero() {
		text += ", has not observed the host yet"
	}
	return text
}

func modeText(s api.Status) string {
	switch {
	case s.Drain:
		return "draining: all VFs are being taken back" + overrideText(s.Drained) + " (`sluice drain --undo` ends that)"
	case s.Mode == api.ModeObserve:
		return "observe mode: nothing is changed (`sluice plan` shows what enforce mode would do)"
	}
	return s.Mode + " mode: VFs are moved"
}

func pendingWord(mode string) string {
	if mode == api.ModeObserve {
		return "would be made"
	}
	return "waiting"
}

func pfText(pf api.PFStatus) string {
	s := fmt.Sprintf("%s (%s, network %s", pf.Name, orDash(pf.Driver), orDash(pf.Network))
	if pf.Uplink != "" {
		s += ", uplink " + pf.Uplink
		if pf.Representors {
			s += " with representors"
		}
	}
	s += ")"
	if !pf.Managed {
		s += ", not in sluice.yaml"
	}
	if !pf.LinkUp {
		s += ", link down"
	}
	if pf.Managed && pf.Why != "" {
		s += ", no VM can use its VFs: " + pf.Why
	}
	return s + ": " + model.Plural(pf.VFs.Total, "VF") + ", " + vfText(pf.VFs)
}

// vfText counts VFs by owner. Free are those that a VM can get.
func vfText(c api.VFCounts) string {
	s := fmt.Sprintf("%d held, %d free, %d foreign", c.Held, c.Free-c.Unusable, c.Foreign)
	if c.Unusable > 0 {
		s += fmt.Sprintf(", %d that no VM can get now", c.Unusable)
	}
	return s
}

func healthText(s api.Status) string {
	if s.Problems == 0 && s.Findings == 0 {
		return "no problems, no findings"
	}
	return fmt.Sprintf("%s (`sluice doctor`), %s (`sluice fsck`)", model.Plural(s.Problems, "problem"), model.Plural(s.Findings, "finding"))
}

func (a *app) vmsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "vms", Short: "list the VMs: path, load and decision",
		Long: `Lists every VM with the path it uses, its load in both directions, the source of these
figures (tap: the host, pf: the PF's driver, agent: the guest; a question mark if nothing
supports the guest's figures, a tilde if the host's counters are consistent with them),
whether it should have a VF, and why: in a few words, and as a REASON to filter by:

` + reasonHelp() + `
WORTH is shown if sluice.yaml gives packets different weights: what one packet of the VM
counts. sluice explain VM has the reason as a sentence, and what would change it.`,
		Example: `sluice vms
sluice vms --filter path!=virtio --sort packets/s
sluice vms --filter 'vm=web-*' --watch
sluice vms -o json | jq '.[] | select(.vf)'`,
		Args: noArgs,
	}
	return listing(a, c, lister[[]api.VM]{
		columns: vmColumns, grid: vmGrid,
		get:  func(ctx context.Context, _ []string) ([]api.VM, error) { return a.client().VMs(ctx) },
		keep: func(list *[]api.VM, rows []int) { *list = pickRows(*list, rows) },
	})
}

// vmColumns are the columns of `sluice vms`.
var vmColumns = []string{"VM", "STATE", "PATH", "PACKETS/S", "BITS/S", "COUNTED-BY", "SHOULD-HOLD", "REASON", "WHY", "WORTH"}

// reasonHelp lists the reason codes and their meanings.
func reasonHelp() string {
	var b strings.Builder
	b.WriteString("    REASON            meaning\n")
	for _, c := range model.Codes() {
		fmt.Fprintf(&b, "    %-17s %s\n", c, c.Means())
	}
	return b.String()
}

func vmGrid(list []api.VM) grid {
	g := grid{head: vmColumns, drop: []string{"COUNTED-BY", "STATE", "SHOULD-HOLD", "REASON", "WORTH"}}
	for _, vm := range list {
		pps, rate := "?", "?"
		if vm.Known {
			pps, rate = model.SI(vm.PPS), model.Bits(8*vm.Bytes)
		}
		g.rows = append(g.rows, []string{
			vm.Name, vm.State, pathOf(vm), pps, rate, from(vm.Sources, vm.Proof),
			map[bool]string{true: "yes", false: "no"}[vm.Hold], reasonWord(vm), vm.Short, model.SI(cmp.Or(vm.Worth, 1)),
		})
	}
	if !slices.ContainsFunc(list, func(vm api.VM) bool { return vm.Worth != 0 }) {
		g.hide = []string{"WORTH"}
	}
	return g
}

// reasonWord returns the code, with details that the code does not show.
func reasonWord(vm api.VM) string {
	s := vm.Code
	if vm.Override == string(api.VerbPin) && vm.Code == string(model.CodePinned) {
		s += " (by hand)"
	}
	if vm.UnderWay != "" {
		s += ", " + vm.UnderWay + " under way"
	}
	return s
}

func (a *app) vfsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "vfs", Short: "list the VFs with owner and holder",
		Long: `Lists every VF of every PF. Owner sluice: Sluice gave it to the VM. Free: in the pool, not
in use. Foreign: somebody else uses it, so Sluice leaves it alone; the note says how that
is known. In guest: the guest's driver has the VF open.`,
		Example: "sluice vfs\nsluice vfs -o json | jq '.[] | select(.owner == \"free\")'",
		Args:    noArgs,
	}
	return answering(a, c, (*client.Client).VFs, printVFs)
}

func printVFs(w io.Writer, list []api.VF) {
	var rows [][]string
	for _, vf := range list {
		vlan := ""
		if vf.VLAN > 0 {
			vlan = strconv.Itoa(vf.VLAN)
		}
		rows = append(rows, []string{
			vf.Name, vf.Address, vf.Network, vf.Owner, vf.Holder, vf.MAC, vlan, vf.Driver, vf.InGuest, vf.OwnerWhy,
		})
	}
	table(w, "VF PCI-ADDRESS NETWORK OWNER VM MAC VLAN DRIVER IN-GUEST NOTE", rows)
}

// offline has the flags of commands that can also observe the host without a daemon.
type offline struct {
	on     bool
	config string
}

func offlineFlags(c *cobra.Command) *offline {
	o := &offline{}
	c.Flags().BoolVar(&o.on, "offline", false, "read the state of this host without a daemon, as root, changing nothing")
	c.Flags().StringVar(&o.config, "config", DefaultConfig, "sluice.yaml to use with --offline, as a `file`")
	return o
}

// ask gets an answer from the daemon or, with --offline, from an observation of the host.
func ask[T any](ctx context.Context, o *offline, online func(context.Context) (T, error), pick func(*answer.Offline) T) (T, error) {
	if !o.on {
		v, err := online(ctx)
		return v, orOffline(err)
	}
	var none T
	seen, err := observeOffline(ctx, o.config)
	if err != nil {
		return none, err
	}
	return pick(seen), nil
}

// orOffline adds --offline to the remedy of ErrUnreachable.
func orOffline(err error) error {
	if errors.Is(err, client.ErrUnreachable) && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, or add --offline", err)
	}
	return err
}
