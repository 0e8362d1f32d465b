// A client that shares backends with the tests, with session variables of its own, until it is stopped.
//
// It looks at its session all the time, and ends with a complaint if that is not its own. Where the tests keep all backends
// for so long that it is refused, it begins anew.
package main

import (
	"database/sql"
	"errors"
	"log"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	look = "SELECT CONCAT_WS('|', @@sql_mode, @@time_zone, @@foreign_key_checks, " +
		"@@character_set_client, DATABASE())"
	own = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES|+05:30|OFF|latin1|noise"
)

func main() {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", os.Getenv("SUITE_HOST")+":"+os.Getenv("SUITE_PORT")
	config.User, config.Passwd = os.Getenv("SUITE_USER"), os.Getenv("SUITE_PASSWORD")
	config.DBName = "noise"
	config.Params = map[string]string{
		"sql_mode":           "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
		"time_zone":          "'+05:30'",
		"foreign_key_checks": "0",
	}
	for {
		db, err := sql.Open("mysql", config.FormatDSN())
		check(err)
		db.SetMaxOpenConns(1)
		share(db)
		check(db.Close())
	}
}

// share shares backends for some statements, or until it has waited too long for one.
func share(db *sql.DB) {
	defer func() {
		if why := recover(); why != nil && why != waitedTooLong {
			panic(why)
		}
	}()
	execute(db, "SET NAMES latin1")
	for i := 0; i < 50; i++ {
		disturb(db)
		time.Sleep(time.Millisecond)
	}
}

func disturb(db *sql.DB) {
	var seen string
	check(db.QueryRow(look).Scan(&seen))
	if seen != own {
		log.Fatalf("%s, where %s was set", seen, own)
	}
	made, err := db.Exec("INSERT INTO note (v) VALUES (?)", 1)
	check(err)
	id, err := made.LastInsertId()
	check(err)
	var last int64
	check(db.QueryRow("SELECT LAST_INSERT_ID()").Scan(&last))
	if last != id {
		log.Fatalf("the last insert id is %d, where %d was made", last, id)
	}
	tx, err := db.Begin()
	check(err)
	_, err = tx.Exec("DELETE FROM note WHERE id = ?", id)
	check(err)
	check(tx.Commit())
	if _, err = db.Exec("SELECT \"nothing\""); err == nil {
		log.Fatal("a name in double quotes was taken for a text")
	}
}

func execute(db *sql.DB, text string) {
	_, err := db.Exec(text)
	check(err)
}

func check(err error) {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number == 1637 {
		panic(waitedTooLong)
	}
	if err != nil {
		log.Fatal(err)
	}
}

var waitedTooLong = errors.New("it has waited too long for a backend")
