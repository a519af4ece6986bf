package demo_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/demo"
	"sluice/internal/edge/cli"
)

// The page of a demo works in a browser, and the demo exits cleanly when interrupted.
func TestPage(t *testing.T) {
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	for _, args := range [][]string{{"--listen", "127.0.0.1:0"}, {"--open"}} {
		t.Run(args[0], func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, w := io.Pipe()
			code := make(chan int, 1)
			go func() {
				code <- cli.Main(ctx, append([]string{"demo", "--vms", "24", "--vfs", "12"}, args...), cli.Streams{Out: w, Err: io.Discard},
					cli.Deps{Demo: demo.Run})
				_ = w.Close()
			}()
			out := bufio.NewScanner(r)
			link := ""
			for link == "" && out.Scan() {
				link = regexp.MustCompile(`http://\S+`).FindString(out.Text())
			}
			go func() { _, _ = io.Copy(io.Discard, r) }()
			if link == "" {
				t.Fatal("no link is printed")
			}
			jar, _ := cookiejar.New(nil)
			client := &http.Client{Jar: jar, Timeout: time.Minute}
			if page := get(t, client, link); !strings.Contains(page, "<html") {
				t.Errorf("%s is no page: %.200s", link, page)
			}
			base, _, _ := strings.Cut(link, "?") // the link of sluice dashboard has a path of its own
			if status := get(t, client, strings.TrimRight(base, "/")+"/v1/vms"); !strings.Contains(status, "lab-liar") {
				t.Errorf("the API says %.200s", status)
			}
			cancel()
			if have := <-code; have != 0 {
				t.Errorf("exit code %d after an interrupt", have)
			}
		})
	}
}

// get retries until the daemon has observed its host.
func get(t *testing.T, client *http.Client, link string) string {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		resp, err := client.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.StatusCode == http.StatusOK:
			return string(body)
		case resp.StatusCode != http.StatusServiceUnavailable || time.Since(begun) > time.Minute:
			t.Fatalf("%s: %s: %s", link, resp.Status, body)
		}
	}
}
