package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The plugin accepts the examples, which have no unknown keys, and none of them offers the VM's own NIC to pods.
func TestExamples(t *testing.T) {
	ours, offers := 0, 0
	err := filepath.WalkDir("../../../docs/examples", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".conflist":
			var list struct {
				Plugins []json.RawMessage `json:"plugins"`
			}
			if err := json.Unmarshal(text, &list); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			for _, p := range list.Plugins {
				ours += example(t, path, p)
			}
		case ".yaml":
			for docs := yaml.NewDecoder(bytes.NewReader(text)); ; {
				var doc struct {
					Spec struct {
						Config string `yaml:"config"`
					} `yaml:"spec"`
					Data map[string]string `yaml:"data"`
				}
				if err := docs.Decode(&doc); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Errorf("%s: %v", path, err)
					break
				}
				if doc.Spec.Config != "" {
					ours += example(t, path, []byte(doc.Spec.Config))
				}
				if config := doc.Data["config.json"]; config != "" {
					offers++
					if !json.Valid([]byte(config)) || strings.Contains(config, "virtio") {
						t.Errorf("%s: %s", path, config)
					}
				}
			}
		}
		return nil
	})
	if err != nil || ours != 2 || offers != 2 {
		t.Errorf("%v; %d configurations of sluice-cni, %d of the device plugin", err, ours, offers)
	}
}

// example returns how many configurations of this plugin a file has.
func example(t *testing.T, path string, conf []byte) int {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(conf, &raw); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	if string(raw["type"]) != `"sluice-cni"` {
		return 0
	}
	delete(raw, "ipam") // belongs to the IPAM plugin
	d := json.NewDecoder(bytes.NewReader(marshal(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(new(Conf)); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return 1
}
