package client

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNoDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	_, err := New(path).Status(t.Context())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "systemctl start") {
		t.Errorf("have %v", err)
	}
}

func TestMembersOfNoGroupAreToldWhatToDo(t *testing.T) {
	err := fmt.Errorf("dial: %w", syscall.EACCES)
	if got := New("/s").unreachable(err); !strings.Contains(got.Error(), "member of the group") || !errors.Is(got, ErrUnreachable) {
		t.Errorf("have %v", got)
	}
}
