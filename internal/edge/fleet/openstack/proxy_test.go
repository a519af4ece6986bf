package openstack_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/edge/fleet/placementtest"
	"sluice/internal/edge/fleet/proxy"
)

// behindProxy is a Placement that only the program `sluice fleet proxy` reaches, with certificates of packaging/fleet/ca.
type behindProxy struct {
	*testing.T
	dir, address string
	behind       string // Placement's own address
	made         int
}

func startProxy(t *testing.T, behind string) *behindProxy {
	t.Helper()
	p := &behindProxy{T: t, dir: t.TempDir(), behind: behind}
	p.ca("new")
	cert := p.certificate("IP:127.0.0.1")
	cmd := exec.Command(program(t), "fleet", "proxy", "--listen", "127.0.0.1:0", "--cert", cert+".crt", "--key", cert+".key", //nolint:gosec // fixed
		"--clients", filepath.Join(p.dir, "ca.crt"), "--revoked", filepath.Join(p.dir, "ca.crl"), "--placement", behind)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if _, address, ok := strings.Cut(strings.TrimSpace(line), "proxy at "); ok {
		p.address = address
	} else {
		t.Fatalf("%q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // what it refuses
	return p
}

// programs holds the command sluice, which all tests share.
var programs string

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "sluice")
	out, err := exec.Command("go", "build", "-o", path, "sluice/cmd/sluice").CombinedOutput() //nolint:gosec // fixed
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return path, err
})

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "sluice-programs"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// program is the command sluice.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *behindProxy) run(name string, args ...string) []byte {
	p.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("%s %q: %v\n%s", name, args, err, failed.String())
	}
	return out
}

func (p *behindProxy) ca(args ...string) []byte {
	p.Helper()
	script, err := filepath.Abs("../../../../packaging/fleet/ca")
	if err != nil {
		p.Fatal(err)
	}
	return p.run(script, args...)
}

// certificate makes a key and a certificate with that alternative name, and returns their path without .key and .crt.
func (p *behindProxy) certificate(name string) string {
	p.Helper()
	p.made++
	path := filepath.Join(p.dir, fmt.Sprint(p.made))
	p.run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x", "-keyout", path+".key", "-out", path+".csr")
	if err := os.WriteFile(path+".crt", p.ca("sign", path+".csr", name), 0o600); err != nil {
		p.Fatal(err)
	}
	return path
}

func uriOf(t *testing.T, i proxy.Identity) string {
	t.Helper()
	uri, err := i.URI()
	if err != nil {
		t.Fatal(err)
	}
	return "URI:" + uri
}

// client is a ledger as whoever has that name, and his certificate.
func (p *behindProxy) client(name string) (*openstack.Ledger, string) {
	p.Helper()
	cert := p.certificate(name)
	environment(p.T, map[string]string{"OS_CERT": cert + ".crt", "OS_KEY": cert + ".key", "OS_CACERT": filepath.Join(p.dir, "ca.crt")})
	l, err := openstack.Connect(p.Context(), p.address)
	if err != nil {
		p.Fatal(err)
	}
	return l, cert
}

// Through the proxy all works that works without: hosts publish with their own certificates, and operators place, migrate and evacuate.
func TestContractThroughProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	p := startProxy(t, placementtest.Start(t).URL)
	operator, _ := p.client("URI:sluice:operator")
	hosts := map[fleet.Host]fleet.Ledger{}
	fleettest.ContractAs(t, operator, func(h fleet.Host) fleet.Ledger {
		if hosts[h] == nil {
			hosts[h], _ = p.client(uriOf(t, proxy.Identity{Host: h}))
		}
		return hosts[h]
	})
}

// Whoever has stolen a host's certificate alters no other host's provider or claim, in a real Placement, whatever he sends.
func TestThiefThroughProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	p := startProxy(t, placementtest.Start(t).URL)
	direct := connect(t, p.behind)
	hosts := fleettest.Victims(t, direct)
	thief, cert := p.client(uriOf(t, proxy.Identity{Host: hosts[0]}))
	raw := p.raw(cert)
	want := p.others(hosts[0])

	through, published := 0, 0
	for round := range 20 {
		// The host itself publishes all the while.
		c := fleettest.Capacity()
		c.Guarantees = []api.Guarantee{fleettest.Guarantee(0, 1e9, 1e4)}
		if round%2 == 0 {
			c.PFs = append(c.PFs, c.PFs[1])
			c.PFs[2].Address = fleettest.PF2
			c.Guarantees[0].Rate.Bits = 2e9
		}
		_, n, err := fleet.Publish(t.Context(), thief, hosts[0], c)
		if err != nil {
			t.Fatal(err)
		}
		published += n
		state, err := direct.Fleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		nobodys, _, err := direct.Provider(t.Context(), fleettest.Nobodys)
		if err != nil {
			t.Fatal(err)
		}
		state.Providers = append(state.Providers, nobodys)
		attack := fleettest.Attack(&state, hosts)
		for i := range 12 {
			r := attack.Example(12*round + i)
			if thief.Do(t.Context(), r) == nil {
				through++
			}
			if i%4 == 0 {
				raw(t, rawRequest(&state, hosts, 3*round+i/4))
			}
		}
		if got := p.others(hosts[0]); !maps.Equal(got, want) {
			t.Fatalf("after round %d others' are\n%v\nbefore\n%v", round, got, want)
		}
	}
	t.Logf("let through: %d of the thief's writes, %d of the host's", through, published)
	if through == 0 || published < 20 {
		t.Error("nothing was tried")
	}
	// The thief is found out.
	p.ca("revoke", cert+".crt")
	if _, err := thief.Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), "is revoked") {
		t.Errorf("with a revoked certificate: %v", err)
	}
}

func connect(t *testing.T, address string) *openstack.Ledger {
	t.Helper()
	environment(t, nil)
	l, err := openstack.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// plain is a request as it is written to the connection.
type plain struct{ method, uri, body string }

// rawRequest is the nth of requests to what is others', in forms that a proxy may read differently than Placement does.
func rawRequest(s *fleet.State, hosts []fleet.Host, n int) plain {
	victim, own := hosts[1].PF(fleettest.PF0), hosts[0].PF(fleettest.PF0)
	var consumer string
	var claim fleet.Claim
	for _, id := range slices.Sorted(maps.Keys(s.Claims)) {
		if s.Claims[id].Amounts[victim] != nil {
			consumer, claim = id, s.Claims[id]
		}
	}
	end := fmt.Sprintf(`"consumer_generation": %d, "project_id": "sluice", "user_id": "%s", "consumer_type": "SLUICE_SLA"`, claim.Generation, claim.User)
	all := []plain{
		{"DELETE", "/allocations/" + consumer, ""},
		{"PUT", "/allocations/" + strings.ToUpper(consumer), `{"allocations": {}, ` + end + `}`},
		{"PUT", "/allocations/" + strings.ReplaceAll(consumer, "-", ""), `{"allocations": {}, ` + end + `}`},
		{"PUT", "//allocations/" + consumer, `{"allocations": {}, ` + end + `}`},
		{"PUT", "/%61llocations/" + consumer, `{"allocations": {}, ` + end + `}`},
		{"PUT", "/allocations/" + consumer + "/", `{"allocations": {}, ` + end + `}`},
		{"PUT", "/allocations/" + consumer + "?x=1", `{"allocations": {}, ` + end + `}`},
		{"PUT", "/allocations/" + consumer, `{"allocations": {}, ` + end + `}`},
		{"PUT", "/allocations/" + consumer, `{"allocations": {"` + own + `": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}}, "allocations": {}, ` + end + `}`},
		{"POST", "/allocations", `{"` + consumer + `": {"allocations": {}, ` + end + `}}`},
		{"POST", "/reshaper", `{"inventories": {}, "allocations": {"` + consumer + `": {"allocations": {}, ` + end + `}}}`},
		{"DELETE", "/resource_providers/" + victim, ""},
		{"DELETE", "/resource_providers/" + own + "/../" + victim, ""},
		{"DELETE", "/resource_providers/" + victim + "/inventories", ""},
		{"DELETE", "/resource_providers/" + victim + "/traits", ""},
		{"PUT", "/resource_providers/" + victim, `{"name": "sluice:a:x"}`},
		{"PUT", "/resource_providers/" + own, `{"name": "x", "parent_provider_uuid": "` + hosts[1].ID + `"}`},
		{"PUT", "/resource_providers/" + victim + "/aggregates", `{"aggregates": ["` + own + `"], "resource_provider_generation": 2}`},
		{"POST", "/resource_providers", `{"name": "sluice:b:x", "uuid": "` + hosts[0].PF("x") + `", "parent_provider_uuid": "` + hosts[1].ID + `"}`},
		{"DELETE", "/traits/" + fleet.TraitDrained, ""},
		{"PUT", "/traits/CUSTOM_OTHER", ""},
		{"POST", "/resource_classes", `{"name": "CUSTOM_X"}`},
	}
	return all[n%len(all)]
}

// raw returns what sends a request with that certificate, in the proxy's version and in the oldest.
func (p *behindProxy) raw(cert string) func(*testing.T, plain) {
	pair, err := tls.LoadX509KeyPair(cert+".crt", cert+".key")
	if err != nil {
		p.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(p.dir, "ca.crt"))
	if err != nil {
		p.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	secure := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return func(t *testing.T, r plain) {
		t.Helper()
		for _, version := range []string{openstack.Version, "placement 1.0"} {
			c, err := tls.Dial("tcp", strings.TrimPrefix(p.address, "https://"), secure)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nOpenStack-API-Version: %s\r\nX-Auth-Token: admin\r\nContent-Type: application/json\r\n"+
				"Connection: close\r\nContent-Length: %d\r\n\r\n%s", r.method, r.uri, version, len(r.body), r.body)
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode < 400 {
				t.Errorf("%+v: %s", r, answer.Status)
			}
			_ = answer.Body.Close()
			_ = c.Close()
		}
	}
}

// others is all that Placement says of what is not the host's, by question.
func (p *behindProxy) others(h fleet.Host) map[string]string {
	p.Helper()
	out := map[string]string{}
	var list struct {
		Providers []struct{ UUID string } `json:"resource_providers"`
	}
	if err := json.Unmarshal([]byte(p.says("/resource_providers")), &list); err != nil {
		p.Fatal(err)
	}
	for _, rp := range list.Providers {
		if slices.Contains([]string{h.ID, h.PF(fleettest.PF0), h.PF(fleettest.PF1), h.PF(fleettest.PF2)}, rp.UUID) {
			continue
		}
		for _, what := range []string{"", "/inventories", "/traits", "/aggregates", "/usages", "/allocations"} {
			question := "/resource_providers/" + rp.UUID + what
			out[question] = p.says(question)
		}
		var held struct{ Allocations map[string]any }
		if err := json.Unmarshal([]byte(out["/resource_providers/"+rp.UUID+"/allocations"]), &held); err != nil {
			p.Fatal(err)
		}
		for consumer := range held.Allocations {
			out["/allocations/"+consumer] = p.says("/allocations/" + consumer)
		}
	}
	return out
}

// says is Placement's answer, without the proxy. Keys are in order.
func (p *behindProxy) says(question string) string {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.behind+question, nil)
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", openstack.Version)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	var v any
	if err := json.NewDecoder(a.Body).Decode(&v); err != nil {
		p.Fatal(err)
	}
	data, _ := json.Marshal(v)
	return string(data)
}
