// Command manual writes the man pages of sluice, one for each command, into a directory.
// `make man` runs it. docs/sluice.8.md, which its test writes, holds the same.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"sluice/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual DIRECTORY")
		os.Exit(2)
	}
	if err := pages(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

// root is the tree of commands as the manual has it.
func root() *cobra.Command {
	c := cli.Root(cli.Streams{Out: io.Discard, Err: io.Discard}, cli.Deps{})
	c.DisableAutoGenTag = true // a date would make every build another
	return c
}

// pages writes the man pages anew; sluiced has that of `sluice run`.
func pages(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // to be read by all
		return err
	}
	h := &doc.GenManHeader{Section: "8", Source: "Sluice", Manual: "Sluice"}
	if err := doc.GenManTree(root(), h, dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "sluiced.8"), []byte(".so man8/sluice-run.8\n"), 0o644) //nolint:gosec // as above
}

// markdown is the manual on one page.
func markdown() (string, error) {
	var b bytes.Buffer
	link := func(name string) string { return "#" + strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "_", "-") }
	var visit func(c *cobra.Command) error
	visit = func(c *cobra.Command) error {
		if err := doc.GenMarkdownCustom(c, &b, link); err != nil {
			return err
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" {
				if err := visit(sub); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := visit(root())
	return b.String(), err
}
