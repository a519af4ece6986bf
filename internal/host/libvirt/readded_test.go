package libvirt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/model"
)

// TestReadded: of what QEMU has, VFs are found by address or alias, and an answer that cannot be read is an error.
func TestReadded(t *testing.T) {
	const list = `{"return":[{"name":"type","type":"string"},{"name":"ua-net0","type":"child<virtio-net-pci>"},` +
		`{"name":"ua-sluice-1","type":"child<vfio-pci>"},{"name":"ua-sluice-2","type":"child<vfio-pci>"}],"id":"libvirt-7"}`
	hosts := map[string]string{"ua-sluice-1": "0000:01:10.0", "ua-sluice-2": "0000:01:10.2"}
	qemu := func(list string) func(string) (string, error) {
		return func(command string) (string, error) {
			if strings.Contains(command, "qom-list") {
				return list, nil
			}
			for name, host := range hosts {
				if strings.Contains(command, "/machine/peripheral/"+name+`"`) && strings.Contains(command, `"host"`) {
					return fmt.Sprintf(`{"return":%q,"id":"libvirt-8"}`, host), nil
				}
			}
			return `{"error":{"class":"GenericError","desc":"no such property"}}`, nil
		}
	}
	got, err := readded(qemu(list), func(_ string, address model.PCIAddress) bool { return address == "0000:01:10.2" })
	if want := []string{"ua-sluice-2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("by address: %v, %v; want %v", got, err, want)
	}
	got, err = readded(qemu(list), func(alias string, _ model.PCIAddress) bool { return alias == "ua-sluice-1" })
	if want := []string{"ua-sluice-1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("by alias: %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{``, `{}`, `{"return":7}`, `{"error":{"desc":"busy"}}`, strings.ReplaceAll(list, "ua-sluice-2", "ua-sluice-3")} {
		if got, err := readded(qemu(bad), func(string, model.PCIAddress) bool { return true }); err == nil {
			t.Errorf("answer %q: %v, want an error", bad, got)
		}
	}
	gone := errors.New("gone")
	if _, err := readded(func(string) (string, error) { return "", gone }, nil); !errors.Is(err, gone) {
		t.Errorf("a VM that is gone: %v", err)
	}
}
