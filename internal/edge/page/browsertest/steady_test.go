package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

// point scrolls the element that the selector finds into view and moves the pointer to its centre.
func (p *tab) point(selector string) {
	p.t.Helper()
	at := eval[[]float64](p, fmt.Sprintf(`(e => {
		e.scrollIntoView({block: 'center'});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];
	})(document.querySelector(%q))`, selector))
	p.do(command(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0], Y: at[1]}))
}

// later advances the clock by an hour and a half, so that every move seen so far is dropped.
func (h *host) later() {
	for range 90 {
		h.pass(time.Minute)
		v := h.view()
		v.Recent, v.Active = nil, nil
		h.past.Add(v)
		h.back.Show(v)
	}
}

// If a move leaves the list while its dialog is open, closing the dialog puts the focus on the heading of that list, not at
// the top of the page.
func TestFocusWhereTheRowHasGone(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.sight("moves", `document.querySelectorAll('#moves [data-key^=steps]').length > 2`)
	eval[bool](p, `(window.row = [...document.querySelectorAll('#moves [data-key^=steps]')].at(-1).dataset.key,
		document.querySelector('[data-key="' + row + '"]').focus(), true)`)
	p.press(kb.Enter)
	p.until(`document.querySelector('dialog[open] #dialog-title')`)
	h.later()
	p.until(`!document.querySelector('[data-key="' + row + '"]')`)
	p.press(kb.Escape)
	p.until(`!document.querySelector('dialog[open]') && document.activeElement.id === 'moves-title'`)
}

// A mark does not move while the pointer is on it; pending updates are shown when the pointer leaves.
func TestMarksStayUnderThePointer(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.sight("timeline", `document.querySelector('.mark.plug')`)
	p.until(`document.fonts.status === 'loaded' && document.querySelector('.chart canvas')`)
	p.point("#timeline .mark.plug")
	eval[bool](p, `(window.aimed = document.querySelector('#timeline .mark:hover'), true)`)
	if !eval[bool](p, `Boolean(window.aimed)`) {
		t.Fatal("the pointer is on no mark")
	}
	h.later()
	p.until(`document.querySelector('#timeline .held')?.hidden === false`)
	if !eval[bool](p, `window.aimed.isConnected`) {
		t.Error("the mark has gone")
	}
	p.point("#timeline h2")
	p.until(`!window.aimed.isConnected && document.querySelector('#timeline .held').hidden`)
}

// Parts that change often shrink to their content some seconds after they have been larger.
func TestCardsShrinkAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	v := h.view()
	for range 5 {
		v.Active = append(v.Active, v.Active[0])
	}
	h.back.Show(v)
	p := open(t, browser(t), h.url, looks[0])
	p.sight("under-way", `document.querySelectorAll('.under-way .move').length > 5 && document.querySelectorAll('.trouble').length > 3`)
	const high = 200
	if n := eval[int](p, `document.getElementById('under-way').offsetHeight`); n < high {
		t.Errorf("Under way is %d pixels high", n)
	}
	v = h.view()
	v.Active, v.Pending, v.Snapshot.Problems = nil, nil, nil
	h.pass(time.Second)
	v.Snapshot.Time, v.Revision = h.now(), uint64(h.now().Unix())
	h.back.Show(v)
	p.until(`document.querySelector('.under-way .none') && document.getElementById('under-way').offsetHeight < 150`)
	p.until(`(t => t.getBoundingClientRect().bottom -
		[...t.querySelectorAll('p, li, button')].filter(e => e.offsetHeight).at(-1)
			.getBoundingClientRect().bottom < 60)(document.getElementById('troubles'))`)
}

// In a narrow window tables are stacked, no text is cut off, and no mark covers another.
func TestNarrow(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	v := h.view()
	first := v.Recent[0]
	for i := range 20 {
		m := first
		m.ID = uint64(100 + i)
		m.Move.Kind = []model.MoveKind{model.MovePlug, model.MoveUnplug}[i%2]
		m.Started = edgetest.Now.Add(-time.Duration(i) * 100 * time.Second)
		m.Ended = m.Started.Add(time.Second)
		v.Recent = append(v.Recent, m)
	}
	h.pass(time.Second)
	v.Snapshot.Time, v.Revision = h.now(), uint64(h.now().Unix())
	h.past.Add(v)
	h.back.Show(v)
	b := browser(t)
	cut := `[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel).join(', ')`
	p := open(t, b, h.url, looks[2])
	p.sight("timeline", `document.querySelectorAll('.mark').length > 5`)
	if got := eval[string](p, cut); got != "" {
		t.Errorf("these are cut: %s", got)
	}
	if n := eval[int](p, `[...document.querySelectorAll('.time-track')].flatMap(t => {
		const m = [...t.querySelectorAll('.mark')].map(e => e.getBoundingClientRect()).sort((a, b) => a.left - b.left);
		return m.slice(1).filter((r, i) => r.left < m[i].right - 1.5);
	}).length`); n > 0 {
		t.Errorf("%d marks cover their neighbour", n)
	}
	if !eval[bool](p, `(m => Boolean(m && (m.focus(), m.click(), true)))(document.querySelector('.mark.many'))`) {
		t.Fatal("no mark stands for several moves")
	}
	p.until(`document.querySelectorAll('dialog[open] .move-list tbody tr').length > 1`)
	p.sound()
	eval[bool](p, `(document.querySelector('dialog [data-key^=steps]').click(), true)`)
	p.until(`document.querySelector('dialog[open]') && !document.querySelector('dialog .move-list')`)
	p.press(kb.Escape)
	p.until(`!document.querySelector('dialog[open]') && document.activeElement.matches('#timeline .mark.many')`)
	p.close()
	p = open(t, b, h.url+"/vm/"+string(idOf(0)), looks[2])
	p.sight("paths", `document.querySelector('#paths td')`)
	if got := eval[string](p, cut); got != "" {
		t.Errorf("these are cut: %s", got)
	}
}

// The last time label below a chart fits, packets are counted in the wording of the commands, and reasons are explained.
func TestWords(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.rows()
	p.until(`document.querySelector('.chart .u-over')`)
	const half = 16 // half the width in pixels of a label such as 10:30
	if n := eval[float64](p, `(c => c.getBoundingClientRect().right -
		c.querySelector('.u-over').getBoundingClientRect().right)(document.querySelector('.chart .uplot'))`); n < half {
		t.Errorf("the last label has %g pixels", n)
	}
	if words := eval[string](p, `document.querySelector('main').innerText`); strings.Contains(words, "pkt/s") ||
		!strings.Contains(words, "packets/s") {
		t.Error("packets are counted in other words than those of the commands")
	}
	p.do(chromedp.Navigate(h.url + "/vm/" + string(idOf(0))))
	p.until(`document.querySelector('#reason abbr[title]') && document.querySelector('#reason .glossary')`)
	eval[bool](p, `(document.querySelector('.glossary summary').click(), true)`)
	p.until(`['price', 'regret', 'to beat'].every(w =>
		[...document.querySelectorAll('.glossary dt')].some(e => e.offsetHeight && e.textContent.toLowerCase() === w))`)
	p.sound()
}

// Where the page gets another width, its parts get the height that their text needs there at once.
func TestCardsFollowTheWidth(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.until(`document.querySelector('.now li')`)
	height := func(width int64) int {
		t.Helper()
		p.size(width, 900)
		p.until(fmt.Sprintf(`innerWidth === %d`, width))
		return eval[int](p, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>
			done(parseInt(document.querySelector('.now').style.minHeight.slice(4)) - document.querySelector('.now > div').offsetHeight))))`)
	}
	for _, width := range []int64{390, 1400} {
		if over := height(width); over != 0 {
			t.Errorf("%d pixels wide: %d pixels too high", width, over)
		}
	}
}
