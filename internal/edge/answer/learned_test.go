package answer_test

import (
	"testing"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

// What was learned about bursts is reported for the VM, or for each of its NICs if several may have a VF; nothing if there
// is nothing.
func TestLearned(t *testing.T) {
	explain := func(one model.Reason, nics ...model.Reason) api.Explanation {
		v := edgetest.View()
		one.VM = edgetest.ID(5)
		v.Target.Reasons[4], v.Target.NICs = one, nics
		for i := range nics {
			n := v.Snapshot.VMs[4].NICs[0]
			n.Alias = nics[i].NIC
			v.Snapshot.VMs[4].NICs = append(v.Snapshot.VMs[4].NICs, n)
			nics[i].VM = one.VM
		}
		e, err := answer.Explain(v, "quiet")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	known := model.Bursts{High: 48.2, Low: 109.7, Seen: 20}

	if e := explain(model.Reason{Code: model.CodeKept}); e.Learned != "" || e.Reason.Bursts != (api.Bursts{}) {
		t.Errorf("of nothing: %q, %+v", e.Learned, e.Reason.Bursts)
	}
	e := explain(model.Reason{Code: model.CodeKept, Bursts: known})
	if want := "bursts of quiet last 48 s, 1m50s between them; 20 seen"; e.Learned != want {
		t.Errorf("%q, want %q", e.Learned, want)
	}
	if want := (api.Bursts{Length: 48.2, Between: 109.7, Seen: 20}); e.Reason.Bursts != want {
		t.Errorf("%+v, want %+v", e.Reason.Bursts, want)
	}

	e = explain(model.Reason{Code: model.CodeKept, NIC: "ua-a", Bursts: known}, model.Reason{NIC: "ua-a", Bursts: known},
		model.Reason{NIC: "ua-b"})
	if e.Learned != "" {
		t.Errorf("of a VM with two NICs: %q", e.Learned)
	}
	for _, p := range e.Paths {
		want := map[string]string{"ua-a": "bursts of quiet on ua-a last 48 s, 1m50s between them; 20 seen"}[p.NIC]
		if p.Learned != want {
			t.Errorf("of %s: %q, want %q", p.NIC, p.Learned, want)
		}
	}
}
