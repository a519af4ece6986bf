package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/tests/testkit"
)

// claimBy is the path and the body of a claim of n's NIC, with so much of a provider.
func claimBy(h fleet.Host, n byte, kbits int, generation *int) (path, body string) {
	holder := fleet.Holder{By: fleet.ByHost, VM: fleettest.VM(n), MAC: fleettest.MAC(n)}
	id, _ := fleet.Consumer(holder.VM, holder.MAC)
	b := claimBody{
		Allocations: map[string]amountsBody{h.PF(fleettest.PF0): {Resources: map[string]int{fleet.ClassBits: kbits}}},
		Project:     fleet.Project, User: holder.User(), Type: fleet.ConsumerType, Generation: generation,
	}
	data, _ := json.Marshal(b)
	return "/allocations/" + id, string(data)
}

// What one body may name is bounded.
func TestBodyIsBounded(t *testing.T) {
	list := func(n int, one func(id string) string) string {
		var all []string
		for i := range n {
			all = append(all, one(uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Append(nil, i)).String()))
		}
		return strings.Join(all, ", ")
	}
	const end = `"project_id": "sluice", "user_id": "u", "consumer_type": "T"`
	class := func(id string) string { return `"C_` + strings.ToUpper(id[:8]) + `": ` }
	for what, c := range map[string]struct {
		method, path string
		most         int
		body         func(n int) string
	}{
		"consumers": {"POST", "/allocations", 64, func(n int) string {
			return "{" + list(n, func(id string) string { return `"` + id + `": {"allocations": {}, ` + end + `}` }) + "}"
		}},
		"providers": {"PUT", "/allocations/" + some, 64, func(n int) string {
			return `{"allocations": {` + list(n, func(id string) string { return `"` + id + `": {"resources": {"A": 1}}` }) + `}, ` + end + "}"
		}},
		"resource classes": {"PUT", "/allocations/" + some, 64, func(n int) string {
			return `{"allocations": {"` + other + `": {"resources": {` + list(n, func(id string) string { return class(id) + "1" }) + `}}}, ` + end + "}"
		}},
		"resource classes of an inventory": {"PUT", "/resource_providers/" + some + "/inventories", 64, func(n int) string {
			return `{"resource_provider_generation": 1, "inventories": {` + list(n, func(id string) string { return class(id) + `{"total": 1}` }) + "}}"
		}},
		"traits": {"PUT", "/resource_providers/" + some + "/traits", 256, func(n int) string {
			return `{"resource_provider_generation": 1, "traits": [` + list(n, func(id string) string { return `"` + id + `"` }) + "]}"
		}},
	} {
		if _, err := understand(c.method, c.path, strings.NewReader(c.body(c.most))); err != nil {
			t.Errorf("%d %s: %v", c.most, what, err)
		}
		_, err := understand(c.method, c.path, strings.NewReader(c.body(c.most+1)))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("at most %d are let through", c.most)) {
			t.Errorf("%d %s: %v", c.most+1, what, err)
		}
	}
}

// A host may create as many traits as it needs, and no more; to ask for the same again creates none.
func TestTraitsAreBounded(t *testing.T) {
	s := serve(t, nil)
	mine := s.as(s.client(hostURI(t, fleettest.Host("a")), time.Now().Add(time.Hour)))
	for n := range mostCreated {
		for range 2 {
			if status, body := s.ask(mine, http.MethodPut, fmt.Sprint("/traits/CUSTOM_SLUICE_", n), ""); status >= 300 {
				t.Fatalf("%d: %d %s", n, status, body)
			}
		}
	}
	if status, body := s.ask(mine, http.MethodPut, "/traits/CUSTOM_SLUICE_MORE", ""); status != 403 || !strings.Contains(body, "512 traits") {
		t.Errorf("one more: %d %s", status, body)
	}
	its := s.as(s.client(hostURI(t, fleettest.Host("b")), time.Now().Add(time.Hour)))
	if status, body := s.ask(its, http.MethodPut, "/traits/CUSTOM_SLUICE_MORE", ""); status != 201 {
		t.Errorf("another host: %d %s", status, body)
	}
}

// What a host may not write is refused while a write of another is under way: it has nobody wait.
func TestRefusedWithoutWaiting(t *testing.T) {
	shorten(t, time.Minute, time.Hour)
	s := serve(t, nil)
	hosts := fleettest.Victims(t, s.behind.Ledger)
	hour := time.Now().Add(time.Hour)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	s.behind.before = func() {
		begun <- struct{}{}
		<-release
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer close(release)
	first, thief := s.as(s.client(hostURI(t, hosts[0]), hour)), s.as(s.client(hostURI(t, hosts[1]), hour))
	thief.Timeout = time.Minute
	path, body := claimBy(hosts[0], 30, 1000, nil)
	group.Go(func() { s.ask(first, http.MethodPut, path, body) })
	<-begun
	foreign, b := claimBy(hosts[0], 31, 1000, nil)
	generation := 1
	taken, ofA := claimBy(hosts[1], 0, 1000, &generation)
	for name, c := range map[string][3]string{
		"a claim at another host": {"PUT", foreign, b},
		"another host's claim":    {"PUT", taken, ofA},
		"a migration":             {"POST", "/allocations", `{"` + some + `": ` + ofA + `}`},
		"another host's PF":       {"DELETE", "/resource_providers/" + hosts[0].PF(fleettest.PF0), ""},
	} {
		if status, text := s.ask(thief, c[0], c[1], c[2]); status != 403 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// shorten changes the deadlines of writes.
func shorten(t *testing.T, look, write time.Duration) {
	lookBefore, writeBefore := lookTime, writeTime
	lookTime, writeTime = look, write
	t.Cleanup(func() { lookTime, writeTime = lookBefore, writeBefore })
}

// A Placement that does not answer has nobody wait for long: a look ends, and a write is left alone, but nothing else is written about the
// same before its outcome is known.
func TestWritesEnd(t *testing.T) {
	shorten(t, testkit.Time(200*time.Millisecond), testkit.Time(200*time.Millisecond))
	s := serve(t, nil)
	hosts := fleettest.Victims(t, s.behind.Ledger)
	hour := time.Now().Add(time.Hour)
	a, b := s.as(s.client(hostURI(t, hosts[0]), hour)), s.as(s.client(hostURI(t, hosts[1]), hour))
	operator := s.as(s.client("sluice:operator", hour))
	var mu sync.Mutex
	hang := true
	release := make(chan struct{})
	s.behind.before = func() {
		mu.Lock()
		waits := hang
		hang = false
		mu.Unlock()
		if waits {
			<-release
		}
	}
	path, body := claimBy(hosts[0], 30, 1000, nil)
	if status, text := s.ask(a, http.MethodPut, path, body); status != 502 || !strings.Contains(text, "no answer from Placement within") {
		t.Errorf("a write that is not answered: %d %s", status, text)
	}
	for name, c := range map[string]*http.Client{"the host": a, "an operator": operator} {
		if status, text := s.ask(c, http.MethodPut, path, body); status != 503 || !strings.Contains(text, "an earlier write about the same") {
			t.Errorf("%s writes about the same: %d %s", name, status, text)
		}
	}
	others, its := claimBy(hosts[1], 31, 1000, nil)
	if status, text := s.ask(b, http.MethodPut, others, its); status != 200 {
		t.Errorf("another host: %d %s", status, text)
	}
	close(release)
	testkit.Eventually(t, time.Minute, "the write is carried out at last, and the same may be written again", func() bool {
		generation := 1
		path, body := claimBy(hosts[0], 30, 2000, &generation)
		status, _ := s.ask(a, http.MethodPut, path, body)
		return status == 200
	})

	s.behind.look = func(ctx context.Context) { <-ctx.Done() }
	if status, text := s.ask(a, http.MethodDelete, "/resource_providers/"+hosts[0].PF(fleettest.PF0), ""); status != 502 {
		t.Errorf("a look that is not answered: %d %s", status, text)
	}
}

// However many writes a client sends, another's does not wait for all of them.
func TestClientsTakeTurns(t *testing.T) {
	s := serve(t, nil)
	a, b := fleettest.Host("a"), fleettest.Host("b")
	hour := time.Now().Add(time.Hour)
	many, one := s.as(s.client(hostURI(t, a), hour)), s.as(s.client(hostURI(t, b), hour))
	begun, release := make(chan struct{}, 100), make(chan struct{})
	s.behind.before = func() {
		begun <- struct{}{}
		<-release
	}
	var group sync.WaitGroup
	for range mostAtOnce {
		group.Go(func() { s.ask(many, http.MethodPost, "/resource_providers", createBody(a)) })
	}
	<-begun
	waiting := func(who fleet.Host, n int) func() bool {
		return func() bool {
			c := s.proxy.client(Identity{Host: who})
			return len(c.turn) == n && len(c.write) > 0
		}
	}
	testkit.Eventually(t, time.Minute, "all writes of one client have come", waiting(a, mostAtOnce))
	group.Go(func() {
		if status, text := s.ask(one, http.MethodPost, "/resource_providers", createBody(b)); status != 200 {
			t.Errorf("%d %s", status, text)
		}
	})
	testkit.Eventually(t, time.Minute, "another's has come", waiting(b, 1))
	arrived := func() bool {
		return slices.ContainsFunc(s.behind.All().Providers, func(p fleet.Provider) bool { return p.ID == b.ID })
	}
	testkit.Eventually(t, time.Minute, "another's is done", func() bool {
		select {
		case release <- struct{}{}:
		default:
		}
		return arrived()
	})
	if n := s.behind.requests(); n > mostAtOnce/2 {
		t.Errorf("the other's write was done after %d requests", n)
	}
	close(release)
	group.Wait()
}

// What is told and answered of a refused request is short and printable, whatever is in it.
func TestRefusalIsShort(t *testing.T) {
	s := serve(t, nil)
	mine := s.as(s.client(hostURI(t, fleettest.Host("a")), time.Now().Add(time.Hour)))
	long := strings.Repeat("x", mostBody/2)
	for name, c := range map[string][3]string{
		"a class":   {"PUT", "/resource_providers/" + some + "/inventories", `{"inventories": {"` + long + `": {}}, "resource_provider_generation": 1}`},
		"a project": {"PUT", "/allocations/" + some, `{"project_id": "` + long + `"}`},
		"a key":     {"PUT", "/allocations/" + some, `{"\u001b[31m` + long + `": 1}`},
		"a path":    {"GET", "/" + long[:8000], ""},
		"a method":  {strings.ToUpper(long[:8000]), "/", ""},
	} {
		status, body := s.ask(mine, c[0], c[1], c[2])
		if status != 403 || len(body) > 2*mostText || strings.Contains(body, `\u001b`) {
			t.Errorf("%s: %d, %d bytes: %.300s", name, status, len(body), body)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.told {
		if len(line) > mostText+3 || strings.ContainsAny(line, "\x1b\n") {
			t.Errorf("told %d bytes: %.300q", len(line), line)
		}
	}
	if len(s.told) != 5 {
		t.Errorf("told %d lines", len(s.told))
	}
}

// silent is a Placement that carries out what it is asked, and whose answers nobody gets.
type silent struct{ *placement }

func (s silent) Pass(ctx context.Context, method, path string, body []byte) (openstack.Answer, error) {
	_, err := s.placement.Pass(ctx, method, path, body)
	return openstack.Answer{}, cmp.Or(err, context.Canceled)
}

// A client that does not wait for the answers creates no more traits than one that does.
func TestTraitsCountWithoutAnAnswer(t *testing.T) {
	inner := &placement{Ledger: &fleettest.Ledger{}}
	p := &Proxy{Placement: silent{inner}}
	c := p.client(Identity{})
	for n := range 2 * mostCreated {
		_, _ = p.createTrait(t.Context(), c, http.MethodPut, fmt.Sprint("/traits/CUSTOM_SLUICE_", n))
	}
	if len(inner.traits) != mostCreated {
		t.Errorf("%d traits were created, want %d", len(inner.traits), mostCreated)
	}
}
