package model

import (
	"encoding/json"
	"strings"
	"testing"
)

// Journal, recordings and API store Steps as JSON: decoding returns what was encoded, and the JSON omits payloads that a Step
// does not have.
func TestStepAsJSON(t *testing.T) {
	vf := VFID{PF: "pf0", Index: 3}
	vm := Subject{VM: "id-1", VMName: "one"}
	for _, c := range []struct {
		step    Step
		without []string
	}{
		{
			Step{ID: 7, Kind: StepSetVF, Subject: vm, Timeout: 5, VF: VFStep{ID: vf, Address: "0000:01:10.3", VLAN: 7, MaxTxRate: 1e9}},
			[]string{"path", "device"},
		},
		{
			Step{Kind: StepRouteToVF, Subject: vm, Path: PathStep{MAC: MAC{2, 1}, VLAN: 7, Tap: "tap0", Network: "br0", PF: "pf0"}},
			[]string{"device", "mac\":\"00"},
		},
		{Step{Kind: StepAttach, Subject: vm, Device: DeviceStep{
			NIC: "ua-0", MAC: MAC{2}, Failover: FailoverTeaming, VF: vf,
			Address: "0000:01:10.3",
		}}, []string{"path"}},
		{Step{Kind: StepClearVF, Subject: Subject{VF: vf}, VF: VFStep{ID: vf}}, []string{"vm", "path", "device"}},
		{Step{Kind: StepDelSelf, Subject: Subject{PF: "pf0"}, Path: PathStep{PF: "pf0"}}, []string{"\"vf\"", "device"}},
	} {
		b, err := json.Marshal(c.step)
		if err != nil {
			t.Fatal(err)
		}
		var back Step
		if err := json.Unmarshal(b, &back); err != nil || back != c.step {
			t.Errorf("%s came back as %+v (%v)", b, back, err)
		}
		for _, w := range c.without {
			if strings.Contains(string(b), w) {
				t.Errorf("%s has %q in it", b, w)
			}
		}
	}
}

func TestSubjectKeysDiffer(t *testing.T) {
	seen := map[string]Subject{}
	for _, s := range []Subject{
		{VM: "a"},
		{VM: "b"},
		{VM: "a", NIC: "ua-0"},
		{VM: "a", NIC: "ua-1"},
		{VF: VFID{PF: "pf0"}},
		{VF: VFID{PF: "pf0", Index: 1}},
		{PF: "pf0"},
		{PF: "pf1"},
	} {
		if o, dup := seen[s.Key()]; dup {
			t.Errorf("%+v and %+v have the key %q", s, o, s.Key())
		}
		seen[s.Key()] = s
	}
	if (Subject{VM: "a", VMName: "x"}).Key() != (Subject{VM: "a", VMName: "y"}).Key() {
		t.Error("the name tells Subjects apart")
	}
}

func TestWholeMbit(t *testing.T) {
	for bits, want := range map[uint64]uint64{0: 0, 1: 1, 400_000: 1, 1_499_999: 1, 1_500_000: 2, 10_000_000_000: 10_000, 1 << 62: 1<<32 - 1} {
		if got := WholeMbit(bits); got != want*1e6 || WholeMbit(got) != got {
			t.Errorf("%d bit/s: %d, want %d Mbit/s", bits, got, want)
		}
	}
}
