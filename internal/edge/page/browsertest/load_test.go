package browsertest

import (
	"testing"

	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// watchShifts adds up how far the page jumps from its beginning, as Chromium measures it (cumulative layout shift).
//
// A slow machine must not make the page appear before it is ready, as it does after five seconds for people.
const watchShifts = `window.shifted = 0; window.jumps = [];
const after = window.setTimeout;
window.setTimeout = (f, ms, ...args) => after(f, ms === 5000 ? 1e9 : ms, ...args);
const what = e => e.sources.slice(0, 3).map(s => s.node?.nodeName + '.' + s.node?.className + '#' + s.node?.id).join(' ');
new PerformanceObserver(list => { for (const e of list.getEntries()) {
	window.shifted += e.value;
	window.jumps.push(e.value.toFixed(3) + ' at ' + Math.round(e.startTime) + ': ' + what(e));
} }).observe({type: 'layout-shift', buffered: true});`

// What is in sight does not jump while the page loads.
func TestNothingJumpsAtLoad(t *testing.T) {
	t.Parallel()
	h := newHost(t, 100, "127.0.0.1:0")
	b := browser(t)
	for _, l := range []look{looks[0], looks[2]} {
		for _, path := range []string{"/", "/vm/" + string(idOf(0))} {
			p := open(t, b, "about:blank", l)
			p.do(command(cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: watchShifts}),
				chromedp.Navigate(h.url+path))
			p.until(`document.querySelector('.chart canvas') && document.querySelector('#live').dataset.state === 'live'`)
			for range 3 {
				h.next()
				p.until(`document.querySelector('#live .at').textContent.endsWith('` + h.now().Format(":05") + `')`)
			}
			const good = 0.02 // a fifth of what web.dev calls good
			if n := eval[float64](p, `window.shifted`); n > good {
				t.Errorf("%s %s: shifted by %.2f, want at most %g\n%s", l, path, n, good, eval[string](p, `window.jumps.join('\n')`))
			} else {
				t.Logf("%s %s: %.3f", l, path, n)
			}
			p.close()
		}
	}
}
