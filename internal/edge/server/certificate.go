package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// certificate is the server's certificate, read again when its files change: certificates are renewed while the daemon runs.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed time.Time // the later of the files' times when they were last read
}

// encrypted makes connections of a listener use TLS.
func encrypted(l net.Listener, cert, key string, log *slog.Logger) (net.Listener, error) {
	c := &certificate{cert: cert, key: key, log: log}
	if _, err := c.get(nil); err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}), nil
}

// get returns the certificate. If its files cannot be read any more, the last one remains.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := latest(c.cert, c.key)
	if err == nil && c.loaded != nil && changed.Equal(c.changed) {
		return c.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.loaded, c.changed = &pair, changed
			return c.loaded, nil
		}
		err = fmt.Errorf("api.tls_cert %s and api.tls_key %s: %w", c.cert, c.key, err)
	}
	if c.loaded == nil {
		return nil, err
	}
	if !changed.Equal(c.changed) { // say it once for each change
		c.changed = changed
		c.log.Warn("the new certificate cannot be used; the last one remains", "error", err)
	}
	return c.loaded, nil
}

// latest returns when one of the files last changed.
func latest(names ...string) (last time.Time, err error) {
	for _, name := range names {
		file, err := os.Stat(name)
		if err != nil {
			return time.Time{}, err
		}
		if file.ModTime().After(last) {
			last = file.ModTime()
		}
	}
	return last, nil
}
