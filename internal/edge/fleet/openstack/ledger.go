// Package openstack is fleet.Ledger over the API of OpenStack Placement, by gophercloud.
package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/traits"
	"golang.org/x/sync/errgroup"

	"sluice/internal/edge/fleet"
)

// microversion is that of OpenStack Zed (2022.2) and later.
const microversion = "1.39"

// Version is the header OpenStack-API-Version of all requests.
const Version = "placement " + microversion

// atOnce bounds the requests of one read.
const atOnce = 8

// Ledger is a fleet.Ledger.
type Ledger struct {
	client *gophercloud.ServiceClient

	mu        sync.Mutex
	traits    map[string]bool           // that Placement knows
	providers map[string]fleet.Provider // as last read: valid while the generation is the same, but for what is used
	claims    map[string]fleet.Claim    // the same, by consumer and its generation
}

// seen is a provider with the claims on it.
type seen struct {
	provider fleet.Provider
	claims   []fleet.Claim
}

// Tree implements fleet.Ledger. Of what has not changed only the claims' generations are read: a request for each provider.
func (l *Ledger) Tree(ctx context.Context, root string, fresh bool, consumers ...string) (fleet.State, error) {
	if fresh {
		l.mu.Lock()
		clear(l.providers)
		clear(l.claims)
		l.mu.Unlock()
	}
	list, err := l.list(ctx, resourceproviders.ListOpts139{InTree: root})
	if err != nil {
		return fleet.State{}, err
	}
	state, err := l.read(ctx, list)
	if err != nil {
		return fleet.State{}, err
	}
	for _, id := range consumers {
		if _, ok := state.Claims[id]; ok {
			continue
		}
		c, ok, err := l.Claim(ctx, id)
		if err != nil {
			return fleet.State{}, err
		}
		if ok {
			state.Claims[id] = c
		}
	}
	return state, nil
}

// Fleet implements fleet.Ledger.
func (l *Ledger) Fleet(ctx context.Context) (fleet.State, error) {
	list, err := l.published(ctx)
	if err != nil {
		return fleet.State{}, err
	}
	return l.read(ctx, list)
}

// published lists all hosts and PFs.
func (l *Ledger) published(ctx context.Context) ([]resourceproviders.ResourceProvider, error) {
	return l.list(ctx, resourceproviders.ListOpts139{Required: []string{"in:" + fleet.TraitHost + "," + fleet.TraitPF}})
}

// Overview implements fleet.Ledger. Two answers describe all hosts with room; a provider of another takes requests of its own.
func (l *Ledger) Overview(ctx context.Context) (fleet.State, error) {
	list, err := l.published(ctx)
	if err != nil {
		return fleet.State{}, err
	}
	q := allocationcandidates.ListOpts{ResourceGroups: map[string]allocationcandidates.ResourceGroup{
		"_NET": {Resources: fleet.ClassBits + ":1", Required: []string{fleet.TraitPF}},
	}}
	page, err := allocationcandidates.List(l.client, q).AllPages(ctx)
	if unknownTrait(err) {
		return fleet.State{}, nil // nobody has published yet
	}
	if err != nil {
		return fleet.State{}, wrong("read what is free", err)
	}
	room, err := allocationcandidates.ExtractAllocationCandidates(page)
	if err == nil && room.ProviderSummaries == nil {
		err = errMissing
	}
	if err != nil {
		return fleet.State{}, wrong("read what is free", err)
	}
	out := fleet.State{Providers: make([]fleet.Provider, len(list))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range list {
		if s, ok := room.ProviderSummaries[list[i].UUID]; ok && s.Traits != nil {
			out.Providers[i] = summary(&list[i], &s)
			continue
		}
		group.Go(func() (err error) {
			out.Providers[i], err = l.overview(ctx, &list[i])
			return err
		})
	}
	return out, group.Wait()
}

// summary is a provider as the answer about candidates describes it.
func summary(p *resourceproviders.ResourceProvider, s *allocationcandidates.ProviderSummary) fleet.Provider {
	out := fleet.Provider{
		ID: p.UUID, Name: p.Name, Parent: p.ParentProviderUUID, Traits: *s.Traits,
		Inventories: map[string]fleet.Inventory{}, Used: map[string]int{},
	}
	for class, r := range s.Resources {
		out.Inventories[class], out.Used[class] = fleet.Inventory{Total: r.Capacity}, r.Used
	}
	return out
}

// overview reads a provider for an Overview.
func (l *Ledger) overview(ctx context.Context, p *resourceproviders.ResourceProvider) (fleet.Provider, error) {
	d, err := l.described(ctx, p)
	if err != nil {
		return fleet.Provider{}, err
	}
	used, err := resourceproviders.GetUsages(ctx, l.client, p.UUID).Extract()
	if err == nil && used.Usages == nil {
		err = errMissing
	}
	if err != nil {
		return fleet.Provider{}, wrong("read what is claimed of "+p.Name, err)
	}
	out := d.provider
	out.Inventories, out.Used = map[string]fleet.Inventory{}, used.Usages
	for class, inv := range d.provider.Inventories {
		out.Inventories[class] = fleet.Inventory{Total: inv.Total - inv.Reserved}
	}
	return out, nil
}

// Hosts implements fleet.Ledger, with one request.
func (l *Ledger) Hosts(ctx context.Context) ([]fleet.Host, error) {
	list, err := l.list(ctx, resourceproviders.ListOpts139{Required: []string{fleet.TraitHost}})
	if err != nil {
		return nil, err
	}
	out := make([]fleet.Host, len(list))
	for i := range list {
		out[i] = fleet.HostBy(list[i].UUID, list[i].Name)
	}
	slices.SortFunc(out, func(a, b fleet.Host) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (l *Ledger) list(ctx context.Context, q resourceproviders.ListOpts139) ([]resourceproviders.ResourceProvider, error) {
	page, err := resourceproviders.List(l.client, q).AllPages(ctx)
	if unknownTrait(err) {
		return nil, nil // nobody has published yet
	}
	if err != nil {
		return nil, wrong("list providers", err)
	}
	list, err := resourceproviders.ExtractResourceProviders(page)
	if err == nil && list == nil {
		err = errMissing
	}
	return list, wrong("list providers", err)
}

func (l *Ledger) read(ctx context.Context, list []resourceproviders.ResourceProvider) (fleet.State, error) {
	all := make([]seen, len(list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range list {
		group.Go(func() (err error) {
			all[i], err = l.provider(ctx, &list[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fleet.State{}, err
	}
	state := fleet.State{Claims: map[string]fleet.Claim{}}
	for i := range all {
		state.Providers = append(state.Providers, all[i].provider)
		for _, c := range all[i].claims {
			state.Claims[c.Consumer] = c
		}
	}
	slices.SortFunc(state.Providers, func(a, b fleet.Provider) int { return strings.Compare(a.ID, b.ID) })
	return state, nil
}

// mostReads bounds how often the claims on a provider are read.
const mostReads = 10

// provider reads one provider and the claims on it. They take several requests: if one of them ends meanwhile, what has taken its place is
// not among those that were listed, so they are listed again.
func (l *Ledger) provider(ctx context.Context, p *resourceproviders.ResourceProvider) (seen, error) {
	out, err := l.described(ctx, p)
	if err != nil {
		return seen{}, err
	}
	for range mostReads {
		same, err := l.claimsOn(ctx, p, &out)
		if err != nil || same {
			return out, err
		}
	}
	return seen{}, fmt.Errorf("read the claims on %s: %w", p.Name, fleet.ErrStale)
}

// claimsOn reads the claims on a provider; false: they have changed meanwhile.
func (l *Ledger) claimsOn(ctx context.Context, p *resourceproviders.ResourceProvider, out *seen) (same bool, err error) {
	// When claims end or move away, the provider's generation stays.
	var held struct {
		Allocations map[string]struct {
			Resources  map[string]int `json:"resources"`
			Generation int            `json:"consumer_generation"`
		} `json:"allocations"`
	}
	err = resourceproviders.GetAllocations(ctx, l.client, p.UUID).ExtractInto(&held)
	if err == nil && held.Allocations == nil {
		err = errMissing
	}
	if err != nil {
		return false, wrong("read the claims on "+p.Name, err)
	}
	out.provider.Used, out.claims = map[string]int{}, nil
	for _, consumer := range slices.Sorted(maps.Keys(held.Allocations)) {
		for class, n := range held.Allocations[consumer].Resources {
			out.provider.Used[class] += n
		}
		l.mu.Lock()
		c, ok := l.claims[consumer]
		l.mu.Unlock()
		if now := held.Allocations[consumer]; !ok || c.Generation != now.Generation || !maps.Equal(c.Amounts[p.UUID], now.Resources) {
			if c, ok, err = l.Claim(ctx, consumer); err != nil {
				return false, err
			}
			if !ok || !maps.Equal(c.Amounts[p.UUID], now.Resources) {
				return false, nil
			}
		}
		out.claims = append(out.claims, c)
	}
	return true, nil
}

// described reads a provider's inventories and traits.
func (l *Ledger) described(ctx context.Context, p *resourceproviders.ResourceProvider) (seen, error) {
	l.mu.Lock()
	old, ok := l.providers[p.UUID]
	l.mu.Unlock()
	if ok && old.Generation == p.Generation && old.Name == p.Name {
		return seen{provider: old}, nil
	}
	inventories, err := resourceproviders.GetInventories(ctx, l.client, p.UUID).Extract()
	if err == nil && inventories.Inventories == nil {
		err = errMissing
	}
	if err != nil {
		return seen{}, wrong("read the inventories of "+p.Name, err)
	}
	names, err := resourceproviders.GetTraits(ctx, l.client, p.UUID).Extract()
	if err == nil && names.Traits == nil {
		err = errMissing
	}
	if err != nil {
		return seen{}, wrong("read the traits of "+p.Name, err)
	}
	out := fleet.Provider{
		ID: p.UUID, Name: p.Name, Parent: p.ParentProviderUUID, Generation: p.Generation, Traits: names.Traits,
		Inventories: map[string]fleet.Inventory{},
	}
	for class, inv := range inventories.Inventories {
		out.Inventories[class] = fleet.Inventory{
			Total: inv.Total, Reserved: inv.Reserved, Min: inv.MinUnit, Max: inv.MaxUnit, Step: inv.StepSize, Ratio: inv.AllocationRatio,
		}
	}
	if inventories.ResourceProviderGeneration == p.Generation && names.ResourceProviderGeneration == p.Generation {
		l.mu.Lock()
		l.providers[p.UUID] = out
		l.mu.Unlock()
	}
	return seen{provider: out}, nil
}

// Provider reads a provider, without what is used of it; false: there is none.
func (l *Ledger) Provider(ctx context.Context, id string) (fleet.Provider, bool, error) {
	p, err := resourceproviders.Get(ctx, l.client, id).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return fleet.Provider{}, false, nil
	}
	if err != nil {
		return fleet.Provider{}, false, wrong("read the provider "+id, err)
	}
	out, err := l.described(ctx, p)
	return out.provider, err == nil, err
}

// Below lists a provider and those below it, without what they have.
func (l *Ledger) Below(ctx context.Context, root string) ([]fleet.Provider, error) {
	list, err := l.list(ctx, resourceproviders.ListOpts139{InTree: root})
	out := make([]fleet.Provider, len(list))
	for i := range list {
		out[i] = fleet.Provider{ID: list[i].UUID, Name: list[i].Name, Parent: list[i].ParentProviderUUID}
	}
	return out, err
}

// Claim implements fleet.Ledger.
func (l *Ledger) Claim(ctx context.Context, consumer string) (fleet.Claim, bool, error) {
	a, err := allocations.Get(ctx, l.client, consumer).Extract()
	if err == nil && a.Allocations == nil {
		err = errMissing
	}
	if err != nil {
		return fleet.Claim{}, false, wrong("read the claim "+consumer, err)
	}
	if len(a.Allocations) == 0 || a.ConsumerGeneration == nil {
		l.mu.Lock()
		delete(l.claims, consumer)
		l.mu.Unlock()
		return fleet.Claim{}, false, nil
	}
	c := fleet.Claim{Consumer: consumer, Generation: *a.ConsumerGeneration, Amounts: fleet.Amounts{}}
	if a.ConsumerType != nil {
		c.Type = *a.ConsumerType
	}
	if a.UserID != nil {
		c.User = *a.UserID
	}
	for provider, r := range a.Allocations {
		c.Amounts[provider] = r.Resources
	}
	l.mu.Lock()
	l.claims[consumer] = c
	l.mu.Unlock()
	return c, true, nil
}

// Candidates implements fleet.Ledger.
func (l *Ledger) Candidates(ctx context.Context, a fleet.Ask) ([]fleet.Candidate, error) {
	if err := l.know(ctx, fleet.TraitPF, fleet.TraitDown, fleet.TraitDrained, fleet.TraitUnenforced); err != nil {
		return nil, err
	}
	required := strings.Join(append([]string{fleet.TraitPF, "!" + fleet.TraitDown}, a.Traits...), ",")
	q := allocationcandidates.ListOpts{
		Limit: a.Limit, RootRequired: "!" + fleet.TraitDrained + ",!" + fleet.TraitUnenforced, InTree: a.Host,
		ResourceGroups: map[string]allocationcandidates.ResourceGroup{"_NET": {
			Resources: fmt.Sprintf("%s:%d", fleet.ClassBits, a.Kbits), Required: []string{required}, InTree: a.Host,
		}},
	}
	if a.Kpackets > 0 {
		q.Resources = fmt.Sprintf("%s:%d", fleet.ClassPackets, a.Kpackets)
	} else {
		q.InTree = "" // Placement refuses what belongs to no resources
	}
	page, err := allocationcandidates.List(l.client, q).AllPages(ctx)
	if unknownTrait(err) {
		return nil, nil // so no provider has it
	}
	if err != nil {
		return nil, wrong("look for room", err)
	}
	all, err := allocationcandidates.ExtractAllocationCandidates(page)
	if err == nil && all.AllocationRequests == nil {
		err = errMissing
	}
	if err != nil {
		return nil, wrong("look for room", err)
	}
	var out []fleet.Candidate
	for _, r := range all.AllocationRequests {
		c := fleet.Candidate{Amounts: fleet.Amounts{}}
		for provider, got := range r.Allocations {
			c.Amounts[provider] = got.Resources
			if s := all.ProviderSummaries[provider]; got.Resources[fleet.ClassBits] > 0 && s.RootProviderUUID != nil {
				c.PF, c.Host = provider, *s.RootProviderUUID
				c.Total, c.Used = s.Resources[fleet.ClassBits].Capacity, s.Resources[fleet.ClassBits].Used
			}
		}
		if c.PF != "" {
			out = append(out, c)
		}
	}
	return out, nil
}

// Do implements fleet.Ledger.
func (l *Ledger) Do(ctx context.Context, r fleet.Request) error {
	p := &r.Provider
	var err error
	switch r.Kind {
	case fleet.CreateProvider:
		opts := resourceproviders.CreateOpts{Name: p.Name, UUID: p.ID, ParentProviderUUID: p.Parent}
		_, err = resourceproviders.Create(ctx, l.client, opts).Extract()
	case fleet.DeleteProvider:
		err = resourceproviders.Delete(ctx, l.client, p.ID).ExtractErr()
	case fleet.SetInventories:
		opts := resourceproviders.UpdateInventoriesOpts{
			ResourceProviderGeneration: p.Generation, Inventories: map[string]resourceproviders.Inventory{},
		}
		for class, inv := range p.Inventories {
			opts.Inventories[class] = resourceproviders.Inventory{
				Total: inv.Total, Reserved: inv.Reserved, MinUnit: inv.Min, MaxUnit: inv.Max, StepSize: inv.Step, AllocationRatio: inv.Ratio,
			}
		}
		_, err = resourceproviders.UpdateInventories(ctx, l.client, p.ID, opts).Extract()
	case fleet.SetTraits:
		if err := l.know(ctx, p.Traits...); err != nil {
			return err
		}
		opts := resourceproviders.UpdateTraitsOpts{ResourceProviderGeneration: p.Generation, Traits: p.Traits}
		_, err = resourceproviders.UpdateTraits(ctx, l.client, p.ID, opts).Extract()
	case fleet.SetClaim:
		err = allocations.Update(ctx, l.client, r.Claim.Consumer, updateOf(&r.Claim)).ExtractErr()
	case fleet.SetClaims:
		all := allocations.ManageOpts{}
		for i := range r.Claims {
			all[r.Claims[i].Consumer] = updateOf(&r.Claims[i])
		}
		err = allocations.Manage(ctx, l.client, all).ExtractErr()
	}
	return wrong(r.String(), err)
}

func updateOf(c *fleet.Claim) allocations.UpdateOpts {
	opts := allocations.UpdateOpts{
		Allocations: map[string]allocations.ProviderAllocationsOpts{}, ProjectID: fleet.Project, UserID: c.User, ConsumerType: c.Type,
	}
	if c.Generation != fleet.NewConsumer {
		opts.ConsumerGeneration = &c.Generation
	}
	for provider, classes := range c.Amounts {
		opts.Allocations[provider] = allocations.ProviderAllocationsOpts{Resources: classes}
	}
	return opts
}

// know makes sure that Placement knows our traits. Those of others were read from it.
func (l *Ledger) know(ctx context.Context, names ...string) error {
	for _, name := range names {
		l.mu.Lock()
		known := l.traits[name] || !strings.HasPrefix(name, "CUSTOM_")
		l.mu.Unlock()
		if known {
			continue
		}
		if err := traits.Create(ctx, l.client, name).ExtractErr(); err != nil {
			return wrong("create the trait "+name, err)
		}
		l.mu.Lock()
		l.traits[name] = true
		l.mu.Unlock()
	}
	return nil
}

// errMissing means that an answer has not what was asked for, which is not the same as that there is none.
var errMissing = errors.New("it is incomplete")

// wrong says what failed, and what kind of conflict it is.
func wrong(what string, err error) error {
	if err == nil {
		return nil
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	var none *url.Error
	var lost *gophercloud.ErrUnableToReauthenticate
	switch {
	case errors.As(err, &lost) && unauthorized(lost.ErrReauth):
		return fmt.Errorf("%s: %w", what, errAccount)
	case lost != nil:
		return fmt.Errorf("%s: Keystone does not answer: %w", what, lost.ErrReauth)
	case errors.As(err, &answer):
	case errors.As(err, &none):
		return fmt.Errorf("%s: Placement does not answer: %w", what, err)
	default:
		return fmt.Errorf("%s: Placement's answer cannot be used: %w", what, err)
	}
	kind := errors.New(detail(&answer))
	if answer.Actual == http.StatusForbidden && codeOf(&answer) != "sluice.refused" {
		kind = fmt.Errorf("the account lacks a role: docs/fleet.md says which it needs (%w)", kind)
	}
	if answer.Actual == http.StatusConflict {
		switch code := codeOf(&answer); code {
		case "placement.inventory.inuse", "placement.resource_provider.inuse", "placement.resource_provider.cannot_delete_parent":
			kind = fmt.Errorf("%w (%w)", fleet.ErrInUse, kind)
		case "placement.duplicate_name":
			kind = fmt.Errorf("%w (%w)", fleet.ErrTaken, kind)
		case "placement.concurrent_update":
			kind = fmt.Errorf("%w (%w)", fleet.ErrStale, kind)
		default:
			kind = fmt.Errorf("%w (%w)", fleet.ErrFull, kind)
		}
	}
	return fmt.Errorf("%s: %w", what, kind)
}

// unknownTrait reports whether Placement was asked for a trait that it does not know.
func unknownTrait(err error) bool {
	var answer gophercloud.ErrUnexpectedResponseCode
	return errors.As(err, &answer) && answer.Actual == http.StatusBadRequest && strings.Contains(string(answer.Body), "No such trait")
}

// refusal is the body of an answer that is not what was asked for.
type refusal struct {
	Errors []struct {
		Code, Title, Detail string
	}
}

func codeOf(answer *gophercloud.ErrUnexpectedResponseCode) string {
	var r refusal
	if json.Unmarshal(answer.Body, &r) != nil || len(r.Errors) == 0 {
		return ""
	}
	return r.Errors[0].Code
}

// detail is what Placement says, on one line.
func detail(answer *gophercloud.ErrUnexpectedResponseCode) string {
	var r refusal
	if json.Unmarshal(answer.Body, &r) != nil || len(r.Errors) == 0 {
		return fmt.Sprintf("Placement answers %d: %.200s", answer.Actual, bytes.TrimSpace(answer.Body))
	}
	return fmt.Sprintf("Placement answers %d: %s", answer.Actual, strings.Join(strings.Fields(r.Errors[0].Detail), " "))
}
