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
