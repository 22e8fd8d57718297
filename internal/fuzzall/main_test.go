package main

import (
	"testing"

	"github.com/pedelec/pedelec-core/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }
