package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"

	"sluice/internal/base/input"
)

// Load reads a trace of any format into memory, gzipped or not. The first bytes of the file tell the format.
func Load(path string, o Options) (*Set, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	return Read(path, f, o)
}

// Read is Load from a stream; name is used in errors.
func Read(name string, in io.Reader, o Options) (*Set, error) {
	br, err := plain(name, in)
	if err != nil {
		return nil, err
	}
	head, err := br.Peek(64)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileError(name, err)
	}
	switch head = bytes.TrimLeft(head, " \t\r\n\ufeff"); {
	case bytes.HasPrefix(head, []byte(magic)):
		return nil, &Error{File: name, Text: "is a recording of Sluice, not a series of rates", Remedy: "replay it with `sluice sim --trace`"}
	case bytes.HasPrefix(head, []byte("{")):
		return readProm(name, br, o)
	}
	return readCSV(name, br, o)
}

// IsRecording reports whether the path is a recording of Sluice: a directory, or a file that begins like one.
func IsRecording(path string) bool {
	st, err := os.Stat(path)
	if err != nil {
		return false
	}
	if st.IsDir() {
		return true
	}
	f, err := input.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	br, err := plain(path, f)
	if err != nil {
		return false
	}
	head, _ := br.Peek(len(magic))
	return string(head) == magic
}

// plain decompresses gzip, if it is used.
func plain(name string, in io.Reader) (*bufio.Reader, error) {
	br := bufio.NewReaderSize(in, 1<<16)
	if head, _ := br.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return br, nil
	}
	z, err := gzip.NewReader(br)
	if err != nil {
		return nil, &Error{File: name, Text: "begins like gzip but is not gzip: " + err.Error(), Remedy: "copy it again", cause: err}
	}
	return bufio.NewReaderSize(z, 1<<16), nil
}

// fileError removes the path that the operating system's error repeats.
func fileError(name string, err error) error {
	text := err.Error()
	var p *os.PathError
	if errors.As(err, &p) {
		text = p.Op + ": " + p.Err.Error()
	}
	return &Error{File: name, Text: text, Remedy: "check the path", cause: err}
}
