package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag that takes a list completes after a comma, or offers nothing explicitly.
func TestListsAreCompleted(t *testing.T) {
	lists := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.SetContext(t.Context())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.HasSuffix(f.Value.Type(), "Slice") {
				return
			}
			lists++
			complete, ok := c.GetFlagCompletionFunc(f.Name)
			if !ok {
				t.Errorf("%s --%s is not completed", c.CommandPath(), f.Name)
				return
			}
			if _, directive := complete(c, nil, "a,"); directive&cobra.ShellCompDirectiveNoFileComp == 0 {
				t.Errorf("%s --%s offers files", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	root := Root(Streams{Out: io.Discard, Err: io.Discard}, Deps{})
	walk(root)
	if lists < 5 {
		t.Errorf("only %d flags take lists", lists)
	}
}
