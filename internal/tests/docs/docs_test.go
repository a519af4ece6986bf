package docs_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every block of commands runs against the demo, is checked against the program that it calls, or calls a program that is listed with
// the reason why it is not checked (elsewhere). A block of an unknown kind fails the test, so that nothing is skipped silently.
func TestCommands(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_ROOT") == "1" {
		t.Skip("SLUICE_TEST_NO_ROOT=1: commands that change things need root")
	}
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			for _, s := range snippets(t, page) {
				if s.inline {
					continue
				}
				script, kind, ok := s.commands()
				if kind == "" {
					t.Errorf("%s: neither commands nor anything known: %.60q; mark the block with its language", s.where(), s.text)
				}
				if ok {
					try(t, &s, script)
				} else if line := s.hidden(); line != "" {
					t.Errorf("%s: %q in a block of %s: put a sentence between the two", s.where(), line, kind)
				}
			}
		})
	}
	if n := ran.Load(); n < 50 {
		t.Errorf("only %d commands were run", n)
	}
}

// The checks find wrong commands.
func TestWrongCommands(t *testing.T) {
	for line, want := range map[string]string{
		"sluice statsu":                                 `no command "statsu"`,
		"sluice vms --sortt name":                       "unknown flag",
		"sluice explain":                                "needs the name",
		"sluice explain web-1 web-2":                    "one VM at a time",
		"sluice explain nobody":                         `no VM "nobody"`,
		"sluice sla sett web-1":                         `sla has no command "sett"`,
		"sluice sla set web-1 --guarantee 2":            "2Gbit",
		"sluiced --offlin":                              "offlin",
		"sluice-guest doctr":                            `no command "doctr"`,
		"make tset":                                     `no target "tset"`,
		"go test ./internal/edge/server -run TestNever": "no test TestNever",
		"virsh metadat db-1":                            "metadat",
		"virsh metadata db-1 --lve":                     "no option --lve",
		"systemctl start slice":                         `no unit "slice"`,
		"systemctl go sluice":                           "systemctl go",
		"curl --unix-socket /run/sluice/sluice.sock http://sluice/v1/vm": "404",
		"promtool check rules /usr/share/sluice/prometheus/none.yaml":    "no package installs",
		"install -m 644 packaging/none.service /etc/systemd/system/":     "no such file",
		"frobnicate now": `how to check "frobnicate"`,
	} {
		t.Run(line, func(t *testing.T) {
			list, err := calls(line)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkProgram(t, list[0].args); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	if s := (&snippet{text: "vms:\n  - {match: a}\n\nsluice reload\n"}); s.hidden() != "sluice reload" {
		t.Error("a command below YAML is passed over")
	}
	for _, text := range []string{"frobnicate now\n", "some words\n", "$slice status\n"} {
		if _, kind, ok := (&snippet{text: text}).commands(); ok || kind != "" {
			t.Errorf("%q is taken for %s", text, kind)
		}
	}
}

func try(t *testing.T, s *snippet, script string) {
	t.Helper()
	list, err := calls(script)
	if err != nil {
		t.Errorf("%s: %v", s.where(), err)
		return
	}
	for _, c := range list {
		line := strings.Join(c.args, " ")
		err := checkProgram(t, c.args)
		if strings.HasPrefix(c.comment, "refused") {
			var f *failed
			if !errors.As(err, &f) {
				t.Errorf("%s: %s: should be refused, and is not: %v", s.where(), line, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %s: %v", s.where(), line, err)
		}
	}
}

// option matches the error for a flag without its value.
var option = regexp.MustCompile(`needs an argument`)

// Commands named in a sentence exist, and so do their flags; arguments may be omitted there.
func TestCommandsInSentences(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		for _, s := range snippets(t, page) {
			program, rest, ok := strings.Cut(s.text, " ")
			switch {
			case !s.inline || !ok:
			case program == "sluice":
				n++
				checkNamed(t, s.where(), rest)
			case program == "virsh" || program == "systemctl" || program == "make":
				n++
				try(t, &s, s.text)
			}
		}
	}
	if n < 100 {
		t.Errorf("found only %d", n)
	}
}

func checkNamed(t *testing.T, where, line string) {
	t.Helper()
	list, err := calls("sluice " + line)
	if err != nil {
		t.Errorf("%s: sluice %s: %v", where, line, err)
		return
	}
	for _, c := range list {
		args := c.args[1:]
		cmd, rest, err := tree().Find(args)
		if err == nil && cmd.HasParent() {
			err = cmd.ParseFlags(rest)
		}
		if err == nil && cmd.HasSubCommands() && len(cmd.Flags().Args()) > 0 && cmd.Flags().Args()[0] != "x" {
			err = errors.New("no such command")
		}
		if err != nil && !option.MatchString(err.Error()) {
			t.Errorf("%s: sluice %s: %v", where, line, err)
		}
	}
}

// The commands in alerts exist.
func TestCommandsInAlerts(t *testing.T) {
	data, err := os.ReadFile(root + "/packaging/prometheus/sluice.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\{\{ \$labels\.\w+ \}\}`).ReplaceAllString(string(data), "VM")
	found := regexp.MustCompile(`(?:: |; )sluice ([a-z][^;"]*?)(?:; |"|, |\n)`).FindAllStringSubmatch(text, -1)
	if len(found) < 15 {
		t.Errorf("found only %d", len(found))
	}
	for _, m := range found {
		checkNamed(t, "alerts", m[1])
	}
}
