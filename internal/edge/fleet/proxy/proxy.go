package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/openstack"
)

// Placement is what the proxy stands before; openstack.Ledger is one.
type Placement interface {
	Provider(ctx context.Context, id string) (fleet.Provider, bool, error)
	Below(ctx context.Context, root string) ([]fleet.Provider, error) // without inventories and traits
	Claim(ctx context.Context, consumer string) (fleet.Claim, bool, error)
	Pass(ctx context.Context, method, path string, body []byte) (openstack.Answer, error)
}

// Proxy is an http.Handler for connections with verified certificates. It must be the only way to Placement.
type Proxy struct {
	Placement Placement
	Revoked   string            // file of the list of revoked certificates; "": none
	Tell      func(line string) // of each request that is refused; may be called concurrently

	// writing is taken from before Placement is read until it has answered the write that was judged by that: generations alone would not
	// do, because those of a consumer begin anew after it has ended.
	writing    chan struct{}
	mu         sync.Mutex
	clients    map[Identity]*client
	unanswered map[string]bool // UUIDs of what a write is about whose outcome is not known yet
}

// client bounds what one client takes of the proxy.
type client struct {
	turn   chan struct{}   // requests that are worked on
	write  chan struct{}   // the write that waits for the others' or is carried out
	traits map[string]bool // by path: that it may have created
}

// mostAtOnce is how many requests of one client are worked on. The others wait.
const mostAtOnce = 8

// mostCreated is how many traits one client may create until the proxy starts again: a host with 64 PFs needs 261 if it shares none.
const mostCreated = 512

// Deadlines while writes of others wait.
var (
	lookTime  = 10 * time.Second // to read what a write is judged by
	writeTime = 30 * time.Second // until Placement has answered it
)

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, err := identify(r.TLS, p.Revoked, time.Now())
	if err != nil {
		p.refuse(w, r, "a client", http.StatusForbidden, err)
		return
	}
	c := p.client(who)
	if !take(r.Context(), c.turn) {
		return
	}
	defer func() { <-c.turn }()
	if version := r.Header.Values("OpenStack-API-Version"); len(version) != 1 || version[0] != openstack.Version {
		p.refuse(w, r, who.String(), http.StatusNotAcceptable, fmt.Errorf("want the header OpenStack-API-Version: %s, once", openstack.Version))
		return
	}
	asked, err := understand(r.Method, r.RequestURI, r.Body)
	if err != nil {
		p.refuse(w, r, who.String(), http.StatusForbidden, err)
		return
	}
	answer, err := p.carryOut(r.Context(), who, c, r.Method, &asked)
	switch no := (*forbidden)(nil); {
	case errors.As(err, &no):
		p.refuse(w, r, who.String(), http.StatusForbidden, err)
	case errors.Is(err, errUnanswered):
		p.refuse(w, r, who.String(), http.StatusServiceUnavailable, err)
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

func (p *Proxy) client(who Identity) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients == nil {
		p.clients, p.unanswered, p.writing = map[Identity]*client{}, map[string]bool{}, make(chan struct{}, 1)
	}
	if p.clients[who] == nil {
		p.clients[who] = &client{turn: make(chan struct{}, mostAtOnce), write: make(chan struct{}, 1), traits: map[string]bool{}}
	}
	return p.clients[who]
}

// take waits for a place in a channel; false: ctx has ended before.
func take(ctx context.Context, place chan struct{}) bool {
	select {
	case place <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// forbidden is a refusal of fleet.Judge.
type forbidden struct{ error }

// errUnanswered means that an earlier write about the same is still under way in Placement, whose outcome decides about the next.
var errUnanswered = errors.New("an earlier write about the same is not answered yet: look what has become of it, and try again; " +
	"if Placement never answers, restart it or the proxy")

func (p *Proxy) carryOut(ctx context.Context, who Identity, c *client, method string, asked *request) (openstack.Answer, error) {
	switch {
	case asked.trait:
		return p.createTrait(ctx, c, method, asked.path)
	case asked.write == nil:
		return p.Placement.Pass(ctx, method, asked.path, nil)
	}
	if !take(ctx, c.write) { // so that one client does not have most places among those that wait
		return openstack.Answer{}, ctx.Err()
	}
	defer func() { <-c.write }()
	if err := p.judge(ctx, who, asked.write); err != nil { // what is refused anyway has nobody wait
		return openstack.Answer{}, err
	}
	if !take(ctx, p.writing) {
		return openstack.Answer{}, ctx.Err()
	}
	defer func() { <-p.writing }()
	if err := p.judge(ctx, who, asked.write); err != nil {
		return openstack.Answer{}, err
	}
	if ctx.Err() != nil {
		return openstack.Answer{}, ctx.Err()
	}
	return p.send(ctx, asked.write)
}

// createTrait lets a client create one of Sluice's traits, unless it has created too many. One counts if it may have been created, also
// where the client does not wait for the answer.
func (p *Proxy) createTrait(ctx context.Context, c *client, method, path string) (openstack.Answer, error) {
	p.mu.Lock()
	asked := c.traits[path]
	room := asked || len(c.traits) < mostCreated
	if room {
		c.traits[path] = true
	}
	p.mu.Unlock()
	if !room {
		if answer, err := p.Placement.Pass(ctx, http.MethodGet, path, nil); err != nil || answer.Status == http.StatusNoContent {
			return answer, err
		}
		return openstack.Answer{}, &forbidden{fmt.Errorf("it has created %d traits, more than a host needs: restart the proxy if it does",
			mostCreated)}
	}
	answer, err := p.Placement.Pass(ctx, method, path, nil)
	if !asked && err == nil && answer.Status == http.StatusNoContent { // it was there
		p.mu.Lock()
		delete(c.traits, path)
		p.mu.Unlock()
	}
	return answer, err
}

// send has Placement carry out a write. A client that leaves does not end it, nor does a Placement that takes too long: it might be done
// later, after another was judged. So until the answer has come or the connection has ended, nothing else is written about the same.
func (p *Proxy) send(ctx context.Context, r *fleet.Request) (openstack.Answer, error) {
	method, path, body := write(r)
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return openstack.Answer{}, err
		}
	}
	providers, consumers := fleet.Subjects(r)
	about := consumers
	if len(about) == 0 {
		about = providers
	}
	p.mu.Lock()
	free := !slices.ContainsFunc(about, func(id string) bool { return p.unanswered[id] })
	if free {
		for _, id := range about {
			p.unanswered[id] = true
		}
	}
	p.mu.Unlock()
	if !free {
		return openstack.Answer{}, errUnanswered
	}
	type result struct {
		answer openstack.Answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := p.Placement.Pass(context.WithoutCancel(ctx), method, path, data)
		p.mu.Lock()
		for _, id := range about {
			delete(p.unanswered, id)
		}
		p.mu.Unlock()
		done <- result{answer, err}
	}()
	late := time.NewTimer(writeTime)
	defer late.Stop()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-late.C:
		return openstack.Answer{}, fmt.Errorf("no answer from Placement within %s: look whether that was written", writeTime)
	}
}

// judge says why a client may not write; nil: it may.
func (p *Proxy) judge(ctx context.Context, who Identity, r *fleet.Request) error {
	if who.Operator {
		return nil
	}
	state := fleet.State{}
	if r.Kind != fleet.SetClaims { // refused without a look
		looking, stop := context.WithTimeout(ctx, lookTime)
		defer stop()
		var err error
		if state, err = p.look(looking, who.Host, r); err != nil {
			return err
		}
	}
	if err := fleet.Judge(who.Host, r, &state); err != nil && !errors.Is(err, fleet.ErrStale) {
		return &forbidden{err}
	} else if err != nil {
		return err
	}
	return nil
}

// look reads what a write is judged by.
func (p *Proxy) look(ctx context.Context, h fleet.Host, r *fleet.Request) (s fleet.State, err error) {
	s.Claims = map[string]fleet.Claim{}
	if r.Kind == fleet.CreateProvider {
		s.Providers, err = p.Placement.Below(ctx, h.ID)
		return s, err
	}
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
	p.tell(fmt.Sprintf("refused to %s at %s: %.20q %.200q: %v", who, r.RemoteAddr, r.Method, r.RequestURI, why))
	say(w, status, "sluice.refused", fmt.Errorf("the proxy of the fleet: %w", why))
}

// mostText is how much is said at once of what a client sent, in bytes.
const mostText = 800

// tell tells one line, whatever is in it.
func (p *Proxy) tell(line string) { p.Tell(short(line)) }

// short is the beginning of a text, without control characters.
func short(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) > mostText {
		text = text[:mostText] + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// say answers as Placement does.
func say(w http.ResponseWriter, status int, code string, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{
		"status": status, "title": http.StatusText(status), "code": code, "detail": short(why.Error()),
	}}})
}
