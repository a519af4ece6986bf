package openstack

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"

	"sluice/internal/edge/fleet"
)

// Variables of the environment, beside those of Keystone that gophercloud reads (OS_AUTH_URL, OS_USERNAME, OS_APPLICATION_CREDENTIAL_ID
// and so on): the names that other clients of OpenStack use.
const (
	keystoneVariable = "OS_AUTH_URL"
	regionVariable   = "OS_REGION_NAME"
	endpointVariable = "OS_PLACEMENT_ENDPOINT_OVERRIDE" // Placement's address, whatever Keystone says
	certVariable     = "OS_CERT"                        // files: the client's certificate,
	keyVariable      = "OS_KEY"                         // its key,
	caVariable       = "OS_CACERT"                      // and who signed the server's
)

// timeout is of one request, with its answer: at 10,000 hosts Placement looks for room for 7 s.
var timeout = time.Minute

// Connect returns the ledger that the environment names. The endpoint, unless "", is Placement's instead.
func Connect(ctx context.Context, endpoint string) (*Ledger, error) {
	endpoint = cmp.Or(endpoint, os.Getenv(endpointVariable))
	secure, err := certificates()
	if err != nil {
		return nil, err
	}
	if os.Getenv(keystoneVariable) == "" {
		return bare(endpoint, secure)
	}
	auth, err := openstack.AuthOptionsFromEnv()
	if err != nil {
		return nil, fmt.Errorf("%s is set, but not all that Keystone needs: %w", keystoneVariable, err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(client(secure)))
	if unauthorized(err) {
		return nil, errAccount
	}
	if err != nil {
		return nil, fmt.Errorf("Keystone at %s: %w", auth.IdentityEndpoint, err) //nolint:staticcheck // a name
	}
	service := &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: endpoint, Type: "placement"}
	if endpoint == "" {
		if service, err = openstack.NewPlacementV1(provider, gophercloud.EndpointOpts{Region: os.Getenv(regionVariable)}); err != nil {
			return nil, fmt.Errorf("Keystone at %s names no Placement: %w", auth.IdentityEndpoint, err) //nolint:staticcheck // a name
		}
	}
	return over(service), nil
}

// errAccount means that Keystone knows no such account, or that its password is another.
var errAccount = errors.New("the account is refused by Keystone: check " + keystoneVariable + " and the variables beside it, and whether " +
	"the application credential is still there (openstack application credential list)")

// unauthorized reports whether that is what Keystone says. Of an application credential that is gone it says 404.
func unauthorized(err error) bool {
	var no gophercloud.ErrUnexpectedResponseCode
	return errors.As(err, &no) && (no.Actual == http.StatusUnauthorized ||
		no.Actual == http.StatusNotFound && strings.Contains(string(no.Body), "Application Credential"))
}

// certificates are those that the environment names.
func certificates() (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca := os.Getenv(caVariable); ca != "" {
		data, err := os.ReadFile(ca) //nolint:gosec // the user's own choice
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caVariable, err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", caVariable, ca)
		}
	}
	if cert := os.Getenv(certVariable); cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, cmp.Or(os.Getenv(keyVariable), cert))
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certVariable, keyVariable, err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	return secure, nil
}

// bare is a Placement without Keystone: on this machine, or behind a proxy that knows its clients by their certificates.
func bare(endpoint string, secure *tls.Config) (*Ledger, error) {
	if endpoint == "" {
		return nil, fmt.Errorf("where is Placement? Set %s and the rest that Keystone needs, or --placement to the address of one "+
			"without Keystone", keystoneVariable)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the address of Placement %q: want http://127.0.0.1:8778 or the like", endpoint)
	}
	certified := u.Scheme == "https" && len(secure.Certificates) > 0
	if ip := net.ParseIP(u.Hostname()); !certified && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("a Placement that asks for no credentials is fit for this machine alone: for %s set %s, or %s and %s for https",
			u.Hostname(), keystoneVariable, certVariable, keyVariable)
	}
	provider := &gophercloud.ProviderClient{HTTPClient: client(secure)}
	provider.SetToken("admin") // what noauth2 takes for anybody; a proxy replaces it
	return over(&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: gophercloud.NormalizeURL(endpoint), Type: "placement"}), nil
}

func over(service *gophercloud.ServiceClient) *Ledger {
	service.Endpoint = gophercloud.NormalizeURL(service.Endpoint)
	service.Microversion = microversion
	return &Ledger{client: service, traits: map[string]bool{}, providers: map[string]fleet.Provider{}, claims: map[string]fleet.Claim{}}
}

func client(secure *tls.Config) http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	return http.Client{Transport: bounded{transport}, Timeout: timeout}
}

// What is read of an answer, in bytes: all providers of 10,000 hosts take 40 MB, and a refusal has a sentence.
const (
	mostAnswer  = 64 << 20
	mostRefusal = 1 << 20
)

// bounded ends answers that are longer.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(q *http.Request) (*http.Response, error) {
	a, err := b.RoundTripper.RoundTrip(q)
	if err == nil {
		body := &boundedBody{a.Body, mostAnswer, mostAnswer}
		if a.StatusCode >= http.StatusBadRequest {
			body.most, body.left = mostRefusal, mostRefusal
		}
		a.Body = body
	}
	return a, err
}

type boundedBody struct {
	io.ReadCloser
	most, left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer is longer than %d MiB", b.most>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

var _ fleet.Ledger = (*Ledger)(nil)
