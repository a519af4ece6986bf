package openstack

import (
	"context"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"sluice/internal/edge/fleet"
)

// Node implements fleet.Reader. Of the compute node itself, of which every VM has a part, only the name is read.
func (l *Ledger) Node(ctx context.Context, name string) (fleet.State, error) {
	list, err := l.list(ctx, resourceproviders.ListOpts139{Name: name})
	if err != nil || len(list) == 0 {
		return fleet.State{}, err
	}
	root := list[0]
	if list, err = l.list(ctx, resourceproviders.ListOpts139{InTree: root.UUID}); err != nil {
		return fleet.State{}, err
	}
	var below []resourceproviders.ResourceProvider
	for i := range list {
		if list[i].UUID == root.UUID {
			continue
		}
		d, err := l.described(ctx, &list[i])
		if err != nil {
			return fleet.State{}, err
		}
		for class := range d.provider.Inventories {
			if strings.HasPrefix(class, "NET_") {
				below = append(below, list[i])
				break
			}
		}
	}
	state, err := l.read(ctx, below)
	state.Providers = append(state.Providers, fleet.Provider{ID: root.UUID, Name: root.Name})
	return state, err
}
