package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameWhenPrinted checks that the settings of a configuration, read as sluice.yaml, are the same configuration.
func sameWhenPrinted(t *testing.T, c *Config) {
	t.Helper()
	var b strings.Builder
	WriteSettings(&b, c.Settings())
	if diff := cmp.Diff(c, parseText(t, b.String()), ignorePlaces, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("printed and read again it differs:\n%s\n%s", diff, &b)
	}
}

func TestSettings(t *testing.T) {
	c := parseText(t, `
params: {hold: 1e-7, "2": 3}
pfs: [{name: "null", vfs: 3}, {name: "7e3", speed: 9.4Gbit}]
vms:
  - {match: "# a: 'b' \"c", pin: false, weight: 0.001}
  - {match: "-", receive: 1Gbit 5kpps}
bandwidth: {enabled: false, packets: 800kpps}
api: {group: "", listen: "[::1]:9178"}
moves: {backoff_max: 90m}
`)
	sameWhenPrinted(t, c)
	sameWhenPrinted(t, Default())
	for _, want := range []Setting{
		{Key: "mode", Value: "observe", Source: "default"},
		{Key: "moves.backoff_max", Value: "1h30m", Source: "sluice.yaml:9:9"},
		{Key: "params.hold", Value: "1e-07", Source: "sluice.yaml:2:10"},
		{Key: "pfs[1].vfs", Value: "all", Source: "default"},
		{Key: "vms[0].match", Value: `# a: 'b' "c`, Source: "sluice.yaml:5:6"},
		{Key: "vms[1].receive", Value: "1Gbit 5kpps", Source: "sluice.yaml:6:18"},
		{Key: "bandwidth.enabled", Value: "false", Source: "sluice.yaml:7:13"},
		{Key: "api.group", Value: "", Source: "sluice.yaml:8:7"},
	} {
		if !slices.ContainsFunc(c.Settings(), func(s Setting) bool { s.line = ""; return s == want }) {
			t.Errorf("%+v is missing in %+v", want, c.Settings())
		}
	}
}
