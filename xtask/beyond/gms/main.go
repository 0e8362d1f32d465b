// A go-mysql-server with data in memory, for `cargo xtask beyond`.
//
// Arguments: the address to listen at, the password of its users, then the names of its users, and after "--" the names
// of its databases.
package main

import (
	"context"
	"log"
	"net"
	"os"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
)

func main() {
	address, password := os.Args[1], os.Args[2]
	users, names := split(os.Args[3:])
	var databases []sql.Database
	for _, name := range names {
		database := memory.NewDatabase(name)
		database.BaseDatabase.EnablePrimaryKeyIndexes()
		databases = append(databases, database)
	}
	provider := memory.NewDBProvider(databases...)
	engine := sqle.NewDefault(provider)
	accounts := engine.Analyzer.Catalog.MySQLDb
	editor := accounts.Editor()
	for _, user := range users {
		accounts.AddSuperUser(editor, user, "%", password)
	}
	editor.Close()

	listener, err := net.Listen("tcp", address)
	check(err)
	config := server.Config{Protocol: "tcp", Address: address, Listener: listener, MaxConnections: 1000}
	context := func(ctx context.Context, options ...sql.ContextOption) *sql.Context {
		return sql.NewContext(ctx, options...)
	}
	it, err := server.NewServer(config, engine, context, memory.NewSessionBuilder(provider), nil)
	check(err)
	check(it.Start())
}

// split returns what stands before "--", and what stands behind it.
func split(words []string) ([]string, []string) {
	for at, word := range words {
		if word == "--" {
			return words[:at], words[at+1:]
		}
	}
	return words, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
