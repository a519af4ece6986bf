package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/model"
)

func (a *app) qualifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "qualify PF", Short: "measure what a PF and its driver really do, on unused VFs (root)",
		Long: `Takes up to two unused VFs of PF from Sluice's pool and finds out which of its driver's
claims are true: whether max_tx_rate is kept, what VF counters count, how many filters the
PF accepts, which frames pass between VFs, PF and bridge, and how long drivers take. Before
every step it checks that the VFs are still unused, and it restores everything, also after
an error or Ctrl-C. Meanwhile a running daemon assigns these VFs to nobody; it need not be
stopped. The PF sends 50 test frames of each kind to the wire, and for six seconds, or twelve
where packets/s are tried too, as much as one VF can send.

With --vm, a VM that nobody needs for some minutes, it also measures what a move costs and
what virtio and the VF carry: the daemon, which must be in enforce mode and have a free VF,
moves the VM to a VF and back twice, and the host exchanges ICMP echoes with it.

With --peer, the address of a host that runs "sluice qualify --receive", it also measures
what the link carries, with the VLAN tag that the route to that address has, if any: for
up to 16 seconds it sends there by TCP as much as gets through. VMs on the PF feel that,
and what they send is missing from the figure, so measure while they are at rest. Use a
peer whose own link is at least as fast; with several, the lowest figure counts.

With --save the report is stored where the daemon reads it at its next reload or start,
and the daemon then uses what was measured. docs/qualify.md explains each claim.`,
		Example: `sluice qualify enp65s0f0
sluice qualify enp65s0f0 --vm scratch
sluice qualify --receive 192.0.2.7        # on another host
sluice qualify enp65s0f0 --peer 192.0.2.7
sluice qualify enp65s0f0 --save && sluice reload
sluice qualify --restore`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completePF,
	}
	o := outputFlag(c)
	config := c.Flags().String("config", DefaultConfig, "sluice.yaml to use, as a `file`")
	save := c.Flags().Bool("save", false, "store the report for the daemon")
	vm := c.Flags().String("vm", "", "also have the daemon move this `VM`, and measure both of its paths")
	_ = c.RegisterFlagCompletionFunc("vm", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeVM(c, nil, word)
	})
	address := c.Flags().String("address", "", "the VM's IPv4 `address`; default: from the host's ARP table")
	peers := c.Flags().StringArray("peer", nil, "also measure what the link carries to this `address`, with or without port; repeatable")
	receive := c.Flags().String("receive", "", "be the peer: receive and discard what comes to this `address` of this host, until interrupted")
	_ = c.RegisterFlagCompletionFunc("peer", cobra.NoFileCompletions)
	_ = c.RegisterFlagCompletionFunc("receive", cobra.NoFileCompletions)
	restore := c.Flags().Bool("restore", false, "restore what a killed qualify left behind")
	c.RunE = func(c *cobra.Command, args []string) error {
		sluiced := []string{"--config", *config}
		switch {
		case *restore && len(args)+c.Flags().NFlag() > 1+changed(c, "config")+changed(c, "socket"):
			return usage(c, errors.New("--restore takes no PF and no other option"))
		case *restore:
			out, err := a.runSluiced(c.Context(), append(sluiced, "--qualify-restore"))
			_, _ = a.std.Out.Write(out)
			return err
		case *receive != "" && len(args)+c.Flags().NFlag() > 1:
			return usage(c, errors.New("--receive takes no PF and no other option"))
		case *receive != "":
			return a.receive(c.Context(), *receive)
		case len(args) != 1 || args[0] == "":
			return usage(c, errors.New("qualify needs the name of one PF, such as enp65s0f0"))
		}
		sluiced = append(sluiced, "--qualify", args[0])
		if *vm != "" {
			sluiced = append(sluiced, "--vm", *vm, "--address", *address)
		}
		for _, peer := range *peers {
			sluiced = append(sluiced, "--peer", peer)
		}
		if *save {
			sluiced = append(sluiced, "--save")
		}
		if c.Flags().Changed("socket") {
			sluiced = append(sluiced, "--socket", a.socket)
		}
		out, err := a.runSluiced(c.Context(), sluiced)
		if err != nil {
			return err
		}
		q := api.Qualification{}
		if err := json.Unmarshal(out, &q); err != nil || q.PF == "" {
			return fmt.Errorf("sluiced --qualify printed something that is not a report (%w); install sluice and sluiced of the same version", err)
		}
		if err := show(a.std.Out, o, q, printQualification); err != nil {
			return err
		}
		if len(q.Left) > 0 {
			return errPrinted
		}
		return nil
	}
	return c
}

// changed returns 1 if the flag is on the command line, else 0.
func changed(c *cobra.Command, name string) int {
	if c.Flags().Changed(name) {
		return 1
	}
	return 0
}

// runSluiced runs sluiced and returns its output; its messages are printed at once. An interrupt is forwarded: sluiced
// restores everything and exits.
func (a *app) runSluiced(ctx context.Context, args []string) ([]byte, error) {
	path, err := findDaemon()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // as found
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = restoreWithin
	// Only sluice gets the terminal's Ctrl-C, and forwards one signal: a second one would kill sluiced before it has
	// restored everything.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	said := &renamed{to: a.std.Err}
	cmd.Stdout, cmd.Stderr = &out, said
	err = cmd.Run()
	said.flush()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &exit):
		return nil, errPrinted // by sluiced
	}
	return out.Bytes(), err
}

// renamed forwards complete lines at once, with sluiced's prefix replaced by that of this command.
type renamed struct {
	to   io.Writer
	line []byte // the incomplete line
}

// Write implements io.Writer.
func (w *renamed) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	for end := bytes.IndexByte(w.line, '\n'); end >= 0; end = bytes.IndexByte(w.line, '\n') {
		w.pass(w.line[:end+1])
		w.line = w.line[end+1:]
	}
	return len(p), nil
}

// flush forwards an incomplete last line.
func (w *renamed) flush() { w.pass(w.line) }

func (w *renamed) pass(line []byte) {
	if text, ok := bytes.CutPrefix(line, []byte("sluiced: ")); ok {
		_, _ = io.WriteString(w.to, "sluice: ")
		line = text
	}
	_, _ = w.to.Write(line)
}

// restoreWithin is longer than sluiced needs to restore everything.
const restoreWithin = 3 * time.Minute

func printQualification(w io.Writer, q api.Qualification) {
	h := &q.Hardware
	fmt.Fprintf(w, "PF %s, %s: %s\n", q.PF, h.Address, h.Device)
	fmt.Fprintf(w, "driver %s %s, firmware %s, kernel %s, %d VFs; by %s of sluice %s\n",
		printable(h.Driver), printable(h.Version), printable(orDash(h.Firmware)), printable(h.Kernel), h.NumVFs, strings.Join(q.VFs, " and "),
		q.Version)
	for _, n := range q.Notes {
		fmt.Fprintln(w, "note: "+printable(n))
	}
	fmt.Fprintln(w)
	for i := range q.Claims {
		c := &q.Claims[i]
		fmt.Fprintf(w, "%-8s %s\n", c.Measured, printable(c.Text))
		fmt.Fprintf(w, "         %s\n", printable(c.Evidence))
		if c.Expected != "" && c.Expected != c.Measured && c.Measured != "unknown" {
			fmt.Fprintf(w, "         (!) Sluice assumed: %s\n", printable(c.Expected))
		}
	}
	printCapacity(w, q.Capacity)
	printTimes(w, q.Times)
	printMoves(w, &q)
	for _, f := range q.Failed {
		fmt.Fprintln(w, "not measured: "+printable(f))
	}
	for _, l := range q.Left {
		fmt.Fprintln(w, "NOT RESTORED: "+printable(l))
	}
	if len(q.Left) == 0 {
		fmt.Fprintf(w, "Everything has been restored. It took %s.\n", precise(q.Took))
	}
}

// printCapacity prints what the link carries to each peer.
func printCapacity(w io.Writer, list []api.LinkCapacity) {
	for i := range list {
		c := &list[i]
		tags := "untagged"
		if c.VLAN != 0 {
			tags = fmt.Sprintf("with VLAN %d", c.VLAN)
		}
		least := map[bool]string{true: "", false: "at least "}[c.Measured == "yes"]
		fmt.Fprintf(w, "%-8s the link carries %s%s, %s, to %s\n", c.Measured, least, model.Bits(c.Bits), tags, printable(c.Peer))
		fmt.Fprintf(w, "         %s\n", printable(c.Evidence))
	}
}

// timingText describes the timings.
var timingText = map[string]string{
	api.TimeUnbind: "VF from the host's driver to vfio-pci", api.TimeBind: "VF to the host's driver, until it has an interface",
	api.TimeLink: "interface up, until it has carrier", api.TimeAttach: "hot-plug into the VM",
	api.TimeGuest:  "until the guest's driver has opened the VF",
	api.TimeDetach: "hot-unplug, until the VM has released it", api.TimePlug: "the whole move to a VF",
	api.TimeUnplug: "the whole move to virtio",
}

func printTimes(w io.Writer, times []api.Timing) {
	if len(times) == 0 {
		return
	}
	var rows [][]string
	for _, t := range times {
		rows = append(rows, []string{precise(t.Median), precise(t.Worst), fmt.Sprint(t.Count), cmp.Or(timingText[t.Name], t.Name)})
	}
	fmt.Fprintln(w)
	table(w, "MEDIAN WORST TIMES WHAT", rows)
	fmt.Fprintln(w)
}

// printMoves prints what was measured with a VM.
func printMoves(w io.Writer, q *api.Qualification) {
	if m := q.Moves; m != nil {
		fmt.Fprintf(w, "%d moves of %s lost %d round trips at %.0f per second: "+
			"%s of its traffic in the mean move, %s in the worst (lost_s)\n\n", m.Moves, printable(q.Scratch), m.Lost, m.Rate,
			precise(m.LostMean), precise(m.LostMost))
	}
	var rows [][]string
	for i := range q.Paths {
		p := &q.Paths[i]
		rows = append(rows, []string{
			fmt.Sprint(p.Size), precise(p.Virtio.Median), precise(p.VF.Median), fmt.Sprintf("%.0f%%", p.Boost), precise(p.Virtio.P99),
			precise(p.VF.P99),
			fmt.Sprintf("%.0f", p.Virtio.Packets), fmt.Sprintf("%.0f", p.VF.Packets), cpuText(p.Virtio.HostCPU), cpuText(p.VF.HostCPU),
		})
	}
	if len(rows) > 0 {
		fmt.Fprintln(w, "Round trips by packet size: medians, FlexVF's boost, 99th percentiles, packets/s with 16 in flight "+
			"and the host's CPU time for each")
		table(w, "BYTES VIRTIO VF BOOST VIRTIO-P99 VF-P99 VIRTIO-PPS VF-PPS VIRTIO-CPU VF-CPU", rows)
		fmt.Fprintln(w)
	}
	printBoosts(w, q)
	if c := q.HostCPU; c != nil {
		fmt.Fprintf(w, "compared with the VF, virtio costs the host %s more CPU time per packet and %s more per 1,000 bytes "+
			"(worth.packet_cpu, worth.kilobyte_cpu)\n\n",
			precise(c.Packet), precise(c.Kilobyte))
	}
}

// printBoosts prints FlexVF's figure 5, a row for each payload and a column for each background rate.
func printBoosts(w io.Writer, q *api.Qualification) {
	if len(q.Boosts) == 0 {
		return
	}
	head, full := "BYTES", false
	var rates []float64
	var rows [][]string
	for i := range q.Boosts {
		if b := &q.Boosts[i]; !slices.Contains(rates, b.Background) {
			rates = append(rates, b.Background)
		}
	}
	slices.Sort(rates)
	for _, r := range rates {
		head += fmt.Sprintf(" %.0f", r)
	}
	for i := range q.Boosts {
		b := &q.Boosts[i]
		if i == 0 || q.Boosts[i-1].Payload != b.Payload {
			rows = append(rows, append([]string{fmt.Sprint(b.Payload)}, slices.Repeat([]string{"-"}, len(rates))...))
		}
		cell := fmt.Sprintf("%.0f%%", b.Boost)
		if b.Full {
			cell, full = cell+"*", true
		}
		rows[len(rows)-1][1+slices.Index(rates, b.Background)] = cell
	}
	fmt.Fprintln(w, "Boost by payload and by how many other packets/s the VM handles meanwhile (FlexVF's figure 5)")
	table(w, head, rows)
	if full {
		fmt.Fprintln(w, "* a path carried less than that")
	}
	if l := q.Boost; l != nil {
		more, slope := "more", l.PerKpps
		if slope < 0 {
			more, slope = "less", -slope
		}
		fmt.Fprintf(w, "a line through it: a VF saves %.2f%% of the time at rest, and %.2f%% %s for each 1,000 packets/s", l.AtRest, slope, more)
		if model, ok := latencyModel(l); ok {
			fmt.Fprintf(w, "\nas the simulator's model (a scenario's key): %s", model)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// latencyModel returns the line as the latency of a scenario; ok is false if that cannot express it: the VF is slower, or gains less at
// higher rates.
func latencyModel(l *api.BoostLine) (text string, ok bool) {
	ok = l.AtRest >= 0 && l.PerKpps >= 0 && l.PerKpps <= 10 && l.VF > 0
	return fmt.Sprintf("latency: {vf: %s, boost: %.3g, per_kpps: %.2g, most: %.3g}",
		precise(l.VF), min(l.AtRest, 99), l.PerKpps, min(l.Most, 99)), ok
}

func cpuText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return precise(*seconds)
}

// precise formats a time with about three digits: the precision that `seconds` omits matters here.
func precise(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d >= 10*time.Microsecond:
		return d.Round(time.Microsecond / 10).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}
