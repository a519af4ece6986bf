package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a condition may take to become true on a busy machine.
const patience = 90 * time.Second

// chromium is a window of the browser.
type chromium struct{ ctx context.Context }

// started is the one browser of all tests, once the first of them needs it.
var started struct {
	once sync.Once
	ctx  context.Context
	err  error
	stop []func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range slices.Backward(started.stop) {
		stop()
	}
	os.Exit(code)
}

// start starts the browser.
func start() (context.Context, error) {
	// It draws no windows. Debian's script in the PATH would leave it behind when it is killed.
	path, err := exec.LookPath("/usr/lib/chromium/chromium-headless-shell")
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	if err != nil {
		return nil, errors.New("no chromium to look at the page with: scripts/deps test")
	}
	dir, err := os.MkdirTemp("", "sluice-chromium")
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", false))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(ctx)
	started.stop = []func(){func() { _ = os.RemoveAll(dir) }, stop, cancel}
	return ctx, chromedp.Do(ctx)
}

// browser opens a window for a test and its subtests, with cookies and storage of its own.
func browser(t testing.TB) chromium {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_BROWSER") == "1" {
		t.Skip("SLUICE_TEST_NO_BROWSER=1")
	}
	started.once.Do(func() { started.ctx, started.err = start() })
	if started.err != nil {
		t.Fatal(started.err)
	}
	ctx, cancel := chromedp.NewContext(started.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return chromium{ctx}
}

// look is a combination of display settings.
type look struct {
	width, height int64
	dark          bool
}

func (l look) String() string {
	if l.dark {
		return fmt.Sprintf("%d-dark", l.width)
	}
	return fmt.Sprintf("%d-light", l.width)
}

var looks = []look{
	{width: 1400, height: 900},
	{width: 1400, height: 900, dark: true},
	{width: 390, height: 844},
	{width: 390, height: 844, dark: true},
}

// tab is a page under test. Any error that the browser reports fails the test.
type tab struct {
	t    testing.TB
	ctx  context.Context
	look look

	// close closes the tab: a browser has six connections to a server at a time, and each visible page keeps one.
	close func()

	mu       sync.Mutex
	faults   []string
	expected func(string) bool // errors that the test provokes; nil: none
}

// open loads a page in a new tab.
func open(t testing.TB, in chromium, url string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in.ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, look: l, close: cancel}
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	p.size(l.width, l.height)
	p.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}), chromedp.Navigate(url))
	t.Cleanup(p.complain)
	return p
}

// command wraps a command of the protocol as an action.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.look.width, p.look.height = width, height
	const phone = 500
	p.do(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height,
		DeviceScaleFactor: 1, Mobile: width < phone,
	}))
}

// hear records the errors that the browser reports: of scripts, the console, the network and the content security policy.
func (p *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = exception(e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			for _, a := range e.Args {
				text += string(a.Value) + a.Description + " "
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected == nil || !p.expected(text) {
		p.faults = append(p.faults, text)
	}
}

func exception(d *runtime.ExceptionDetails) string {
	text := d.Text
	if d.Exception != nil {
		text += " " + d.Exception.Description
	}
	return fmt.Sprintf("%s (%s:%d)", text, d.URL, d.LineNumber)
}

func (p *tab) complain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		p.t.Errorf("the browser complains: %s", f)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

func get[T any](p *tab, a chromedp.Action[T]) T {
	p.t.Helper()
	v, err := try(p, a)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func try[T any](p *tab, a chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, a)
}

// eval returns the value of a JavaScript expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	return get(p, evaluate[T](expression))
}

func evaluate[T any](expression string) chromedp.Action[T] {
	return chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise)
}

// left reports whether the browser went to another page while it evaluated an expression.
func left(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && refused.Code == -32000
}

// until waits for an expression to become true.
func (p *tab) until(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		is, err := try(p, evaluate[bool]("Boolean("+expression+")"))
		if err != nil && !left(err) {
			p.t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(end) {
			p.shoot("failed")
			p.complain()
			p.t.Fatalf("this never came true: %s\n%s", expression, eval[string](p, "document.body.innerText.slice(0, 2000)"))
		}
	}
}

// whole makes the window as high as the page, since only visible parts fetch data.
func (p *tab) whole() {
	p.t.Helper()
	for range 3 {
		p.size(p.look.width, max(p.look.height, eval[int64](p, "document.documentElement.scrollHeight")))
		eval[bool](p, "new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 700))")
	}
}

// chosen are these of the looks, or all of them if SLUICE_SCREENSHOTS asks for pictures.
func chosen(some ...look) []look {
	if os.Getenv("SLUICE_SCREENSHOTS") != "" {
		return looks
	}
	return some
}

// shoot saves a screenshot of the whole page if SLUICE_SCREENSHOTS names a directory.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("SLUICE_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	png := get(p, chromedp.FullScreenshot(100))
	name = strings.ReplaceAll(name, "/", "-") + ".png"
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
