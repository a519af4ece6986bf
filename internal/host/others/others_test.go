package others

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/model"
)

var interfaces = []Interface{
	{Name: "rep0", Index: 7, VF: model.VFID{PF: "pf0"}, Representor: true},
	{Name: "pf0v1", VF: model.VFID{PF: "pf0", Index: 1}},
}

func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Each other writer is named with what it does and the remedy, in the forms that its own files take; what is not about Sluice's interfaces
// is not.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string // "subject: part of the text; part of the remedy"
	}{
		"nothing": {},
		"NetworkManager": {map[string]string{
			"run/NetworkManager/devices/7": "[device]\nmanaged=true\n",
			"run/NetworkManager/devices/8": "[device]\nmanaged=true\n",
		}, []string{"pf0: NetworkManager manages representor rep0 of VF pf0/0; nmcli device set rep0 managed no"}},
		"NetworkManager leaves it alone": {files: map[string]string{"run/NetworkManager/devices/7": "[device]\nmanaged=false\n"}},
		"ifupdown": {map[string]string{
			"etc/network/interfaces":        "# iface rep0\nauto lo\nsource interfaces.d/*\nsource-directory /etc/network/more\n",
			"etc/network/interfaces.d/vfs":  "allow-hotplug eth9 \\\n  pf0v1\niface pf0v1 inet dhcp\n",
			"etc/network/more/rep":          "source /etc/network/interfaces\nallow-vfs rep0\n",
			"etc/network/more/old.dpkg-old": "auto rep0\n",
		}, []string{
			"pf0: /etc/network/interfaces.d/vfs configures pf0v1, the interface of VF pf0/1; take it out of /etc/network/interfaces.d/vfs",
			"pf0: /etc/network/more/rep configures representor rep0; leave the VF out of vfs:",
		}},
		"Neutron's agents": {map[string]string{
			"etc/neutron/plugins/ml2/openvswitch_agent.ini":           "[ovs]\nextensions = fdb\n[agent]\n; extensions = fdb\nextensions = qos, fdb\n",
			"etc/kolla/neutron-ovn-agent/neutron_ovn_agent.ini":       "[agent]\nextensions=metadata,qos_hwol\n",
			"etc/neutron/neutron_ovn_agent.ini":                       "[agent]\nextensions = metadata,sluice\n",
			"etc/neutron/plugins/ml2/somebody's/too/deep/to_look.ini": "[agent]\nextensions = fdb\n",
		}, []string{
			": /etc/kolla/neutron-ovn-agent/neutron_ovn_agent.ini loads Neutron's extension qos_hwol; load sluice",
			": /etc/neutron/plugins/ml2/openvswitch_agent.ini loads Neutron's extension fdb; take fdb out",
		}},
	} {
		got := Find(tree(t, c.files), interfaces)
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v, want %d", name, got, len(c.want))
			continue
		}
		for i, want := range c.want {
			text, remedy, _ := strings.Cut(want, "; ")
			subject, text, _ := strings.Cut(text, ": ")
			if p := got[i]; p.Subject != subject || !strings.Contains(p.Text, text) || !strings.Contains(p.Remedy, remedy) || !p.Info {
				t.Errorf("%s: %+v, want %s", name, p, want)
			}
		}
	}
}

// Files that include each other in a ring, and a thousand of them, end.
func TestIfupdownInARing(t *testing.T) {
	files := map[string]string{"etc/network/interfaces": "source /etc/network/d/*\n"}
	for i := range 50 {
		files[fmt.Sprintf("etc/network/d/%d", i)] = "source /etc/network/d/*\nsource /etc/network/interfaces\n"
	}
	files["etc/network/d/last"] = "auto rep0\n"
	if got := Find(tree(t, files), interfaces); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
