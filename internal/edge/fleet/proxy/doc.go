// Package proxy stands between the hosts of a fleet and OpenStack Placement, which knows no owners: it knows each client by its
// certificate, lets through only requests that it understands, and of those of a host only what fleet.Judge allows. What is sent on is
// made anew of what was understood, so that no two programs can read a request differently.
package proxy
