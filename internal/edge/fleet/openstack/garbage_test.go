package openstack_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/edge/fleet/placementtest"
)

var spoilEach = flag.Bool("spoil-each", false, "give each kind of garbage for an answer at each of what is asked of Placement, not at one of them")

// reads are all methods that read.
func reads(t *testing.T, l *openstack.Ledger) (errs []error) {
	t.Helper()
	_, tree := l.Tree(t.Context(), "x", true)
	_, all := l.Fleet(t.Context())
	_, short := l.Overview(t.Context())
	_, hosts := l.Hosts(t.Context())
	_, node := l.Node(t.Context(), "x")
	_, _, claim := l.Claim(t.Context(), "x")
	_, room := l.Candidates(t.Context(), fleet.Ask{Kbits: 1})
	return []error{tree, all, short, hosts, node, claim, room}
}

// garbage is what a server may answer that is not Placement, or is broken.
var garbage = map[string]http.HandlerFunc{
	"500":          func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) },
	"a page":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>Log in</body></html>") },
	"an array":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") },
	"null":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "null") },
	"nothing else": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
	"another type": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"resource_providers": 1, "allocations": [1], "traits": {}, "inventories": "x", "allocation_requests": {}}`)
	},
	"cut off": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"resource_providers": [{"uuid": "x", "na`)
	},
	"less than said": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"resource_providers": []`)
	},
	"no answer": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
	"no end": func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, `{"resource_providers": [`)
		for q.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(`{"uuid": "x"}, `, 1000)); err != nil {
				return
			}
		}
	},
}

// Garbage and failures of Placement are errors within a request's time, not an empty ledger.
func TestGarbage(t *testing.T) {
	environment(t, nil)
	for name, handle := range garbage {
		t.Run(name, func(t *testing.T) {
			openstack.Hurry(t, time.Minute)
			if name == "no answer" || name == "no end" {
				openstack.Hurry(t, 100*time.Millisecond)
			}
			server := httptest.NewServer(handle)
			defer server.Close()
			l, err := openstack.Connect(t.Context(), server.URL)
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range reads(t, l) {
				if err == nil {
					t.Errorf("read %d: no error", i)
				}
			}
		})
	}
}

// What Placement refuses is told apart.
func TestRefusals(t *testing.T) {
	environment(t, nil)
	for code, want := range map[string]error{
		"placement.undefined_code": fleet.ErrFull, "placement.concurrent_update": fleet.ErrStale, "placement.inventory.inuse": fleet.ErrInUse,
		"placement.duplicate_name": fleet.ErrTaken,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"errors": [{"code": %q, "detail": "no"}]}`, code)
		}))
		l, err := openstack.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range append(reads(t, l), l.Do(t.Context(), fleet.Request{Kind: fleet.SetInventories})) {
			if !errors.Is(err, want) {
				t.Errorf("%s, call %d: %v", code, i, err)
			}
		}
		server.Close()
	}
}

// An answer without an end is read up to a bound, and the error says so; of a refusal the beginning is passed on.
func TestEndlessAnswer(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		for page := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	l := connect(t, server.URL)
	if _, err := l.Pass(t.Context(), http.MethodGet, "/resource_providers", nil); err == nil ||
		err.Error() != `Placement's answer to GET "/resource_providers": the answer is longer than 64 MiB` {
		t.Errorf("passed on: %v", err)
	}
	status = http.StatusInternalServerError
	if a, err := l.Pass(t.Context(), http.MethodGet, "/", nil); err != nil || a.Status != status || len(a.Body) != 1<<20 {
		t.Errorf("a refusal: %d, %d bytes, %v", a.Status, len(a.Body), err)
	}
}

// FuzzAnswers: whatever an answer is, reading it ends without a panic.
func FuzzAnswers(f *testing.F) {
	const provider = `{"uuid": "x", "name": "sluice:a", "generation": 1, "parent_provider_uuid": null, "root_provider_uuid": "x"}`
	for _, seed := range []string{
		`{}`, `null`, `{"resource_providers": [` + provider + `]}`, `{"resource_providers": [null, ` + provider + `], "allocations": {"x": null}}`,
		`{"resource_providers": [` + provider + `], "traits": [], "inventories": {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 1}},
		"resource_provider_generation": 1, "usages": {}, "allocations": {"x": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}}}, "consumer_generation": 1,
		"allocation_requests": [{"allocations": {"x": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}}}], "provider_summaries": {"x": {"resources": {}}}}`,
	} {
		f.Add([]byte(seed))
	}
	body := []byte{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write(body)
	}))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, text []byte) {
		body = text
		l, err := openstack.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = reads(t, l)
		_, _, _ = fleet.Publish(t.Context(), l, fleettest.Host("a"), fleettest.Capacity())
	})
}

// faults spoils one answer of a Placement: the request with that number from now.
type faults struct {
	*httptest.Server
	next atomic.Int64
	hit  atomic.Int64 // how many it has spoilt
	how  atomic.Pointer[fault]
}

type fault struct {
	handle http.HandlerFunc
	passed bool // Placement gets the request nevertheless, and its answer is lost
}

func spoil(t *testing.T, to string) *faults {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	s := &faults{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if s.next.Add(-1) != 0 {
			proxy.ServeHTTP(w, q)
			return
		}
		s.hit.Add(1)
		how := s.how.Load()
		body, err := io.ReadAll(q.Body) // until then the server does not notice that the client is gone
		if err != nil {
			t.Error(err)
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		if how.passed {
			proxy.ServeHTTP(httptest.NewRecorder(), q)
		}
		how.handle(w, q)
	}))
	t.Cleanup(s.Close)
	return s
}

// Whatever request of a round, of place, migrate and release gets garbage for an answer, of a real Placement: it fails or succeeds as a whole, and
// once Placement answers again, a repetition leaves what there would be without the fault. Every other time it is the request that writes the
// claim. Each kind of garbage is tried at one of these, with -spoil-each at each.
func TestSpoiltPlacement(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	server := placementtest.Start(t)
	clean, err := openstack.Connect(t.Context(), server.Direct())
	if err != nil {
		t.Fatal(err)
	}
	proxy := spoil(t, server.Direct())
	a, b := fleettest.Host("a"), fleettest.Host("b")
	macs := []string{fleettest.MAC(1)}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	t.Logf("seed %d", seed)
	claimed := func() map[string]int {
		s, err := clean.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, link := range fleet.Links(&s) {
			out[link.Host] += link.Claimed
		}
		return out
	}
	red := fleet.Ask{Kbits: 2_000_000, Traits: []string{fleet.NetworkTrait("red")}, Host: a.ID}
	steps := []struct {
		name string
		do   func(l fleet.Ledger) error
		want [2]int // claimed at a and b before and after, Gbit/s at a*10+b
	}{
		{"publish", func(l fleet.Ledger) error {
			_, _, err := fleet.Publish(t.Context(), l, a, fleettest.Capacity())
			return err
		}, [2]int{0, 0}},
		{"place", func(l fleet.Ledger) error {
			_, err := fleet.Place(t.Context(), l, fleettest.VM(1), fleettest.MAC(1), red)
			return err
		}, [2]int{0, 20}},
		{"begin", func(l fleet.Ledger) error {
			_, err := fleet.BeginMigration(t.Context(), l, fleettest.VM(1), macs, b.ID)
			if errors.Is(err, fleet.ErrMigrating) {
				return nil // it was done before the fault
			}
			return err
		}, [2]int{20, 22}},
		{"end", func(l fleet.Ledger) error { return fleet.EndMigration(t.Context(), l, fleettest.VM(1), macs) }, [2]int{22, 2}},
		{"release", func(l fleet.Ledger) error {
			err := fleet.Release(t.Context(), l, fleettest.VM(1), fleettest.MAC(1))
			if err != nil && strings.Contains(err.Error(), "has no claim") {
				return nil
			}
			return err
		}, [2]int{2, 0}},
	}
	if _, _, err := fleet.Publish(t.Context(), clean, b, fleettest.Capacity()); err != nil {
		t.Fatal(err)
	}
	requests := make([][]string, len(steps)) // of each once all traits exist
	for range 2 {
		for i, step := range steps {
			l := connect(t, server.URL)
			server.KillAt(0, "", false) // never: it lists the requests from here on
			if err := step.do(l); err != nil {
				t.Fatal(err)
			}
			requests[i] = server.Requests()
			if step.name != "publish" && !slices.ContainsFunc(requests[i], placementtest.WritesClaim) {
				t.Fatalf("%s writes no claim: %q", step.name, requests[i])
			}
		}
	}
	type kind struct {
		name   string
		passed bool
	}
	var kinds []kind
	for _, name := range slices.Sorted(maps.Keys(garbage)) {
		kinds = append(kinds, kind{name, false}, kind{name, true})
	}
	random.Shuffle(len(kinds), func(i, k int) { kinds[i], kinds[k] = kinds[k], kinds[i] })
	stride := len(steps)
	if *spoilEach {
		stride = 1
	}
	times, failed := 0, 0
	for first := 0; first < len(kinds); first += stride {
		for i, step := range steps {
			k, at := kinds[(first+i)%len(kinds)], random.IntN(len(requests[i]))
			if write := slices.IndexFunc(requests[i], placementtest.WritesClaim); write >= 0 && random.IntN(2) == 0 {
				at = write
			}
			what := fmt.Sprintf("%+v, %s, request %d (%s)", k, step.name, at+1, requests[i][at])
			times++
			openstack.Hurry(t, time.Minute)
			if k.name == "no answer" || k.name == "no end" {
				openstack.Hurry(t, 2*time.Second)
			}
			l := connect(t, proxy.URL)
			proxy.how.Store(&fault{garbage[k.name], k.passed})
			proxy.next.Store(int64(at + 1))
			if step.do(l) != nil {
				failed++
			}
			proxy.next.Store(0)
			sum := claimed()
			if now := sum["a"]/1e5 + sum["b"]/1e6; now != step.want[0] && now != step.want[1] {
				t.Errorf("%s: half of it was done: %v", what, sum)
			}
			if err := step.do(clean); err != nil {
				t.Fatalf("%s, repeated: %v", what, err)
			}
			sum = claimed()
			if now := sum["a"]/1e5 + sum["b"]/1e6; now != step.want[1] {
				t.Errorf("%s, repeated: %v", what, sum)
			}
		}
	}
	if hit := int(proxy.hit.Load()); hit < times || failed < hit*3/4 {
		t.Errorf("%d faults, of which %d were in the way and %d made a request fail", times, hit, failed)
	}
	if diff := cmp.Diff(map[string]int{"a": 0, "b": 0}, claimed()); diff != "" {
		t.Error(diff)
	}
}
