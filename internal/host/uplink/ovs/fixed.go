package ovs

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"sluice/internal/model"
)

// toTap fixes the switch's entry for the MAC to the tap. It ends with ovs-vswitchd, which then forgets all that it learned as well and
// sends the frames to every port: to the VF twice, until the entry is back. Open vSwitch has fixed entries since version 2.16.
func (s *Switch) toTap(ctx context.Context, p *model.PathStep) error {
	_, err := appctl(ctx, "fdb/add", p.Network, p.Tap, strconv.Itoa(p.VLAN), p.MAC.String())
	if err != nil {
		return fmt.Errorf("fix the entry for %s in %s to %s: %w", p.MAC, p.Network, p.Tap, err)
	}
	return nil
}

// fixed returns the MACs of the fixed entries of a bridge.
func fixed(ctx context.Context, bridge string) (map[model.MAC]bool, error) {
	out, err := appctl(ctx, "fdb/show", bridge)
	if err != nil {
		return nil, err
	}
	return fixedIn(out), nil
}

// fixedIn reads the table that fdb/show prints: port, VLAN, MAC and age, which is "static" for a fixed entry.
func fixedIn(table string) map[model.MAC]bool {
	macs := map[model.MAC]bool{}
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[3] != "static" {
			continue
		}
		if mac, err := model.ParseMAC(f[2]); err == nil {
			macs[mac] = true
		}
	}
	return macs
}
