package uplinktest

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink/ovs"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/model"
)

// forbid gives a frame the type that the access list drops.
func forbid(frame []byte) []byte {
	frame[13] = 0xb6
	return frame
}

// startOVN starts OVN with an access list that drops one type of frames to the guest.
func startOVN(t *testing.T) *ovstest.Host {
	h := ovstest.StartOVN(t, kerneltest.Other.String()+" "+kerneltest.Stray.String())
	h.NB(t, "acl-add", "s", "to-lport", "1000", `outport == "A" && eth.type == 0x88b6`, "drop")
	return h
}

// ovnWorld is OVN with a tap "rep0" that the kernel is said to show as the representor of the VF. Frames that leave it are those that a NIC
// would pass to the VF.
func ovnWorld(t *testing.T) world { return ovnWorldOf(t, startOVN(t)) }

func ovnWorldOf(t *testing.T, _ *ovstest.Host) world {
	lan := kerneltest.LAN{
		PF: kerneltest.NewPort(t, "pf0", ""), Tap: kerneltest.NewPort(t, guestTap, ""), Peer: kerneltest.NewPort(t, otherTap, ""),
	}
	rep := kerneltest.NewPort(t, "rep0", "")
	kerneltest.IP(t, "link set rep0 down")
	ovstest.VSCtl(t, "add-port", "br0", guestTap, "--", "set", "interface", guestTap, "external_ids:iface-id=A", "external_ids:attached-mac="+
		kerneltest.Guest.String())
	ovstest.VSCtl(t, "add-port", "br0", otherTap, "--", "set", "interface", otherTap, "external_ids:iface-id=B")
	for _, tap := range []string{guestTap, otherTap} {
		kerneltest.WaitFor(t, "OVN to know "+tap, func() bool { return idOf(tap, "ovn-installed") == "true" })
	}
	k := newKernel(t)
	s := ovs.New(kerneltest.Soon(t), k, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	o := s.OVN()
	w := realWorld(t, k, o, lan, rep, func(t *testing.T, port string) {
		ovstest.VSCtl(t, "add-port", "br0", port)
		kerneltest.WaitFor(t, "the database to tell of "+port, func() bool {
			_, ok := o.Tap(nil, &netdev.Link{Name: port})
			return ok
		})
	})
	w.eswitch, w.filters, w.announced, w.learns, w.rules = model.EswitchSwitchdev, nil, nil, true, true
	w.change = func(t *testing.T) { ovstest.VSCtl(t, "set", "interface", guestTap, "external_ids:vm-id=7") }
	links := w.links
	w.links = func(t *testing.T) []netdev.Link {
		all := links(t)
		for i := range all {
			switch l := &all[i]; l.Name {
			case "pf0":
				l.Switch, l.Port = "a1", "p0"
			case "rep0":
				l.Switch, l.Port = "a1", "pf0vf0"
			}
		}
		return all
	}
	sent := 0
	w.reach = func(t *testing.T) (tap, vf bool) {
		sent++
		for n := range 3 {
			lan.Peer.Send(t, kerneltest.Frame(kerneltest.Guest, kerneltest.Other, fmt.Sprint("frame ", sent, " ", n)))
		}
		return gets(t, lan.Tap, rep, sent)
	}
	return w
}

// gets returns which of the two ports receive the first two of three frames of a number. A copy is made just before or after the frame is
// sent, so that when one port has the third, both have what they get of the others.
func gets(t *testing.T, a, b *kerneltest.Port, number int) (atA, atB bool) {
	t.Helper()
	got := map[string]int{}
	read := func(p *kerneltest.Port) {
		for {
			frame := p.Waiting(t)
			if frame == nil {
				return
			}
			if strings.Contains(string(frame), fmt.Sprint("frame ", number, " ")) {
				if got[p.Name]++; got[p.Name] > 3 {
					t.Errorf("%s receives a frame twice", p.Name)
				}
			}
		}
	}
	kerneltest.WaitFor(t, "the guest's frames", func() bool {
		read(a)
		read(b)
		return got[a.Name] == 3 || got[b.Name] == 3
	})
	read(a)
	read(b)
	return got[a.Name] >= 2, got[b.Name] >= 2
}

// idOf returns an external id of an interface, "" if it has none.
func idOf(name, key string) string {
	db := "--db=unix:" + filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock")
	out, _ := exec.Command("ovs-vsctl", db, "--timeout=60", "--if-exists", "get", "interface", name, "external_ids:"+key).Output()
	return strings.Trim(strings.TrimSpace(string(out)), `"`)
}
