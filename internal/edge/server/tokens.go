package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"sluice/api/v1"
)

// leastToken is the length below which a token is refused, because it could be guessed.
const leastToken = 16

// tokens are what TCP clients must show, one per line of a file; what follows a # is a comment. The file is read again when it changes.
type tokens struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	sums    [][sha256.Size]byte
	changed time.Time
}

// openTokens reads the file. It returns nil for no path.
func openTokens(path string, log *slog.Logger) (*tokens, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nobody needs a token
	}
	t := &tokens{path: path, log: log}
	file, err := os.Stat(path)
	if err == nil {
		err = t.read(file)
	}
	if err != nil {
		return nil, fmt.Errorf("api.tokens: %w", err)
	}
	return t, nil
}

func (t *tokens) read(file os.FileInfo) error {
	if file.Mode()&0o007 != 0 {
		return fmt.Errorf("every user of this host can read or change %s: chmod o= %[1]s", t.path)
	}
	text, err := os.ReadFile(t.path)
	if err != nil {
		return err
	}
	var sums [][sha256.Size]byte
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		switch line = strings.TrimSpace(line); {
		case line == "":
		case len(line) < leastToken || strings.ContainsAny(line, " \t"):
			return fmt.Errorf("%s:%d: a token is one word of at least %d characters: openssl rand -hex 32", t.path, n, leastToken)
		default:
			sums = append(sums, sha256.Sum256([]byte(line)))
		}
	}
	if len(sums) == 0 {
		return fmt.Errorf("%s has no token: openssl rand -hex 32 >> %[1]s", t.path)
	}
	t.sums, t.changed = sums, file.ModTime()
	return nil
}

// allow reports whether a request shows a token: as a bearer, or as the password of a browser's dialogue.
func (t *tokens) allow(r *http.Request) bool {
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		if _, shown, ok = r.BasicAuth(); !ok {
			return false
		}
	}
	sum, found := sha256.Sum256([]byte(strings.TrimSpace(shown))), 0
	for _, s := range t.current() {
		found |= subtle.ConstantTimeCompare(s[:], sum[:])
	}
	return found == 1
}

// current returns the tokens. If the file cannot be read any more, the last ones remain.
func (t *tokens) current() [][sha256.Size]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := os.Stat(t.path)
	if err != nil || file.ModTime().Equal(t.changed) {
		return t.sums
	}
	if err := t.read(file); err != nil {
		t.changed = file.ModTime() // say it once for each change
		t.log.Warn("the new tokens cannot be used; the last ones remain", "error", err)
	}
	return t.sums
}

var errNoToken = &api.Error{
	Text:   "this address answers only who shows a token of api.tokens",
	Remedy: "send the header `Authorization: Bearer TOKEN`; in a browser, enter it as the password",
}

// unauthorized refuses a request.
func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="sluice: the password is a token"`)
	writeError(w, http.StatusUnauthorized, errNoToken)
}
