package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// openFor is how long a starting browser has to read the file with the link after xdg-open has exited.
const openFor = 30 * time.Second

// Open opens a link in the user's browser with xdg-open. Every user of the host can read command lines, so the link is not
// passed as an argument: the browser gets a file that only this user can read and that redirects to the link. Open removes
// the file and returns when ctx ends, which is not an error, or half a minute after calling the browser.
func Open(ctx context.Context, link string) (err error) {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("there is no desktop session to open a browser in")
	}
	program, err := exec.LookPath("xdg-open")
	if err != nil {
		return errors.New("no browser can be opened: xdg-open is not installed (package xdg-utils)")
	}
	file, remove, err := linkFile(link)
	if err != nil {
		return fmt.Errorf("write the file that directs the browser to the page: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	err = exec.CommandContext(ctx, program, (&url.URL{Scheme: "file", Path: file}).String()).Run() //nolint:gosec // as found
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("xdg-open: %w", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(openFor):
	}
	return nil
}

var redirect = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Sluice</title>
<meta http-equiv="refresh" content="0;url={{.}}"></head>
<body><a href="{{.}}">The page of Sluice</a></body></html>
`))

// linkFile creates a file that redirects to a link, mode 0600, in a directory of its own, mode 0700. remove removes both.
func linkFile(link string) (file string, remove func() error, err error) {
	dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "sluice-dashboard-")
	if err != nil { // the directory belongs to another user after su, or no longer exists
		if dir, err = os.MkdirTemp("", "sluice-dashboard-"); err != nil {
			return "", nil, err
		}
	}
	remove = func() error { return os.RemoveAll(dir) }
	file = filepath.Join(dir, "open.html")
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // in our own directory
	if err == nil {
		err = errors.Join(redirect.Execute(f, link), f.Close())
	}
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return file, remove, nil
}
