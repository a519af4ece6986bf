package plan

import (
	"strings"
	"testing"

	"sluice/internal/model"
)

func TestForIncoming(t *testing.T) {
	mac := model.MAC{2, 0, 0, 0, 0, 9}
	for _, c := range []struct {
		name    string
		change  func(s *model.Snapshot)
		network string
		taken   model.VFID
		want    string // VF and Steps, or the error
	}{
		{name: "a free VF", network: "br0", want: "pf0/1 bind-vfio set-vf add-self set-mac"},
		{name: "a network that the XML does not name", want: "pf0/1 bind-vfio set-vf add-self set-mac"},
		{name: "another network", network: "br7", want: "no VF is free here"},
		{name: "a VF that others wait for", network: "br0", taken: model.VFID{PF: "pf0", Index: 1}, want: "no VF is free here"},
		{
			name: "somebody else's", network: "br0", change: func(s *model.Snapshot) { s.PFs[0].VFs[1].Owner = model.OwnerForeign },
			want: "no VF is free here",
		},
		{
			name: "a PF that is not managed", network: "br0", change: func(s *model.Snapshot) { s.PFs[0].Managed = false },
			want: "no VF is free here",
		},
		{
			name: "a PF without a way out", network: "br0", change: func(s *model.Snapshot) { s.PFs[0].Uplink.Why = "in no bridge" },
			want: "no VF is free here",
		},
		{name: "networks to choose from and none named", change: func(s *model.Snapshot) {
			s.PFs = append(s.PFs, model.PF{Name: "pf1", Managed: true, Network: "br1"})
		}, want: "no VF is free here"},
	} {
		s := world()
		if c.change != nil {
			c.change(s)
		}
		nics := []model.NIC{{Alias: "ua-net0", MAC: mac, Network: c.network, VLAN: 7}}
		steps, err := ForIncoming(s, model.Subject{VM: "v", VMName: "v"}, nics, nil, func(id model.VFID) bool { return id == c.taken },
			DefaultTimeouts)
		got := kinds(steps)
		if err != nil {
			got = err.Error()
		} else {
			got = steps[0].VF.ID.String() + " " + got
			for _, s := range steps {
				if s.Kind == model.StepAddSelf {
					if s.Path.MAC != mac || s.Path.PF != "pf0" {
						t.Errorf("%s: step %+v is about something else", c.name, s)
					}
					continue
				}
				if s.VF.MAC != mac || s.VF.VLAN != 7 || s.VF.Address == "" || s.Timeout <= 0 {
					t.Errorf("%s: step %+v lacks something", c.name, s)
				}
			}
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Where a network of libvirt may give the tap a VLAN that the XML of a migration does not have, a VF would be in none.
func TestForIncomingInUnknownVLAN(t *testing.T) {
	for _, c := range []struct {
		fromNetwork bool
		network     string
		vlan        int
		refused     bool
	}{
		{true, "", 0, true},
		{true, "", 7, false},
		{true, "br0", 0, false},
		{false, "", 0, false},
	} {
		s := world()
		s.PFs[0].Uplink.VLANFromNetwork = c.fromNetwork
		nics := []model.NIC{{MAC: model.MAC{2, 9}, Network: c.network, VLAN: c.vlan}}
		_, err := ForIncoming(s, model.Subject{VM: "v", VMName: "v"}, nics, nil, func(model.VFID) bool { return false }, DefaultTimeouts)
		if c.refused != (err != nil && strings.Contains(err.Error(), "write <vlan> into the interface")) || !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Two NICs of one VM get a VF each, or none does.
func TestForIncomingTwo(t *testing.T) {
	s := world()
	nics := []model.NIC{{MAC: model.MAC{2, 8}, Network: "br0"}, {MAC: model.MAC{2, 9}, Network: "br0"}}
	none := func(model.VFID) bool { return false }
	if steps, err := ForIncoming(s, model.Subject{VM: "v"}, nics, nil, none, DefaultTimeouts); err == nil {
		t.Errorf("one VF for two NICs: %v", steps)
	}
	vf := s.PFs[0].VFs[1]
	vf.ID.Index, vf.Address = 2, "0000:01:10.4"
	s.PFs[0].VFs = append(s.PFs[0].VFs, vf)
	steps, err := ForIncoming(s, model.Subject{VM: "v"}, nics, nil, none, DefaultTimeouts)
	if err != nil || len(steps) != 8 || steps[0].VF.ID == steps[4].VF.ID {
		t.Errorf("got %v, %v: want two VFs", steps, err)
	}
}

// A VF that is kept for a NIC of a VM goes to that NIC when its migration is retried, and to nobody else.
func TestForIncomingAgain(t *testing.T) {
	mac, other := model.MAC{2, 8}, model.MAC{2, 9}
	second := model.VFID{PF: "pf0", Index: 2}
	for _, c := range []struct {
		name string
		kept Kept
		want string
	}{
		{"for this NIC", Kept{VM: "v", MAC: mac, Free: true}, "pf0/2"},
		{"for another NIC", Kept{VM: "v", MAC: other, Free: true}, "pf0/1"},
		{"for another VM", Kept{VM: "w", MAC: mac, Free: true}, "pf0/1"},
		{"somebody else has it meanwhile", Kept{VM: "v", MAC: mac}, "pf0/1"},
	} {
		for _, shown := range []model.Owner{model.OwnerForeign, model.OwnerFree} { // free: there has been no Snapshot since it is kept
			s := world()
			vf := s.PFs[0].VFs[1]
			vf.ID, vf.Address, vf.Owner = second, "0000:01:10.4", shown
			s.PFs[0].VFs = append(s.PFs[0].VFs, vf)
			kept := map[model.VFID]Kept{second: c.kept}
			none := func(model.VFID) bool { return false }
			steps, err := ForIncoming(s, model.Subject{VM: "v"}, []model.NIC{{MAC: mac, Network: "br0"}}, kept, none, DefaultTimeouts)
			if err != nil || steps[0].VF.ID.String() != c.want {
				t.Errorf("kept %s, shown as %s: %v, %v, want %s", c.name, shown, steps, err, c.want)
			}
			all := func(id model.VFID) bool { return id == second || id.Index == 1 }
			if steps, err := ForIncoming(s, model.Subject{VM: "v"}, []model.NIC{{MAC: mac, Network: "br0"}}, kept, all,
				DefaultTimeouts); err == nil {
				t.Errorf("kept %s: %v of VFs that are not to be had", c.name, steps)
			}
		}
	}
}
