package daemon

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sluice/api/v1"
	"sluice/internal/model"
)

// snippet returns the block of that language in docs/prepare.md.
func snippet(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/prepare.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("no block in %s", language)
	}
	return string(m[1])
}

// Definitions that docs/prepare.md shows for other tools need no preparing. The output of the virt-install command there was
// recorded from virtinst 4.1.0 with --print-xml, without the graphics, which it chooses by what the local QEMU supports.
func TestSnippetsNeedNoPreparing(t *testing.T) {
	p, d := onRealLibvirt(t, model.Rules{})
	recorded, err := os.ReadFile("testdata/virt-install.xml")
	if err != nil {
		t.Fatal(err)
	}
	command := strings.TrimSpace(snippet(t, "text"))
	if !strings.Contains(string(recorded), "<!-- "+strings.ReplaceAll(command, "--", "")+" -->") { // XML comments must not contain --
		t.Errorf("testdata/virt-install.xml was made by another command than\n%s", command)
	}
	plain := "<domain type='qemu'><name>web-1</name><memory unit='MiB'>16</memory><os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices>" +
		snippet(t, "xml") + "</devices></domain>"
	for name, xml := range map[string]string{"XML": plain, "virt-install": string(recorded)} {
		d.Virsh(t, "define", d.File(t, xml))
		if one := p.must(t, api.Prepare{VM: "web-1", Agent: true, DryRun: true}); len(one.Changes)+len(one.Lacks) > 0 || one.Refused != nil {
			t.Errorf("%s: %+v", name, one)
		}
		d.Virsh(t, "undefine", "web-1")
	}
}

// The Ansible tasks are valid YAML, and use only keys that the answer has.
func TestAnsibleSnippet(t *testing.T) {
	var tasks []map[string]any
	text := snippet(t, "yaml")
	if err := yaml.Unmarshal([]byte(text), &tasks); err != nil || len(tasks) != 2 {
		t.Fatalf("%v, %d tasks", err, len(tasks))
	}
	answer, err := json.Marshal(api.Prepared{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`selectattr\('(.*?)'\)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(answer), `"`+key[1]+`":`) {
			t.Errorf("the answer has no %s: %s", key[1], answer)
		}
	}
}
