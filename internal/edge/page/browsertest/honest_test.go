package browsertest

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/edge/cli"
	"sluice/internal/model"
)

// filled checks that every card that can be seen says something below its heading.
func (p *tab) filled(where string) {
	p.t.Helper()
	p.until(`document.querySelectorAll('.part:not(.absent)').length > 0`)
	empty := `[...document.querySelectorAll('.part:not(.absent)')].filter(e => e.offsetHeight &&
		![...e.querySelectorAll('p:not(.hint, .legend), td, li, dd, canvas, h1')].some(x => x.offsetHeight && (x.tagName === 'CANVAS' || x.textContent.trim()))
		).map(e => e.id).join(' ')`
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		cards := eval[string](p, empty)
		if cards == "" {
			return
		}
		if time.Now().After(end) {
			p.shoot("empty")
			p.t.Errorf("%s: empty cards: %s", where, cards)
			return
		}
	}
}

// The page of a VM that does not exist says so, and has nothing else; no card is empty on it or on a host without VMs.
func TestNothingToShow(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	p := open(t, b, "about:blank", looks[0])
	p.expected = func(text string) bool { return strings.Contains(text, "404") } // before the page can ask
	p.do(chromedp.Navigate(h.url + "/vm/web-77"))
	p.until(`document.querySelector('h1').textContent === 'There is no VM web-77 on this host' && document.title.startsWith('No VM web-77')`)
	p.filled("a VM that does not exist")
	if n := eval[int](p, `[...document.querySelectorAll('.part')].filter(e => e.offsetHeight).length`); n != 1 {
		t.Errorf("it has %d parts", n)
	}
	p.sound()
	p.shoot("no-such-vm")
	p.close()

	p = open(t, b, h.url+"/vm/"+string(idOf(0)), looks[0])
	p.whole()
	p.filled("a VM")
	p.close()

	v := h.view()
	v.Snapshot.VMs, v.Snapshot.Problems, v.Snapshot.PFs, v.Target.Reasons = nil, nil, nil, nil
	v.Active, v.Pending, v.Recent, v.Findings, v.Bandwidth, v.Overrides = nil, nil, nil, nil, &model.Bandwidth{}, nil
	h.pass(2 * time.Hour) // the history forgets what was before
	h.show(v)
	p = open(t, b, h.url, looks[0])
	p.whole()
	p.filled("a host without VMs")
	p.sound()
	p.shoot("no-vms")
}

// What is offered for copying is a whole command.
func TestCopiedCommandsRun(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	seen := map[string]bool{}
	for _, path := range []string{"", "/vm/" + string(idOf(0)), "/vm/burst", "/vm/batch-1", "/vm/legacy"} {
		p := open(t, b, h.url+path, looks[0])
		p.until(`document.querySelector('.command')`)
		if strings.Contains(path, string(idOf(0))) {
			p.whole()
		}
		for _, words := range eval[[]string](p, `[...document.querySelectorAll('.command code')].map(e => e.textContent)`) {
			seen[words] = true
		}
		p.close()
	}
	for words := range seen {
		args, ours := strings.CutPrefix(strings.TrimPrefix(words, "sudo "), "sluice ")
		if !ours {
			continue
		}
		c, rest, err := cli.Root(cli.Streams{Out: io.Discard, Err: io.Discard}, cli.Deps{}).Find(strings.Fields(args))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err == nil {
			err = c.ValidateArgs(c.Flags().Args())
		}
		if err != nil {
			t.Errorf("`%s` is offered for copying, but: %v", words, err)
		}
	}
	if len(seen) < 5 {
		t.Errorf("only these are offered: %v", seen)
	}
}
