package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
)

const goodToken, otherToken = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeLater writes a file whose time differs from that of its last content.
func writeLater(t *testing.T, path, text string) {
	t.Helper()
	before := time.Time{}
	if file, err := os.Stat(path); err == nil {
		before = file.ModTime()
	}
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.Chtimes(path, time.Time{}, before.Add(time.Second)))
}

// certify writes a certificate of that serial number for 127.0.0.1, and its key.
func certify(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "sluice"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	must(t, err)
	bits, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeLater(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bits})))
	writeLater(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert, key
}

// secured is a server on TCP with a certificate and a token, and a socket.
func secured(t *testing.T) (dir, address string, s *server.Server) {
	t.Helper()
	dir = socketDir(t)
	cert, key := certify(t, dir, 1)
	tokens := filepath.Join(dir, "tokens")
	writeLater(t, tokens, "# monitoring\n"+goodToken+" # since May\n")
	o := server.Options{
		Backend: &edgetest.Backend{}, Logger: discard(), Listen: "127.0.0.1:0", Cert: cert, Key: key, Tokens: tokens, Now: time.Now,
	}
	s = serve(t, o)
	return dir, s.Addrs()[0].String(), s
}

// showing asks for the health and returns the status and the serial number of the server's certificate.
func showing(t *testing.T, address string, change func(*http.Request)) (status int, serial int64) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the test compares the certificate itself
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/healthz", http.NoBody)
	must(t, err)
	change(req)
	res, err := c.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode == http.StatusUnauthorized && res.Header.Get("WWW-Authenticate") == "" {
		t.Error("a browser is not told to ask for a password")
	}
	return res.StatusCode, res.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// Only who shows a token is answered, in both of the ways in which programs and browsers send one.
func TestTokens(t *testing.T) {
	dir, address, _ := secured(t)
	denied := http.StatusUnauthorized
	for name, c := range map[string]struct {
		change func(*http.Request)
		denied bool
	}{
		"none":     {func(*http.Request) {}, true},
		"bearer":   {bearer(goodToken), false},
		"password": {func(r *http.Request) { r.SetBasicAuth("anybody", goodToken) }, false},
		"user":     {func(r *http.Request) { r.SetBasicAuth(goodToken, "") }, true},
		"another":  {bearer(otherToken), true},
		"part":     {bearer(goodToken[:31]), true},
		"comment":  {bearer("# monitoring"), true},
		"empty":    {bearer(""), true},
		"query":    {func(r *http.Request) { r.URL.RawQuery = "token=" + goodToken }, true},
	} {
		if got, _ := showing(t, address, c.change); (got == denied) != c.denied {
			t.Errorf("%s: %d", name, got)
		}
	}
	tokens := filepath.Join(dir, "tokens")
	writeLater(t, tokens, otherToken+"\n")
	if got, _ := showing(t, address, bearer(goodToken)); got != denied {
		t.Errorf("a token that was taken out: %d", got)
	}
	if got, _ := showing(t, address, bearer(otherToken)); got == denied {
		t.Errorf("a new token: %d", got)
	}
	for _, wrong := range []string{"short\n", "", goodToken + " " + otherToken} { // nothing that can be used
		writeLater(t, tokens, wrong)
		if got, _ := showing(t, address, bearer(otherToken)); got == denied {
			t.Errorf("after the file became %q the last token is refused: %d", wrong, got)
		}
	}
}

// A renewed certificate is used from the next connection on, and one that cannot be read does not end the service.
func TestCertificateIsRenewed(t *testing.T) {
	dir, address, _ := secured(t)
	if _, serial := showing(t, address, bearer(goodToken)); serial != 1 {
		t.Errorf("certificate %d", serial)
	}
	cert, _ := certify(t, dir, 2)
	if _, serial := showing(t, address, bearer(goodToken)); serial != 2 {
		t.Errorf("after it was renewed: certificate %d", serial)
	}
	for _, wrong := range []string{"nonsense", ""} {
		writeLater(t, cert, wrong)
		if _, serial := showing(t, address, bearer(goodToken)); serial != 2 {
			t.Errorf("with %q: certificate %d", wrong, serial)
		}
	}
}

// What cannot be used is said at the start, with the file and what to do.
func TestSecureFilesAreChecked(t *testing.T) {
	dir := socketDir(t)
	cert, key := certify(t, dir, 1)
	tokens := filepath.Join(dir, "tokens")
	for _, c := range []struct {
		text      string
		mode      os.FileMode
		cert, has string
	}{
		{goodToken, 0o644, cert, "chmod o= " + tokens},
		{"short", 0o600, cert, tokens + ":1: a token is one word of at least 16 characters"},
		{"# nothing", 0o600, cert, "has no token"},
		{goodToken, 0o600, key, "api.tls_cert " + key},
		{goodToken, 0o600, filepath.Join(dir, "missing"), "missing"},
	} {
		must(t, os.WriteFile(tokens, []byte(c.text+"\n"), 0o600))
		must(t, os.Chmod(tokens, c.mode))
		s, err := server.New(server.Options{Backend: &edgetest.Backend{}, Logger: discard(), Listen: "127.0.0.1:0", Cert: c.cert, Key: key, Tokens: tokens})
		if err == nil {
			must(t, s.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
