package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// section is one part of a manual page.
type section struct {
	title string
	lines []string
}

// useManual makes every command print its manual page as help.
func useManual(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeManual(c.OutOrStdout(), c) })
	root.SetHelpCommand(&cobra.Command{
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
	})
}

// commandNames lists the commands below the one that args lead to.
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

// writeManual prints a manual page as text.
func writeManual(w io.Writer, c *cobra.Command) {
	for _, s := range manual(c) {
		_, _ = fmt.Fprintf(w, "%s\n", s.title)
		for _, l := range s.lines {
			_, _ = fmt.Fprintf(w, "%s\n", strings.TrimRight("    "+l, " "))
		}
		_, _ = fmt.Fprintln(w)
	}
}

// Markdown is the manual of a command and of all below it, as docs/sluice.8.md has it.
func Markdown(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s(8)\n\n", strings.ReplaceAll(c.CommandPath(), " ", "-"))
	for _, s := range manual(c) {
		fmt.Fprintf(&b, "## %s\n\n", s.title)
		if s.title == "DESCRIPTION" {
			fmt.Fprintf(&b, "%s\n\n", strings.Join(s.lines, "\n"))
			continue
		}
		fmt.Fprintf(&b, "```\n%s\n```\n\n", strings.Join(s.lines, "\n"))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			b.WriteString("\n" + strings.ReplaceAll(Markdown(sub), "\n## ", "\n### "))
		}
	}
	return b.String()
}

// manual makes the sections of a page; those that would be empty are left out.
func manual(c *cobra.Command) []section {
	list := []section{
		{"NAME", []string{c.CommandPath() + " - " + c.Short}},
		{"SYNOPSIS", synopsis(c)},
		{"DESCRIPTION", split(c.Long)},
		{"COMMANDS", commandLines(c)},
		{"OPTIONS", optionLines(c)},
		{"EXAMPLES", split(c.Example)},
		{"EXIT CODES", exitLines(c)},
	}
	if !c.HasParent() {
		list = append(list, section{"FILES", []string{
			fmt.Sprintf("%-26s configuration; conf.d/*.yaml beside it is read along", DefaultConfig),
			fmt.Sprintf("%-26s the daemon's API", DefaultSocket),
			fmt.Sprintf("%-26s the daemon's journal", "/var/lib/sluice"),
		}})
	}
	var out []section
	for _, s := range list {
		if len(s.lines) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func split(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(strings.TrimSpace(text), "\n")
}

func synopsis(c *cobra.Command) []string {
	path := c.CommandPath()
	if c.HasAvailableSubCommands() {
		return []string{path + " COMMAND [OPTIONS]"}
	}
	_, args, _ := strings.Cut(c.Use, " ")
	return []string{strings.TrimSpace(path + " [OPTIONS] " + args)}
}

func commandLines(c *cobra.Command) []string {
	var lines []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			lines = append(lines, fmt.Sprintf("%-12s %s", sub.Name(), sub.Short))
		}
	}
	return lines
}

// optionLines lists a command's options, with their defaults where they have one.
func optionLines(c *cobra.Command) []string {
	var lines []string
	add := func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		short := "    "
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		name, text := pflag.UnquoteUsage(f)
		if name != "" {
			name = " " + strings.ToUpper(name)
		}
		if !zero(f.DefValue) {
			text += " (" + f.DefValue + ")"
		}
		lines = append(lines, fmt.Sprintf("%s--%-20s %s", short, f.Name+name, text))
	}
	c.LocalFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	return lines
}

// zero says whether a default goes without saying.
func zero(s string) bool { return s == "" || s == "false" || s == "0" || s == "0s" }

// exitLines lists the exit codes of a command; only two of them find something.
func exitLines(c *cobra.Command) []string {
	finds := !c.HasParent() || c.Name() == "doctor" || c.Name() == "fsck"
	var lines []string
	for code, text := range exitCodes() {
		switch {
		case finds:
		case code == ExitOK:
			text = "done"
		case code == ExitFindings:
			continue
		}
		lines = append(lines, fmt.Sprintf("%d  %s", code, text))
	}
	return lines
}
