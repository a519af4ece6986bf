package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Files are those of TLS, in PEM.
type Files struct {
	Cert, Key string // the proxy's
	Clients   string // who signed the clients' certificates
}

// TLS returns what a listener needs to accept only clients with a certificate.
func (f *Files) TLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("the proxy's certificate: %w", err)
	}
	data, err := os.ReadFile(f.Clients)
	if err != nil {
		return nil, fmt.Errorf("who signs clients' certificates: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("who signs clients' certificates: %s has no certificate in PEM", f.Clients)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}, nil
}

// teller tells what the server writes to its log: clients without a certificate that is accepted.
type teller func(line string)

func (t teller) Write(line []byte) (int, error) {
	t(strings.TrimSpace(string(line)))
	return len(line), nil
}

// Serve answers requests until ctx ends. It waits 10 s for what has begun by then.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, secure *tls.Config) error {
	s := &http.Server{
		Handler: p, TLSConfig: secure, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		WriteTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(teller(p.tell), "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.Shutdown(ctx)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
