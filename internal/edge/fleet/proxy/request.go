package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sluice/internal/edge/fleet"
)

// request is what the proxy has understood: a question, the creation of one of Sluice's traits, or a write that fleet.Judge judges.
type request struct {
	path  string // of a question or a trait, as it is sent on
	trait bool
	write *fleet.Request
}

// Placement's paths, as far as Sluice needs them.
var (
	questions = regexp.MustCompile(`^/(|resource_providers|allocation_candidates|traits|resource_classes|usages|` +
		`(resource_providers|allocations)/` + uuidForm + `|` +
		`resource_providers/` + uuidForm + `/(inventories|traits|usages|allocations|aggregates))$`)
	oneTrait = regexp.MustCompile(`^/traits/([A-Z0-9_]{1,255})$`)
	claims   = regexp.MustCompile(`^/allocations/(` + uuidForm + `)$`)
	provider = regexp.MustCompile(`^/resource_providers/(` + uuidForm + `)(/inventories|/traits|)$`)
	class    = regexp.MustCompile(`^[A-Z0-9_]{1,255}$`)
)

const uuidForm = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// mostBody is the largest body, in bytes: an operator's migration of a VM with many NICs has some kilobytes.
const mostBody = 1 << 20

// Bounds of what one body may name: each is read and compared while others wait. A migration of a VM names two consumers for each NIC.
const (
	mostNamed  = 64  // consumers, the providers of each, and resource classes
	mostTraits = 256 // also traits that others gave a provider
)

// bounded says so if a body names too many.
func bounded(n, most int, what string) error {
	if n > most {
		return fmt.Errorf("the body names %d %s: at most %d are let through", n, what, most)
	}
	return nil
}

// understand makes a request of what a client sent. The path is the URI's as it was written, so nothing in it is encoded.
func understand(method, uri string, body io.Reader) (request, error) {
	path, query, _ := strings.Cut(uri, "?")
	if method == http.MethodGet {
		values, err := url.ParseQuery(query)
		if err != nil || !questions.MatchString(path) && !oneTrait.MatchString(path) {
			return request{}, fmt.Errorf("GET %s is not among the questions that are let through", path)
		}
		if query != "" {
			path += "?" + values.Encode()
		}
		return request{path: path}, nil
	}
	if query != "" {
		return request{}, errors.New("a write has no parameters")
	}
	data, err := io.ReadAll(io.LimitReader(body, mostBody+1))
	if err != nil {
		return request{}, fmt.Errorf("the body: %w", err)
	}
	if len(data) > mostBody {
		return request{}, fmt.Errorf("the body is larger than %d bytes", mostBody)
	}
	if m := oneTrait.FindStringSubmatch(path); m != nil && method == http.MethodPut && fleet.OwnTrait(m[1]) && len(data) == 0 {
		return request{path: path, trait: true}, nil
	}
	w, err := understandWrite(method, path, data)
	if err != nil {
		return request{}, err
	}
	return request{write: &w}, nil
}

func understandWrite(method, path string, data []byte) (fleet.Request, error) {
	p, c := provider.FindStringSubmatch(path), claims.FindStringSubmatch(path)
	switch {
	case method == http.MethodPost && path == "/resource_providers":
		var b providerBody
		err := decode(data, &b)
		return fleet.Request{Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: b.UUID, Name: b.Name, Parent: b.Parent}},
			errors.Join(err, canonical(b.UUID, cmp.Or(b.Parent, b.UUID)))
	case p != nil && method == http.MethodDelete && p[2] == "" && len(data) == 0:
		return fleet.Request{Kind: fleet.DeleteProvider, Provider: fleet.Provider{ID: p[1]}}, nil
	case p != nil && method == http.MethodPut && p[2] == "/inventories":
		var b inventoriesBody
		if err := decode(data, &b); err != nil || b.Generation == nil {
			return fleet.Request{}, errors.Join(err, errNoGeneration(b.Generation))
		}
		if err := bounded(len(b.Inventories), mostNamed, "resource classes"); err != nil {
			return fleet.Request{}, err
		}
		out := fleet.Provider{ID: p[1], Generation: *b.Generation, Inventories: map[string]fleet.Inventory{}}
		for name, i := range b.Inventories {
			if !class.MatchString(name) {
				return fleet.Request{}, fmt.Errorf("the resource class %q", name)
			}
			out.Inventories[name] = fleet.Inventory(i)
		}
		return fleet.Request{Kind: fleet.SetInventories, Provider: out}, nil
	case p != nil && method == http.MethodPut && p[2] == "/traits":
		var b traitsBody
		err := decode(data, &b)
		if err != nil || b.Generation == nil {
			return fleet.Request{}, errors.Join(err, errNoGeneration(b.Generation))
		}
		out := fleet.Provider{ID: p[1], Generation: *b.Generation, Traits: b.Traits}
		return fleet.Request{Kind: fleet.SetTraits, Provider: out}, bounded(len(b.Traits), mostTraits, "traits")
	case c != nil && method == http.MethodPut:
		var b claimBody
		err := decode(data, &b)
		if err != nil {
			return fleet.Request{}, err
		}
		claim, err := b.claim(c[1])
		return fleet.Request{Kind: fleet.SetClaim, Claim: claim}, err
	case method == http.MethodPost && path == "/allocations":
		var b map[string]claimBody
		if err := decode(data, &b); err != nil {
			return fleet.Request{}, err
		}
		r := fleet.Request{Kind: fleet.SetClaims}
		if err := bounded(len(b), mostNamed, "consumers"); err != nil {
			return r, err
		}
		for id, one := range b {
			claim, err := one.claim(id)
			if err = errors.Join(err, canonical(id)); err != nil {
				return r, err
			}
			r.Claims = append(r.Claims, claim)
		}
		slices.SortFunc(r.Claims, func(a, b fleet.Claim) int { return strings.Compare(a.Consumer, b.Consumer) })
		return r, nil
	}
	return fleet.Request{}, fmt.Errorf("%s %s is not among the writes that are let through", method, path)
}

// decode takes one value, without keys that it does not know. That of two equal keys the last counts does no harm: it is sent on alone.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body: more than one value")
	}
	return nil
}

// canonical requires the one form of a UUID that names it for every database.
func canonical(ids ...string) error {
	for _, id := range ids {
		if u, err := uuid.Parse(id); err != nil || u.String() != id {
			return fmt.Errorf("%q is not a UUID in lower case with dashes", id)
		}
	}
	return nil
}

func errNoGeneration(g *int) error {
	if g == nil {
		return errors.New("the body has no generation")
	}
	return nil
}

// Placement's bodies.
type (
	providerBody struct {
		Name   string `json:"name"`
		UUID   string `json:"uuid"`
		Parent string `json:"parent_provider_uuid,omitempty"`
	}
	inventoriesBody struct {
		Generation  *int                     `json:"resource_provider_generation"`
		Inventories map[string]inventoryBody `json:"inventories"`
	}
	inventoryBody struct {
		Total    int     `json:"total"`
		Reserved int     `json:"reserved"`
		Min      int     `json:"min_unit"`
		Max      int     `json:"max_unit"`
		Step     int     `json:"step_size"`
		Ratio    float32 `json:"allocation_ratio"`
	}
	traitsBody struct {
		Generation *int     `json:"resource_provider_generation"`
		Traits     []string `json:"traits"`
	}
	claimBody struct {
		Allocations map[string]amountsBody `json:"allocations"`
		Generation  *int                   `json:"consumer_generation"`
		Project     string                 `json:"project_id"`
		User        string                 `json:"user_id"`
		Type        string                 `json:"consumer_type"`
	}
	amountsBody struct {
		Resources map[string]int `json:"resources"`
	}
)

func (b *claimBody) claim(consumer string) (fleet.Claim, error) {
	c := fleet.Claim{Consumer: consumer, Generation: fleet.NewConsumer, Type: b.Type, User: b.User, Amounts: fleet.Amounts{}}
	if b.Project != fleet.Project {
		return c, fmt.Errorf("the project %q: want %s", b.Project, fleet.Project)
	}
	if b.Generation != nil {
		if c.Generation = *b.Generation; c.Generation < 0 {
			return c, errors.New("a negative generation")
		}
	}
	if err := bounded(len(b.Allocations), mostNamed, "providers"); err != nil {
		return c, err
	}
	for id, a := range b.Allocations {
		if err := errors.Join(canonical(id), bounded(len(a.Resources), mostNamed, "resource classes")); err != nil {
			return c, err
		}
		for name, n := range a.Resources {
			if !class.MatchString(name) || n < 1 || n > math.MaxInt32 {
				return c, fmt.Errorf("%d of the resource class %q", n, name)
			}
		}
		c.Amounts[id] = a.Resources
	}
	return c, nil
}

// write is how a Request is sent to Placement.
func write(r *fleet.Request) (method, path string, body any) {
	p := &r.Provider
	switch r.Kind {
	case fleet.CreateProvider:
		return http.MethodPost, "/resource_providers", providerBody{Name: p.Name, UUID: p.ID, Parent: p.Parent}
	case fleet.DeleteProvider:
		return http.MethodDelete, "/resource_providers/" + p.ID, nil
	case fleet.SetInventories:
		b := inventoriesBody{Generation: &p.Generation, Inventories: map[string]inventoryBody{}}
		for name, i := range p.Inventories {
			b.Inventories[name] = inventoryBody(i)
		}
		return http.MethodPut, "/resource_providers/" + p.ID + "/inventories", b
	case fleet.SetTraits:
		b := traitsBody{Generation: &p.Generation, Traits: append([]string{}, p.Traits...)} // null is no list
		return http.MethodPut, "/resource_providers/" + p.ID + "/traits", b
	case fleet.SetClaim:
		return http.MethodPut, "/allocations/" + r.Claim.Consumer, bodyOf(&r.Claim)
	}
	b := map[string]claimBody{}
	for i := range r.Claims {
		b[r.Claims[i].Consumer] = bodyOf(&r.Claims[i])
	}
	return http.MethodPost, "/allocations", b
}

func bodyOf(c *fleet.Claim) claimBody {
	b := claimBody{Allocations: map[string]amountsBody{}, Project: fleet.Project, User: c.User, Type: c.Type}
	if c.Generation != fleet.NewConsumer {
		b.Generation = &c.Generation
	}
	for id, classes := range c.Amounts {
		b.Allocations[id] = amountsBody{Resources: classes}
	}
	return b
}
