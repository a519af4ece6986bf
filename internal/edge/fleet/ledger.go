package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Ledger is OpenStack Placement, or what stands for it in tests. Its methods may be called concurrently.
type Ledger interface {
	Reader
	// Tree returns a provider and those below it, with the claims on them and those of the given consumers. Without a provider of that
	// UUID there are none. Unless fresh, a part may be as it was read before, if nothing shows that it has changed: fit to find out whether
	// something is to be written, but not what.
	Tree(ctx context.Context, root string, fresh bool, consumers ...string) (State, error)
	// Fleet returns the providers of all hosts and their PFs, with the claims on them.
	Fleet(ctx context.Context) (State, error)
	// Overview is like Fleet, but without claims, generations and what is reserved, which the inventories' totals leave out: of a thousand
	// hosts it takes a second, Fleet a minute.
	Overview(ctx context.Context) (State, error)
	// Hosts returns all hosts that have been published, by name.
	Hosts(ctx context.Context) ([]Host, error)
	// Candidates returns where there is room, in no order.
	Candidates(ctx context.Context, a Ask) ([]Candidate, error)
	// Do carries out a Request. ErrStale, ErrFull, ErrInUse and ErrTaken say why not.
	Do(ctx context.Context, r Request) error
}

// Why a ledger refuses a Request.
var (
	ErrStale = errors.New("somebody else has written meanwhile") // a generation is not that of the Request
	ErrFull  = errors.New("there is no room for the claim")
	ErrInUse = errors.New("it is in use")
	ErrTaken = errors.New("another provider has that name")
)

// State is a part of the ledger as it was read.
type State struct {
	Providers []Provider
	Claims    map[string]Claim // by consumer
}

// Provider is a host or a PF.
type Provider struct {
	ID          string
	Name        string
	Parent      string // "": none
	Generation  int
	Inventories map[string]Inventory // by class
	Traits      []string
	Used        map[string]int // by class, by all consumers
}

// Inventory is what a provider has of a class, in Placement's terms.
type Inventory struct {
	Total    int
	Reserved int // guaranteed to VMs whose claims the ledger refuses
	Min, Max int // of one claim
	Step     int
	Ratio    float32 // of what may be claimed to the total
}

// plain is an inventory of which any amount can be claimed, and no more than there is.
func plain(total, reserved int) Inventory {
	return Inventory{Total: total, Reserved: max(0, reserved), Min: 1, Max: total, Step: 1, Ratio: 1}
}

// Amounts are resources by provider and class.
type Amounts map[string]map[string]int

// add adds an amount, which may be negative.
func (a Amounts) add(provider, class string, n int) {
	if n == 0 {
		return
	}
	if a[provider] == nil {
		a[provider] = map[string]int{}
	}
	a[provider][class] += n
}

// Claim is what a consumer has.
type Claim struct {
	Consumer   string
	Generation int // of the consumer; NewConsumer: there is none
	Type       string
	User       string
	Amounts    Amounts // none: the claim ends
}

// NewConsumer is the generation of a consumer that is not there yet.
const NewConsumer = -1

// Ask is what a VM needs.
type Ask struct {
	Kbits, Kpackets int
	Traits          []string // that the PF must have
	Host            string   // only there, a provider's UUID; "": anywhere
	Limit           int
	Load            map[string]int // what PFs send, in kbit/s by provider; nil: not known
}

// Candidate is where a claim fits.
type Candidate struct {
	Host, PF string // providers' UUIDs
	Amounts  Amounts
	Total    int // kbit/s that the PF has for claims
	Used     int // kbit/s of that
}

// Kind is what a Request does.
type Kind string

// Values of Kind.
const (
	CreateProvider Kind = "create provider"
	DeleteProvider Kind = "delete provider"
	SetInventories Kind = "set inventories"
	SetTraits      Kind = "set traits"
	SetClaim       Kind = "set claim"
	SetClaims      Kind = "set claims" // all or none
)

// Request is one write to the ledger.
type Request struct {
	Kind     Kind
	Provider Provider // its Generation is that which was read
	Claim    Claim    // of SetClaim
	Claims   []Claim  // of SetClaims
}

func (r Request) String() string {
	switch r.Kind {
	case SetClaim:
		return fmt.Sprintf("%s of %s", r.Kind, r.Claim.Consumer)
	case SetClaims:
		var list []string
		for i := range r.Claims {
			list = append(list, r.Claims[i].Consumer)
		}
		return fmt.Sprintf("%s of %s", r.Kind, strings.Join(list, ", "))
	}
	return fmt.Sprintf("%s %s", r.Kind, r.Provider.Name)
}
