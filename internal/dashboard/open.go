package dashboard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Open shows a link in the user's browser, by the desktop's own means.
func Open(ctx context.Context, link string) error {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("there is no desktop here to open a browser on")
	}
	program, err := exec.LookPath("xdg-open")
	if err != nil {
		return errors.New("xdg-open is not installed (package xdg-utils), so no browser can be opened")
	}
	if err := exec.CommandContext(ctx, program, link).Run(); err != nil { //nolint:gosec // as found
		return fmt.Errorf("xdg-open: %w", err)
	}
	return nil
}
