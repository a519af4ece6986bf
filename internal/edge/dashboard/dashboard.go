// Package dashboard serves the daemon's page to the browser of one user: on a port of the loopback address, accessible only
// with the printed link, and with the user's own rights on the unix socket.
package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a reverse proxy from a browser to a daemon's socket.
type Server struct {
	listener net.Listener
	gate     *gate
	http     *http.Server
}

// Limits of a request. Requests have no body.
const (
	readTimeout = 3 * time.Second
	idleTimeout = 30 * time.Second
	maxHeader   = 16 << 10
)

// New listens on the port of 127.0.0.1; 0 selects a free port. Run must follow.
func New(socket string, port int) (*Server, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen: %w; choose another port, or leave --port out for a free one", err)
	}
	_, p, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	root := "/" + rand.Text() + "/"
	g := &gate{
		port: p, token: rand.Text(), session: rand.Text(), root: root,
		next: http.StripPrefix(strings.TrimSuffix(root, "/"), proxy(socket)),
	}
	return &Server{listener: &bounded{Listener: l}, gate: g, http: &http.Server{
		Handler: g, ConnContext: withConn, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0),
	}}, nil
}

// URL returns the link that opens the page. It works once.
func (s *Server) URL() string {
	return "http://" + s.listener.Addr().String() + s.gate.root + "?token=" + url.QueryEscape(s.gate.token)
}

// Run serves until ctx is done. Open pages are disconnected then.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// proxy forwards requests to the unix socket, without cookies and headers that refer to this server.
func proxy(socket string) http.Handler {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "sluice", ""
			for _, h := range []string{"Cookie", "Referer", "Origin"} {
				r.Out.Header.Del(h)
			}
		},
		// The daemon allows a user 16 connections: keep few of them idle.
		Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 2, IdleConnTimeout: 10 * time.Second},
		ErrorLog:  log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, "no daemon answers at "+socket+": "+err.Error(),
				"start it (systemctl start sluice), or name its socket with --socket")
		},
	}
}

// gate authenticates a browser by the token, which works once, and afterwards by a cookie.
//
// A browser sends a host's cookies to all ports of the host, where other users may listen. The page therefore has an
// unguessable path, and the cookie is limited to that path.
type gate struct {
	port           string
	token, session string
	root           string // path of the page, with leading and trailing slash
	next           http.Handler

	mu   sync.Mutex
	used bool
}

// cookie returns the name of the session cookie.
func (g *gate) cookie() string { return "sluice-" + g.port }

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case r.Host != "127.0.0.1:"+g.port: // DNS rebinding: another name that resolves to this address
		refuse(w, http.StatusMisdirectedRequest, "this server is not "+strconv.Quote(r.Host), "use the link that sluice dashboard printed")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "the page is read-only", "use a command of sluice to change something")
	case r.URL.Path == g.root && r.URL.Query().Has("token"):
		g.enter(w, r)
	case !strings.HasPrefix(r.URL.Path, g.root), !g.known(r):
		refuse(w, http.StatusForbidden, "this browser is not authorized",
			"open the link that sluice dashboard printed; it works once, so run the command again for another browser")
	case foreign(r):
		refuse(w, http.StatusForbidden, "this request comes from another site", "open the page itself")
	default:
		h.Del("Cache-Control") // the daemon sets its own
		h.Del("Referrer-Policy")
		h.Del("X-Content-Type-Options")
		markKnown(r.Context())
		g.next.ServeHTTP(w, r)
	}
}

// enter exchanges the token for a cookie and redirects to the address without the token.
func (g *gate) enter(w http.ResponseWriter, r *http.Request) {
	if !g.known(r) {
		if !g.take(r.URL.Query().Get("token")) {
			refuse(w, http.StatusForbidden, "this link has been used already or is not valid here", "run sluice dashboard again for a new link")
			return
		}
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // no TLS on the loopback address, so not Secure
			Name: g.cookie(), Value: g.session, Path: g.root, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	}
	if foreign(r) { // as from the file of Open: a redirect would count as cross-site, and the browser would not send the cookie
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		_ = redirect.Execute(w, g.root) // the client may have disconnected
		return
	}
	http.Redirect(w, r, g.root, http.StatusSeeOther)
}

func (g *gate) take(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used || !same(token, g.token) {
		return false
	}
	g.used = true
	return true
}

func (g *gate) known(r *http.Request) bool {
	// Other users' servers on other ports can make the browser send further cookies of that name.
	return slices.ContainsFunc(r.CookiesNamed(g.cookie()), func(c *http.Cookie) bool { return same(c.Value, g.session) })
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// foreign reports whether a page of another site, or of another port of this host, caused the request. An address that the
// user opens directly has site "none".
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

func refuse(w http.ResponseWriter, status int, text, remedy string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s\n%s\n", text, remedy) // the client may have disconnected
}
