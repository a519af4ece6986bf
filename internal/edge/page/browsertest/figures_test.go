package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// show publishes a View as the state of the host a second later.
func (h *host) show(v *model.View) {
	h.pass(time.Second)
	v.Snapshot.Time, v.Revision = h.now(), uint64(h.now().Unix())
	h.past.Add(v)
	h.back.Show(v)
}

// No figure is of something that is over: what a link carried before it went down, VFs that nobody can get, failures of yesterday,
// loads of hours ago; and every problem that is counted is named.
func TestFiguresOfWhatIsOver(t *testing.T) {
	t.Parallel()
	h := newHost(t, 100, "127.0.0.1:0")
	h.asked = 4 * time.Hour
	p := open(t, browser(t), h.url, looks[0])
	p.until(`document.querySelector('.chart .u-legend')?.textContent.includes('now')`)
	p.until(`[...document.querySelectorAll('.u-series')].some(e => e.textContent.startsWith('pf2') && e.textContent.includes('Gbit/s'))`)
	v := h.view()
	v.Snapshot.FindPF("pf2").LinkUp = false
	h.show(v)
	p.until(`[...document.querySelectorAll('.u-series')].find(e => e.textContent.startsWith('pf2'))?.textContent.includes('–')`)
	for range 25 { // two steps of the history
		v := h.view()
		pf := v.Snapshot.FindPF("pf2")
		pf.LinkUp = false
		for i := range pf.VFs {
			pf.VFs[i].Owner, pf.VFs[i].Holder = model.OwnerFree, ""
		}
		v.Bandwidth.Links = slices.DeleteFunc(v.Bandwidth.Links, func(l model.LinkState) bool { return l.PF == "pf2" }) // no NIC is left
		v.Totals.Failed, v.Totals.FailedHour, v.Errors = 250, 0, []string{"libvirt does not answer"}
		same := v.Snapshot.Problems[len(v.Snapshot.Problems)-1]
		same.Subject, same.Text = h.name(9), strings.ReplaceAll(same.Text, h.name(6), h.name(9))
		same.Remedy = strings.ReplaceAll(same.Remedy, h.name(6), h.name(9))
		v.Snapshot.Problems = append(v.Snapshot.Problems, same)
		h.show(v)
	}
	p.until(`(r => r.textContent.includes('carries nothing') && r.textContent.includes('0 free') &&
		r.textContent.includes('50 that no VM can get now'))([...document.querySelectorAll('.pfs tr')].find(e => e.textContent.startsWith('pf2')))`)
	tile := func(title string) string {
		return eval[string](p, fmt.Sprintf(`[...document.querySelectorAll('.tile')].find(e => e.textContent.startsWith(%q)).innerHTML`, title))
	}
	if got := tile("VFs"); !strings.Contains(got, "1 free") {
		t.Errorf("VFs: %s", got)
	}
	if got := tile("Moves"); strings.Contains(got, `"bad"`) || !strings.Contains(got, "250 failed since the start, none in the last hour") {
		t.Errorf("moves: %s", got)
	}
	p.sight("troubles", `document.querySelector('.more')`)
	// All are shown whenever the button offers it: it may come and go while the last of the troubles arrive.
	p.until(`(m => (!m.hidden && m.textContent.startsWith('Show all') && m.click(), document.querySelectorAll('.trouble b, .trouble .names bdi').length > 5 &&
		[...document.querySelectorAll('.trouble:not(.info)')].reduce((n, e) => n + Math.max(1, e.querySelectorAll('b, .names bdi').length), 0) ===
		Number([...document.querySelectorAll('.tile')].find(e => e.textContent.startsWith('Troubles')).querySelector('b').textContent.replace(/\D/g, ''))
	))(document.querySelector('.more'))`)
	p.sight("policies", `document.querySelector('#policies').textContent.includes('not the last hour, they ended 4 h ago')`)
	p.sound()
	p.shoot("over")
}
