package cli_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"sluice/internal/control/placement"
	"sluice/internal/edge/cli"
)

func root() *cobra.Command {
	return cli.Root(cli.Streams{Out: io.Discard, Err: io.Discard}, cli.Deps{Version: "1.2.3"})
}

// Every policy has a section, and every parameter a row.
func TestEveryPolicyIsDocumented(t *testing.T) {
	read := func(file string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	policies, config := read("../../../docs/policies.md"), read("../../../docs/config.md")
	for policy, info := range placement.Policies() {
		if !strings.Contains(policies, "\n## "+policy+"\n") {
			t.Errorf("docs/policies.md has no section on %s", policy)
		}
		for _, p := range info.Params {
			if !strings.Contains(config, "| `"+policy+"` | `"+p.Name+"` |") {
				t.Errorf("docs/config.md has no row for %s's %s", policy, p.Name)
			}
		}
	}
}

// Every command has what a manual page needs.
func TestEveryCommandIsExplained(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Long == "" || c.Short == "" || c.RunE == nil {
			t.Errorf("%s lacks a description or does nothing", c.CommandPath())
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(root())
}
