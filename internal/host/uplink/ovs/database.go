package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// The tables that are monitored, with only the columns that matter: the others, such as statistics, change every few seconds.
type (
	bridgeRow struct {
		UUID       string   `ovsdb:"_uuid"`
		Name       string   `ovsdb:"name"`
		Ports      []string `ovsdb:"ports"`
		Datapath   string   `ovsdb:"datapath_type"`
		FailMode   *string  `ovsdb:"fail_mode"`
		Controller []string `ovsdb:"controller"`
	}
	portRow struct {
		UUID       string   `ovsdb:"_uuid"`
		Name       string   `ovsdb:"name"`
		Interfaces []string `ovsdb:"interfaces"`
		Tag        *int     `ovsdb:"tag"`
		Trunks     []int    `ovsdb:"trunks"`
		VLANMode   *string  `ovsdb:"vlan_mode"`
		Protected  bool     `ovsdb:"protected"` // it reaches no other such port of its bridge
	}
	interfaceRow struct {
		UUID    string            `ovsdb:"_uuid"`
		Name    string            `ovsdb:"name"`
		Type    string            `ovsdb:"type"`
		Options map[string]string `ovsdb:"options"`
		IDs     map[string]string `ovsdb:"external_ids"`
	}
	rootRow struct {
		UUID    string            `ovsdb:"_uuid"`
		IDs     map[string]string `ovsdb:"external_ids"`
		Config  map[string]string `ovsdb:"other_config"`
		Wanted  int               `ovsdb:"next_cfg"` // the number of the newest configuration
		Current int               `ovsdb:"cur_cfg"`  // that of the one that ovs-vswitchd has taken over
	}
)

// port is an interface of a bridge.
type port struct {
	bridge *bridgeRow
	*portRow
	kind string // type of the interface, "": of the host
}

// topology is what connects what. It is immutable.
type topology struct {
	ports   map[string]port // by interface
	bridges map[string]*bridgeRow

	interfaces  map[string]*interfaceRow // by name, also those in no bridge
	integration string                   // OVN's bridge, "": OVN does not use this host
	mapped      map[string]bool          // the bridges through which OVN reaches physical networks
	neutron     map[string]bool          // the bridges that Neutron's Open vSwitch agent has connected with each other
	offload     bool                     // Open vSwitch lets NICs forward frames themselves
	isolated    map[string]bool          // the ports, by UUID, that ovs-vswitchd isolates from each other
}

// database follows the database of Open vSwitch. It never waits for it: what it says is what was last known.
type database struct {
	socket string
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
	first  chan struct{} // closed after the first attempt to read it
	again  chan struct{} // it is to be read again, or the connection has been given up

	mu       sync.Mutex
	client   client.Client // nil: not connected
	now      topology
	err      error // why it is not followed at present
	watchers map[chan struct{}]bool
}

// runDir is where Open vSwitch has its sockets, as its own tools find it.
func runDir() string { return cmp.Or(os.Getenv("OVS_RUNDIR"), "/var/run/openvswitch") }

// pidFile is where ovs-vswitchd says which process it is.
func pidFile() string { return filepath.Join(runDir(), "ovs-vswitchd.pid") }

var (
	errNotYet = errors.New("it has not answered yet")
	errClosed = errors.New("it closed the connection")
)

// follow follows the database from now on, and waits a moment for its first answer if there is a socket.
func follow(ctx context.Context, log *slog.Logger) *database {
	d := &database{
		socket: filepath.Join(runDir(), "db.sock"), log: log, done: make(chan struct{}), first: make(chan struct{}),
		again: make(chan struct{}, 1), err: errNotYet, watchers: map[chan struct{}]bool{},
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	go d.run(run)
	select {
	case <-d.first:
	case <-ctx.Done():
	case <-time.After(firstAnswer):
	}
	return d
}

const (
	firstAnswer   = 3 * time.Second
	connectFor    = 10 * time.Second
	tryAgain      = 5 * time.Second // at most between two attempts to connect
	settleFor     = 20 * time.Millisecond
	pollEvery     = 500 * time.Millisecond
	bridgesWithin = 5 * time.Second
)

func (d *database) close() {
	d.stop()
	<-d.done
}

func (d *database) run(ctx context.Context) {
	defer close(d.done)
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(tryAgain),
		backoff.WithMaxElapsedTime(0))
	first := sync.OnceFunc(func() { close(d.first) })
	for ctx.Err() == nil {
		err := d.session(ctx, func() {
			wait.Reset()
			first()
		})
		first()
		d.lost(err)
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// lost keeps the topology, and says why it may be outdated.
func (d *database) lost(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone(err)
}

// gone does so for a caller that holds the lock.
func (d *database) gone(err error) {
	if d.err == nil {
		d.log.Warn("the database of Open vSwitch is gone; its last state is used until it is back", "error", err)
	}
	d.err, d.client = err, nil
}

// giveUp ends a connection on which a transaction failed: whether the database made it is not known before all is read anew.
func (d *database) giveUp(c client.Client, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == c {
		d.gone(err)
		nudge(d.again)
	}
}

// session follows the database until the connection ends.
func (d *database) session(ctx context.Context, ready func()) error {
	if _, err := os.Stat(d.socket); err != nil { // the usual host
		return fmt.Errorf("there is no %s", d.socket)
	}
	schema, err := model.NewClientDBModel("Open_vSwitch", map[string]model.Model{
		"Bridge": &bridgeRow{}, "Port": &portRow{}, "Interface": &interfaceRow{}, "Open_vSwitch": &rootRow{},
	})
	if err != nil {
		return err
	}
	quiet := logr.Discard()
	c, err := client.NewOVSDBClient(schema, client.WithEndpoint("unix:"+d.socket), client.WithLogger(&quiet))
	if err != nil {
		return err
	}
	connecting, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	if err := c.Connect(connecting); err != nil {
		return err
	}
	defer c.Close()
	c.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { nudge(d.again) },
		UpdateFunc: func(string, model.Model, model.Model) { nudge(d.again) },
		DeleteFunc: func(string, model.Model) { nudge(d.again) },
	})
	gone := c.DisconnectNotify()
	if _, err := c.Monitor(connecting, monitorOf(c)); err != nil {
		return err
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	switchd := d.switchd()
	d.mu.Lock()
	d.client = c
	d.mu.Unlock()
	for {
		if err := d.read(c); err != nil {
			return err
		}
		ready()
		for settled := false; !settled; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-gone:
				return errClosed
			case <-d.again:
				settled = true
			case now := <-poll.C:
				if c.CurrentEndpoint() == "" { // gone tells only who waits for it at that moment, and Connected stays true
					return errClosed
				}
				d.restarted(&switchd, now)
			}
		}
		select { // one transaction of others changes several rows
		case <-time.After(settleFor):
		case <-ctx.Done():
		}
		select {
		case <-d.again:
		default:
		}
	}
}

// process is a run of ovs-vswitchd, whose tables are lost with it. The database does not show its end.
type process struct {
	started time.Time // when its file was written
	until   time.Time // until when those who watch are told of it
}

func (d *database) switchd() (p process) {
	if file, err := os.Stat(pidFile()); err == nil {
		p.started = file.ModTime()
	}
	return p
}

// restarted tells the watchers for a while after ovs-vswitchd has started, since it takes a while until it has its bridges.
func (d *database) restarted(last *process, now time.Time) {
	if p := d.switchd(); !p.started.Equal(last.started) {
		*last = process{p.started, now.Add(bridgesWithin)}
	}
	if now.Before(last.until) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for ch := range d.watchers {
			nudge(ch)
		}
	}
}

func monitorOf(c client.Client) *client.Monitor {
	b, p, i, r := &bridgeRow{}, &portRow{}, &interfaceRow{}, &rootRow{}
	return c.NewMonitor(
		client.WithTable(b, &b.Name, &b.Ports, &b.Datapath, &b.FailMode, &b.Controller),
		client.WithTable(p, &p.Name, &p.Interfaces, &p.Tag, &p.Trunks, &p.VLANMode, &p.Protected),
		client.WithTable(i, &i.Name, &i.Type, &i.Options, &i.IDs),
		client.WithTable(r, &r.IDs, &r.Config, &r.Wanted, &r.Current),
	)
}

// read takes the topology from the client's cache, unless its session has ended, and tells the watchers.
func (d *database) read(c client.Client) error {
	known := c.Cache()
	if known == nil {
		return errClosed
	}
	now := connect(rows[bridgeRow](known, "Bridge"), rows[portRow](known, "Port"), rows[interfaceRow](known, "Interface"))
	taken := false
	for _, r := range rows[rootRow](known, "Open_vSwitch") {
		now.ovn(r.IDs)
		now.offload = r.Config["hw-offload"] == "true"
		taken = r.Current >= r.Wanted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != c {
		return errClosed
	}
	now.isolate(taken, d.now.isolated)
	d.now, d.err = now, nil
	for ch := range d.watchers {
		nudge(ch)
	}
	return nil
}

// isolate notes which ports are isolated: those of which the database says so if ovs-vswitchd has taken over all that it says, else those
// that were before too.
func (t *topology) isolate(taken bool, before map[string]bool) {
	t.isolated = map[string]bool{}
	for _, p := range t.ports {
		if p.Protected && (taken || before[p.UUID]) {
			t.isolated[p.UUID] = true
		}
	}
}

// rows returns a table as the client knows it. They are the client's own rows, which it replaces and never changes: copies of a thousand
// would cost most of what following the database does.
func rows[T any](known *cache.TableCache, table string) (list []*T) {
	for _, m := range known.Table(table).RowsShallow() {
		if row, ok := m.(*T); ok {
			list = append(list, row)
		}
	}
	return list
}

// connect joins the tables. Rows of a transaction that has not arrived whole are left out.
func connect(bridges []*bridgeRow, ports []*portRow, interfaces []*interfaceRow) topology {
	t := topology{
		ports: map[string]port{}, bridges: map[string]*bridgeRow{}, interfaces: map[string]*interfaceRow{}, mapped: map[string]bool{},
		neutron: map[string]bool{},
	}
	byUUID, inPort := map[string]*interfaceRow{}, map[string]*portRow{}
	for _, i := range interfaces {
		byUUID[i.UUID], t.interfaces[i.Name] = i, i
	}
	for _, p := range ports {
		inPort[p.UUID] = p
	}
	for _, b := range bridges {
		t.bridges[b.Name] = b
		for _, id := range b.Ports {
			p := inPort[id]
			if p == nil {
				continue
			}
			for _, id := range p.Interfaces {
				if i := byUUID[id]; i != nil {
					t.ports[i.Name] = port{b, p, i.Type}
					if ofNeutron(i) {
						t.neutron[b.Name] = true
					}
				}
			}
		}
	}
	return t
}

// state returns what was last known, and why it may be outdated.
func (d *database) state() (topology, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.err
}

// watch reports changes until ctx ends.
func (d *database) watch(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	d.mu.Lock()
	d.watchers[ch] = true
	d.mu.Unlock()
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, ch)
		close(ch)
	})
	return ch
}

// nudge sends without waiting: a signal that nobody has taken yet is enough.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
