package channel

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// frame encodes a message for sending. It puts a newline first, so that the message is not taken for the rest of an unfinished line
// that any process left before it.
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

// marshal is json.Marshal without HTML escaping, and with a newline at the end.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// parse decodes a line; ok is false if it is not a message. It ignores unknown fields, so that a side can still answer that it speaks
// another version.
func parse(line []byte) (m Message, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &m) != nil {
		return Message{}, false
	}
	return m, m.V > 0
}

// strict decodes the body of a request that asks for something. It rejects unknown fields, since what they ask for would not be done.
func strict(body json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(orEmpty(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &Error{
			Code: CodeInvalid, Text: "the request is malformed: " + err.Error(),
			Remedy: "bring sluice-guest, sluice-cni and the host's Sluice to the same release",
		}
	}
	return nil
}

// loose decodes a body that only informs: unknown fields do no harm.
func loose(body json.RawMessage, into any) error {
	if err := json.Unmarshal(orEmpty(body), into); err != nil {
		return &Error{Code: CodeInvalid, Text: "the message is malformed: " + err.Error()}
	}
	return nil
}

func orEmpty(body json.RawMessage) json.RawMessage {
	if len(body) == 0 {
		return json.RawMessage("{}")
	}
	return body
}

// otherVersion returns the answer to a message of another protocol version.
func otherVersion(v int) *Error {
	return &Error{
		Code: CodeVersion, Text: fmt.Sprintf("the other side speaks version %d of the protocol, this one version %d", v, Version),
		Remedy: "bring sluice-guest and the host's Sluice to the same release",
	}
}
