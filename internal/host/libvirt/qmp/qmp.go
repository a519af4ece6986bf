// Package qmp asks QEMU's monitor about a VM's devices.
package qmp

import (
	"encoding/json"
	"errors"
	"fmt"

	"sluice/internal/model"
)

// Ask sends a command to a QEMU and returns the answer.
type Ask func(command string) (answer string, err error)

// Error is that QEMU refuses a command.
type Error struct{ Desc string }

func (e *Error) Error() string { return "QEMU answers: " + e.Desc }

// Do sends a command and decodes what the answer returns.
func (ask Ask) Do(command string, arguments map[string]string, into any) error {
	return ask.do(command, arguments, into, "to "+command)
}

func (ask Ask) do(command string, arguments map[string]string, into any, about string) error {
	request, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	text, err := ask(string(request))
	if err != nil {
		return err
	}
	var answer struct {
		Return json.RawMessage `json:"return"`
		Error  *Error          `json:"error"`
	}
	switch err := json.Unmarshal([]byte(text), &answer); {
	case err == nil && answer.Error != nil:
		return answer.Error
	case err != nil || answer.Return == nil || json.Unmarshal(answer.Return, into) != nil:
		return fmt.Errorf("QEMU's answer %s cannot be read: %s", about, model.Shorten(text))
	}
	return nil
}

// Peripherals is where QEMU lists the devices that have an alias.
const Peripherals = "/machine/peripheral"

// Get reads a property of the device of that alias, and reports whether QEMU has both.
func (ask Ask) Get(alias, property string) (value string, ok bool, err error) {
	arguments := map[string]string{"path": Peripherals + "/" + alias, "property": property}
	err = ask.do("qom-get", arguments, &value, fmt.Sprintf("about %s of %s", property, alias))
	if refused := (*Error)(nil); errors.As(err, &refused) {
		return "", false, nil
	}
	return value, err == nil, err
}
