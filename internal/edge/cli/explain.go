package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/model"
)

func (a *app) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "explain VM", Short: "why a VM has a VF, or has none",
		Long: `Says in one sentence why the VM holds a VF or does not, and then gives the details: the
load of its paths, where the figures come from and how reliable they are, the figures by which
the policy decided and what each means, the worth of a packet if it is not 1, what the policy
learned of its bursts, what its NICs are guaranteed and allowed, what forbids moving it, the
last move and its error, what happened to it lately and by which cause, and what would change
the decision.`,
		Example: "sluice explain web-1\nsluice explain 6ba7b810-9dad-11d1-80b4-00c04fd430c8 -o json",
		Args:    oneVM, ValidArgsFunction: a.completeVM,
	}
	return printing(a, c, func(ctx context.Context, args []string) (api.Explanation, error) {
		return a.client().Explain(ctx, args[0])
	}, printExplanation)
}

func printExplanation(w io.Writer, e api.Explanation) {
	fmt.Fprintf(w, "%s.\n", printable(e.Sentence))
	put := func(name, text string) { fmt.Fprintf(w, "  %-13s %s\n", name, printable(text)) }
	put("state", e.VM.State+", "+e.VM.ID)
	if e.VM.Class != "" {
		put("class", e.VM.Class)
	}
	for _, p := range e.Paths {
		put("NIC", nicText(p))
		put("  virtio", trafficText(p.Virtio))
		if p.VF != "" {
			put("  VF "+p.VF, trafficText(p.VFPath))
		}
		if p.Why != "" {
			put("  why", p.Why)
		}
		if p.Learned != "" {
			put("  learned", p.Learned)
		}
	}
	for _, n := range grouped(e.Shares, e.VirtualPFs) {
		put("bandwidth", n.title()+": "+n.Why)
		for _, text := range shareLines(n.NICShare) {
			put("", text)
		}
	}
	for i := range e.Links {
		put("link", linkText(e.Links[i]))
	}
	if e.Override != nil {
		put("override", string(e.Override.Kind)+overrideText(e.Override))
	}
	for i, f := range e.Figures {
		put(map[bool]string{true: "figures"}[i == 0], fmt.Sprintf("%-32s %s", f.Name+" "+f.Value, f.Means))
	}
	if e.Worth != "" {
		put("worth", e.Worth)
	}
	if e.Learned != "" {
		put("learned", e.Learned)
	}
	if e.Veto != "" {
		put("veto", e.Veto)
	}
	if e.UnderWay != nil {
		put("under way", underWay(e.UnderWay))
	}
	if e.LastMove != nil {
		put("last move", moveLine(*e.LastMove))
	}
	for i := range e.Events {
		put(map[bool]string{true: "events"}[i == 0], eventLine(&e.Events[i], ""))
	}
	for i, c := range e.Changes {
		put(map[bool]string{true: "would change"}[i == 0], c)
	}
}

func nicText(p api.Path) string {
	fallback := "no failover"
	switch {
	case p.VirtualPF != "" && p.Function == 0:
		fallback = "virtual PF " + p.VirtualPF + " itself"
	case p.VirtualPF != "":
		fallback = fmt.Sprintf("VF %d of virtual PF %s", p.Function-1, p.VirtualPF)
	case p.Failover != "":
		fallback = "failover by " + p.Failover
	}
	return fmt.Sprintf("%s, %s, tap %s in %s, %s", p.NIC, p.MAC, orDash(p.Tap), orDash(p.Network), fallback)
}

// trafficText formats a path's load with its source.
func trafficText(t api.Traffic) string {
	note := ""
	if t.Note != "" {
		note = ": " + t.Note
	}
	if t.Waiting > 0 {
		note += fmt.Sprintf("; the guest reports %sB waiting to be sent", model.SI(float64(t.Waiting)))
	}
	if !t.Known {
		return "load unknown" + note
	}
	return fmt.Sprintf("receives %s packets/s (%s/s), sends %s packets/s (%s/s); counted by %s (%s)%s",
		model.SI(t.RxPPS), model.Bits(8*t.RxBytes), model.SI(t.TxPPS), model.Bits(8*t.TxBytes), orDash(t.Source), proofText(t.Proof), note)
}

// proofText says how reliable a load is.
func proofText(p string) string {
	switch p {
	case string(model.ProofHardware):
		return "by the NIC"
	case string(model.ProofKernel):
		return "by the host"
	case string(model.ProofCorroborated):
		return "as the guest reports; consistent with the host's counters"
	}
	return "as the guest reports; the host cannot check it"
}

func underWay(m *api.MoveReport) string {
	s := fmt.Sprintf("%s %s since %s", m.Kind, m.VF, clock(m.Started))
	if step := stepUnderWay(m); step != "" {
		s += ", " + step
	}
	return s
}
