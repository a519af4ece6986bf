package openstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Answer is what Placement says to a request, whatever that is.
type Answer struct {
	Status int
	Type   string // of the body
	Body   []byte
}

// Unhurried has requests wait for as long as Placement takes, until ctx or the connection ends.
func (l *Ledger) Unhurried() *Ledger {
	l.client.HTTPClient.Timeout = 0
	return l
}

// Pass sends a request on to Placement, with this client's credentials and microversion. Unless it answers, there is an error.
func (l *Ledger) Pass(ctx context.Context, method, path string, body []byte) (Answer, error) {
	o := &gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent}}
	if body != nil {
		o.RawBody = bytes.NewReader(body)
		o.MoreHeaders = map[string]string{"Content-Type": "application/json"}
	}
	r, err := l.client.Request(ctx, method, l.client.Endpoint+strings.TrimPrefix(path, "/"), o)
	var no gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &no) {
		return Answer{Status: no.Actual, Type: no.ResponseHeader.Get("Content-Type"), Body: no.Body}, nil
	}
	if err != nil {
		return Answer{}, fmt.Errorf("Placement does not answer: %w", err) //nolint:staticcheck // a name
	}
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("Placement's answer to %s %.200q: %w", method, path, err) //nolint:staticcheck // a name
	}
	return Answer{Status: r.StatusCode, Type: r.Header.Get("Content-Type"), Body: data}, nil
}
