package ovs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/internal/model"
)

// entry is a fixed entry of a bridge's table of MACs.
type entry struct {
	port string // its number, or LOCAL
	vlan int
	mac  model.MAC
}

// toTap fixes the switch's entry for the MAC to the tap. It ends with ovs-vswitchd, which then forgets all that it learned as well and
// sends the frames to every port: to the VF twice, until the entry is back. Open vSwitch has fixed entries since version 2.16.
//
// An entry in another VLAN, in which the tap was before, is removed: Open vSwitch would send frames of that VLAN to the tap.
func (s *Switch) toTap(ctx context.Context, p *model.PathStep) error {
	_, err := appctl(ctx, "fdb/add", p.Network, p.Tap, strconv.Itoa(p.VLAN), p.MAC.String())
	if err == nil {
		err = removeOld(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("fix the entry for %s in %s to %s: %w", p.MAC, p.Network, p.Tap, err)
	}
	return nil
}

// removeOld removes the fixed entries for the MAC that lead to the tap from other VLANs.
func removeOld(ctx context.Context, p *model.PathStep) (err error) {
	all, err := fixed(ctx, p.Network)
	if err != nil {
		return err
	}
	for _, old := range othersOf(all, entry{vlan: p.VLAN, mac: p.MAC}) {
		_, failed := appctl(ctx, "fdb/del", p.Network, strconv.Itoa(old.vlan), old.mac.String())
		err = errors.Join(err, failed)
	}
	return err
}

// othersOf returns the entries for the same MAC and the same port as that of an entry, in other VLANs.
func othersOf(all []entry, is entry) (others []entry) {
	for _, e := range all {
		if e.mac == is.mac && e.vlan == is.vlan {
			is.port = e.port
		}
	}
	for _, e := range all {
		if e.mac == is.mac && e.vlan != is.vlan && e.port == is.port {
			others = append(others, e)
		}
	}
	return others
}

// fixed returns the fixed entries of a bridge.
func fixed(ctx context.Context, bridge string) ([]entry, error) {
	out, err := appctl(ctx, "fdb/show", bridge)
	if err != nil {
		return nil, err
	}
	return fixedIn(out), nil
}

// fixedIn reads the table that fdb/show prints: port, VLAN, MAC and age, which is "static" for a fixed entry.
func fixedIn(table string) (all []entry) {
	for lines := bufio.NewScanner(strings.NewReader(table)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[3] != "static" {
			continue
		}
		vlan, failed := strconv.Atoi(f[1])
		mac, err := model.ParseMAC(f[2])
		if err == nil && failed == nil {
			all = append(all, entry{f[0], vlan, mac})
		}
	}
	return all
}
