package bandwidth

import "sluice/internal/model"

// Claims is what guarantees already take of a host.
type Claims struct {
	Links   map[string]uint64 // bits/s of each link, by PF
	Packets uint64            // packets/s of the host. VMs on VFs count too, which Admit leaves out: they may return to virtio at any time
	NICs    []NICClaim        // what these are the sums of
}

// NICClaim is a NIC's part of Claims.
type NICClaim struct {
	ID     model.NICID
	VMName string
	PF     string     // whose link it shares; "": unknown, and then Rate has no bits
	Rate   model.Rate // packets/s are the whole VM's, and only the first of its NICs has them
}

// ClaimsOf adds up what is asked for, whether or not it can be kept.
func ClaimsOf(asked []Asked) Claims {
	out := Claims{Links: map[string]uint64{}}
	rates := make([]model.Rate, len(asked))
	for pf, list := range linkClaims(asked) {
		for i := range list {
			out.Links[pf] += list[i].most
			rates[list[i].place].Bits = list[i].most
		}
	}
	packets, _ := packetClaims(asked, func(*Asked) bool { return true })
	for i := range packets {
		out.Packets += packets[i].most
		rates[packets[i].place].Packets = packets[i].most
	}
	for i, r := range rates {
		if a := &asked[i]; !r.IsZero() {
			out.NICs = append(out.NICs, NICClaim{ID: a.ID, VMName: a.VMName, PF: a.PF, Rate: r})
		}
	}
	return out
}
