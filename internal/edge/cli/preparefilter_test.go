package cli_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/internal/edge/cli"
)

// Whatever is wrong, the input comes out with status 0 and a message; and what is right is prepared, and comes back.
func TestPrepareFilter(t *testing.T) {
	data, err := os.ReadFile("../../host/prepare/testdata/vdsm.xml")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	run := func(in io.Reader, args ...string) (out, said string) {
		t.Helper()
		var o, e bytes.Buffer
		code := cli.Main(t.Context(), append([]string{"prepare", "--filter"}, args...), cli.Streams{In: in, Out: &o, Err: &e}, cli.Deps{})
		if code != cli.ExitOK {
			t.Errorf("%q: exit code %d", args, code)
		}
		return o.String(), e.String()
	}
	long := doc + strings.Repeat(" ", 5<<20)
	for _, c := range []struct {
		name string
		in   io.Reader
		args []string
		out  string
		says string
	}{
		{"a name", strings.NewReader(doc), []string{"web-1"}, doc, "no VM is named"},
		{"other flags", strings.NewReader(doc), []string{"--all"}, doc, "--nic, --agent and --undo"},
		{"long", strings.NewReader(long), nil, long, "more than 4 MiB"},
		{"no XML", strings.NewReader("<x"), nil, "<x", "read domain XML"},
		{"no such NIC", strings.NewReader(doc), []string{"--nic", "br7"}, doc, `none of its NICs matches "br7"`},
		{"read fails", io.MultiReader(strings.NewReader("<a/>"), iotest.ErrReader(errors.New("gone"))), nil, "<a/>", "gone"},
	} {
		if out, said := run(c.in, c.args...); out != c.out || !strings.Contains(said, c.says) {
			t.Errorf("%s: %d bytes came out of %d, and it says %q", c.name, len(out), len(c.out), said)
		}
	}
	out, said := run(strings.NewReader(doc))
	if !strings.Contains(out, "<teaming type='persistent'/>") || said != "" {
		t.Errorf("it says %q and prints\n%s", said, out)
	}
	if back, said := run(strings.NewReader(out), "--undo"); back != doc || said != "" {
		t.Errorf("undone, it says %q and prints\n%s", said, back)
	}
}
