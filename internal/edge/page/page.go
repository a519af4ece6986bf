// Package page serves the page for watching a host in a browser. It is static: an HTML frame, and scripts that query the
// API on the same server. It cannot change anything and loads nothing from other sites.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// policy allows only the page's own files and nothing inline in the HTML, so that the name of a VM can become neither
// script nor style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed assets
var embedded embed.FS

// types are the media types of the files in assets, independent of the host's tables.
var types = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// file is one response.
type file struct {
	data []byte
	kind string
	tag  string // ETag
}

// Handler serves GET /, /vm/UUID and /assets/... of a daemon of that version. The scripts query the API under /v1 of the
// same server. All links are relative, so that a proxy can serve the page under another path.
func Handler(version string) http.Handler {
	mux := http.NewServeMux()
	must(fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".html" {
			return err
		}
		data, err := embedded.ReadFile(name)
		mux.Handle("GET /"+name, newFile(data, cmp.Or(types[path.Ext(name)], "text/plain; charset=utf-8"))) // text: licences
		return err
	}))
	mux.Handle("GET /{$}", frame(version, "./"))
	mux.Handle("GET /vm/{vm}", frame(version, "../")) // one directory deeper
	return mux
}

// must panics on errors that can only be caused at build time.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// frame fills in the version and the relative path to the root. A template engine would make the daemon a fifth larger: it
// uses reflection, so the linker keeps every method of every type.
func frame(version, root string) *file {
	data, err := embedded.ReadFile("assets/index.html")
	must(err)
	text := strings.NewReplacer("{{.Version}}", html.EscapeString(version), "{{.Root}}", root).Replace(string(data))
	return newFile([]byte(text), "text/html; charset=utf-8")
}

func newFile(data []byte, kind string) *file {
	sum := sha256.Sum256(data)
	const enough = 12
	return &file{data: data, kind: kind, tag: `"` + hex.EncodeToString(sum[:enough]) + `"`}
}

// ServeHTTP answers with the file, or with 304 if the browser has the current version. The browser revalidates each time, so that
// the page of a newer daemon is never mixed with older files.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("Etag", f.tag)
	h.Set("Content-Type", f.kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}
