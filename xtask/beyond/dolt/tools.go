//go:build tools

// Package dolt names what `cargo xtask beyond` builds.
package dolt

import _ "github.com/dolthub/dolt/go/cmd/dolt"
