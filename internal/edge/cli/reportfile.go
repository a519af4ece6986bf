package cli

import (
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/research/report"
)

// reportOf makes the writer of a report write at its end which command and version made it.
func reportOf[T any](a *app, c *cobra.Command, args []string, write func(io.Writer, T, report.About) error) func(io.Writer, T) error {
	about := report.About{Command: commandLine(c, args), Version: a.deps.Version}
	return func(w io.Writer, r T) error { return write(w, r, about) }
}

// commandLine returns a command with its arguments and the flags that were given, to be repeated in a shell.
func commandLine(c *cobra.Command, args []string) string {
	words := append(strings.Fields(c.CommandPath()), args...)
	c.Flags().Visit(func(f *pflag.Flag) { words = append(words, "--"+f.Name+"="+strings.Trim(f.Value.String(), "[]")) })
	for i, word := range words {
		if !plainWord.MatchString(word) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)
