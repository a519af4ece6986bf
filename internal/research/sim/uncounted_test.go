package sim

import (
	"context"
	"testing"
	"time"

	"sluice/internal/model"
)

// If a PF has no counters for a VF, a Snapshot shows what the guest claims, and there is no Reading.
func TestUncountedVF(t *testing.T) {
	for _, counts := range []model.Tri{model.Yes, model.No} {
		w := &World{Now: epoch}
		p := w.AddPF("pf0", "br0", 1, 0)
		p.Caps.VFCounters = counts
		v := w.AddVM(0, "a", "br0", Constant{PPS: 1000, Bytes: 100e3})
		v.NICs[0].AttachForeign(p.VFs[0].ID)
		p.VFs[0].MAC = v.NICs[0].MAC
		w.StartTraffic(&Traffic{})
		s, err := w.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		path := s.VMs[0].NICs[0].VFPath
		source, proof := model.SourceSim, model.ProofHardware
		if counts == model.No {
			source, proof = model.SourceAgent, model.ProofGuest
		}
		if path.Source != source || path.Proof != proof || path.TxPPS == 0 {
			t.Errorf("counts %s: have %+v, want source %s and proof %s", counts, path, source, proof)
		}
		onVF := 0
		for _, r := range w.Readings() {
			if r.Path == model.PathVF {
				onVF++
			}
		}
		if (onVF == 1) != (counts == model.Yes) {
			t.Errorf("counts %s: %d Readings of the VF", counts, onVF)
		}
	}
}

// A Snapshot shows what a VM's metadata asks for, and who attached a VF.
func TestSnapshotShowsMetadata(t *testing.T) {
	w := &World{Now: epoch}
	p := w.AddPF("pf0", "br0", 1, 0)
	v := w.AddVM(0, "a", "br0", Constant{})
	v.SLAs = []model.NICSLA{{SLA: model.SLA{Guarantee: model.Rate{Bits: 1e9}}}}
	v.NICs[0].AttachForeign(p.VFs[0].ID)
	for range 3 { // Snapshots are made in turn in two buffers
		s, err := w.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(s.VMs[0].SLAs) != 1 || s.VMs[0].SLAs[0].SLA.Guarantee.Bits != 1e9 {
			t.Errorf("SLAs: %+v", s.VMs[0].SLAs)
		}
		if have, want := s.PFs[0].VFs[0].OwnerWhy, "a has it as hostdev0, not attached by Sluice"; have != want {
			t.Errorf("owner %q, want %q", have, want)
		}
		w.Now = w.Now.Add(time.Second)
	}
}
