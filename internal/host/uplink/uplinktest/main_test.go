package uplinktest

import (
	"testing"

	"sluice/internal/host/kernel/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }
