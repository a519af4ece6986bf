package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/tests/testkit"
)

// placement stands for Placement behind the proxy: a ledger in memory that says nothing of what it holds.
type placement struct {
	*fleettest.Ledger
	before func()                // unless nil, called before each request
	look   func(context.Context) // the same of each look at a provider

	mu     sync.Mutex
	got    []string
	held   int // requests under way
	most   int
	traits map[string]bool
}

func (p *placement) Provider(ctx context.Context, id string) (fleet.Provider, bool, error) {
	if p.look != nil {
		p.look(ctx)
	}
	if err := ctx.Err(); err != nil {
		return fleet.Provider{}, false, err
	}
	all := p.All()
	for i := range all.Providers {
		if all.Providers[i].ID == id {
			return all.Providers[i], true, nil
		}
	}
	return fleet.Provider{}, false, nil
}

func (p *placement) Below(ctx context.Context, root string) ([]fleet.Provider, error) {
	s, err := p.Tree(ctx, root, true)
	return s.Providers, err
}

func (p *placement) Pass(ctx context.Context, method, path string, body []byte) (openstack.Answer, error) {
	p.mu.Lock()
	p.got = append(p.got, method+" "+path)
	p.held++
	p.most = max(p.most, p.held)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.held--
		p.mu.Unlock()
	}()
	if p.before != nil {
		p.before()
	}
	if err := ctx.Err(); err != nil {
		return openstack.Answer{}, err
	}
	r, err := understand(method, path, bytes.NewReader(body))
	if err == nil && r.write != nil {
		err = p.Do(ctx, *r.write)
	}
	if err == nil && strings.HasPrefix(path, "/traits/") {
		return p.trait(method, path), nil
	}
	if err != nil {
		return openstack.Answer{Status: http.StatusConflict, Type: "text/plain", Body: []byte(err.Error())}, nil
	}
	return openstack.Answer{Status: http.StatusOK}, nil
}

func (p *placement) trait(method, path string) openstack.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.traits[path]:
		return openstack.Answer{Status: http.StatusNoContent}
	case method == http.MethodGet:
		return openstack.Answer{Status: http.StatusNotFound}
	case p.traits == nil:
		p.traits = map[string]bool{}
	}
	p.traits[path] = true
	return openstack.Answer{Status: http.StatusCreated}
}

func (p *placement) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

// authority signs certificates.
type authority struct {
	*testing.T
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{T: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	a.serial++
	c.SerialNumber = big.NewInt(a.serial)
	issuer, signer := a.cert, a.key
	if issuer == nil {
		issuer, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, signer)
	if err != nil {
		a.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	return out, key
}

// client returns the pair of somebody with that alternative name.
func (a *authority) client(uri string, until time.Time) tls.Certificate {
	a.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		a.Fatal(err)
	}
	cert, key := a.sign(&x509.Certificate{URIs: []*url.URL{u}, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// revoke writes the list of revoked certificates.
func (a *authority) revoke(file string, until time.Time, list ...tls.Certificate) {
	a.Helper()
	r := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: until}
	for _, c := range list {
		r.RevokedCertificateEntries = append(r.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: c.Leaf.SerialNumber, RevocationTime: time.Now(),
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, r, a.cert, a.key)
	if err != nil {
		a.Fatal(err)
	}
	next := file + ".new"
	if err := errors.Join(os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o600), os.Rename(next, file)); err != nil {
		a.Fatal(err)
	}
}

// served is a proxy that listens.
type served struct {
	*authority
	address string
	proxy   *Proxy
	behind  *placement
	mu      sync.Mutex
	told    []string
}

func serve(t *testing.T, change func(*Proxy)) *served {
	s := &served{authority: newAuthority(t), behind: &placement{Ledger: &fleettest.Ledger{}}}
	s.proxy = &Proxy{Placement: s.behind, Tell: func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, line)
	}}
	if change != nil {
		change(s.proxy)
	}
	cert, key := s.sign(&x509.Certificate{NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Clients: filepath.Join(dir, "clients")}
	for name, b := range map[string]*pem.Block{
		f.Cert: {Type: "CERTIFICATE", Bytes: cert.Raw}, f.Key: {Type: "PRIVATE KEY", Bytes: private}, f.Clients: {Type: "CERTIFICATE", Bytes: s.cert.Raw},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secure, err := f.TLS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listener of a test
	if err != nil {
		t.Fatal(err)
	}
	s.address = "https://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.proxy.Serve(ctx, l, secure) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// as returns a client with that certificate; none: without.
func (s *served) as(pair ...tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(s.cert)
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: pair, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	s.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// ask returns the status and the body; an error of TLS is the status 0.
func (s *served) ask(c *http.Client, method, uri, body string, headers ...string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.address+uri, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("OpenStack-API-Version", openstack.Version)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	a, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = a.Body.Close() }()
	data, _ := io.ReadAll(a.Body)
	return a.StatusCode, string(data)
}

func hostURI(t *testing.T, h fleet.Host) string {
	t.Helper()
	uri, err := Identity{Host: h}.URI()
	if err != nil {
		t.Fatal(err)
	}
	return uri
}

func createBody(h fleet.Host) string {
	return fmt.Sprintf(`{"name": "sluice:%s", "uuid": "%s"}`, h.Name, h.ID)
}

// Who a client is, and whether it may come in at all, is its certificate's matter alone.
func TestCertificates(t *testing.T) {
	list := filepath.Join(t.TempDir(), "revoked")
	s := serve(t, func(p *Proxy) { p.Revoked = list })
	hour := time.Now().Add(time.Hour)
	a, b := fleettest.Host("a"), fleettest.Host("b")
	stolen := s.client(hostURI(t, b), hour)
	s.revoke(list, hour, stolen)
	mine := s.as(s.client(hostURI(t, a), hour))
	for name, c := range map[string]struct {
		client *http.Client
		want   int
	}{
		"host a":                 {mine, 200},
		"no certificate":         {s.as(), 0},
		"of another authority":   {s.as(newAuthority(t).client(hostURI(t, a), hour)), 0},
		"expired":                {s.as(s.client(hostURI(t, a), time.Now().Add(-time.Minute))), 0},
		"of a name of elsewhere": {s.as(s.client("https://a.example", hour)), 403},
		"of a wrong name":        {s.as(s.client("sluice:host:a", hour)), 403},
		"revoked":                {s.as(stolen), 403},
	} {
		if status, body := s.ask(c.client, http.MethodGet, "/", ""); status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.want)
		}
	}
	if status, _ := s.ask(mine, http.MethodPost, "/resource_providers", createBody(b)); status != 403 {
		t.Errorf("host a made host b: %d", status)
	}
	if status, body := s.ask(mine, http.MethodPost, "/resource_providers", createBody(a)); status != 200 {
		t.Errorf("host a: %d %s", status, body)
	}
	// The list is in force at once, also on a connection that is open.
	own := s.client(hostURI(t, a), hour)
	open := s.as(own)
	if status, _ := s.ask(open, http.MethodGet, "/", ""); status != 200 {
		t.Errorf("before: %d", status)
	}
	for name, change := range map[string]func(){
		"revoked":       func() { s.revoke(list, hour, own) },
		"an old list":   func() { s.revoke(list, time.Now().Add(-time.Minute)) },
		"another list":  func() { newAuthority(t).revoke(list, hour) },
		"no list":       func() { _ = os.Remove(list) },
		"a broken list": func() { _ = os.WriteFile(list, []byte("x"), 0o600) },
	} {
		s.revoke(list, hour)
		if status, _ := s.ask(open, http.MethodGet, "/", ""); status != 200 {
			t.Errorf("with a list: %d", status)
		}
		change()
		if status, body := s.ask(open, http.MethodGet, "/", ""); status != 403 || !strings.Contains(body, "revoked") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	state := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{own.Leaf, s.cert}}}
	if _, err := identify(state, "", time.Now().Add(2*time.Hour)); err == nil {
		t.Error("a certificate that has expired since the connection began is accepted")
	}
}

func TestNames(t *testing.T) {
	for uri, ok := range map[string]bool{
		"sluice:operator": true, "sluice:host:a:" + some: true, "sluice:host:a.b-c:" + some: true,
		"sluice:host:a:" + strings.ToUpper(some): false, "sluice:host:a:" + some + ":x": false, "sluice:host::" + some: false,
		"sluice:host:a:b:" + some: false, "sluice:host:a%3ab:" + some: false, "sluice:host:a:" + some + "?x": false,
		"sluice:host:a:" + some + "#x": false, "sluice://operator": false, "sluice:admin": false, "sluice:": false,
		"sluice:operator:x": false, "https:operator": false,
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := identityOf([]*url.URL{u}); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", uri, who, err)
		}
		if _, err := identityOf([]*url.URL{u, u}); err == nil {
			t.Errorf("%s twice is accepted", uri)
		}
	}
	for _, name := range []string{"a b", "a:b", "", "ä", "a/b"} {
		if uri, err := (Identity{Host: fleet.Host{ID: some, Name: name}}).URI(); err == nil {
			t.Errorf("a host of the name %q can have %s", name, uri)
		}
	}
}

// What is refused never comes to Placement, and is told. What is sent on has none of the client's headers.
func TestRefuses(t *testing.T) {
	s := serve(t, nil)
	a := fleettest.Host("a")
	mine := s.as(s.client(hostURI(t, a), time.Now().Add(time.Hour)))
	for name, c := range map[string]struct {
		method, uri, body, header string
		want                      int
	}{
		"another version":      {"GET", "/", "", "OpenStack-API-Version: placement 1.0", 406},
		"a path of its own":    {"GET", "/x", "", "", 403},
		"a body in pieces":     {"POST", "/resource_providers", createBody(a) + strings.Repeat(" ", mostBody), "Transfer-Encoding: chunked", 403},
		"a method in a header": {"GET", "/reshaper", "", "X-HTTP-Method-Override: POST", 403},
		"a migration":          {"POST", "/allocations", `{}`, "", 403},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		if status, body := s.ask(mine, c.method, c.uri, c.body, headers...); status != c.want || !strings.Contains(body, `"detail"`) {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.want)
		}
	}
	if n := s.behind.requests(); n > 0 {
		t.Errorf("%d requests came to Placement: %v", n, s.behind.got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) != 5 || !strings.HasPrefix(s.told[0], "refused to a at 127.0.0.1:") {
		t.Errorf("told %q", s.told)
	}
}

// A stale generation is answered as Placement does, so that clients look again.
func TestStale(t *testing.T) {
	s := serve(t, nil)
	hosts := fleettest.Victims(t, s.behind.Ledger)
	mine := s.as(s.client(hostURI(t, hosts[0]), time.Now().Add(time.Hour)))
	status, body := s.ask(mine, http.MethodPut, "/resource_providers/"+hosts[0].ID+"/traits", `{"traits": [], "resource_provider_generation": 99}`)
	if status != 409 || !strings.Contains(body, "placement.concurrent_update") {
		t.Errorf("%d %s", status, body)
	}
}

// Only one write is under way, from when it is judged until Placement has answered, even if its client leaves; and of one client only a few
// requests.
func TestOneWriteAtATime(t *testing.T) {
	s := serve(t, nil)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	s.behind.before = func() {
		begun <- struct{}{}
		<-release
	}
	a, b := fleettest.Host("a"), fleettest.Host("b")
	hour := time.Now().Add(time.Hour)
	first, second := s.as(s.client(hostURI(t, a), hour)), s.as(s.client(hostURI(t, b), hour))
	ctx, leave := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.address+"/resource_providers", strings.NewReader(createBody(a)))
	r.Header.Set("OpenStack-API-Version", openstack.Version)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if answer, err := first.Do(r); err == nil {
			_ = answer.Body.Close()
			t.Error("an answer")
		}
	}()
	<-begun
	leave()
	<-left
	done := make(chan int, 1)
	go func() {
		status, _ := s.ask(second, http.MethodPost, "/resource_providers", createBody(b))
		done <- status
	}()
	select {
	case <-begun:
		t.Fatal("a second write while the first is under way")
	case <-time.After(testkit.Time(100 * time.Millisecond)):
	}
	close(release)
	if status := <-done; status != 200 {
		t.Errorf("the second write: %d", status)
	}
	all := s.behind.All()
	if len(all.Providers) != 2 {
		t.Errorf("written: %+v", all.Providers)
	}

	// Questions of one client wait for each other, and another's do not.
	release = make(chan struct{})
	var group sync.WaitGroup
	for range 3 * mostAtOnce {
		group.Go(func() {
			if status, body := s.ask(first, http.MethodGet, "/", ""); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	for range mostAtOnce {
		<-begun
	}
	group.Go(func() {
		if status, body := s.ask(second, http.MethodGet, "/", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	})
	<-begun
	close(release)
	group.Wait()
	if s.behind.most > mostAtOnce+1 {
		t.Errorf("%d at once", s.behind.most)
	}
}

// Without files there is no proxy.
func TestFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Files{Cert: empty, Key: empty, Clients: empty}).TLS(); err == nil {
		t.Error("an empty certificate")
	}
}

// The body of a refusal is that of Placement's own.
func TestRefusalIsPlacements(t *testing.T) {
	s := serve(t, nil)
	_, body := s.ask(s.as(s.client("sluice:operator", time.Now().Add(time.Hour))), http.MethodPost, "/reshaper", "{}")
	var r struct {
		Errors []struct{ Code, Title, Detail string }
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil || len(r.Errors) != 1 || r.Errors[0].Code != "sluice.refused" {
		t.Errorf("%s, %v", body, err)
	}
}
