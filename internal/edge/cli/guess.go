package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"

	"sluice/internal/base/input"
	"sluice/internal/research/trace"
)

// head returns the beginning of a file, nil if it cannot be read.
func head(path string) []byte {
	f, err := input.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := io.ReadFull(f, b)
	return bytes.TrimPrefix(b[:n], []byte("\ufeff"))
}

// firstLine returns the first line that is not a YAML comment, document marker or blank.
func firstLine(text []byte) string {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// looksLikeTrace reports whether a file named as a scenario is a trace or recording.
func looksLikeTrace(path string) bool {
	if trace.IsRecording(path) {
		return true
	}
	text := head(path)
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) { // gzip
		return true
	}
	line := firstLine(text)
	if strings.HasPrefix(line, "{") {
		return bytes.Contains(text, []byte(`"resultType"`))
	}
	return strings.Count(line, ",")+strings.Count(line, ";") >= 2 && !strings.Contains(line, ":")
}

var yamlKey = regexp.MustCompile(`^[a-z_]+:(\s|$)`)

// looksLikeScenario reports whether a file named as a trace is a scenario.
func looksLikeScenario(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && yamlKey.MatchString(firstLine(head(path)))
}
