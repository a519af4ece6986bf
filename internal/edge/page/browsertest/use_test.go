package browsertest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/edge/dashboard"
	"sluice/internal/edge/page"
	"sluice/internal/edge/server"
)

// press sends keys to the focused element.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// tabTo presses the tab key until the expression is true for the focused element e.
func (p *tab) tabTo(expression string) {
	p.t.Helper()
	const most = 400
	for range most {
		p.press(kb.Tab)
		if eval[bool](p, `(e => Boolean(`+expression+`))(document.activeElement)`) {
			if !eval[bool](p, `(s => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0)(getComputedStyle(document.activeElement))`) {
				p.t.Errorf("the focus cannot be seen: %s", expression)
			}
			return
		}
	}
	p.t.Fatalf("the tab key never leads to: %s", expression)
}

// Everything can be reached and used without a pointer, and the focus is where users expect it afterwards.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.rows()
	p.sight("timeline", `document.querySelector('.mark.plug')`)
	eval[bool](p, `(scrollTo(0, 0), true)`)
	p.press(kb.Tab)
	if eval[string](p, `document.activeElement.textContent`) != "Skip to the content" {
		t.Error("the first stop is not the link that skips the head")
	}
	p.press(kb.Enter)
	p.until(`document.activeElement.id === 'main'`)
	p.tabTo(`e.matches('#timeline button.mark')`)
	p.roves()
	p.press(kb.Enter)
	p.until(`document.querySelector('dialog[open]') && document.querySelector('dialog').contains(document.activeElement)`)
	// a mark of several moves lists them
	if eval[bool](p, `document.querySelector('dialog table') && !document.querySelector('dialog .step-table')`) {
		p.tabTo(`e.matches('dialog button') && e.textContent.includes('Steps')`)
		p.press(kb.Enter)
	}
	p.until(`document.querySelector('dialog .step-table tbody tr') &&
		document.querySelector('dialog').textContent.includes('check-virtio')`)
	p.sound()
	p.shoot("move")
	p.press(kb.Escape)
	p.until(`!document.querySelector('dialog[open]') && document.activeElement.matches('#timeline button.mark')`)
	h.next() // updates do not move the focus
	p.until(`document.querySelector('#live .at').textContent.endsWith(':01') && document.activeElement.matches('#timeline button.mark')`)
	p.press("/")
	p.until(`document.activeElement.matches('#vms input[type=search]')`)
	p.until(`(r => r && r.getBoundingClientRect().top < innerHeight)(document.querySelector('.vm-list tbody tr'))`) // the results can be seen
	p.press("web-9")
	p.until(`document.querySelectorAll('.vm-list tbody tr').length === 1`)
	p.tabTo(`e.matches('.vm-list a')`)
	p.press(kb.Enter)
	p.until(`location.pathname.startsWith('/vm/') && document.querySelector('h1 bdi')?.textContent === 'web-9'`)
}

// roves checks that the focused mark of a move is one stop of the tab key with all others, and that the arrow keys lead to these. The
// first mark has the focus in the end.
func (p *tab) roves() {
	p.t.Helper()
	if n, all := eval[int](p, `document.querySelectorAll('.mark[tabindex="0"]').length`),
		eval[int](p, `document.querySelectorAll('#timeline .mark').length`); n != 1 || all < 2 {
		p.t.Errorf("%d of %d marks are stops of the tab key", n, all)
	}
	at := func() int {
		return eval[int](p, `[...document.querySelectorAll('#timeline .mark')].indexOf(document.activeElement)`)
	}
	p.press(kb.End)
	if last := eval[int](p, `document.querySelectorAll('#timeline .mark').length - 1`); at() != last {
		p.t.Errorf("End leads to mark %d of %d", at(), last)
	}
	row := `document.activeElement.closest('.time-row')`
	eval[bool](p, `(window.was = `+row+`, true)`)
	p.press(kb.ArrowUp)
	if at() < 0 || eval[bool](p, `window.was === `+row) {
		p.t.Error("the arrow up does not lead to another row")
	}
	p.press(kb.Home)
	p.press(kb.ArrowRight)
	if at() != 1 || eval[int](p, `document.querySelectorAll('.mark[tabindex="0"]').length`) != 1 {
		p.t.Errorf("the arrow leads from the first mark to %d", at())
	}
	p.press(kb.ArrowLeft)
}

// The page shows updates, the loss of the daemon and its return without being reloaded.
func TestNews(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.expected = func(text string) bool { return strings.Contains(text, "Failed to load resource: net::ERR_") }
	p.rows()
	p.until(`document.querySelector('#live').dataset.state === 'live' && document.querySelector('#live .at').textContent.endsWith(':00')`)
	eval[bool](p, `window.same = true`)
	h.next()
	p.until(`document.querySelector('#live .at').textContent.endsWith(':01') && window.same`)
	h.stop()
	p.until(`document.querySelector('#live').textContent.includes('No answer')`)
	h.serve(t, strings.TrimPrefix(h.url, "http://"))
	h.next()
	p.until(`document.querySelector('#live').dataset.state === 'live' &&
		document.querySelector('#live .at').textContent.endsWith(':02') && window.same`)
}

// The colour scheme setting persists when the page is reloaded.
func TestColours(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	ground := func() string { return eval[string](p, `getComputedStyle(document.body).backgroundColor`) }
	p.rows()
	light := ground()
	eval[bool](p, `(s => { s.value = 'dark'; return s.dispatchEvent(new Event('change')); })(document.getElementById('theme'))`)
	dark := ground()
	if light == dark {
		t.Errorf("the ground stays %s", light)
	}
	p.do(chromedp.Reload())
	p.rows()
	if got := ground(); got != dark {
		t.Errorf("the ground is %s again", got)
	}
}

// The link of sluice dashboard works in a browser, and scripts cannot read the session cookie.
func TestDashboard(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	socket := filepath.Join(t.TempDir(), "s.sock")
	s, err := server.New(server.Options{Backend: h.back, History: h.past, WhatIf: h, Socket: socket, Page: page.Handler("1.2.3")})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dashboard.New(socket, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- s.Run(ctx) }()
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	p := open(t, browser(t), d.URL(), looks[0])
	p.rows()
	if at := eval[string](p, `location.href + document.cookie`); strings.Contains(at, "token") || strings.Contains(at, "sluice-") {
		t.Errorf("the page can see %s", at)
	}
	p.until(`document.querySelector('#live').dataset.state === 'live'`)
	h.next()
	p.until(`document.querySelector('#live .at').textContent.endsWith(':01')`)
	p.do(chromedp.Click(`#vms tbody a`)) // a page one level deeper in the path
	p.until(`/\/vm\/[^/]+$/.test(location.pathname) && document.querySelector('h1 bdi')`)
	p.until(`document.querySelector('#live').dataset.state === 'live'`)
	p.do(chromedp.Click(`a.brand`))
	p.rows()
}

// An expression may be under way when the browser goes to another page: that is told from what is wrong with it.
func TestLeft(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.rows()
	if _, err := try(p, evaluate[bool](`location.reload(), new Promise(() => {})`)); !left(err) {
		t.Errorf("reloaded: %v", err)
	}
	p.rows()
	if _, err := try(p, evaluate[bool](`nothing.of.that.name`)); err == nil || left(err) {
		t.Errorf("a wrong expression: %v", err)
	}
}

// A link with a word that is not a filter, even a property of every JavaScript object, still shows the list.
func TestOddLink(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url+"/?show=constructor&sort=toString", looks[0])
	p.rows()
}

// A click on the title of a column sorts by it, another the other way round; it is told to people who cannot see, and kept in the address.
func TestSortByColumn(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	p := open(t, b, h.url, looks[0])
	p.rows()
	const sorted = `[...document.querySelectorAll('.vm-list thead th[aria-sort]')].map((e) => e.textContent + ' ' + e.ariaSort).join()`
	const names = `[...document.querySelectorAll('.vm-list tbody th a')].map((e) => e.textContent)`
	p.until(sorted + ` === 'Load descending'`)
	by := func(title, order string) []string {
		eval[bool](p, `([...document.querySelectorAll('.vm-list thead button')].find((e) => e.textContent === '`+title+`').click(), true)`)
		p.until(sorted + ` === '` + title + ` ` + order + `'`)
		return eval[[]string](p, names)
	}
	up := by("VM", "ascending")
	p.sound()
	p.shoot("sorted")
	down := by("VM", "descending")
	if slices.Reverse(down); len(up) < 10 || !slices.Equal(up, down) {
		t.Errorf("ascending %q, descending reversed %q", up, down)
	}
	if query := eval[string](p, `location.search`); query != "?sort=name&reverse=1" {
		t.Errorf("the address keeps %q", query)
	}
	p.do(chromedp.Reload())
	p.rows()
	slices.Reverse(down)
	p.until(sorted + ` === 'VM descending' && ` + names + `[0] === ` + strconv.Quote(down[0]))
	by("Path", "ascending")
	p.close()

	p = open(t, b, h.url, looks[2]) // where rows are stacked, titles are out of sight
	p.rows()
	if !eval[bool](p, `[...document.querySelectorAll('.vm-list thead button')].every((e) => e.tabIndex === -1)`) {
		t.Error("the tab key leads to titles that cannot be seen")
	}
	p.sound()
}

// A VM is one line until it is opened, and stays open when news come; what matters stays in sight.
func TestRowsOpen(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	for _, l := range []look{looks[0], looks[2]} {
		p := open(t, b, h.url, l)
		p.rows()
		p.until(`document.querySelector('.vm-list .bad')`)
		most := 48 // pixels, of a line with a mark to open it
		if l == looks[2] {
			most = 130 // name, path and load; why; who lacks or takes what
		}
		if tall := eval[[]string](p, fmt.Sprintf(`[...document.querySelectorAll('.vm-list tbody tr')].filter((e) => e.offsetHeight > %d).
			map((e) => e.offsetHeight + ' ' + e.textContent)`, most)); len(tall) > 0 {
			t.Errorf("%v: rows of more than %d pixels: %q", l, most, tall)
		}
		const row = `document.querySelector('.vm-list tbody tr')`
		eval[bool](p, `(`+row+`.querySelector('summary').click(), true)`)
		p.until(`(e => e.offsetHeight > 10 && /: /.test(e.textContent))(` + row + `.querySelector('details p'))`)
		h.next()
		p.until(`document.querySelector('#live .at').textContent`)
		if !eval[bool](p, row+`.querySelector('details').open`) {
			t.Errorf("%v: the row is closed by news", l)
		}
		p.sound()
		p.shoot("open")
		p.close()
	}
}
