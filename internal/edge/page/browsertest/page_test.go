package browsertest

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe/axe.min.js
var axe string

// sight waits until the page has appeared, and scrolls a part of it into view: parts out of view do not fetch data. While the browser
// goes to another page there may be no document element.
func (p *tab) sight(id, expression string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`(scrollBy(0, document.getElementById(%q)?.getBoundingClientRect().top ?? 0),
		document.documentElement?.classList.contains('loading') === false && %s)`, id, expression))
}

// rows waits until the list of VMs is not empty.
func (p *tab) rows() {
	p.t.Helper()
	p.sight("vms", `document.querySelector('.vm-list tbody tr')`)
}

// sound checks what must hold for every page in every look. On a phone innerWidth grows with what is too wide.
func (p *tab) sound() {
	p.t.Helper()
	if wide := eval[string](p, `[...document.querySelectorAll('main *')]
		.filter(e => !e.closest('.scroll, .command, .uplot, .sr, caption, svg, .under-way, thead, .time-track') &&
			e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
		.map(e => e.tagName + '.' + e.className).slice(0, 5).join(' ')`); wide != "" {
		p.t.Errorf("%s: reaches beyond the window: %s", p.look, wide)
	}
	if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		p.t.Errorf("%s: the page is %d pixels too wide", p.look, over)
	}
	if eval[bool](p, `Boolean(window.pwned)`) {
		p.t.Error("a VM's name was run as a script")
	}
	p.axe()
}

// axe runs the rules of axe-core, including contrast and the size of targets.
func (p *tab) axe() {
	p.t.Helper()
	p.until(`document.querySelector('main h1') !== null`) // a page that was just reloaded has not built its content yet
	eval[bool](p, axe+"\n;true")
	found := eval[[]string](p, `axe.run(document, {resultTypes: ['violations'],
		runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
		.then(r => r.violations.map(v => v.id + ': ' + v.help + ' ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + n.failureSummary).join(' | ')))`)
	for _, f := range found {
		p.t.Errorf("%s: axe: %s", p.look, f)
	}
}

// named checks in Chromium's accessibility tree that every control has a name and that the page has its landmarks.
func (p *tab) named() {
	p.t.Helper()
	tree := get(p, func(ctx context.Context, t *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, t, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		roles[role]++
		switch role {
		case "button", "link", "combobox", "searchbox", "textbox", "checkbox", "table", "region", "image", "dialog":
			if n.Name == nil || strings.Trim(string(n.Name.Value), `" `) == "" {
				p.t.Errorf("%s: a %s has no name", p.look, role)
			}
		}
	}
	for _, want := range []string{"banner", "main", "navigation", "contentinfo", "heading", "button", "link"} {
		if roles[want] == 0 {
			p.t.Errorf("%s: there is no %s", p.look, want)
		}
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	for _, l := range looks {
		p := open(t, b, h.url, l)
		p.rows()
		p.whole()
		p.until(`document.querySelectorAll('.time-row').length > 0 && document.querySelector('.chart canvas')`)
		p.until(`document.querySelectorAll('.move-list tbody tr').length > 1 && document.querySelectorAll('.vm-list .spark').length > 9`)
		p.until(`document.querySelector('.pfs .link').textContent.includes('capacity 9.4Gbit of 10Gbit, inferred')`)
		p.until(`document.getElementById('events').textContent.includes('got VF pf2/0: link of pf2 up again')`)
		p.marked()
		p.sound()
		p.named()
		p.shoot("host-" + l.String())
		p.close()
	}
}

// marked checks that the page names who takes what a guarantee lacks: in the row of either VM, at the link, and in the summary. What a link
// sends is a part of what it carries, not of what can be shared out of it.
func (p *tab) marked() {
	p.t.Helper()
	row := func(i int) string {
		return fmt.Sprintf(`[...document.querySelectorAll('.vm-list tbody tr')].find(e => e.querySelector('a').href.endsWith(%q)).
			querySelector('.sla-cell')`, idOf(i))
	}
	for place, want := range map[string]string{
		row(0): "▲ short by 1 Gbit/s: " + shown(hostile[1]) + " takes 7 Gbit/s, not limited",
		row(1): "▲ takes 7 Gbit/s while others are short",
		`[...document.querySelectorAll('.pfs tr')].find(e => e.textContent.startsWith('pf2'))`: "▲ " + shown(hostile[0]) + " lacks 1Gbit/s: " +
			shown(hostile[1]) + " takes 7Gbit/s",
		`[...document.querySelectorAll('.pfs tr')].find(e => e.textContent.startsWith('pf2')).querySelector('.link')`: "of 10 Gbit/s · 99 %",
		`document.querySelector('.tiles')`: "▲ 2 short: " + shown(hostile[1]) + " takes most",
	} {
		p.until(fmt.Sprintf(`%s.textContent.includes(%q)`, place, want))
	}
	if got := eval[string](p, row(1)+`.querySelector('.bad').className`); got != "bad" {
		p.t.Errorf("who takes it is marked as %q", got)
	}
}

// shown returns a name as the page shows it.
func shown(name string) string {
	return strings.NewReplacer("\u202e", `\u202e`, "\u202d", `\u202d`, "\u0007", `\u0007`).Replace(name)
}

// A VM's name is always rendered as text, never interpreted.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	p := open(t, b, h.url, looks[0])
	p.rows()
	p.whole()
	p.until(`document.querySelectorAll('.trouble').length > 3 && document.querySelectorAll('.move-list tbody tr').length > 1`)
	for _, name := range hostile {
		if !eval[bool](p, fmt.Sprintf(`[...document.querySelectorAll('.vm-list bdi')].some(e => e.textContent === %q)`, shown(name))) {
			t.Errorf("the list does not show %q as it is", name)
		}
	}
	for _, copied := range eval[[]string](p, `[...document.querySelectorAll('.command code')].map(e => e.textContent)`) {
		if strings.ContainsAny(copied, "`$;<>|&") || copied == "sluice drain" {
			t.Errorf("%q is offered for copying", copied)
		}
	}
	if n := eval[int](p, `document.querySelectorAll('main img, main script, main [onerror], main [onmouseover]').length`); n > 0 {
		t.Errorf("%d elements came from names", n)
	}
	p.sound()
	for i := range hostile {
		for _, l := range []look{looks[0], looks[3]} {
			p := open(t, b, h.url+"/vm/"+string(idOf(i)), l)
			p.until(`document.querySelector('.verdict') && document.querySelector('#paths td') && document.querySelector('.chart canvas')`)
			p.whole()
			if title := eval[string](p, `document.querySelector('h1 bdi').textContent`); title != shown(hostile[i]) {
				t.Errorf("the title is %q, not %q", title, hostile[i])
			}
			p.learned(shown(hostile[i]), i)
			if i < 2 { // one lacks what the other takes
				p.until(`document.getElementById('bandwidth').textContent.includes('detach that VF')`)
			}
			p.sound()
			if i == 0 {
				p.named()
				p.shoot("vm-" + l.String())
			}
			p.close()
		}
	}
}

// learned checks what the page of a VM says about its bursts, of which so many were seen.
func (p *tab) learned(name string, seen int) {
	p.t.Helper()
	head, figures := eval[string](p, `document.getElementById('verdict').textContent`),
		eval[string](p, `document.getElementById('reason').textContent`)
	if seen == 0 {
		if strings.Contains(head, "bursts of") || strings.Contains(figures, "Bursts") {
			p.t.Errorf("bursts of which none was seen are in %q or %q", head, figures)
		}
		return
	}
	if want := fmt.Sprintf("bursts of %s last 48 s, 1m50s between them; %d seen", strings.ReplaceAll(name, "`", ""),
		seen); !strings.Contains(head, want) {
		p.t.Errorf("%q is not in %q", want, head)
	}
	if want := fmt.Sprintf("Bursts48 s long, 1 min 50 s between, %d seen", seen); !strings.Contains(figures, want) {
		p.t.Errorf("%q is not in %q", want, figures)
	}
}

func TestThousandVMs(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1000, "127.0.0.1:0")
	b := browser(t)
	for _, l := range chosen(looks[0], looks[3]) {
		p := open(t, b, h.url, l)
		p.do(chromedp.Navigate(h.url + "/#vms"))
		p.rows()
		p.until(`document.querySelector('#vms .pager').textContent.includes('of 1,008 VMs')`)
		if n := eval[int](p, `document.querySelectorAll('.vm-list tbody tr').length`); n != 50 {
			t.Errorf("%d rows at once", n)
		}
		if n := eval[int](p, `document.querySelectorAll('*').length`); n > 8000 {
			t.Errorf("%d elements", n)
		}
		p.do(chromedp.SendKeys(chromedp.CSS(`#vms input[type=search]`), "web-99"))
		p.until(`document.querySelectorAll('.vm-list tbody tr').length === 11`) // web-99, web-990 to web-999
		eval[bool](p, `(s => { s.value = ''; return s.dispatchEvent(new Event('input')); })(document.querySelector('#vms input[type=search]'))`)
		eval[bool](p, `(() => { const s = [...document.querySelectorAll('#vms select')]; s[0].value = 'vf';
			s[0].dispatchEvent(new Event('change'));
			s[1].value = 'path'; return s[1].dispatchEvent(new Event('change')); })()`)
		p.until(`document.querySelector('#vms .pager').textContent.includes('of 67 VMs') &&
			document.querySelector('.vm-list tbody .path').textContent === 'pf0/0'`)
		if query := eval[string](p, `location.search`); query != "?show=vf&sort=path" {
			t.Errorf("the address keeps %q", query)
		}
		p.do(chromedp.Reload())
		p.until(`document.querySelector('#vms .pager').textContent.includes('of 67 VMs')`)
		p.until(`document.querySelector('#vms .pager button:last-child').click() ||
			document.querySelector('#vms .pager').textContent.includes('51–67 of 67 VMs')`)
		if !eval[bool](p, `document.querySelector('#troubles .none').hidden`) {
			t.Errorf("%s: it says that nothing is wrong, which it has not asked", l)
		}
		p.sound()
		p.shoot("thousand-" + l.String())
		p.close()
	}
}
