package openstack_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/fleet/openstack"
)

// environment leaves only these variables of OpenStack's.
func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range set {
		t.Setenv(name, value)
	}
}

// A Placement behind Keystone gets Keystone's token, at the address of its catalog, and another when it has expired. What accounts are
// refused is said. TestRealKeystone is the same with a real one.
func TestKeystone(t *testing.T) {
	var server *httptest.Server
	var token, version string
	valid, password, made := "", "x", 0
	status, refusal := http.StatusOK, http.StatusNotFound
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v3/auth/tokens":
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"password":"`+password+`"`) {
				w.WriteHeader(refusal)
				fmt.Fprint(w, `{"error": {"message": "Could not find Application Credential: 332d6d."}}`) // Keystone's, with 404
				return
			}
			made++
			valid = fmt.Sprint("token", made)
			w.Header().Set("X-Subject-Token", valid)
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{
				"expires_at": "2099-01-01T00:00:00.000000Z",
				"catalog": []any{map[string]any{"type": "placement", "endpoints": []any{
					map[string]any{"interface": "public", "region": "one", "region_id": "one", "url": server.URL + "/placement"},
				}}},
			}})
		case r.URL.Path == "/placement/allocations/c":
			token, version = r.Header.Get("X-Auth-Token"), r.Header.Get("OpenStack-API-Version")
			if token != valid {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.WriteHeader(status)
			fmt.Fprint(w, `{"allocations": {}}`)
		case r.URL.Path == "/placement/":
			fmt.Fprint(w, `{"versions": [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0", "status": "CURRENT", `+
				`"links": [{"rel": "self", "href": ""}]}]}`)
		default:
			fmt.Fprintf(w, `{"versions": {"values": [{"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": "%s/v3/"}]}]}}`, server.URL)
		}
	}))
	defer server.Close()
	account := map[string]string{
		"OS_AUTH_URL": server.URL + "/v3", "OS_USERNAME": "sluice", "OS_PASSWORD": "x", "OS_PROJECT_NAME": "service", "OS_DOMAIN_NAME": "Default",
		"OS_REGION_NAME": "one",
	}
	environment(t, account)
	l, err := openstack.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, _, err := l.Claim(t.Context(), "c")
		return err
	}
	if err := read(); err != nil || token != "token1" || version != "placement 1.39" {
		t.Errorf("%v; token %q, version %q", err, token, version)
	}
	valid = "none"
	if err := read(); err != nil || token != "token2" {
		t.Errorf("after the token has expired: %v; token %q", err, token)
	}
	status = http.StatusForbidden
	if err := read(); err == nil || !strings.Contains(err.Error(), "lacks a role") {
		t.Errorf("without the role: %v", err)
	}
	valid, password = "none", "another"
	if err := read(); err == nil || !strings.Contains(err.Error(), "the account is refused by Keystone") {
		t.Errorf("after the account was closed: %v", err)
	}
	refusal = http.StatusUnauthorized
	if _, err := openstack.Connect(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "the account is refused by Keystone") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// A proxy in front of Placement knows the client by its certificate.
func TestClientCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"host-a"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "own.pem")
	data := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(own, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var name string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name = r.TLS.PeerCertificates[0].DNSNames[0]
		fmt.Fprint(w, `{"allocations": {}}`)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	environment(t, map[string]string{"OS_CERT": own, "OS_CACERT": ca})
	l, err := openstack.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Claim(t.Context(), "c"); err != nil || name != "host-a" {
		t.Errorf("%v; the proxy sees %q", err, name)
	}
}

// What is missing is said.
func TestNowhere(t *testing.T) {
	for want, set := range map[string]map[string]string{
		"where is Placement?":               nil,
		"not all that Keystone needs":       {"OS_AUTH_URL": "http://127.0.0.1:1"},
		"fit for this machine alone":        {"OS_PLACEMENT_ENDPOINT_OVERRIDE": "http://192.0.2.1:8778"},
		"for 192.0.2.1 set OS_AUTH_URL":     {"OS_PLACEMENT_ENDPOINT_OVERRIDE": "https://192.0.2.1:8778"},
		"the address of Placement":          {"OS_PLACEMENT_ENDPOINT_OVERRIDE": "127.0.0.1:8778"},
		"OS_CACERT: open":                   {"OS_CACERT": "/nowhere.pem"},
		"OS_CERT and OS_KEY: open /nowhere": {"OS_CERT": "/nowhere.pem"},
	} {
		t.Run(want, func(t *testing.T) {
			environment(t, set)
			if _, err := openstack.Connect(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
