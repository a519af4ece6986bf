package cli

import (
	"bytes"
	"strings"
	"testing"

	"sluice/api/v1"
)

func TestCapacityOfPackets(t *testing.T) {
	var b bytes.Buffer
	printHostCapacity(&b, api.HostCapacity{Drained: true, PFs: []api.PFCapacity{{PF: "pf0"}}, Packets: api.RateCapacity{Total: 8e5, Guaranteed: 8.5e5}})
	for _, want := range []string{"packets/s on virtio: 800kpps carried, 850kpps guaranteed, 0 free", "Nothing keeps", "The host is drained"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// Each claim is shown with what the host makes of it.
func TestCapacityOfClaims(t *testing.T) {
	claim := func(id, mac, pf string) api.HostClaim {
		return api.HostClaim{ID: id, MAC: mac, PF: pf, Rate: api.Rate{Bits: 2e9, Packets: 5e4}}
	}
	var b bytes.Buffer
	printHostCapacity(&b, api.HostCapacity{Claims: []api.HostClaimState{
		{HostClaim: claim("u1", "52:54:00:00:00:01", "0000:3b:00.0"), VM: "db-1", NIC: "ua-net0"},
		{HostClaim: claim("u2", "", "0000:3b:00.1")},
		{HostClaim: claim("u3", "", ""), VM: "db-3", Refused: "no room", Remedy: "make some"},
	}})
	for _, want := range []string{
		"VM    MAC                PF            CLAIMED      STATE\n",
		"db-1  52:54:00:00:00:01  0000:3b:00.0  2Gbit 50kpps  kept for ua-net0\n",
		"u2    -                  0000:3b:00.1  2Gbit 50kpps  room is kept\n",
		"db-3  -                  -             2Gbit 50kpps  refused: no room; make some\n",
	} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
