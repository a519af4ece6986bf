package browsertest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/internal/model"
)

// The page begins with a verdict: what is wrong now, the worst first, with who causes it and what helps; or that nothing is.
func TestVerdict(t *testing.T) {
	t.Parallel()
	calm := func(v *model.View) {
		s := v.Snapshot
		s.Problems, v.Findings, v.Errors, v.Totals.FailedHour, v.Bandwidth.Problems = nil, nil, nil, 0, nil
		for i := range s.PFs {
			s.PFs[i].LinkUp = true
		}
		v.Bandwidth.Links = slices.DeleteFunc(v.Bandwidth.Links, func(l model.LinkState) bool { return l.Over })
		for i := range v.Bandwidth.Links {
			v.Bandwidth.Links[i].Shortage = nil
		}
		for i := range v.Bandwidth.NICs {
			v.Bandwidth.NICs[i].Short, v.Bandwidth.NICs[i].Takes = 0, 0
		}
		v.Target.Reasons = slices.DeleteFunc(v.Target.Reasons, func(r model.Reason) bool { return r.Code == model.CodeBackoff })
	}
	down := func(v *model.View) {
		calm(v)
		v.Snapshot.FindPF("pf2").LinkUp = false
	}
	h := newHost(t, 40, "127.0.0.1:0")
	b := browser(t)
	for name, c := range map[string]struct {
		make func(*model.View)
		want []string // in this order
		not  string
	}{
		"short": {func(*model.View) {}, []string{
			"4 things are wrong now", "A guarantee is short on pf2", shown(hostile[1]) + " takes 7Gbit/s", "detach that VF",
			"A guarantee is short on pf0", "More is guaranteed on pf1", "1 move failed in the last hour", "each with its remedy",
		}, "All is well"},
		"calm":      {calm, []string{"All is well", "VFs held", "4 guarantees, none of them short"}, "▲"},
		"link-down": {down, []string{"1 thing is wrong now", "The link of pf2 is down", "check the cable"}, "short"},
		"error": {func(v *model.View) {
			calm(v)
			v.Errors = []string{"the host cannot be observed: no answer from libvirt"}
		}, []string{"1 thing is wrong now", "Sluice cannot work as it should", "no answer from libvirt"}, "All is well"},
		"no-uplink": {func(v *model.View) {
			calm(v)
			v.Snapshot.FindPF("pf2").Uplink = model.Uplink{Why: "it is in no bridge", Remedy: "put it into one"}
		}, []string{"1 thing is wrong now", "No VM can use the VFs of pf2", "it is in no bridge", "put it into one"}, "All is well"},
		"observe": {func(v *model.View) { calm(v); v.Mode = model.ModeObserve }, []string{
			"All is well", "Sluice only observes: it changes nothing", "In enforce mode it would make 1 move now: this one",
		}, "▲"},
		"drain": {func(v *model.View) {
			calm(v)
			v.Rules.Drain = true
			v.Overrides = append(v.Overrides, model.Override{Kind: model.OverrideDrain, By: "alice", Reason: "new firmware"})
		}, []string{"All VFs are being taken back by alice: new firmware", "sluice drain --undo"}, "▲"},
	} {
		v := h.view()
		c.make(v)
		h.show(v)
		for _, l := range looks {
			if l != looks[0] && (l != looks[3] || name != "short") && os.Getenv("SLUICE_SCREENSHOTS") == "" {
				continue
			}
			p := open(t, b, h.url, l)
			p.until(fmt.Sprintf(`document.getElementById('now').textContent.includes(%q)`, c.want[0]))
			got := eval[string](p, `document.getElementById('now').textContent`)
			rest := got
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("%s: %q is missing, or too late, in %q", name, want, got)
				}
				rest = after
			}
			if text := eval[string](p, `document.getElementById('vms')?.innerText ?? ''`); strings.Contains(text, "no VMs") {
				t.Errorf("%s, %s: the list of VMs, which is out of sight, says that there are none", name, l)
			}
			if strings.Contains(got, c.not) {
				t.Errorf("%s: %q is in %q", name, c.not, got)
			}
			if eval[float64](p, `document.getElementById('now').getBoundingClientRect().bottom`) > float64(l.height) {
				t.Errorf("%s, %s: the verdict does not fit on the screen", name, l)
			}
			p.sound()
			p.shoot("verdict-" + name + "-" + l.String())
			p.close()
		}
	}
}
