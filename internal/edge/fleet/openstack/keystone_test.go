package openstack_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	gopherstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
)

// must returns a value, and fails the test if there is an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// account is an application credential in a real Keystone.
type account struct {
	user, id, secret string
	identity         *gophercloud.ServiceClient
}

// With a real Keystone and the policy of packaging/fleet, accounts of hosts publish, those of operators place and migrate, neither does the
// other's work, and a token that is revoked is renewed. `scripts/measure keystone` runs it.
func TestRealKeystone(t *testing.T) {
	if os.Getenv("SLUICE_TEST_KEYSTONE") != "1" {
		t.Skip("installs Keystone: scripts/measure keystone runs it; TestKeystone is its short form")
	}
	ports := [2]int{}
	cmd := exec.Command("../../../../scripts/keystone", t.TempDir()) //nolint:gosec // it is killed below
	cmd.Stderr = os.Stderr
	out := must[interface{ Read([]byte) (int, error) }](t)(cmd.StdoutPipe())
	must[any](t)(nil, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	must[int](t)(fmt.Fscan(out, &ports[0], &ports[1]))
	keystone := fmt.Sprintf("http://127.0.0.1:%d/v3", ports[0])
	admin := login(t, gophercloud.AuthOptions{
		IdentityEndpoint: keystone, Username: "admin", Password: "secret", DomainName: "Default", Scope: &gophercloud.AuthScope{ProjectName: "admin", DomainName: "Default"},
	})
	service := must[*services.Service](t)(services.Create(t.Context(), admin, services.CreateOpts{Type: "placement"}).Extract())
	must[*endpoints.Endpoint](t)(endpoints.Create(t.Context(), admin, endpoints.CreateOpts{
		Availability: gophercloud.AvailabilityPublic, Region: "one", ServiceID: service.ID, URL: fmt.Sprintf("http://127.0.0.1:%d", ports[1]), Name: "placement",
	}).Extract())
	project := must[*projects.Project](t)(projects.Create(t.Context(), admin, projects.CreateOpts{Name: "fleet", DomainID: "default"}).Extract())
	host := newAccount(t, admin, keystone, project.ID, "sluice-host")
	asHost := host.connect(t, keystone)
	operator := newAccount(t, admin, keystone, project.ID, "sluice-operator").connect(t, keystone)
	stranger := newAccount(t, admin, keystone, project.ID, "member").connect(t, keystone)

	a, b := fleettest.Host("a"), fleettest.Host("b")
	for _, h := range []fleet.Host{a, b} {
		if _, _, err := fleet.Publish(t.Context(), asHost, h, fleettest.Capacity()); err != nil {
			t.Fatal(err)
		}
	}
	vm, macs := fleettest.VM(1), []string{fleettest.MAC(1)}
	must[fleet.Placement](t)(fleet.Place(t.Context(), operator, vm, macs[0], fleet.Ask{Kbits: 1e6, Host: a.ID}))
	must[fleet.Migration](t)(fleet.BeginMigration(t.Context(), operator, vm, macs, b.ID))
	if err := fleet.EndMigration(t.Context(), operator, vm, macs); err != nil {
		t.Fatal(err)
	}
	must[[]fleet.Evacuated](t)(fleet.Evacuate(t.Context(), operator, b, nil))
	if s := must[fleet.State](t)(operator.Overview(t.Context())); len(fleet.Links(&s)) != 4 {
		t.Errorf("%+v", s)
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "lacks a role") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := stranger.Hosts(t.Context())
	refused("a stranger reads", err)
	refused("a host migrates", asHost.Do(t.Context(), fleet.Request{Kind: fleet.SetClaims}))
	refused("an operator makes a provider", operator.Do(t.Context(), fleet.Request{
		Kind: fleet.CreateProvider, Provider: fleet.Provider{ID: fleettest.Host("c").ID, Name: "sluice:c"},
	}))

	environment(t, map[string]string{
		"OS_AUTH_URL": keystone, "OS_USERNAME": "admin", "OS_PASSWORD": "wrong", "OS_PROJECT_NAME": "admin", "OS_DOMAIN_NAME": "Default",
	})
	if _, err := openstack.Connect(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "the account is refused by Keystone") {
		t.Errorf("a wrong password: %v", err)
	}

	// Its token is revoked, as when it has expired: the next request renews it, also one that Placement then refuses.
	token := asHost.Token()
	if err := tokens.Revoke(t.Context(), admin, token).Err; err != nil {
		t.Fatal(err)
	}
	busy := fleettest.Capacity()
	busy.Drained = true
	if _, n, err := fleet.Publish(t.Context(), asHost, a, busy); err != nil || n == 0 {
		t.Errorf("with a revoked token: %d writes, %v", n, err)
	}
	if asHost.Token() == token {
		t.Error("the token is not a new one")
	}
	// An account that is closed has no way in.
	if err := applicationcredentials.Delete(t.Context(), host.identity, host.user, host.id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := asHost.Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), "the account is refused by Keystone") {
		t.Errorf("an account that was closed reads: %v", err)
	}
}

func login(t *testing.T, o gophercloud.AuthOptions) *gophercloud.ServiceClient {
	t.Helper()
	provider := must[*gophercloud.ProviderClient](t)(gopherstack.AuthenticatedClient(t.Context(), o))
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: gophercloud.NormalizeURL(o.IdentityEndpoint), Type: "identity"}
}

// newAccount makes a user with one role, and an application credential of his.
func newAccount(t *testing.T, admin *gophercloud.ServiceClient, keystone, project, role string) account {
	t.Helper()
	var id string
	pages := must[roles.RolePage](t)(func() (roles.RolePage, error) {
		p, err := roles.List(admin, roles.ListOpts{Name: role}).AllPages(t.Context())
		if err != nil {
			return roles.RolePage{}, err
		}
		return p.(roles.RolePage), nil
	}())
	if list := must[[]roles.Role](t)(roles.ExtractRoles(pages)); len(list) > 0 {
		id = list[0].ID
	} else {
		id = must[*roles.Role](t)(roles.Create(t.Context(), admin, roles.CreateOpts{Name: role}).Extract()).ID
	}
	user := must[*users.User](t)(users.Create(t.Context(), admin, users.CreateOpts{Name: role, Password: "secret", DomainID: "default"}).Extract())
	if err := roles.Assign(t.Context(), admin, id, roles.AssignOpts{UserID: user.ID, ProjectID: project}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	self := login(t, gophercloud.AuthOptions{IdentityEndpoint: keystone, UserID: user.ID, Password: "secret", Scope: &gophercloud.AuthScope{ProjectID: project}})
	c := must[*applicationcredentials.ApplicationCredential](t)(applicationcredentials.Create(t.Context(), self, user.ID,
		applicationcredentials.CreateOpts{Name: "sluice", Roles: []applicationcredentials.Role{{ID: id}}}).Extract())
	return account{user: user.ID, id: c.ID, secret: c.Secret, identity: self}
}

func (a account) connect(t *testing.T, keystone string) *openstack.Ledger {
	t.Helper()
	environment(t, map[string]string{
		"OS_AUTH_URL": keystone, "OS_APPLICATION_CREDENTIAL_ID": a.id, "OS_APPLICATION_CREDENTIAL_SECRET": a.secret, "OS_REGION_NAME": "one",
	})
	return must[*openstack.Ledger](t)(openstack.Connect(t.Context(), ""))
}
