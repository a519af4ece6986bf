package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// about is the part of the manual that concerns all commands; the indentation suits both man and Markdown.
const about = `Exit codes:

    0  success; nothing found
    1  it failed; the message says why and what to do
    2  the command line is wrong
    3  doctor, fsck or version --check found something
    4  no daemon answers, or it refuses this user
    5  pin or release: accepted, but something prevents the effect; the message says what

Files:

    /etc/sluice/sluice.yaml   configuration; conf.d/*.yaml beside it is read too
    /run/sluice/sluice.sock   the daemon's API
    /var/lib/sluice           the daemon's journal`

// helpCommand is like cobra's, but an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "the manual of sluice or of one command",
		Long:    "Prints this manual, or that of one command. sluice COMMAND --help does the same.",
		Example: "sluice help\nsluice help config check",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return commandNames(c.Root(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usage(c.Root(), fmt.Errorf("there is no command %q", strings.Join(args, " ")))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// commandNames lists the subcommands of the command that args select.
func commandNames(root *cobra.Command, args []string) []string {
	c, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	return names
}
