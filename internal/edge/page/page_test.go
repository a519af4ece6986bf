package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/edge/page"
)

func ask(t *testing.T, method, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	r.Header = header
	page.Handler("1.2.3").ServeHTTP(w, r)
	return w
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	for _, path := range []string{"/", "/vm/web-1", "/assets/app.js", "/assets/uplot/LICENSE"} {
		w := ask(t, http.MethodGet, path, nil)
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, %d bytes", path, w.Code, w.Body.Len())
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
		} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: the policy %q allows too much", path, csp)
		}
		for h, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-cache",
		} {
			if got := w.Header().Get(h); got != want {
				t.Errorf("%s: %s is %q, want %q", path, h, got, want)
			}
		}
	}
}

func TestOnlyReads(t *testing.T) {
	for _, path := range []string{"/", "/vm/x", "/assets/app.js"} {
		if w := ask(t, http.MethodPost, path, nil); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: status %d", path, w.Code)
		}
	}
	for _, path := range []string{"/assets/", "/assets/index.html", "/assets/../page.go", "/assets/none.js", "/other", "/vm/a/b"} {
		if w := ask(t, http.MethodGet, path, nil); w.Code == http.StatusOK {
			t.Errorf("GET %s is answered", path)
		}
	}
}

func TestWhatTheBrowserHasIsNotSentAgain(t *testing.T) {
	tag := ask(t, http.MethodGet, "/assets/app.js", nil).Header().Get("Etag")
	w := ask(t, http.MethodGet, "/assets/app.js", http.Header{"If-None-Match": {tag}})
	if tag == "" || w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("tag %q: status %d, %d bytes", tag, w.Code, w.Body.Len())
	}
}

// The HTML has no inline script, style or handler, and the page loads nothing from other sites.
func TestNothingInlineAndNothingFromElsewhere(t *testing.T) {
	html := ask(t, http.MethodGet, "/", nil).Body.String()
	if bad := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:`).FindString(html); bad != "" {
		t.Errorf("the HTML has %q in it", bad)
	}
	err := fs.WalkDir(os.DirFS("assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "uplot/") {
			return err
		}
		data, err := os.ReadFile(path.Join("assets", name))
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(data), "http://www.w3.org/", "")
		text = strings.ReplaceAll(text, "there is no innerHTML here", "")
		forbidden := regexp.MustCompile(`https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`)
		if bad := forbidden.FindString(text); bad != "" {
			t.Errorf("%s has %q in it", name, bad)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every file that the page references exists, and every file is referenced.
func TestAssetsAreAllNamed(t *testing.T) {
	seen := map[string]bool{"uplot/LICENSE": true}
	refs := regexp.MustCompile(`(?:from '\./|/assets/)([\w./-]+)`)
	for _, name := range []string{"/", "/assets/app.js"} {
		for _, m := range refs.FindAllStringSubmatch(ask(t, http.MethodGet, name, nil).Body.String(), -1) {
			seen[m[1]] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for name := range seen {
			w := ask(t, http.MethodGet, "/assets/"+name, nil)
			if w.Code != http.StatusOK {
				t.Fatalf("%s is named and not there", name)
			}
			for _, m := range regexp.MustCompile(`from '\./([\w.-]+)'`).FindAllStringSubmatch(w.Body.String(), -1) {
				grown = grown || !seen[m[1]]
				seen[m[1]] = true
			}
		}
	}
	err := fs.WalkDir(os.DirFS("assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && name != "index.html" && !seen[name] {
			t.Errorf("%s is not used", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
