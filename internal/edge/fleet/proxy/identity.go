package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"sluice/internal/edge/fleet"
)

// Identity is who a certificate belongs to.
type Identity struct {
	Operator bool
	Host     fleet.Host // unless it is an operator
}

// Certificates name their owner in one alternative name, a URI: sluice:operator or sluice:host:NAME:UUID, with the UUID of the host's
// provider.
const (
	scheme   = "sluice"
	operator = "operator"
	hostOf   = "host:"
)

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,100}[A-Za-z0-9])?$`)

// URI is the alternative name of that Identity; an error if no certificate can have it.
func (i Identity) URI() (string, error) {
	u := &url.URL{Scheme: scheme, Opaque: operator}
	if !i.Operator {
		u.Opaque = hostOf + i.Host.Name + ":" + i.Host.ID
	}
	if again, err := identityOf([]*url.URL{u}); err != nil || again != i {
		return "", fmt.Errorf("the host's name %q is not letters, digits, dots and dashes; give another with --host-name", i.Host.Name)
	}
	return u.String(), nil
}

func (i Identity) String() string {
	if i.Operator {
		return operator
	}
	return i.Host.Name
}

// identityOf finds the one name that is Sluice's.
func identityOf(names []*url.URL) (found Identity, err error) {
	n := 0
	for _, u := range names {
		if u.Scheme != scheme {
			continue
		}
		n++
		if u.Opaque == operator {
			found = Identity{Operator: true}
			continue
		}
		text, ok := strings.CutPrefix(u.Opaque, hostOf)
		name, id, _ := strings.Cut(text, ":")
		parsed, err := uuid.Parse(id)
		if !ok || err != nil || parsed.String() != id || !hostName.MatchString(name) || u.RawQuery+u.Fragment != "" {
			return Identity{}, fmt.Errorf("the certificate's name %q is not sluice:operator or sluice:host:NAME:UUID", u)
		}
		found = Identity{Host: fleet.Host{ID: id, Name: name}}
	}
	if n != 1 {
		return Identity{}, fmt.Errorf("the certificate has %d alternative names sluice:..., want one", n)
	}
	return found, nil
}

// identify finds out whose connection it is. That a certificate was valid when the connection began is not enough.
func identify(state *tls.ConnectionState, revoked string, now time.Time) (Identity, error) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) < 2 {
		return Identity{}, errors.New("no certificate")
	}
	chain := state.VerifiedChains[0]
	for _, c := range chain {
		if now.After(c.NotAfter) {
			return Identity{}, fmt.Errorf("the certificate of %q has expired", c.Subject)
		}
	}
	if revoked != "" {
		if err := checkRevoked(chain[0], chain[1], revoked, now); err != nil {
			return Identity{}, err
		}
	}
	return identityOf(chain[0].URIs)
}

// checkRevoked looks for a certificate in the list of its issuer, in that file, which must be there and in force.
func checkRevoked(c, issuer *x509.Certificate, file string, now time.Time) error {
	data, err := os.ReadFile(file) //nolint:gosec // the user's own choice
	if err != nil {
		return fmt.Errorf("revoked certificates: %w", err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return fmt.Errorf("revoked certificates: %s: %w", file, err)
		}
		if list.CheckSignatureFrom(issuer) != nil {
			continue
		}
		if now.After(list.NextUpdate) {
			return fmt.Errorf("revoked certificates: %s was to be renewed by %s", file, list.NextUpdate.Format(time.RFC3339))
		}
		for _, r := range list.RevokedCertificateEntries {
			if r.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return fmt.Errorf("the certificate with the serial number %X is revoked", c.SerialNumber)
			}
		}
		return nil
	}
	return fmt.Errorf("revoked certificates: %s has no list of %q", file, issuer.Subject)
}
