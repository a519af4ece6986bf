package dashboard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/edge/dashboard"
)

const patience = time.Minute

// daemon answers on a socket with the request it received, and has a stream.
func daemon(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		_, _ = fmt.Fprintf(w, "%s %s cookie=%q", r.Method, r.URL, r.Header.Get("Cookie"))
	})
	mux.HandleFunc("/v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintln(w, "event: revision")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return socket
}

func start(t *testing.T, socket string, change ...func(*dashboard.Server)) *dashboard.Server {
	t.Helper()
	s, err := dashboard.New(socket, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// browser keeps cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: patience}
}

func ask(t *testing.T, c *http.Client, method, link string, change func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func base(s *dashboard.Server) string {
	u, _, _ := strings.Cut(s.URL(), "/?")
	return u
}

func TestLinkWorksOnceForItsBrowser(t *testing.T) {
	s := start(t, daemon(t))
	first, second := browser(t), browser(t)
	if code, _ := ask(t, first, http.MethodGet, base(s)+"/v1/status", nil); code != http.StatusForbidden {
		t.Errorf("without the link: status %d", code)
	}
	if code, _ := ask(t, first, http.MethodGet, base(s)+"/?token=WRONG", nil); code != http.StatusForbidden {
		t.Errorf("with another token: status %d", code)
	}
	if code, body := ask(t, first, http.MethodGet, s.URL(), nil); code != http.StatusOK || !strings.HasPrefix(body, "GET / ") {
		t.Errorf("with the link: status %d, %q", code, body)
	}
	if code, body := ask(t, first, http.MethodGet, base(s)+"/v1/vms?after=3", nil); code != http.StatusOK ||
		body != `GET /v1/vms?after=3 cookie=""` {
		t.Errorf("afterwards: status %d, %q; want the daemon's answer, and the cookie kept from it", code, body)
	}
	if code, _ := ask(t, first, http.MethodGet, s.URL(), nil); code != http.StatusOK {
		t.Errorf("the link again in the same browser: status %d", code)
	}
	for _, link := range []string{s.URL(), base(s) + "/"} {
		if code, _ := ask(t, second, http.MethodGet, link, nil); code != http.StatusForbidden {
			t.Errorf("%s in another browser: status %d", link, code)
		}
	}
}

func TestCookieIsKeptFromScriptsAndOtherSites(t *testing.T) {
	s := start(t, daemon(t))
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	list := resp.Cookies()
	if len(list) != 1 || !list[0].HttpOnly || list[0].SameSite != http.SameSiteStrictMode || list[0].Value == "" {
		t.Fatalf("cookies %v", list)
	}
	if strings.Contains(s.URL(), list[0].Value) {
		t.Error("the link has the cookie in it")
	}
	if to := resp.Header.Get("Location"); to == "" || strings.Contains(to, "token") {
		t.Errorf("it leads to %q: the token stays in the address", to)
	}
}

// A browser sends a host's cookies to all of its ports, where other users may listen: whatever path a page there requests,
// no secret is sent along. The paths that an attacker can guess are those that the page uses.
func TestNothingGoesToOtherPorts(t *testing.T) {
	s := start(t, daemon(t))
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Cookie")+r.Header.Get("Referer"))
	}))
	defer other.Close()
	c := browser(t)
	if code, _ := ask(t, c, http.MethodGet, s.URL(), nil); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	for _, path := range []string{"/", "/v1/status", "/vm/web-1", "/assets/app.js", "/?token=x"} {
		ask(t, c, http.MethodGet, other.URL+path, nil)
	}
	if got := strings.Join(seen, ""); got != "" || len(seen) != 5 {
		t.Errorf("another port of this host is sent %q", got)
	}
}

// The cookie without the path, or the path without the cookie, is rejected.
func TestPathAndCookieAreBothNeeded(t *testing.T) {
	s := start(t, daemon(t))
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cookie := resp.Cookies()[0]
	with := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value}) }
	u, _ := url.Parse(s.URL())
	for _, q := range []struct {
		link   string
		change func(*http.Request)
		want   int
	}{
		{base(s) + "/v1/status", with, http.StatusOK},
		{base(s) + "/v1/status", nil, http.StatusForbidden},
		{"http://" + u.Host + "/v1/status", with, http.StatusForbidden},
		{"http://" + u.Host + "/", with, http.StatusForbidden},
		{base(s), with, http.StatusForbidden},
		{"http://" + u.Host + "/x" + strings.TrimPrefix(base(s), "http://"+u.Host+"/") + "/v1/status", with, http.StatusForbidden},
		// A server of another user on another port can make the browser send a further cookie of that name.
		{base(s) + "/v1/status", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: "x"}); with(r) }, http.StatusOK},
	} {
		if code, body := ask(t, &http.Client{Timeout: patience}, http.MethodGet, q.link, q.change); code != q.want {
			t.Errorf("%s: status %d, want %d: %s", q.link, code, q.want, body)
		}
	}
}

// Silent connections of any user do not persist and do not keep the browser out.
func TestSilentConnectionsAreBounded(t *testing.T) {
	s := start(t, daemon(t), func(s *dashboard.Server) { dashboard.SetTimeouts(s, time.Hour, time.Hour) }) // silence alone ends none
	u, _ := url.Parse(s.URL())
	c := browser(t)
	ask(t, c, http.MethodGet, s.URL(), nil)
	events, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base(s)+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(events)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	silent := make([]net.Conn, 4*dashboard.MaxConnections)
	for i := range silent {
		if silent[i], err = net.Dial("tcp", u.Host); err != nil { // does not block for long: the backlog is served
			t.Fatal(err)
		}
		defer silent[i].Close() // a test's connection
	}
	if code, body := ask(t, c, http.MethodGet, base(s)+"/v1/status", nil); code != http.StatusOK {
		t.Errorf("beside silent connections: status %d, %q", code, body)
	}
	var closed atomic.Int64
	var wg sync.WaitGroup
	for _, conn := range silent {
		wg.Go(func() {
			if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, net.ErrClosed) {
				closed.Add(1)
			}
		})
	}
	for end := time.Now().Add(patience); closed.Load() < 3*dashboard.MaxConnections; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d of %d silent connections were closed", closed.Load(), len(silent))
			break
		}
	}
	for _, conn := range silent {
		_ = conn.Close()
	}
	wg.Wait()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "event: revision\n" {
		t.Errorf("the browser's stream: %q, %v", line, err)
	}
}

// An idle browser releases its connections.
func TestIdleConnectionsEnd(t *testing.T) {
	var usual time.Duration
	s := start(t, daemon(t), func(s *dashboard.Server) {
		usual = dashboard.IdleTimeout(s)
		dashboard.SetTimeouts(s, time.Hour, 10*time.Millisecond)
	})
	if usual <= 0 || usual > time.Minute {
		t.Errorf("a connection may idle for %s", usual)
	}
	u, _ := url.Parse(s.URL())
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // a test's connection
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+u.Host+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
		t.Errorf("an idle connection stays: %v after %q", err, answer)
	}
}

func TestOnlyItsOwnPageMayAsk(t *testing.T) {
	s := start(t, daemon(t))
	c := browser(t)
	ask(t, c, http.MethodGet, s.URL(), nil)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if code, _ := ask(t, c, method, base(s)+"/v1/drain", nil); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", method, code)
		}
	}
	port := mustPort(t, s)
	for host, want := range map[string]int{"evil.example": 421, "127.0.0.1:1": 421, "127.0.0.1": 421, "localhost:" + port: 421, "127.0.0.1:" +
		port: 200} {
		if code, _ := ask(t, c, http.MethodGet, base(s)+"/", func(r *http.Request) { r.Host = host }); code != want {
			t.Errorf("as %s: status %d, want %d", host, code, want)
		}
	}
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		if code, _ := ask(t, c, http.MethodGet, base(s)+"/v1/status",
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }); code != want {
			t.Errorf("from %s: status %d, want %d", site, code, want)
		}
	}
}

func mustPort(t *testing.T, s *dashboard.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// Events are delivered at once, not when a buffer is full.
func TestEventsPassAtOnce(t *testing.T) {
	s := start(t, daemon(t))
	c := browser(t)
	ask(t, c, http.MethodGet, s.URL(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, base(s)+"/v1/events", nil)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "event: revision\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestDaemonThatIsGone(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "none.sock"))
	c := browser(t)
	code, body := ask(t, c, http.MethodGet, s.URL(), nil)
	if code != http.StatusBadGateway || !strings.Contains(body, "systemctl start sluice") {
		t.Errorf("status %d, %q", code, body)
	}
}
