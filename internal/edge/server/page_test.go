package server_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/internal/edge/edgetest"
)

// The page answers only at its own paths, and only if it is configured.
func TestPageIsMounted(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	if w := ask(t, o, http.MethodGet, "/", ""); w.Code != http.StatusNotFound {
		t.Errorf("without a page: status %d", w.Code)
	}
	o.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the page")) })
	for path, want := range map[string]string{
		"/": "the page", "/vm/web-1": "the page", "/assets/app.js": "the page", "/v1/status": `"revision"`, "/other": "nothing answers",
		"/vm/": "nothing answers",
	} {
		if w := ask(t, o, http.MethodGet, path, ""); !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s: %q, want %q", path, w.Body, want)
		}
	}
	if w := ask(t, o, http.MethodPost, "/", ""); w.Code == http.StatusOK {
		t.Errorf("POST /: status %d", w.Code)
	}
}
