package channel

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// frame is a message as it is sent: a line's end comes first, so that what was left unfinished before it, by whichever
// process, is not taken for its beginning.
func frame(m *Message) ([]byte, error) {
	line, err := marshal(m)
	if err != nil {
		return nil, err
	}
	if len(line) > MaxLine {
		return nil, fmt.Errorf("the message has %d bytes, more than %d", len(line), MaxLine)
	}
	return append([]byte("\n"), line...), nil
}

// marshal is json.Marshal without what only web pages need, and with a line's end.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// parse reads a line; ok is false where it is no message. Fields that it does not know are passed
// over here, so that a side can say that it speaks another version.
func parse(line []byte) (m Message, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &m) != nil {
		return Message{}, false
	}
	return m, m.V > 0
}

// strict decodes the body of a request that asks for something: a field that is not known is
// refused, since what it asks for would not be done.
func strict(body json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(orEmpty(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &Error{
			Code: CodeInvalid, Text: "the request makes no sense: " + err.Error(),
			Remedy: "bring sluice-guest, sluice-cni and the host's Sluice to the same release",
		}
	}
	return nil
}

// loose decodes a body that only tells something: what is not known of it does no harm.
func loose(body json.RawMessage, into any) error {
	if err := json.Unmarshal(orEmpty(body), into); err != nil {
		return &Error{Code: CodeInvalid, Text: "the message makes no sense: " + err.Error()}
	}
	return nil
}

func orEmpty(body json.RawMessage) json.RawMessage {
	if len(body) == 0 {
		return json.RawMessage("{}")
	}
	return body
}

// otherVersion is the answer to a request of another version.
func otherVersion(v int) *Error {
	return &Error{
		Code: CodeVersion, Text: fmt.Sprintf("the other side speaks version %d of the protocol, this one version %d", v, Version),
		Remedy: "bring sluice-guest and the host's Sluice to the same release",
	}
}
