package browsertest

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// banner waits until the banner says all that, with the time since when.
func (p *tab) banner(words ...string) {
	p.t.Helper()
	for _, w := range words {
		p.until(`!document.getElementById('banner').hidden && document.getElementById('banner').textContent.includes('` + w + `')`)
	}
}

// A daemon that is gone cannot be mistaken for one that is well: a banner says so and since when, nothing is green or of now, no part
// shows an error of its own, and the daemon is asked for nothing but whether it is back.
func TestDaemonGone(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	b := browser(t)
	for _, l := range chosen(looks[0], looks[3]) {
		p := open(t, b, h.url, l)
		var mu sync.Mutex
		asked := map[string]int{} // in vain, by path
		p.expected = func(text string) bool {
			if !strings.Contains(text, "Failed to load resource: net::ERR_") {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			asked[text[strings.LastIndex(text, "/v1/")+len("/v1/"):]]++
			return true
		}
		p.rows()
		p.whole()
		p.until(`document.querySelector('.chart .u-legend')?.textContent.includes('now')`)
		good := eval[string](p, `getComputedStyle(document.querySelector('.pfs .good')).color`)
		enforce := eval[string](p, `getComputedStyle(document.querySelector('.mode b')).color`)
		h.stop()
		p.banner("The daemon does not answer", "Last seen", " ago, at ", "systemctl status sluice")
		p.until(`document.querySelector('#live').textContent.includes('last seen')`)
		p.until(`document.querySelector('#now h2').textContent.includes('when last seen')`)
		if eval[string](p, `getComputedStyle(document.querySelector('.pfs .good')).color`) == good ||
			eval[string](p, `getComputedStyle(document.querySelector('.mode b')).color`) == enforce {
			t.Errorf("%s: it is still green", l)
		}
		if eval[bool](p, `document.querySelector('.chart .u-legend').textContent.includes('now')`) {
			t.Errorf("%s: the charts still show what is now", l)
		}
		p.until(`document.getElementById('banner').textContent.match(/Last seen ([3-9]|\d\d) s ago/)`) // it has been asked again
		if text := eval[string](p, `document.querySelector('main').innerText`); strings.Contains(text, "Failed to fetch") ||
			strings.Contains(text, "status 50") {
			t.Errorf("%s: a part shows the error of a request", l)
		}
		mu.Lock()
		for path, n := range asked {
			if !strings.HasPrefix(path, "status") && path != "events" || n > 4 {
				t.Errorf("%s: %s is asked for %d times in vain", l, path, n)
			}
		}
		mu.Unlock()
		p.sound()
		p.shoot("gone-" + l.String())
		h.serve(t, strings.TrimPrefix(h.url, "http://"))
		h.next()
		p.until(`document.getElementById('banner').hidden && !document.documentElement.hasAttribute('data-old') &&
			document.querySelector('#live').dataset.state === 'live' && !document.querySelector('#now h2').textContent.includes('last seen')`)
		p.until(`document.querySelector('.chart .u-legend').textContent.includes('now')`)
		p.close()
	}
}

// A daemon that answers but no longer sees the host is not well either.
func TestHostNotSeen(t *testing.T) {
	t.Parallel()
	h := newHost(t, 10, "127.0.0.1:0")
	p := open(t, browser(t), h.url, looks[0])
	p.rows()
	p.until(`document.getElementById('banner').hidden`)
	h.pass(2 * time.Minute)
	p.banner("The daemon does not see the host", "It last observed it 2 min")
	h.next()
	p.until(`document.getElementById('banner').hidden`)
}
