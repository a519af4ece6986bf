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
	{Name: "rep0", Index: 7, VF: model.VFID{PF: "pf0"}, Representor: true, Bridge: "br0"},
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
			"run/NetworkManager/devices/7": "[device]\nmanaged=true\nperm-hw-addr-fake=0E:DA:37:34:8B:8E\nnm-owned=false\n", // as 1.42 writes it
			"run/NetworkManager/devices/8": "[device]\nmanaged=true\n",
		}, []string{"pf0: NetworkManager manages representor rep0 of VF pf0/0; nmcli device set rep0 managed no"}},
		"NetworkManager leaves it alone": {files: map[string]string{"run/NetworkManager/devices/7": "[device]\nmanaged=false\n"}},
		"NetworkManager is told to":      {files: map[string]string{"run/NetworkManager/devices/7": "[device]\nperm-hw-addr-fake=E6:89:F9:A4:15:F7\nnm-owned=false\n"}},
		"ifupdown": {map[string]string{
			"etc/network/interfaces":        "# iface rep0\nauto lo\nsource interfaces.d/*\nsource-directory /etc/network/more\n",
			"etc/network/interfaces.d/vfs":  "allow-hotplug eth9 \\\n  pf0v1\niface pf0v1 inet dhcp\n",
			"etc/network/more/rep":          "source /etc/network/interfaces\nallow-vfs rep0\n",
			"etc/network/more/old.dpkg-old": "auto rep0\n",
		}, []string{
			"pf0: /etc/network/interfaces.d/vfs configures pf0v1, the interface of VF pf0/1; take it out of /etc/network/interfaces.d/vfs",
			"pf0: /etc/network/more/rep configures representor rep0; leave the VF out of vfs:",
		}},
		"ifupdown's patterns": {map[string]string{
			"etc/network/interfaces":        "auto /eth*=vf /rep*/1=vf\nallow-hotplug mac/02:51:*=vf\niface vf inet manual\n",
			"sys/class/net/pf0v1/address":   "02:51:00:00:00:01\n",
			"sys/class/net/rep0/address":    "02:52:00:00:00:01\n",
			"sys/class/net/unknown/address": "02:51:00:00:00:02\n",
		}, []string{
			"pf0: /etc/network/interfaces configures representor rep0 of VF pf0/0; leave the VF out of vfs:",
			"pf0: /etc/network/interfaces configures pf0v1, the interface of VF pf0/1; leave the VF out of vfs:",
		}},
		"ifupdown's patterns for others": {files: map[string]string{ // without a stanza ifup says: unknown interface
			"etc/network/interfaces": "auto /rep* /pf1*=vf pf0\nno-auto-down rep0\niface vf inet manual inherits rep0\n\tup echo auto rep0\n",
		}},
		"ifupdown2": {map[string]string{
			"usr/share/ifupdown2/x":  "",
			"etc/network/interfaces": "auto br0\niface br0\n    bridge-stp off\n    bridge-ports eth8 rep7\nauto br1\niface br1\n  bridge-ports rep0\n",
		}, []string{
			"pf0: /etc/network/interfaces does not list representor rep0 of VF pf0/0 among the ports of br0; bridge-ports-condone-regex ^(rep0$|vnet)",
		}},
		"ifupdown2 that leaves it there": {files: map[string]string{
			"usr/share/ifupdown2/x":  "",
			"etc/network/interfaces": "iface br0\n    bridge-ports eth8\n    bridge-ports-condone-regex ^(rep|vnet)\n",
		}},
		"ifupdown2 with its name":    {files: map[string]string{"usr/share/ifupdown2/x": "", "etc/network/interfaces": "iface br0\n bridge-ports eth8 rep0\n"}},
		"ifupdown2 with a pattern":   {files: map[string]string{"usr/share/ifupdown2/x": "", "etc/network/interfaces": "iface br0\n bridge-ports glob rep*\n"}},
		"ifupdown2, another bridge":  {files: map[string]string{"usr/share/ifupdown2/x": "", "etc/network/interfaces": "iface br1\n bridge-ports eth8\n"}},
		"ifupdown, which takes none": {files: map[string]string{"etc/network/interfaces": "iface br0 inet manual\n bridge_ports eth8\n"}},
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

// TestIfupdown2TakesSeveral: all representors that ifupdown2 takes out of a bridge are named at once, and the expression matches no others.
func TestIfupdown2TakesSeveral(t *testing.T) {
	files := map[string]string{
		"usr/share/ifupdown2/x":  "",
		"etc/network/interfaces": "iface br0\n bridge-ports eth8 listed\niface br1\n bridge-ports eth9\n",
	}
	list := []Interface{
		{Name: "rep0.1", Bridge: "br0"}, {Name: "rep1", Bridge: "br1"}, {Name: "r+1", Bridge: "br0"}, {Name: "listed", Bridge: "br0"},
	}
	for i := range list {
		list[i].Representor, list[i].VF = true, model.VFID{PF: "pf0", Index: i}
	}
	got := Find(tree(t, files), list)
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct{ names, expression string }{
		{"list representor rep0.1 of VF pf0/0, representor r+1 of VF pf0/2 among the ports of br0:", `^(rep0\.1$|r\+1$|vnet)`},
		{"list representor rep1 of VF pf0/1 among the ports of br1:", "^(rep1$|vnet)"},
	} {
		if !strings.Contains(got[i].Text, want.names) || !strings.HasSuffix(got[i].Remedy, want.expression) {
			t.Errorf("%+v, want %+v", got[i], want)
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
