// Package fleet keeps the guarantees of many hosts in one ledger, OpenStack Placement: what each host offers, who claims it, and where a VM
// with a guarantee can go. What is to be written is decided by pure functions (OfferOf, Decide, Check); Publish and Place carry it out
// through the interface Ledger, of which package openstack is the implementation.
package fleet
