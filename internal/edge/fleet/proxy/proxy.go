package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/openstack"
)

// Placement is what the proxy stands before; openstack.Ledger is one.
type Placement interface {
	Provider(ctx context.Context, id string) (fleet.Provider, bool, error)
	Claim(ctx context.Context, consumer string) (fleet.Claim, bool, error)
	Pass(ctx context.Context, method, path string, body []byte) (openstack.Answer, error)
}

// Proxy is an http.Handler for connections with verified certificates. It must be the only way to Placement.
type Proxy struct {
	Placement Placement
	Revoked   string            // file of the list of revoked certificates; "": none
	Tell      func(line string) // of each request that is refused; may be called concurrently

	// writing is held from before Placement is read until it has answered the write that was judged by that: generations alone would not
	// do, because those of a consumer begin anew after it has ended.
	writing sync.Mutex
	mu      sync.Mutex
	busy    map[Identity]chan struct{}
}

// mostAtOnce is how many requests of one client are worked on. The others wait.
const mostAtOnce = 8

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, err := identify(r.TLS, p.Revoked, time.Now())
	if err != nil {
		p.refuse(w, r, "a client", http.StatusForbidden, err)
		return
	}
	turn := p.turn(who)
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-r.Context().Done():
		return
	}
	if version := r.Header.Values("OpenStack-API-Version"); len(version) != 1 || version[0] != openstack.Version {
		p.refuse(w, r, who.String(), http.StatusNotAcceptable, fmt.Errorf("want the header OpenStack-API-Version: %s, once", openstack.Version))
		return
	}
	asked, err := understand(r.Method, r.RequestURI, r.Body)
	if err != nil {
		p.refuse(w, r, who.String(), http.StatusForbidden, err)
		return
	}
	answer, err := p.carryOut(r.Context(), who, r.Method, &asked)
	switch no := (*forbidden)(nil); {
	case errors.As(err, &no):
		p.refuse(w, r, who.String(), http.StatusForbidden, err)
	case errors.Is(err, fleet.ErrStale):
		say(w, http.StatusConflict, "placement.concurrent_update", err)
	case err != nil:
		p.refuse(w, r, who.String(), http.StatusBadGateway, err)
	default:
		if answer.Type != "" {
			w.Header().Set("Content-Type", answer.Type)
		}
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body)
	}
}

func (p *Proxy) turn(who Identity) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy == nil {
		p.busy = map[Identity]chan struct{}{}
	}
	if p.busy[who] == nil {
		p.busy[who] = make(chan struct{}, mostAtOnce)
	}
	return p.busy[who]
}

// forbidden is a refusal of fleet.Judge.
type forbidden struct{ error }

func (p *Proxy) carryOut(ctx context.Context, who Identity, method string, asked *request) (openstack.Answer, error) {
	if asked.write == nil {
		return p.Placement.Pass(ctx, method, asked.path, nil)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if ctx.Err() != nil {
		return openstack.Answer{}, ctx.Err()
	}
	// A client that leaves now does not end this: its write might be done later, after another was judged.
	ctx = context.WithoutCancel(ctx)
	if !who.Operator {
		state, err := p.look(ctx, asked.write)
		if err != nil {
			return openstack.Answer{}, err
		}
		if err := fleet.Judge(who.Host, asked.write, &state); errors.Is(err, fleet.ErrStale) {
			return openstack.Answer{}, err
		} else if err != nil {
			return openstack.Answer{}, &forbidden{err}
		}
	}
	method, path, body := write(asked.write)
	if body == nil {
		return p.Placement.Pass(ctx, method, path, nil)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return openstack.Answer{}, err
	}
	return p.Placement.Pass(ctx, method, path, data)
}

// look reads what a write is judged by.
func (p *Proxy) look(ctx context.Context, r *fleet.Request) (fleet.State, error) {
	s := fleet.State{Claims: map[string]fleet.Claim{}}
	providers, consumers := fleet.Subjects(r)
	for _, id := range consumers {
		c, ok, err := p.Placement.Claim(ctx, id)
		if err != nil {
			return s, err
		}
		if ok {
			s.Claims[id] = c
			for provider := range c.Amounts {
				providers = append(providers, provider)
			}
		}
	}
	seen := map[string]bool{}
	for _, id := range providers {
		if seen[id] {
			continue
		}
		seen[id] = true
		have, ok, err := p.Placement.Provider(ctx, id)
		if err != nil {
			return s, err
		}
		if ok {
			s.Providers = append(s.Providers, have)
		}
	}
	return s, nil
}

func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, who string, status int, why error) {
	p.Tell(fmt.Sprintf("refused to %s at %s: %s %.200q: %v", who, r.RemoteAddr, r.Method, r.RequestURI, why))
	say(w, status, "sluice.refused", fmt.Errorf("the proxy of the fleet: %w", why))
}

// say answers as Placement does.
func say(w http.ResponseWriter, status int, code string, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{
		"status": status, "title": http.StatusText(status), "code": code, "detail": why.Error(),
	}}})
}
