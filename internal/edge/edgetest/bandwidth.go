package edgetest

import (
	"time"

	"sluice/internal/model"
)

// bandwidth returns two links, with one NIC that is short, one at its limit, one held down for the others, and one that
// cannot be limited and takes what the first lacks.
func bandwidth() *model.Bandwidth {
	return &model.Bandwidth{
		At: Now, Period: 200 * time.Millisecond, Allocator: "waterfill", Changes: 340, Late: 1, Took: 900 * time.Microsecond,
		Links: []model.LinkState{
			{
				PF: "pf0", Speed: 10e9, Capacity: 9e9, Carries: model.Capacity{Bits: 10e9, Speed: 10e9, Source: model.CapacityDriver}.Inferred(9.4e9),
				Packets: 800000, Carried: 9.3e9, Guaranteed: model.Rate{Bits: 6e9, Packets: 200000}, Shortage: shortage(),
			},
			{
				PF: "pf1", Speed: 1e9, Capacity: 1e9, Carries: model.Capacity{Bits: 1e9, Speed: 1e9, Source: model.CapacityDriver},
				Carried: 2e8, Guaranteed: model.Rate{Bits: 2e9}, Over: true,
			},
		},
		NICs: []model.NICBandwidth{
			share(1, "batch-1", model.PathVirtio, model.SLA{Class: "bronze"}, model.Rate{Bits: 1.2e9}, 1.2e9, model.BandwidthShare,
				"asks for more than its share of what is left over"),
			share(3, "db", model.PathVF, model.SLA{
				Guarantee: model.Rate{Bits: 4e9, Packets: 200000}, Limit: model.Rate{Bits: 8e9}, Class: "gold",
				Source: "sluice.yaml:12:5",
			}, model.Rate{Bits: 5e9}, 3.1e9, model.BandwidthShort,
				"has 3.1 of the 4 Gbit/s that it is promised; the others' limits were lowered"),
			share(7, "web-2", model.PathVF, model.SLA{
				Guarantee: model.Rate{Bits: 2e9}, Limit: model.Rate{Bits: 3e9}, Receive: model.Rate{Bits: 1e9},
				Source: "metadata of the domain",
			}, model.Rate{Bits: 3e9}, 3e9, model.BandwidthLimit, "at its limit"),
			share(8, "web-10", model.PathVirtio, model.SLA{}, model.Rate{}, 2e9, model.BandwidthNotEnforced, "nothing can limit it on virtio"),
		},
		Problems: []model.Problem{{
			Subject: "pf1", Text: "asked 1.5 + 0.5 Gbit/s, link 1 Gbit/s: web-2 and burst are promised half",
			Remedy: "lower a guarantee in sluice.yaml or with `sluice sla set`",
		}},
	}
}

// shortage is what db lacks, and web-10 has.
func shortage() *model.Shortage {
	const remedy = "use Linux 6.6 or later"
	return &model.Shortage{
		Bits: 9e8, For: 1400 * time.Millisecond, Remedy: remedy,
		Text: "db gets 3.1Gbit/s of the 4Gbit/s it is promised: web-10 takes 2Gbit/s of the 9.3Gbit/s that pf0 carries; nothing limits it",
		Takers: []model.Taker{{
			NICID: model.NICID{VM: ID(8), NIC: "ua-net0"}, VMName: "web-10", Path: model.PathVirtio, Sent: 2e9, Beyond: 2e9, Remedy: remedy,
		}},
	}
}

func share(n byte, name string, path model.Path, sla model.SLA, allowed model.Rate, sent float64, code model.BandwidthCode,
	why string,
) model.NICBandwidth {
	s := model.NICBandwidth{
		NICID: model.NICID{VM: ID(n), NIC: "ua-net0"}, VMName: name, PF: "pf0", Path: path, SLA: sla, Promised: sla.Guarantee, Allowed: allowed,
		Sent: model.RateReading{Bits: sent, Packets: sent / 12000, Proof: model.ProofKernel}, Code: code, Why: why,
	}
	switch {
	case path == model.PathVirtio:
		s.Dropped.Tx = 100 * uint64(n)
	case name == "db":
		s.DroppedVF.Tx = 42
	}
	key := model.LimitKey{VM: s.VM, NIC: s.NIC, Path: path, Dir: model.Tx}
	by := map[model.Path]string{model.PathVF: "max_tx_rate", model.PathVirtio: "htb"}[path]
	switch code {
	case model.BandwidthShort:
		s.Short, s.ShortFor, s.Remedy = 9e8, 1400*time.Millisecond, shortage().Remedy
	case model.BandwidthNotEnforced:
		s.Takes, s.Remedy = 2e9, shortage().Remedy
		s.Enforcer = []model.Enforcement{{
			Limit: model.Limit{LimitKey: key, Rate: model.Rate{Bits: 1e9}}, By: "police",
			Error: "the kernel is older than Linux 6.6",
		}}
		return s
	}
	s.Enforcer = []model.Enforcement{{Limit: model.Limit{LimitKey: key, Rate: allowed, Contract: sla.Limit}, By: by}}
	return s
}
