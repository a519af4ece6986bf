package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/model"
)

func (a *app) bwCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "bw [VM]", Short: "bandwidth of each NIC: guarantee, limit, current allowance and use, with reasons",
		Long: `Lists the links and then every NIC of the running VMs, with

    GUARANTEE  the rate it is promised
    LIMIT      the rate that it may never exceed
    ALLOWED    the rate it may send at now; all: it is not limited
    SENDS      the rate it sends at now; ?: it cannot be measured
    SHORT      by how much, and for how long, it has been below its guarantee although it
               has more to send; below the table is who has that instead, and what helps
    HELD-BY    what enforces the limit: max_tx_rate or guest-htb on a VF, htb or police on
               virtio; a ! follows one that does not work
    REASON     why this rate is allowed; docs/sla.md explains each reason

A virtual PF has a line for all of its functions together, vpf0, and below it one for each
function with its part of the total: vpf0/pf, vpf0/vf0 and so on.

Rates are in bits per second on the wire, and also in packets per second (pps) where the
SLA has a packet rate. With a VM, only its NICs are shown, with the reason as a sentence
and every limit. In observe mode nothing is limited: ALLOWED is the rate that would be
allowed, and SHORT also says how much would be missing in enforce mode.`,
		Example: `sluice bw
sluice bw db-1
sluice bw --watch --sort sends
sluice bw -o json | jq '.nics[] | select(.short_bits_per_second > 0)'`,
		Args: atMostOneVM, ValidArgsFunction: a.completeVM,
	}
	return listing(a, c, lister[api.Bandwidth]{
		columns: bandwidthColumns, get: a.bandwidth, grid: bandwidthGrid,
		keep: func(b *api.Bandwidth, rows []int) {
			nics, virtual := []api.NICShare{}, []api.NICShare{}
			for _, s := range pickRows(grouped(b.NICs, b.VirtualPFs), rows) {
				if s.whole {
					virtual = append(virtual, *s.NICShare)
				} else {
					nics = append(nics, *s.NICShare)
				}
			}
			b.NICs, b.VirtualPFs = nics, virtual
		},
		text: func(w io.Writer, b api.Bandwidth, table func()) {
			if c.Flags().NArg() > 0 {
				printShares(w, b)
				return
			}
			printBandwidth(w, b, table)
		},
	})
}

// atMostOneVM accepts one VM or none.
func atMostOneVM(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneVM(c, args)
}

// bandwidth returns the whole answer or only the NICs of one VM.
func (a *app) bandwidth(ctx context.Context, args []string) (api.Bandwidth, error) {
	b, err := a.client().Bandwidth(ctx)
	if err != nil || len(args) == 0 {
		return b, err
	}
	e, err := a.client().Explain(ctx, args[0]) // resolves names and UUIDs, and suggests similar names
	if err != nil {
		return b, err
	}
	if b.NICs, b.VirtualPFs = e.Shares, e.VirtualPFs; len(b.NICs) == 0 {
		return b, &api.Error{
			Text:   fmt.Sprintf("the traffic of %s is not measured", e.VM.Name),
			Remedy: "the VM must be running and have been observed for one period; see `sluice explain " + e.VM.Name + "`",
		}
	}
	return b, nil
}

// ended returns nil if the user has interrupted the command.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bandwidthColumns are the columns of `sluice bw`.
var bandwidthColumns = []string{
	"VM", "NIC", "PATH", "LINK", "GUARANTEE", "LIMIT", "ALLOWED", "SENDS", "SHORT", "HELD-BY", "REASON",
}

func bandwidthGrid(b api.Bandwidth) grid {
	g := grid{head: bandwidthColumns, drop: []string{"HELD-BY", "PATH", "LIMIT", "NIC", "REASON"}}
	for _, n := range grouped(b.NICs, b.VirtualPFs) {
		g.rows = append(g.rows, []string{
			n.VM, n.name(), n.Path, orDash(n.PF), rateText(n.Guarantee), rateText(n.Limit), cmp.Or(rateText(n.Allowed), "all"), sentText(n.NICShare),
			shortText(n.NICShare), holders(n.NICShare), n.Code,
		})
	}
	return g
}

func printBandwidth(w io.Writer, b api.Bandwidth, table func()) {
	if b.Observed.IsZero() {
		fmt.Fprintln(w, "No counters have been read yet, or `bandwidth: {enabled: false}` is set.")
		return
	}
	fmt.Fprintf(w, "Allocator %s, every %s%s\n", b.Allocator, seconds(b.Period),
		map[bool]string{true: "; observe mode: nothing is limited, ALLOWED is what would be"}[b.Mode == api.ModeObserve])
	for _, l := range b.Links {
		fmt.Fprintf(w, "%s\n", linkText(l))
	}
	fmt.Fprintln(w)
	table()
	printProblems(w, append(newShortages(b), b.Problems...))
}

// newShortages returns the shortages that are too short to be among the problems.
func newShortages(b api.Bandwidth) (list []api.Problem) {
	for i := range b.Links {
		l := &b.Links[i]
		same := func(p api.Problem) bool { return p.Subject == l.PF && p.Text == l.Shortage.Text }
		if l.Shortage != nil && !slices.ContainsFunc(b.Problems, same) {
			list = append(list, api.Problem{Subject: l.PF, Text: l.Shortage.Text, Remedy: l.Shortage.Remedy})
		}
	}
	return list
}

// printShares prints all details about the NICs of one VM.
func printShares(w io.Writer, b api.Bandwidth) {
	for _, n := range grouped(b.NICs, b.VirtualPFs) {
		fmt.Fprintf(w, "%s %s on %s: %s.\n", printable(n.VM), printable(n.title()), n.Path, printable(n.Why))
		for _, text := range shareLines(n.NICShare) {
			fmt.Fprintf(w, "  %s\n", printable(text))
		}
	}
	for _, l := range b.Links {
		if len(b.NICs) > 0 && l.PF == b.NICs[0].PF {
			fmt.Fprintf(w, "%s\n", linkText(l))
		}
	}
}

// shareLines returns the values of a NIC, each with its name.
func shareLines(n *api.NICShare) []string {
	put := func(name, text string) string { return fmt.Sprintf("%-11s %s", name, text) }
	list := []string{put("guarantee", cmp.Or(rateText(n.Guarantee), "none")), put("limit", cmp.Or(rateText(n.Limit), "none"))}
	if n.Source != "" {
		list = append(list, put("set by", n.Source))
	}
	list = append(list, put("allowed", cmp.Or(rateText(n.Allowed), "not limited")), put("sends", sentText(n)))
	if n.Promised != n.Guarantee {
		list = append(list, put("promised", cmp.Or(rateText(n.Promised), "nothing")+" of its guarantee: the guarantees exceed the capacity"))
	}
	if n.Receive != (api.Rate{}) {
		list = append(list, put("receives", fmt.Sprintf("%s, at most %s", model.Bits(n.Received.Bits), rateText(n.Receive))))
	}
	if n.Dropped != (api.Dropped{}) {
		list = append(list, put("dropped", fmt.Sprintf("%d packets from the VM and %d packets to it, above a limit", n.Dropped.Tx,
			n.Dropped.Rx)))
	}
	if n.Short > 0 {
		list = append(list, put("short", shortText(n)))
	}
	if n.Takes > 0 {
		list = append(list, put("takes", model.Bits(n.Takes)+" more than it is promised"))
	}
	for _, e := range n.Enforced {
		list = append(list, put("held by", enforcedText(e)))
	}
	if n.Remedy != "" {
		list = append(list, put("remedy", n.Remedy))
	}
	return list
}

// directionText returns the direction of a limit in words, as seen by the guest.
func directionText(d string) string {
	return map[string]string{"tx": "sending", "rx": "receiving"}[d]
}

func enforcedText(e api.EnforcedLimit) string {
	rate, contract := rateText(e.Rate), rateText(e.Contract)
	s := fmt.Sprintf("%s on %s, %s: %s", e.By, e.Path, directionText(e.Direction), cmp.Or(rate, contract, "no limit"))
	switch {
	case contract == "" || contract == rate:
	case rate == "":
		s += ", also while the daemon is stopped"
	default:
		s += fmt.Sprintf("; %s while the daemon is stopped", contract)
	}
	if e.Error != "" {
		s += "; does not work: " + e.Error
	}
	return s
}

func linkText(l api.Link) string {
	s := fmt.Sprintf("%s: sends %s of %s, %s guaranteed", printable(l.PF), model.Bits(l.Sent), model.Bits(l.Carries.Bits),
		cmp.Or(rateText(l.Guaranteed), "nothing"))
	if l.Carries.Why != "" {
		s += "; capacity " + printable(l.Carries.Why)
	}
	if l.Overcommitted {
		s += "; the guarantees exceed the capacity"
	}
	return s
}

// holders lists what enforces the NIC's limits on the path that it uses; ! marks limits that failed.
func holders(n *api.NICShare) string {
	var list []string
	for _, e := range n.Enforced {
		if e.Path != n.Path {
			continue
		}
		text := e.By
		if e.Error != "" {
			text += "!"
		}
		if len(list) == 0 || list[len(list)-1] != text {
			list = append(list, text)
		}
	}
	return strings.Join(list, "+")
}

func sentText(n *api.NICShare) string {
	if n.SentProof == string(model.ProofNone) {
		return "?"
	}
	if n.Guarantee.Packets+n.Limit.Packets+n.Allowed.Packets > 0 {
		return model.Bits(n.Sent.Bits) + " " + model.PPS(n.Sent.Packets)
	}
	return model.Bits(n.Sent.Bits)
}

func shortText(n *api.NICShare) string {
	if n.Short == 0 {
		return ""
	}
	text := model.Bits(n.Short) + " for " + seconds(n.ShortFor)
	if n.WouldSend > 0 {
		text += fmt.Sprintf(" (%s in enforce mode)", model.Bits(max(0, n.Sent.Bits+n.Short-n.WouldSend)))
	}
	return text
}

// rateText formats a rate as in sluice.yaml, but rounded; "" for none.
func rateText(r api.Rate) string {
	var list []string
	if r.Bits > 0 {
		list = append(list, model.Bits(r.Bits))
	}
	if r.Packets > 0 {
		list = append(list, model.PPS(r.Packets))
	}
	return strings.Join(list, " ")
}

// bandwidthText returns the bandwidth line of `sluice status`, "" if there is nothing to report.
func bandwidthText(c api.ShareCounts, mode string) string {
	if c == (api.ShareCounts{}) {
		return ""
	}
	short := fmt.Sprintf("%d of them short", c.Short)
	if c.Taker != "" {
		short += " (" + printable(c.Taker) + " takes most)"
	}
	limited := "limited now"
	if mode == api.ModeObserve {
		limited = "that would be limited"
	}
	s := fmt.Sprintf("%s with a guarantee, %s, %d %s (`sluice bw`)", model.Plural(c.Guaranteed, "NIC"), short, c.Limited, limited)
	if c.Links > 0 {
		s += ", " + model.Plural(c.Links, "link") + " overcommitted"
	}
	return s
}
