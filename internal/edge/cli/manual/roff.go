package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// roff is a man page in the macros of man(7).
type roff struct{ strings.Builder }

// newPage starts a page. Its date is SOURCE_DATE_EPOCH, so that builds are reproducible.
func newPage(name, section string) (*roff, error) {
	at := ""
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
		}
		at = time.Unix(seconds, 0).UTC().Format("2006-01-02")
	}
	r := &roff{}
	fmt.Fprintf(r, ".TH %q %q %q \"Sluice\" \"Sluice\"\n.nh\n.ad l\n", strings.ToUpper(name), section, at)
	return r, nil
}

// plain escapes text so that roff shows it literally.
func plain(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func (r *roff) section(title string) { fmt.Fprintf(r, ".SH %q\n", strings.ToUpper(title)) }

// prose writes paragraphs; lines indented by four spaces are written verbatim.
func (r *roff) prose(text string) {
	verbatim := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		code := strings.HasPrefix(line, "    ")
		switch {
		case code && !verbatim:
			r.WriteString(".RS 4\n.EX\n")
		case !code && verbatim && line != "":
			r.WriteString(".EE\n.RE\n.PP\n")
		case line == "" && !verbatim:
			r.WriteString(".PP\n")
			continue
		case line == "":
			continue
		}
		verbatim = code
		r.WriteString(plain(strings.TrimPrefix(line, "    ")) + "\n")
	}
	if verbatim {
		r.WriteString(".EE\n.RE\n")
	}
}

// example writes lines verbatim.
func (r *roff) example(text string) {
	r.WriteString(".EX\n")
	for line := range strings.Lines(text) {
		r.WriteString(plain(strings.TrimSuffix(line, "\n")) + "\n")
	}
	r.WriteString(".EE\n")
}

// item writes a term and its description.
func (r *roff) item(term, text string) {
	fmt.Fprintf(r, ".TP\n%s\n%s\n", term, plain(text))
}

func (r *roff) flags(title string, set *pflag.FlagSet) {
	begun := false
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !begun {
			begun = true
			r.section(title)
		}
		value, usage := pflag.UnquoteUsage(f)
		term := `\fB` + plain("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			term = `\fB` + plain("-"+f.Shorthand) + `\fR, ` + term
		}
		if value != "" {
			term += ` \fI` + plain(value) + `\fR`
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" && d != "[]" {
			usage += " (default: " + d + ")"
		}
		r.item(term, usage)
	})
}

// commandPage returns the page of a command.
func commandPage(c *cobra.Command) (string, error) {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	r, err := newPage(name, "8")
	if err != nil {
		return "", err
	}
	r.section("Name")
	fmt.Fprintf(r, "%s \\- %s\n", plain(name), plain(c.Short))
	r.section("Synopsis")
	fmt.Fprintf(r, "\\fB%s\\fR%s\n", plain(c.CommandPath()), plain(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	r.section("Description")
	r.prose(cmp.Or(c.Long, c.Short))
	if subs := available(c); len(subs) > 0 {
		r.section("Commands")
		for _, sub := range subs {
			r.item(`\fB`+plain(sub.CommandPath())+`\fR`, sub.Short)
		}
	}
	r.flags("Options", c.NonInheritedFlags())
	r.flags("Options of all commands", c.InheritedFlags())
	if c.Example != "" {
		r.section("Examples")
		r.example(c.Example)
	}
	r.seeAlso(c)
	return r.String(), nil
}

func available(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return !sub.IsAvailableCommand() })
}

func (r *roff) seeAlso(c *cobra.Command) {
	also := []string{`\fBsluiced\fR(8)`, `\fBsluice.yaml\fR(5)`}
	if c.HasParent() {
		also = []string{pageRef(c.Parent())}
	}
	for _, sub := range available(c) {
		also = append(also, pageRef(sub))
	}
	r.section("See also")
	r.WriteString(strings.Join(also, ",\n") + "\n")
}

func pageRef(c *cobra.Command) string {
	return `\fB` + plain(strings.ReplaceAll(c.CommandPath(), " ", "-")) + `\fR(8)`
}

var (
	link   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	stress = regexp.MustCompile("(`[^`]*`)|\\*+")
)

// unmarked converts a line of Markdown to plain text; asterisks in code are kept.
func unmarked(text string) string {
	return strings.ReplaceAll(stress.ReplaceAllString(link.ReplaceAllString(text, "$1"), "$1"), "`", "")
}

// filePage returns sluice.yaml(5), generated from docs/config.md: its prose, and its table of keys as a list.
func filePage(reference string) (string, error) {
	r, err := newPage("sluice.yaml", "5")
	if err != nil {
		return "", err
	}
	r.section("Name")
	r.WriteString("sluice.yaml \\- configuration of Sluice\n")
	r.section("Description")
	code := false
	for line := range strings.SplitSeq(reference, "\n") {
		indented := strings.HasPrefix(line, "    ") && (code || strings.HasPrefix(line, "      $"))
		if indented != code {
			r.WriteString(map[bool]string{true: ".PP\n.EX\n", false: ".EE\n"}[indented])
			code = indented
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case indented:
			r.WriteString(plain(strings.TrimSpace(line)) + "\n")
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "<!--"), strings.HasPrefix(line, "| ---"), strings.HasPrefix(line, "| key "),
			strings.HasPrefix(line, "| policy "):
		case strings.HasPrefix(line, "## "):
			r.section(unmarked(line[3:]))
		case strings.HasPrefix(line, "| "):
			r.row(cells)
		case strings.HasPrefix(line, "- "):
			r.WriteString(".IP \\(bu 2\n" + plain(unmarked(line[2:])) + "\n")
		case strings.TrimSpace(line) == "":
			r.WriteString(".PP\n")
		default:
			r.WriteString(plain(unmarked(strings.TrimSpace(line))) + "\n")
		}
	}
	r.section("See also")
	r.WriteString("\\fBsluiced\\fR(8), \\fBsluice\\-config\\-check\\fR(8), \\fBsluice\\-reload\\fR(8)\n")
	return strings.ReplaceAll(r.String(), ".PP\n.PP\n", ".PP\n"), nil
}

// row writes a row of a table: of keys (key, default, value, meaning), or of parameters, which have a policy and a unit
// too.
func (r *roff) row(cells []string) {
	for i := range cells {
		cells[i] = strings.TrimSpace(unmarked(cells[i]))
	}
	term, rest := cells[0], cells[1:]
	if len(cells) == 6 {
		term, rest = cells[0]+": "+cells[1], append([]string{strings.TrimSpace(cells[3] + " " + cells[2])}, cells[4:]...)
	}
	term = `\fB` + plain(term) + `\fR`
	if len(rest) > 1 && rest[1] != "" {
		term += ` \fI` + plain(rest[1]) + `\fR`
	}
	text := rest[len(rest)-1]
	if rest[0] != "" && len(rest) > 1 {
		text += " (default: " + rest[0] + ")"
	}
	r.item(term, text)
}
