package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/config"
)

func TestWithoutSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"uri: qemu+tls://ann:hunter2@h/system":  "uri: qemu+tls://ann:REMOVED@h/system",
		"password=hunter2 quiet":                "password=REMOVED quiet",
		`{"token": "hun ter2", "a": 1}`:         `{"token": "REMOVED", "a": 1}`,
		"Passphrase: hunter2\nnext":             "Passphrase: REMOVED\nnext",
		"password='hun ter2' quiet":             "password='REMOVED' quiet",
		`{"reason": "token=abc", "b": 1}`:       `{"reason": "token=REMOVED", "b": 1}`,
		`{"log": "password=\"hun ter2\" x"}`:    `{"log": "password=\"REMOVED\" x"}`,
		`{"log": "{\"secret\": \"hun ter2\"}"}`: `{"log": "{\"secret\": \"REMOVED\"}"}`,
		"api_key=hunter2 api-key: hunter2":      "api_key=REMOVED api-key: REMOVED",
		"time 12:00, address 10.0.0.1, uid 100": "time 12:00, address 10.0.0.1, uid 100",
	} {
		got := withoutSecrets(in)
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if json.Valid([]byte(in)) && !json.Valid([]byte(got)) {
			t.Errorf("%q is no JSON any more", got)
		}
	}
}

func TestAnonymizer(t *testing.T) {
	a := newAnonymizer(map[string]string{"web-1": "vm", "web-10": "vm", "state": "vm", "ann": "user", "node7": "host", "web-*": "pattern"})
	a.learn("52:54:00:ab:cd:ef")
	for _, c := range [][2]string{
		{"web-10 and web-1, ua-sluice-web-1, web-100, xweb-1", "vm-1 and vm-2, ua-sluice-vm-2, web-100, xweb-1"},
		{`{"state": "state", "web-1": 1}`, `{"state": "vm-3", "vm-2": 1}`},
		{"match: web-*  # by ann on node7, annex", "match: pattern-1  # by user-1 on host-1, annex"},
		{"52:54:00:AB:CD:EF vnet0_525400abcdef_pf0 525400abcd00", "02:00:00:00:00:01 vnet0_525400abcdef_pf0 525400abcd00"},
		{"525400abcdef", "020000000001"},
		{"6695EB01-f6a4-8304-79aa-97f2502e193f", "00000000-0000-4000-8000-000000000001"},
		{"to 10.1.2.3:9178, fd00::1, 10.1.2.3. ::1 127.0.0.1", "to IP-1:9178, IP-2, IP-1. ::1 127.0.0.1"},
		{"2026-11-23T12:34:56.789 0000:81:00.0 1.25.3 6.12.0", "2026-11-23T12:34:56.789 0000:81:00.0 1.25.3 6.12.0"},
	} {
		if got := a.text(c[0]); got != c[1] {
			t.Errorf("%q:\n%q, want\n%q", c[0], got, c[1])
		}
	}
}

// Names are found without a daemon's list of VMs: in its log, in what it remembers of VMs that are gone, in what libvirt knows and in the
// configuration.
func TestPeople(t *testing.T) {
	d := &dump{files: map[string]string{}, domains: "db-1\n\n"}
	d.add("host/journal.txt", `msg="plug ended" vm=web-1 vf=pf0/1 by="ann b"`+"\n", nil)
	d.add("daemon/history.json", `{"vms": [{"domain": "gone-7", "by": "carl"}]}`, nil)
	d.add("doctor-offline.json", `{"text": "db-1 has no channel"}`, nil)
	c := config.Default()
	c.API.Operate, c.API.Hosts, c.Libvirt.URI = "netops", "kvm7.example, kvm7", "qemu+ssh://dora@kvm8.example/system"
	d.clean(c, true)
	for _, name := range []string{"web-1", "ann b", "gone-7", "carl", "db-1"} {
		for file, text := range d.files {
			if strings.Contains(text, name) {
				t.Errorf("%s is left in %s: %s", name, file, text)
			}
		}
	}
	names := (&dump{files: map[string]string{}}).people(c)
	for name, kind := range map[string]string{"netops": "group", "kvm7": "host", "kvm7.example": "host", "kvm8.example": "host", "dora": "user"} {
		if names[name] != kind {
			t.Errorf("%s is a %q, want %s", name, names[name], kind)
		}
	}
}

// No name is left as a word of its own, whatever stands around it.
func TestNoNameIsLeft(t *testing.T) {
	name := rapid.StringMatching(`[a-z]{1,3}(-[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		kinds := map[string]string{}
		for _, n := range rapid.SliceOfN(name, 1, 5).Draw(t, "names") {
			kinds[n] = "VM"
		}
		words := rapid.SliceOf(name).Draw(t, "words")
		separator := rapid.SampledFrom([]string{" ", "\n", "=", "/", ", ", "' '"}).Draw(t, "separator")
		text := newAnonymizer(kinds).text(strings.Join(words, separator))
		parts := strings.Split(text, separator)
		for _, word := range parts {
			if kinds[word] != "" {
				t.Errorf("%q is left in %q", word, text)
			}
		}
		if n := len(parts); n != max(1, len(words)) {
			t.Errorf("%d words, want %d", n, len(words))
		}
	})
}
