package dashboard_test

import (
	"context"
	"errors"
	"html"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/dashboard"
)

// desktop provides an xdg-open that records its arguments and the file they name. seen gets its directory.
func desktop(t *testing.T) (seen string) {
	t.Helper()
	seen = t.TempDir()
	bin := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + seen + "/words\nfile=${1#file://}\n" +
		"stat -c %a \"$file\" \"${file%/*}\" >" + seen + "/modes\ncp \"$file\" " + seen + "/page\nmv " + seen + "/words " + seen + "/called\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":9")
	return seen
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// await waits for a file.
func await(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		} else if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Every user can read all command lines: the token is in a file that only its owner can read, and only as long as needed.
func TestOpenKeepsTheTokenFromOtherUsers(t *testing.T) {
	for name, runtime := range map[string]string{"a directory of the user's": t.TempDir(), "none": "", "one that has gone": "/nonexistent"} {
		t.Run(name, func(t *testing.T) {
			seen := desktop(t)
			t.Setenv("XDG_RUNTIME_DIR", runtime)
			t.Setenv("TMPDIR", t.TempDir())
			s := start(t, daemon(t))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- dashboard.Open(ctx, s.URL()) }()
			await(t, filepath.Join(seen, "called"))
			words := strings.TrimSpace(read(t, seen, "called"))
			_, token, _ := strings.Cut(s.URL(), "token=")
			if !strings.HasPrefix(words, "file:///") || strings.Contains(words, token) {
				t.Errorf("called with %q", words)
			}
			if modes := read(t, seen, "modes"); modes != "600\n700\n" {
				t.Errorf("modes of the file and its directory are %q", modes)
			}
			found := regexp.MustCompile(`content="0;url=([^"]*)"`).FindStringSubmatch(read(t, seen, "page"))
			if len(found) != 2 || html.UnescapeString(found[1]) != s.URL() {
				t.Errorf("the file leads to %q, not to %s", found, s.URL())
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(words, "file://"))); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file's directory stays: %v", err)
			}
		})
	}
}

// A browser that follows the redirect of a local file sends no cookie and marks the request as cross-site: a page of this
// server lets it in.
func TestLinkFromAFile(t *testing.T) {
	s := start(t, daemon(t))
	c := browser(t)
	cross := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	code, body := ask(t, c, http.MethodGet, s.URL(), cross)
	if code != http.StatusOK || !strings.Contains(body, `content="0;url=`+strings.TrimPrefix(base(s), "http://127.0.0.1:"+mustPort(t, s))+
		`/"`) {
		t.Fatalf("status %d, %q", code, body)
	}
	if code, body := ask(t, c, http.MethodGet, base(s)+"/", nil); code != http.StatusOK || !strings.HasPrefix(body, "GET / ") {
		t.Errorf("then status %d, %q", code, body)
	}
	if code, _ := ask(t, browser(t), http.MethodGet, s.URL(), cross); code != http.StatusForbidden {
		t.Errorf("the link in another browser: status %d", code)
	}
}
