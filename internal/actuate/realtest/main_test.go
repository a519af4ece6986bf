package realtest

import (
	"testing"

	"sluice/internal/kernel/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }
