package browsertest

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
)

// cpu returns the CPU seconds used by this process, which is the daemon here, and by the whole browser.
func (p *tab) cpu() (daemon, browser float64) {
	p.t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		p.t.Fatal(err)
	}
	daemon = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	list := get(p, func(ctx context.Context, _ *chromedp.Target) (systeminfo.GetProcessInfoResult, error) {
		return chromedp.CallBrowser(ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	})
	for _, one := range list.ProcessInfo {
		browser += one.CPUTime
	}
	return daemon, browser
}

// BenchmarkPage measures the page of a host with 1,000 VMs and an update every second: the times of the first paint, the
// host's figures and the first row of the list, and the CPU cost per second for daemon and browser with the top and with
// the list in view.
func BenchmarkPage(b *testing.B) {
	h := newHost(b, 1000, "127.0.0.1:0")
	p := open(b, browser(b), h.url, looks[0])
	p.rows()
	const watched = 20 * time.Second
	for b.Loop() {
		p.do(chromedp.Navigate(h.url + "/"))
		p.until(`document.querySelector('.tile')`)
		b.ReportMetric(eval[float64](p, `performance.getEntriesByName('first-contentful-paint')[0].startTime`), "ms/first-paint")
		b.ReportMetric(eval[float64](p, `performance.now()`), "ms/figures")
		for part, what := range map[string]string{"host": "top", "vms": "list"} {
			p.sight(part, `document.querySelector('.tile')`)
			if part == "vms" {
				p.rows()
			}
			daemon, browser := p.cpu()
			for begun := time.Now(); time.Since(begun) < watched; time.Sleep(time.Second) {
				h.next()
			}
			d, c := p.cpu()
			b.ReportMetric((d-daemon)/watched.Seconds()*100, "daemon-CPU-%/"+what)
			b.ReportMetric((c-browser)/watched.Seconds()*100, "browser-CPU-%/"+what)
		}
	}
}
