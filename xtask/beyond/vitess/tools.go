//go:build tools

// Package vitess names what `cargo xtask beyond` builds.
package vitess

import (
	_ "vitess.io/vitess/go/cmd/mysqlctl"
	_ "vitess.io/vitess/go/cmd/vtcombo"
	_ "vitess.io/vitess/go/cmd/vttestserver"
)
