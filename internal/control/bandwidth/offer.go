package bandwidth

// Claims is what guarantees already take of a host.
type Claims struct {
	Links   map[string]uint64 // bits/s of each link, by PF
	Packets uint64            // packets/s of the host. VMs on VFs count too, which Admit leaves out: they may return to virtio at any time
}

// ClaimsOf adds up what is asked for, whether or not it can be kept.
func ClaimsOf(asked []Asked) Claims {
	out := Claims{Links: map[string]uint64{}}
	for pf, list := range linkClaims(asked) {
		out.Links[pf] = sumOf(list)
	}
	packets, _ := packetClaims(asked, func(*Asked) bool { return true })
	out.Packets = sumOf(packets)
	return out
}

func sumOf(list []claim) (sum uint64) {
	for i := range list {
		sum += list[i].most
	}
	return sum
}
