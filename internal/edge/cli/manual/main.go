// Command manual writes man pages into a directory: one for each command of sluice, and one for sluice.yaml. Those of the
// other programs are in packaging/man. `make man` runs it. docs/sluice.8.md, which its test writes, has all commands on one
// page.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/edge/cli"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: manual DIRECTORY CONFIG.MD")
		os.Exit(2)
	}
	if err := pages(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// root returns the command tree for the manual.
func root() *cobra.Command {
	c := cli.Root(cli.Streams{Out: io.Discard, Err: io.Discard}, cli.Deps{})
	c.DisableAutoGenTag = true // a date would make builds irreproducible
	return c
}

// pages rewrites the man pages: those of the commands, and that of sluice.yaml from its reference.
func pages(dir, reference string) error {
	if strings.HasPrefix(dir, "-") {
		return fmt.Errorf("%s looks like a flag, and there are none: usage: manual DIRECTORY CONFIG.MD "+
			"(write ./%[1]s for a directory of that name)", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // to be read by all
		return err
	}
	text, err := os.ReadFile(reference) //nolint:gosec // as told
	if err != nil {
		return err
	}
	page, err := filePage(string(text))
	if err != nil {
		return err
	}
	if err := write(dir, "sluice.yaml.5", page); err != nil {
		return err
	}
	return commandPages(dir, root())
}

func commandPages(dir string, c *cobra.Command) error {
	page, err := commandPage(c)
	if err != nil {
		return err
	}
	if err := write(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".8", page); err != nil {
		return err
	}
	for _, sub := range available(c) {
		if err := commandPages(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

func write(dir, name, text string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) //nolint:gosec // to be read by all
}
