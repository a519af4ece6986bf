package channel

import (
	"bufio"
	"errors"
	"io"
)

// Reader reads messages and skips anything else: it resynchronizes at the next newline. It never holds more than one line of MaxLine
// bytes, however long the lines of its input are.
type Reader struct{ buf *bufio.Reader }

// NewReader returns a Reader.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, MaxLine)} }

// Next waits for the next message. The error is that of the underlying reader, io.EOF at its end; text after the last newline is then
// lost.
func (r *Reader) Next() (Message, error) {
	for {
		line, err := r.line()
		if err != nil {
			return Message{}, err
		}
		if m, ok := parse(line); ok {
			return m, nil
		}
	}
}

// line returns the next line that is not too long, with its newline. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	tooLong := false
	for {
		b, err := r.buf.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			tooLong = true
		case err != nil:
			return nil, err
		case tooLong:
			tooLong = false // the end of the overlong line
		default:
			return b, nil
		}
	}
}
