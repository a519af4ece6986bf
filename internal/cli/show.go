package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/model"
	"sluice/internal/web"
)

func (a *app) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "what is going on, in a few lines",
		Long: `Shows the mode and the policy, how many VFs and VMs there are and how they are
used, the load and which part of it goes over VFs, the moves so far, and whether
doctor or fsck have something to say.`,
		Example: "sluice status\nsluice status -o json | jq .vms.holding",
		Args:    noArgs,
	}
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := a.client().Status(c.Context())
		if err != nil {
			return err
		}
		return show(a.std.Out, o, s, printStatus)
	}
	return c
}

func printStatus(w io.Writer, s web.Status) {
	put := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%-9s "+format+"\n", append([]any{name}, args...)...)
	}
	put("Sluice", "%s, %s, %s", orDash(s.Version), upText(s), modeText(s.Mode, s.Drain))
	put("Policy", "%s, %s", s.Policy, pace(s))
	put("VFs", "%d: %d held, %d free, %d of others", s.VFs.Total, s.VFs.Held, s.VFs.Free, s.VFs.Foreign)
	for _, pf := range s.PFs {
		put("", "%s", pfText(pf))
	}
	put("VMs", "%d: %d with a VF, %d should have one, %d cannot be moved, the load of %d is not known", s.VMs.Total, s.VMs.Holding, s.VMs.Wanting, s.VMs.Vetoed, s.VMs.Unknown)
	put("Load", "%s packets/s, %s/s; %s of the packets are those of VMs with a VF", si(s.Load.PPS), bits(s.Load.Bytes), percent(s.Load.VFShare))
	put("Moves", "%d under way, %d %s", s.Moves.Active, s.Moves.Pending, pendingWord(s.Mode))
	put("", "since the start %d plugs (mean %s), %d unplugs (mean %s), %d failed, %d retries%s",
		s.Moves.Plugs, seconds(s.Moves.PlugMean), s.Moves.Unplugs, seconds(s.Moves.UnplugMean), s.Moves.Failed, s.Moves.Retries, repairs(s.Moves.Repairs))
	for i, m := range s.Recent {
		put(map[bool]string{true: "Last"}[i == 0], "%s", moveLine(m))
	}
	put("Health", "%s", healthText(s))
	if s.Error != "" {
		put("Error", "%s", s.Error)
	}
}

// repairs counts them where there were any.
func repairs(n uint64) string {
	if n == 0 {
		return ""
	}
	return ", " + plural(int(n), "repair") //nolint:gosec // a count of repairs
}

// pace is how often the policy decides.
func pace(s web.Status) string {
	if !s.Rounds {
		return "decides at every sample"
	}
	return "a round every " + time.Duration(s.Interval*float64(time.Second)).String()
}

// upText is the daemon's age, by the clock that stamps what it sees.
func upText(s web.Status) string {
	if s.Observed.IsZero() || s.Started.IsZero() {
		return "has not looked at the host yet"
	}
	return "up " + s.Observed.Sub(s.Started).Round(time.Second).String()
}

func modeText(m model.Mode, drain bool) string {
	switch {
	case drain:
		return "draining: all VFs are being given up (`sluice drain --undo` ends that)"
	case m == model.ModeObserve:
		return "observe mode: nothing is changed (`sluice plan` shows what would be)"
	}
	return string(m) + " mode: VFs are moved"
}

func pendingWord(m model.Mode) string {
	if m == model.ModeObserve {
		return "would be made"
	}
	return "waiting"
}

func pfText(pf web.PFStatus) string {
	s := fmt.Sprintf("%s (%s, network %s)", pf.Name, orDash(pf.Driver), orDash(pf.Network))
	if !pf.Managed {
		s += ", not in sluice.yaml"
	}
	if !pf.LinkUp {
		s += ", link down"
	}
	return s + fmt.Sprintf(": %s, %d held, %d free, %d of others", plural(pf.VFs.Total, "VF"), pf.VFs.Held, pf.VFs.Free, pf.VFs.Foreign)
}

func healthText(s web.Status) string {
	if s.Problems == 0 && s.Findings == 0 {
		return "no problems, nothing leaked"
	}
	return fmt.Sprintf("%s (`sluice doctor`), %s (`sluice fsck`)", plural(s.Problems, "problem"), plural(s.Findings, "finding"))
}

// moveLine is a finished move on one line.
func moveLine(m web.MoveReport) string {
	first := ""
	if len(m.Steps) > 0 {
		first, _, _ = strings.Cut(m.Steps[0], " ")
	}
	s := moveName(m.Ended, m.Kind, m.VM, m.VF, first)
	if m.Error != "" {
		return s + " failed: " + m.Error
	}
	return s + " in " + seconds(m.Ended.Sub(m.Started).Seconds())
}

// moveName says what was moved or, of a repair, what it did first. vf is "" for none.
func moveName(ended time.Time, kind model.MoveKind, vm, vf, first string) string {
	what := orDash(vf)
	if kind == model.MoveRepair && first != "" {
		what = strings.TrimRight(first+" "+vf, " ")
	}
	return fmt.Sprintf("%s %-6s %s %s", clock(ended), kind, orDash(printable(vm)), what)
}

func (a *app) vmsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "vms", Short: "list the VMs: path, load and verdict",
		Long: `Lists every VM with the path it uses, its load in both directions, who counted that
(tap: the host, pf: the PF's driver, agent: the guest; a question mark where nothing
supports what the guest says, a tilde where the host's counters leave room for it),
whether it should have a VF, and why in one word. The sentence behind the word is in
sluice explain.`,
		Example: "sluice vms\nsluice vms -o json | jq '.[] | select(.vf)'",
		Args:    noArgs,
	}
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		list, err := a.client().VMs(c.Context())
		if err != nil {
			return err
		}
		return show(a.std.Out, o, list, printVMs)
	}
	return c
}

func printVMs(w io.Writer, list []web.VM) {
	var rows [][]string
	for _, vm := range list {
		pps, rate := "?", "?"
		if vm.Known {
			pps, rate = si(vm.PPS), bits(vm.Bytes)
		}
		rows = append(rows, []string{
			vm.Name, string(vm.State), pathOf(vm), pps, rate, from(vm.Sources, vm.Proof),
			map[bool]string{true: "yes", false: "no"}[vm.Hold], reasonWord(vm),
		})
	}
	table(w, "VM STATE PATH PACKETS/S BITS/S COUNTED-BY SHOULD-HOLD REASON", rows)
}

// reasonWord is the code, with what is not to be seen from it.
func reasonWord(vm web.VM) string {
	s := string(vm.Code)
	if vm.SetByHand != "" && vm.Code == model.CodePinned {
		s += " (by hand)"
	}
	if vm.UnderWay != "" {
		s += ", " + string(vm.UnderWay) + " under way"
	}
	return s
}

func (a *app) vfsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "vfs", Short: "list the VFs: whose they are and who holds them",
		Long: `Lists every VF of every PF. Owner sluice: held by a VM, through Sluice. Free: in the
pool, held by nobody. Foreign: somebody else's, and left alone; the note says what
shows it. In guest: the guest's driver has the VF open.`,
		Example: "sluice vfs\nsluice vfs -o json | jq '.[] | select(.owner == \"free\")'",
		Args:    noArgs,
	}
	o := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		list, err := a.client().VFs(c.Context())
		if err != nil {
			return err
		}
		return show(a.std.Out, o, list, printVFs)
	}
	return c
}

func printVFs(w io.Writer, list []web.VF) {
	var rows [][]string
	for _, vf := range list {
		vlan := ""
		if vf.VLAN > 0 {
			vlan = strconv.Itoa(vf.VLAN)
		}
		rows = append(rows, []string{
			vf.Name, string(vf.Address), vf.Network, string(vf.Owner), vf.Holder, vf.MAC, vlan, vf.Driver, vf.InGuest.String(), vf.OwnerWhy,
		})
	}
	table(w, "VF PCI-ADDRESS NETWORK OWNER VM MAC VLAN DRIVER IN-GUEST NOTE", rows)
}

// offline are the flags of commands that can also look at the host themselves.
type offline struct {
	on     bool
	config string
}

func offlineFlags(c *cobra.Command) *offline {
	o := &offline{}
	c.Flags().BoolVar(&o.on, "offline", false, "look at this host without a daemon, as root, changing nothing")
	c.Flags().StringVar(&o.config, "config", DefaultConfig, "sluice.yaml to use with --offline, as a `file`")
	return o
}

// ask gets an answer from the daemon, or makes it from a look at the host.
func ask[T any](ctx context.Context, a *app, o *offline, online func(context.Context) (T, error), pick func(*web.Offline) T) (T, error) {
	if !o.on {
		v, err := online(ctx)
		if errors.Is(err, web.ErrUnreachable) && !errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w, or add --offline", err)
		}
		return v, err
	}
	var none T
	seen, err := lookOffline(ctx, o.config)
	if err != nil {
		return none, err
	}
	return pick(seen), nil
}

func (a *app) planCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "plan", Short: "what is under way and what would be done next",
		Long: `Lists the moves under way and those to come, each with the reason for it. In observe
mode the moves to come are what would be done; in enforce mode they wait for a free
hand. --steps shows every single change in its order.`,
		Example: "sluice plan\nsluice plan --steps\nsluice plan --offline --config ./sluice.yaml   # without a daemon",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	steps := c.Flags().Bool("steps", false, "show the steps of every move")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p, err := ask(c.Context(), a, off, a.client().Plan, func(o *web.Offline) web.Plan { return o.Plan })
		if err != nil {
			return err
		}
		return show(a.std.Out, o, p, func(w io.Writer, p web.Plan) { printPlan(w, p, *steps) })
	}
	return c
}

func printPlan(w io.Writer, p web.Plan, steps bool) {
	if p.Mode == model.ModeObserve {
		_, _ = fmt.Fprintln(w, "Observe mode: nothing of this is done.")
	}
	if len(p.Active)+len(p.Pending) == 0 {
		_, _ = fmt.Fprintln(w, "Nothing to do: every VM has what it should have.")
	}
	for _, m := range p.Active {
		_, _ = fmt.Fprintf(w, "now   %s\n", planLine(m))
		if len(m.Steps) > m.Step {
			_, _ = fmt.Fprintf(w, "      step %d of %d, try %d: %s\n", m.Step+1, len(m.Steps), max(1, m.Try), m.Steps[m.Step])
		}
		printSteps(w, m, steps)
	}
	for _, m := range p.Pending {
		_, _ = fmt.Fprintf(w, "next  %s\n", planLine(m))
		printSteps(w, m, steps)
	}
}

func planLine(m web.MoveReport) string {
	s := string(m.Kind)
	for _, word := range []string{printable(m.VM), m.VF} {
		if word != "" {
			s += " " + word
		}
	}
	if m.Undoing {
		s += " (being undone)"
	}
	if m.Why != "" {
		s += ": " + m.Why
	}
	return s
}

func printSteps(w io.Writer, m web.MoveReport, on bool) {
	if !on {
		return
	}
	for i, s := range m.Steps {
		_, _ = fmt.Fprintf(w, "      %2d. %s\n", i+1, s)
	}
}

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "what stands in the way, and what to do about it",
		Long: `Lists what keeps Sluice from doing its job: VMs that cannot fail over, guests without
agent, PFs without link, drivers that do not count, a daemon that cannot read the host;
each with its remedy. Ends with exit code 3 when there is something.`,
		Example: "sluice doctor\nsluice doctor --offline      # before the first start of the daemon",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, err := ask(c.Context(), a, off, a.client().Doctor, func(o *web.Offline) web.Doctor { return o.Doctor })
		if err == nil {
			err = show(a.std.Out, o, d, printDoctor)
		}
		if err == nil && len(d.Problems) > 0 {
			err = errFindings
		}
		return err
	}
	return c
}

func printDoctor(w io.Writer, d web.Doctor) {
	if len(d.Problems) == 0 {
		_, _ = fmt.Fprintln(w, "No problems found.")
	}
	for _, p := range d.Problems {
		_, _ = fmt.Fprintf(w, "%s: %s\n", subject(p.Subject), printable(p.Text))
		if p.Remedy != "" {
			_, _ = fmt.Fprintf(w, "    -> %s\n", printable(p.Remedy))
		}
	}
}

func subject(s string) string {
	if s == "" {
		return "this host"
	}
	return printable(s)
}

func (a *app) fsckCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "fsck", Short: "find leaked or wrongly set VFs; --repair mends them",
		Long: `Looks for VFs that carry what no VM needs: a stale MAC, VLAN, rate or trust, the wrong
driver, one MAC on two VFs, a VF bound to vfio-pci without a domain, stale filters. What
is Sluice's to mend shows the steps that mend it; what others own is listed and left
alone. Ends with exit code 3 when there is something and --repair was not given.`,
		Example: "sluice fsck\nsluice fsck --repair\nsluice fsck --offline",
		Args:    noArgs,
	}
	o, off := outputFlag(c), offlineFlags(c)
	repair := c.Flags().Bool("repair", false, "mend what is Sluice's to mend (root)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *repair && off.on {
			return usage(c, fmt.Errorf("--repair needs the daemon, and --offline goes without it"))
		}
		if *repair {
			return a.do(c.Context(), o, web.VerbRepair, "")
		}
		f, err := ask(c.Context(), a, off, a.client().Fsck, func(o *web.Offline) web.Fsck { return o.Fsck })
		if err == nil {
			err = show(a.std.Out, o, f, printFsck)
		}
		if err == nil && len(f.Findings) > 0 {
			err = errFindings
		}
		return err
	}
	return c
}

func printFsck(w io.Writer, f web.Fsck) {
	if len(f.Findings) == 0 {
		_, _ = fmt.Fprintln(w, "Nothing leaked, nothing set wrongly.")
	}
	for _, one := range f.Findings {
		_, _ = fmt.Fprintf(w, "%s: %s [%s]\n", printable(one.Subject), printable(one.Text), one.Code)
		if len(one.Repair) == 0 {
			_, _ = fmt.Fprintln(w, "    left alone: not Sluice's to mend")
			continue
		}
		_, _ = fmt.Fprintf(w, "    -> sluice fsck --repair: %s\n", strings.Join(one.Repair, ", "))
	}
}
