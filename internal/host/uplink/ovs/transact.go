package ovs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// errChanged means that somebody else changed a row meanwhile, so that the transaction did nothing.
var errChanged = errors.New("somebody else changed it meanwhile")

const pollCache = time.Millisecond // the cache tells nobody when it has taken in a whole transaction

// connected returns the connection to the database.
func (d *database) connected() (client.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return nil, fmt.Errorf("the database of Open vSwitch does not answer: %w", d.err)
	}
	return d.client, nil
}

// fresh returns the topology as the database has told it until now.
func (d *database) fresh() (topology, error) {
	c, err := d.connected()
	if err != nil {
		return topology{}, err
	}
	if err := d.read(c); err != nil {
		return topology{}, err
	}
	return d.state()
}

// ids returns the external ids of an interface as the database has told them until now; false: it has no such interface.
func (d *database) ids(ctx context.Context, name string) (ids, bool, error) {
	c, err := d.connected()
	if err != nil {
		return nil, false, err
	}
	if c.Cache() == nil { // Get would answer what the session knew when it ended
		return nil, false, errClosed
	}
	row := &interfaceRow{Name: name}
	if err = c.Get(ctx, row); errors.Is(err, client.ErrNotFound) {
		return nil, false, nil
	}
	return row.IDs, err == nil, err
}

// until waits for the database to tell a state.
func (d *database) until(ctx context.Context, ok func() (bool, error)) error {
	poll := time.NewTicker(pollCache)
	defer poll.Stop()
	for {
		is, err := ok()
		if err == nil && is {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-poll.C:
		}
	}
}

// transact makes changes in one transaction: all or none.
func (d *database) transact(ctx context.Context, ops ...ovsdb.Operation) error {
	_, err := d.results(ctx, ops...)
	return err
}

// results does the same, and returns what each operation returns.
func (d *database) results(ctx context.Context, ops ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	c, err := d.connected()
	if err != nil {
		return nil, err
	}
	results, err := c.Transact(ctx, ops...)
	if err != nil {
		err = fmt.Errorf("write to the database of Open vSwitch: %w", err)
		if writes(ops) {
			d.giveUp(c, err)
		}
		return nil, err
	}
	failed, err := ovsdb.CheckOperationResults(results, ops)
	for _, f := range failed {
		var late *ovsdb.TimedOut
		if errors.As(f, &late) {
			return nil, errChanged
		}
		err = errors.Join(err, f)
	}
	if err != nil {
		return nil, fmt.Errorf("write to the database of Open vSwitch: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return results, nil
}

func writes(ops []ovsdb.Operation) bool {
	return slices.ContainsFunc(ops, func(o ovsdb.Operation) bool { return o.Op != ovsdb.OperationSelect })
}

// The numbers of the newest configuration, and of the one that ovs-vswitchd has taken over.
const wantedConfig, currentConfig = "next_cfg", "cur_cfg"

const pollConfig = 10 * time.Millisecond

// apply makes changes in one transaction, and waits until ovs-vswitchd has taken them over, as ovs-vsctl does.
func (d *database) apply(ctx context.Context, ops ...ovsdb.Operation) error {
	number := func(column string) ovsdb.Operation {
		return ovsdb.Operation{Op: ovsdb.OperationSelect, Table: "Open_vSwitch", Columns: []string{column}}
	}
	results, err := d.results(ctx, append(ops, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: "Open_vSwitch",
		Where:     []ovsdb.Condition{ovsdb.NewCondition(wantedConfig, ovsdb.ConditionGreaterThanOrEqual, 0)}, // any
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(wantedConfig, ovsdb.MutateOperationAdd, 1)},
	}, number(wantedConfig))...)
	if err != nil {
		return err
	}
	want, err := numberIn(results, wantedConfig)
	if err != nil {
		return err
	}
	poll := time.NewTicker(pollConfig)
	defer poll.Stop()
	for {
		results, err := d.results(ctx, number(currentConfig))
		if err != nil {
			return err
		}
		if now, err := numberIn(results, currentConfig); err != nil || now >= want {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ovs-vswitchd has not taken it over (systemctl status openvswitch-switch): %w", ctx.Err())
		case <-poll.C:
		}
	}
}

// numberIn returns the number in that column of the only row that the last operation selected.
func numberIn(results []ovsdb.OperationResult, column string) (float64, error) {
	if n := len(results); n > 0 && len(results[n-1].Rows) == 1 {
		if f, ok := results[n-1].Rows[0][column].(float64); ok {
			return f, nil
		}
	}
	return 0, fmt.Errorf("the database of Open vSwitch has no %s", column)
}

// edit is a change of an interface's external ids.
type edit struct {
	name     string
	from, to map[string]string
}

// ops changes the ids, provided that they are still what they were.
func (e edit) ops() (ops []ovsdb.Operation, err error) {
	was, err := ovsdb.NewOvsMap(e.from)
	if err != nil {
		return nil, err
	}
	will, err := ovsdb.NewOvsMap(e.to)
	if err != nil {
		return nil, err
	}
	now := 0
	where := []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, e.name)}
	return []ovsdb.Operation{
		{
			Op: ovsdb.OperationWait, Table: "Interface", Timeout: &now, Where: where, Columns: []string{"external_ids"},
			Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{{"external_ids": was}},
		},
		{Op: ovsdb.OperationUpdate, Table: "Interface", Where: where, Row: ovsdb.Row{"external_ids": will}},
	}, nil
}

// addPort makes an interface of the host a port of a bridge.
func (d *database) addPort(ctx context.Context, bridge, name string) error {
	row := ovsdb.UUID{GoUUID: "row_interface"}
	port := ovsdb.UUID{GoUUID: "row_port"}
	return d.transact(
		ctx,
		ovsdb.Operation{Op: ovsdb.OperationInsert, Table: "Interface", UUIDName: row.GoUUID, Row: ovsdb.Row{"name": name}},
		ovsdb.Operation{
			Op: ovsdb.OperationInsert, Table: "Port", UUIDName: port.GoUUID,
			Row: ovsdb.Row{"name": name, "interfaces": ovsdb.OvsSet{GoSet: []any{row}}},
		},
		ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: "Bridge", Where: []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, bridge)},
			Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("ports", ovsdb.MutateOperationInsert, ovsdb.OvsSet{GoSet: []any{port}})},
		},
	)
}
