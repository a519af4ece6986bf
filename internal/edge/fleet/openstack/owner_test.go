package openstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/edge/fleet/placementtest"
)

// placement starts a server and returns its address.
func placement(t *testing.T) string {
	t.Helper()
	return placementtest.Start(t).Direct()
}

// write is a request that may change something.
type write struct{ method, path, body string }

// recorder passes requests on to Placement, and notes those that may change something.
type recorder struct {
	*httptest.Server
	mu     sync.Mutex
	writes []write
}

func record(t *testing.T, to string) *recorder {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet {
			body, err := io.ReadAll(q.Body)
			if err != nil {
				t.Error(err)
			}
			q.Body = io.NopCloser(bytes.NewReader(body))
			r.mu.Lock()
			r.writes = append(r.writes, write{q.Method, q.URL.Path, string(body)})
			r.mu.Unlock()
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) take() []write {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.writes
	r.writes = nil
	return out
}

// call sends a request as Nova or Neutron does, and returns the answer's body.
func call(t *testing.T, method, address, body string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Auth-Token", "admin")
	q.Header.Set("OpenStack-API-Version", "placement 1.39")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		t.Fatalf("%s %s %s: %v, %d %s", method, address, body, err, a.StatusCode, text)
	}
	return string(text)
}

// Of a compute node as Nova, and of the Open vSwitch agent as Neutron publish it.
const (
	nodeName = "compute-1.example.org"
	nodeID   = "5d1b2c52-6c2e-4c89-9a34-0d1d7f6c0001"
	agentID  = "5d1b2c52-6c2e-4c89-9a34-0d1d7f6c0002"
	deviceID = "5d1b2c52-6c2e-4c89-9a34-0d1d7f6c0003"
)

// neutron publishes them, with an instance that has claimed 2 Gbit/s and 50 kpps.
func neutron(t *testing.T, at string) {
	t.Helper()
	provider := func(id, name, parent string) {
		if parent != "" {
			parent = fmt.Sprintf(`, "parent_provider_uuid": %q`, parent)
		}
		call(t, http.MethodPost, at+"/resource_providers", fmt.Sprintf(`{"uuid": %q, "name": %q%s}`, id, name, parent))
	}
	inventory := func(id string, generation int, classes ...string) {
		var list []string
		for _, class := range classes {
			list = append(list, fmt.Sprintf(`%q: {"total": 10000000}`, class))
		}
		call(t, http.MethodPut, at+"/resource_providers/"+id+"/inventories",
			fmt.Sprintf(`{"resource_provider_generation": %d, "inventories": {%s}}`, generation, strings.Join(list, ", ")))
	}
	provider(nodeID, nodeName, "")
	provider(agentID, nodeName+":Open vSwitch agent", nodeID)
	provider(deviceID, nodeName+":Open vSwitch agent:red", agentID)
	for _, trait := range []string{"CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_NORMAL"} {
		call(t, http.MethodPut, at+"/traits/"+trait, "")
	}
	call(t, http.MethodPut, at+"/resource_providers/"+deviceID+"/traits",
		`{"resource_provider_generation": 0, "traits": ["CUSTOM_PHYSNET_PHYSNET1", "CUSTOM_VNIC_TYPE_NORMAL"]}`)
	inventory(nodeID, 0, "VCPU")
	inventory(agentID, 0, fleet.ClassPackets)
	inventory(deviceID, 1, fleet.ClassBits, "NET_BW_IGR_KILOBIT_PER_SEC")
	call(t, http.MethodPut, at+"/allocations/"+fleettest.VM(1), fmt.Sprintf(`{"allocations": {%q: {"resources": {"VCPU": 2}},
		%q: {"resources": {%q: 50}}, %q: {"resources": {%q: 2000000, "NET_BW_IGR_KILOBIT_PER_SEC": 1000}}},
		"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null}`,
		nodeID, agentID, fleet.ClassPackets, deviceID, fleet.ClassBits))
}

// theirs is all that Placement says of their providers and consumers.
func theirs(t *testing.T, at string) (out []string) {
	t.Helper()
	for _, id := range []string{nodeID, agentID, deviceID} {
		for _, part := range []string{"", "/inventories", "/traits", "/allocations", "/aggregates"} {
			out = append(out, call(t, http.MethodGet, at+"/resource_providers/"+id+part, ""))
		}
	}
	return append(out, call(t, http.MethodGet, at+"/allocations/"+fleettest.VM(1), ""))
}

// daemon is one that notes what it is told.
type daemon struct {
	api.HostCapacity
	claims []api.HostClaim
}

func (d *daemon) Capacity(context.Context) (api.HostCapacity, error) { return d.HostCapacity, nil }

func (d *daemon) SetClaims(_ context.Context, claims []api.HostClaim) (api.Result, error) {
	d.claims = claims
	return api.Result{}, nil
}

// The contract holds with OpenStack's own Placement, beside Nova and Neutron: with the owner openstack no request writes; with the owner sluice each that writes is about
// Sluice's own, and theirs stays as it is to the letter.
func TestRealPlacement(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	at := placement(t)
	neutron(t, at)
	before := theirs(t, at)
	r := record(t, at)
	connect := func() fleet.Ledger {
		l, err := openstack.Connect(t.Context(), r.URL)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := connect()
	d := &daemon{HostCapacity: *fleettest.Capacity()}
	want := []api.HostClaim{{ID: fleettest.VM(1), PF: fleettest.PF0, Rate: api.Rate{Bits: 2e9, Packets: 50e3}}}
	for range 2 {
		if round := fleet.Follow(t.Context(), l, nodeName, nil, d); round.Err != nil || round.Untold != nil {
			t.Errorf("%+v", round)
		}
		if diff := cmp.Diff(want, d.claims); diff != "" {
			t.Error(diff)
		}
	}
	if wrote := r.take(); len(wrote) > 0 {
		t.Errorf("with the owner openstack, these are written: %v", wrote)
	}

	fleettest.Contract(t, connect())
	wrote := r.take()
	for _, w := range wrote {
		own(t, w)
	}
	if len(wrote) < 100 {
		t.Errorf("only %d writes were seen", len(wrote))
	}
	if diff := cmp.Diff(before, theirs(t, at)); diff != "" {
		t.Errorf("what Nova and Neutron own has changed: %s", diff)
	}

	// The room that Neutron has left on its device is not what Sluice places on.
	if _, err := fleet.Place(t.Context(), l, fleettest.VM(200), fleettest.MAC(200), fleet.Ask{Kbits: 1, Host: nodeID}); err == nil {
		t.Error("placed on a provider of Neutron's")
	}
}

// own checks that a write is about Sluice's own providers, consumers and traits.
func own(t *testing.T, w write) {
	t.Helper()
	for _, id := range []string{nodeID, agentID, deviceID, fleettest.VM(1)} {
		if strings.Contains(w.path, id) || strings.Contains(w.body, `"`+id+`"`) {
			t.Errorf("%v is about what is not Sluice's", w)
		}
	}
	var body struct {
		Name        string
		Type        string `json:"consumer_type"`
		Traits      []string
		Inventories map[string]any
	}
	if w.body != "" {
		if err := json.Unmarshal([]byte(w.body), &body); err != nil {
			t.Errorf("%v: %v", w, err)
		}
	}
	part := strings.Split(strings.Trim(w.path, "/"), "/")
	traits := body.Traits
	if part[0] == "traits" {
		traits = append(traits, part[1])
	}
	for _, trait := range traits {
		if !strings.HasPrefix(trait, "CUSTOM_SLUICE_") {
			t.Errorf("%v has a trait that is not Sluice's", w)
		}
	}
	for class := range body.Inventories {
		if class != fleet.ClassBits && class != fleet.ClassPackets {
			t.Errorf("%v has a class that is not Sluice's", w)
		}
	}
	switch {
	case w.path == "/resource_providers" && !strings.HasPrefix(body.Name, "sluice:"):
		t.Errorf("%v makes a provider that is not Sluice's", w)
	case part[0] == "allocations" && len(part) == 2 && body.Type != fleet.ConsumerType && body.Type != "SOMEBODY": // whom the contract plays
		t.Errorf("%v is not a claim of Sluice's", w)
	}
}
