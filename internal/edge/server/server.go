package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/edge/answer"
)

// Options configure what to serve and where.
type Options struct {
	Backend    Backend
	Logger     *slog.Logger
	Version    string
	Socket     string           // path of the unix socket; "": none
	Group      string           // group that may use the socket; "": root only
	Operate    string           // comma-separated users and @groups with that role
	Own        string           // likewise; root always has it
	Claims     string           // likewise, those that may say what the fleet has claimed
	Ports      string           // likewise, those that may say what ports of Neutron ask for
	Listen     string           // TCP address for read-only use; "": none
	Cert, Key  string           // files of the certificate with which Listen uses TLS; "": it does not
	Tokens     string           // file of the tokens that clients of Listen must show; "": they need none
	Hosts      string           // comma-separated names by which Listen may be addressed, besides its address and localhost
	Examine    answer.Examine   // finds problems in a Snapshot; nil: only those the Snapshot contains
	Stale      time.Duration    // age above which the last observation of the host is unhealthy; 0: never
	Now        func() time.Time // the clock that Snapshots are stamped with; nil: time.Now
	VirtualPFs VirtualPFs       // nil: not available
	History    History          // nil: no history
	Page       http.Handler     // GET /, /vm/UUID and /assets/: the page; nil: no page
	Preparer   Preparer         // nil: there are no VM definitions
	WhatIf     WhatIf           // nil: not available
	Incoming   Incoming         // nil: no migrations
	Process    bool             // also serve metrics of the process and of the Go runtime
}

// Server answers requests until Run returns.
type Server struct {
	opts      Options
	listeners []net.Listener
	http      *http.Server
}

// Limits of a request. Writing an answer may take as long as a command plus a slow client.
const (
	headerTimeout  = 3 * time.Second
	readTimeout    = 5 * time.Second // the whole request
	commandTimeout = 30 * time.Second
	writeTimeout   = commandTimeout + 10*time.Second
	idleTimeout    = 30 * time.Second
	maxHeader      = 16 << 10
	drainTimeout   = 5 * time.Second
)

// New opens the sockets, so that a wrong path or a daemon that is already running is detected before anything else starts.
// Run or Close must follow.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := newHandler(o)
	var err error
	if h.tokens, err = openTokens(o.Tokens, o.Logger); err != nil {
		return nil, err
	}
	s := &Server{opts: o, http: &http.Server{
		Handler: h.routes(), ConnContext: withPeer,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}}
	s.http.RegisterOnShutdown(func() { close(h.closing) })
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open() error {
	if s.opts.Socket != "" {
		l, err := listenUnix(s.opts.Socket, s.opts.Group, func(text string) { s.opts.Logger.Warn(text) })
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, newFairListener(l, perPeer, perAll))
	}
	if s.opts.Listen != "" {
		l, err := net.Listen("tcp", s.opts.Listen)
		if err != nil {
			return fmt.Errorf("api.listen: %w", err)
		}
		l = newFairListener(l, perAddress, perNetwork)
		if s.opts.Cert != "" {
			secured, err := encrypted(l, s.opts.Cert, s.opts.Key, s.opts.Logger)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			l = secured
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// Addrs returns the addresses that the server listens on, the unix socket first.
func (s *Server) Addrs() []net.Addr {
	var list []net.Addr
	for _, l := range s.listeners {
		list = append(list, l.Addr())
	}
	return list
}

// Run serves until ctx is done, then gives requests under way a few seconds to finish. It returns nil after an orderly
// shutdown.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range s.listeners {
		g.Go(func() error {
			err := s.http.Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("serve %s: %w", l.Addr(), err)
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		return s.shutdown()
	})
	return g.Wait()
}

func (s *Server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(s.http.Close(), s.Close())
	}
	return s.Close()
}

// Close closes the sockets. Closing twice is harmless.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
